"""Packed contexts scored: how much of what answers a query fits which budget of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache

import numpy as np

from core.context import RequestContext
from core.embedding import DEFAULT_MODEL
from core.errors import InputError, SpecError
from core.packing import ContextPack, PackedChunk, Packing, PackTrace, pack, token_counter
from core.packing.pack import ORDER_OF_GOING
from core.pipeline.retriever import search
from core.progress import Listener, Step, nobody
from core.store.resolve_target import search_target
from core.store.search_target import SearchTarget
from core.tasks import bounded, run_cancellable
from core.types import TokenCounter
from core.variant import Variant
from evals.metrics.scoring import mean
from evals.metrics.spans import ReturnedPassage, held
from evals.runs.fused_runs import unit_places
from evals.runs.plan import CONNECTIONS
from evals.runs.queries import reason_of
from evals.statistics.mean_intervals import mean_intervals
from evals.statistics.significance import SAMPLES, finite
from evals.types import QuerySplit, Span

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


def score_pack(
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
    budget. Where either matters, pack for each budget and use `score_pack`.
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
    means = []
    for points in zip(*curves.values(), strict=True):
        point: dict[str, float | None] = {}
        for each in fields(ContextPoint):
            values = {query: getattr(own, each.name) for query, own in zip(curves, points, strict=True)}
            known = {query: value for query, value in values.items() if value is not None}
            point[each.name] = mean(known, weights) if known else None
        means.append(ContextPoint(**point))  # type: ignore[arg-type]  # only the spans' can be None
    return tuple(means)


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
    passages = []
    for chunk in chunks:
        place = (places or {}).get(chunk.id)
        if place is None:
            raise InputError(
                f"Where the chunk {chunk.id!r} stands in its item is not known, so its span cannot be scored."
            )
        passages.append(ReturnedPassage(chunk.id, chunk.item_id, *place))
    found = held(relevant, passages)
    return ContextPoint(budget, tokens, gain, gain / every if every else 0.0, found.recall, found.precision)


def _tokens(chunks: Sequence[PackedChunk]) -> int:
    return sum(chunk.tokens for chunk in chunks)


BUDGETS = (256, 512, 1024, 2048)
MEASURES: Mapping[str, str] = {
    "tokens": "Tokens that the context takes, marks and citations included.",
    "gain": "Grades of the relevant items in the context, each item once, added up.",
    "gain_share": "What that is of all labelled gain.",
    "span_recall": "Characters of the answers that the context holds / characters of the answers.",
    "span_precision": "Characters of the answers that it holds / characters of its passages.",
}
SHARES = ("gain_share", "span_recall", "span_precision")  # of 1 at most
NOTHING = ContextPack("", (), (), PackTrace(), "")


@dataclass(frozen=True, slots=True)
class ContextEstimate:
    """A mean over queries with its interval; None where there are too few queries for one."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One budget: estimates by measure, those of spans only where there are answers.

    `over` counts the contexts that take more than the budget, because their first hits stay whatever they take.
    """

    budget: int
    over: int
    estimates: Mapping[str, ContextEstimate]


@dataclass(frozen=True, slots=True)
class ContextRun:
    """A variant's contexts: each query's points, lowest budget first. `failures` says why a query has empty ones."""

    variant: Variant
    split: str
    budgets: tuple[int, ...]
    curves: Mapping[str, Sequence[ContextPoint]]
    weights: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def curve(self) -> tuple[ContextPoint, ...]:
        """The mean of every measure at each budget."""
        return mean_curve(self.curves, self.weights)

    def rows(self, *, samples: int = SAMPLES, level: float = 0.95, seed: int = 0) -> tuple[ContextRow, ...]:
        """The curve with its intervals."""
        by_measure = {name: self._estimates(name, samples, level, seed) for name in MEASURES}
        return tuple(
            ContextRow(
                budget,
                sum(points[at].tokens > budget for points in self.curves.values()),
                {name: found[at] for name, found in by_measure.items() if found},
            )
            for at, budget in enumerate(self.budgets)
        )

    def _estimates(self, measure: str, samples: int, level: float, seed: int) -> list[ContextEstimate]:
        """One a budget; none where no query has the measure."""
        known = [query for query, points in self.curves.items() if getattr(points[0], measure) is not None]
        if not known:
            return []
        values = np.array([[getattr(point, measure) for point in self.curves[query]] for query in known]).T
        weights = np.array([self.weights.get(query, 1.0) for query in known])
        most = 1.0 if measure in SHARES else None
        low, high = mean_intervals(values, weights, most=most, samples=samples, level=level, seed=seed)
        means = [getattr(point, measure) for point in self.curve]
        return [ContextEstimate(means[at], finite(low[at]), finite(high[at])) for at in range(len(self.budgets))]


async def context_run(
    context: RequestContext,
    variant: Variant,
    split: QuerySplit,
    budgets: Sequence[int] = BUDGETS,
    *,
    connections: int = CONNECTIONS,
    progress: Listener = nobody,
) -> ContextRun:
    """Every query's contexts, several queries at once. Stop it by the context's token.

    A query takes part that has a relevant item or an answer; one that has answers alone finds them in relevant items.
    """
    if variant.pack is None:
        raise SpecError(f"{variant.name!r} packs no context. Give it the usual packing: pack = {{}}.")
    if wrong := [budget for budget in budgets if budget < 1]:
        raise SpecError(f"A budget is {wrong[0]} tokens; it must be 1 or more.")
    if not budgets:
        raise SpecError("No budget is named. Say how many tokens a context may take, such as 1024.")
    packings = [variant.pack.model_copy(update={"final_max_tokens": budget}) for budget in sorted(set(budgets))]
    packer = _Packer(context, variant, _scorable(split), packings)
    split, chosen = packer.split, tuple(each.final_max_tokens for each in packings)
    curves: dict[str, Sequence[ContextPoint]] = {}

    async def one(query: str) -> None:
        curves[query] = await packer.curve(query)
        progress(Step(f"packing {variant.name}", len(curves), len(split.queries), "queries"))

    await bounded(connections, split.queries, one)
    ordered = {query: curves[query] for query in split.queries}
    weights = {query: each.weight for query, each in split.queries.items()}
    failures = dict(sorted(packer.failures.items()))
    return ContextRun(variant, split.name, chosen, ordered, weights, failures)


class _Packer:
    """One variant over one split; `curve` is the work for one query."""

    def __init__(
        self, context: RequestContext, variant: Variant, split: QuerySplit, packings: Sequence[Packing]
    ) -> None:
        self.context, self.variant, self.split, self.packings = context, variant, split, packings
        self.failures: dict[str, str] = {}
        self._target: SearchTarget = search_target(context.store, context.view, variant.chunks, variant.model)
        self._unpacked = variant.but(pack=None)
        self._counter: TokenCounter | None = context.count_tokens

    async def curve(self, query: str) -> tuple[ContextPoint, ...]:
        """A point a budget. The search is made once; each budget is packed for, as cutting one pack is not the same."""
        try:
            places: Places = {}
            packs = await run_cancellable(self._packs(query), self.context.cancellation, self.context.deadline)
            chunks = {chunk.id: chunk for packed in packs for chunk in packed.chunks}
            if query in self.split.spans and chunks:  # where passages stand; a whole item is all of its text
                units = await unit_places(self.context.store, self._target, sorted(chunks))
                places = {each: place or (0, len(chunks[each].text)) for each, (_, place) in units.items()}
        except Exception as error:
            self.failures[query] = reason_of(error)
            packs, places = [NOTHING] * len(self.packings), {}
        grades, answers = self.split.grades[query], self.split.spans.get(query, ())
        return tuple(
            score_pack(packed, packing.final_max_tokens, grades, answers, places)
            for packed, packing in zip(packs, self.packings, strict=True)
        )

    async def _packs(self, query: str) -> list[ContextPack]:
        text, context = self.split.queries[query].text, self.context
        excluded = self.split.excluded.get(query, frozenset())
        hits = (await search(context, text, self._unpacked, excluded=excluded)).hits
        if self._counter is None:  # a model that cannot be loaded fails queries as it does in a search
            self._counter = token_counter(context.embedder(self._target.model or DEFAULT_MODEL))
        view, counter = context.view, cache(self._counter)  # budgets have texts in common
        chunk_set = None if view.row.attached is not None else view.chunk_set(self.variant.chunks)
        return [await pack(context.store, view, chunk_set, text, hits, packing, counter) for packing in self.packings]


def _scorable(split: QuerySplit) -> QuerySplit:
    """The queries with something to find. Where only answers are labelled, the items that hold them are relevant."""
    grades: dict[str, Mapping[str, int]] = {}
    for query in split.queries:
        given = split.grades.get(query, {})
        if not any(grade > 0 for grade in given.values()):
            given = {span.item_id: span.grade for span in sorted(split.spans.get(query, ()), key=lambda x: x.grade)}
        if any(grade > 0 for grade in given.values()):
            grades[query] = given
    if not grades:
        raise InputError(
            f"No query of the split {split.name!r} has a relevant item or an answer, so no context can be scored. "
            "Label some first, or take another split."
        )
    return replace(split.only(set(grades)), grades=grades)
