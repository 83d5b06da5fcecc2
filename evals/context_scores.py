"""Packed contexts scored: what they bring of the labelled gain and of the answers, for the tokens they take.

Pure functions over `core.packing`'s ContextPack; packing itself, and where offsets are kept, are not known here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from core.errors import InputError
from core.packing import ContextPack, PackedChunk
from core.packing.budget import ORDER_OF_GOING
from evals.labels import Span
from evals.metrics import mean
from evals.spans import Passage, held

Places = Mapping[str, tuple[int, int]]  # where a chunk stands in its item, by the chunk's id


@dataclass(frozen=True, slots=True)
class ContextPoint:
    """One budget. `tokens` are those that were used; `gain` is the sum of the grades of the relevant items in the
    context, each once, and `gain_share` what that is of all labelled gain.

    The two of spans are None where there are no answer spans: the share of the answers' characters that is in the
    context, and the share of the context's passages that answers.
    """

    budget: float
    tokens: float
    gain: float
    gain_share: float
    span_recall: float | None = None
    span_precision: float | None = None


def scored(
    pack: ContextPack,
    budget: int,
    grades: Mapping[str, int],
    answers: Sequence[Span] = (),
    places: Places | None = None,
) -> ContextPoint:
    """A pack as it is, made for this budget. `grades` are one query's, by item.

    `places` is wanted where there are answers. Tokens are those of the whole text, as the packer counted them.
    """
    return _point(pack.chunks, budget, pack.trace.tokens, grades, answers, places)


def curve(
    pack: ContextPack,
    budgets: Sequence[int],
    grades: Mapping[str, int],
    answers: Sequence[Span] = (),
    places: Places | None = None,
) -> tuple[ContextPoint, ...]:
    """What the pack would bring within smaller budgets, lowest first: as it shrinks, so would the packer have it.

    Chunks' tokens are added up, which differs by a few from those of the text as one; and no hits are kept beyond the
    budget. Where either matters, pack for each budget and use `scored`.
    """
    points = []
    for budget in sorted(set(budgets)):
        kept = within(pack, budget)
        points.append(_point(kept, budget, _tokens(kept), grades, answers, places))
    return tuple(points)


def within(pack: ContextPack, budget: int) -> tuple[PackedChunk, ...]:
    """The chunks that stay, in their order: as few go as must, in the packer's order of going."""
    staying = sorted(pack.chunks, key=lambda chunk: -ORDER_OF_GOING.index(chunk.role))
    while staying and _tokens(staying) > budget:
        staying.pop()
    kept = {chunk.id for chunk in staying}
    return tuple(chunk for chunk in pack.chunks if chunk.id in kept)


def mean_curve(
    curves: Mapping[str, Sequence[ContextPoint]], weights: Mapping[str, float] | None = None
) -> tuple[ContextPoint, ...]:
    """The mean of each budget's points over queries; all curves must have the same budgets.

    Spans count over the queries that have answers. A query that failed takes part as the curve of an empty pack.
    """
    if len({tuple(point.budget for point in points) for points in curves.values()}) > 1:
        raise InputError("These curves have different budgets, so no mean can be taken: make all with the same ones.")
    columns = zip(*curves.values(), strict=True)
    return tuple(_mean_point(dict(zip(curves, column, strict=True)), weights) for column in columns)


def _mean_point(points: Mapping[str, ContextPoint], weights: Mapping[str, float] | None) -> ContextPoint:
    means: dict[str, float | None] = {}
    for field in fields(ContextPoint):
        known = {query: value for query, point in points.items() if (value := getattr(point, field.name)) is not None}
        means[field.name] = mean(known, weights) if known else None
    return ContextPoint(**means)  # type: ignore[arg-type]  # only the spans' can be None


def _point(
    chunks: Sequence[PackedChunk],
    budget: int,
    tokens: int,
    grades: Mapping[str, int],
    answers: Sequence[Span],
    places: Places | None,
) -> ContextPoint:
    every = sum(grade for grade in grades.values() if grade > 0)
    gain = sum(max(0, grades.get(item, 0)) for item in {chunk.item_id for chunk in chunks})
    relevant = [span for span in answers if span.grade > 0]
    if not relevant:
        return ContextPoint(budget, tokens, gain, gain / every if every else 0.0)
    found = held(relevant, [_placed(chunk, places or {}) for chunk in chunks])
    return ContextPoint(budget, tokens, gain, gain / every if every else 0.0, found.recall, found.precision)


def _placed(chunk: PackedChunk, places: Places) -> Passage:
    if chunk.id not in places:
        raise InputError(f"Where the chunk {chunk.id!r} stands in its item is not known, so its span cannot be scored.")
    return Passage(chunk.id, chunk.item_id, *places[chunk.id])


def _tokens(chunks: Sequence[PackedChunk]) -> int:
    return sum(chunk.tokens for chunk in chunks)
