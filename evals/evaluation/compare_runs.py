"""Two runs compared: scored side by side where labels allow it, and where they differ otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError, SpecError, UnknownName
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext, EvalOptions, default_split, open_eval
from evals.evaluation.evaluate import foreign_runs, score_runs
from evals.metrics import overlap
from evals.runs import run_store
from evals.runs.exchange import ForeignRun
from evals.runs.types import Run, not_comparable
from evals.statistics.comparison import PairComparison
from evals.types import DEFAULT_QUERY_SET, QuerySplit
from evals.variants import every_name


@dataclass(frozen=True, slots=True)
class RunPair:
    """Both runs and the queries they are over; `board` where they were scored."""

    runs: tuple[Run, Run]
    split: QuerySplit
    board: Board | None = None
    foreign: tuple[ForeignRun, ...] = ()

    def overlap(self, cutoff: int = 10) -> dict[str, Mapping[str, float]]:
        """By measure, each query's: rank-biased overlap, and Jaccard of the first so many."""
        one, other = (run.rankings for run in self.runs)
        return {
            "rbo": overlap.per_query(one, other),
            f"jaccard@{cutoff}": overlap.per_query(one, other, overlap.jaccard_at(cutoff)),
        }


@dataclass(frozen=True, slots=True)
class Where:
    """What files are runs over. Kept runs say it themselves; here it tells those of one name apart."""

    collection: str | None = None
    query_set: str = DEFAULT_QUERY_SET
    split: str | None = None


def is_file(reference: str) -> bool:
    return _path(reference).is_file()


def _path(reference: str) -> Path:
    return Path(reference).expanduser()


async def pair(store: Store, references: tuple[str, str], where: Where, wanted: EvalOptions | None) -> RunPair:
    """Both runs, scored as `wanted` says; with None for it only brought together, labels or not."""
    kept = {each: await _load(store, each, where) for each in references if not is_file(each)}
    if wanted is not None and len(kept) == 2:  # before what one of them is over is opened
        _refuse_unlike(*_told_apart(references, *kept.values()))
    ground, split = await _ground(store, where, list(kept.values()), labelled=wanted is not None)
    named = [each for each in references if each not in kept]
    foreign = dict(zip(named, await foreign_runs(ground, split, list(map(_path, named))), strict=True))
    one, other = (kept[each] if each in kept else foreign[each].run for each in references)
    if one.id == other.id:
        same = f"{one.name!r} ({one.id[: run_store.SHOWN]})"
        raise InputError(f"{references[0]!r} and {references[1]!r} are one and the same run, {same}. Name two.")
    one, other = _told_apart(references, one, other)
    if wanted is None:
        return RunPair((one, other), split, None, tuple(foreign.values()))
    _refuse_unlike(one, other)
    _refuse_relabelled([one, other], split)
    board = await score_runs(ground, split, [other, one], wanted, None)
    return RunPair((one, other), split, board, tuple(foreign.values()))


async def _ground(store: Store, where: Where, kept: Sequence[Run], *, labelled: bool) -> tuple[EvalContext, QuerySplit]:
    """The collection and split of the kept runs, or those that were named."""
    subject = kept[0].subject if kept else None
    collection = where.collection or (subject.collection if subject else None)
    if collection is None:
        raise SpecError("Files do not say which collection they are runs over. Name it with --collection.")
    ground = await open_eval(store, collection, subject.query_set if subject else where.query_set)
    name = where.split or (subject.split if subject else default_split(ground.labelled))
    return ground, ground.split(name) if labelled else ground.any_split(name)


async def _load(store: Store, reference: str, where: Where) -> Run:
    try:
        found = await run_store.find(
            store, reference, collection=where.collection, split=where.split, query_set=where.query_set
        )
    except UnknownName as error:
        if reference not in every_name():
            raise
        collection, split = where.collection or "COLLECTION", f" --split {where.split}" if where.split else ""
        raise UnknownName(
            "kept run",
            reference,
            error.known,
            way_out=f"It is a variant, of which this makes a run: rankbook eval {collection} {reference}{split}",
        ) from None
    return await run_store.load(store, found.id)


def _told_apart(references: tuple[str, str], one: Run, other: Run) -> tuple[Run, Run]:
    """Runs of one name go by what they were asked for as."""
    if one.name != other.name:
        return one, other
    return replace(one, name=references[0]), replace(other, name=references[1])


def _refuse_unlike(one: Run, other: Run) -> None:
    if why := not_comparable(one, other):
        raise SpecError(f"{why} How alike they are, --overlap tells even so.")


def _refuse_relabelled(runs: Sequence[Run], split: QuerySplit) -> None:
    for run in runs:
        if run.subject.digest != split.digest or run.subject.split != split.name:
            raise SpecError(
                f"The queries or labels of {run.subject.split!r} of {run.subject.collection!r} have changed since "
                f"{run.name!r} was made. Evaluate both anew: what legs found is kept, so that it is quick. How alike "
                "they are, --overlap tells even so."
            )


def compared(board: Board, metric: str, by: str) -> PairComparison:
    """A, which stands last, against B, broken down in one way: groups are a family of their own."""
    if by not in board.groups:
        raise UnknownName("way to group queries", by, board.groups)
    other, one = board.names
    return board.compare(one, other, metric, by)


TOP = 10  # results that are looked at


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One thing that differs, and what it is in each."""

    where: str
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Differences:
    """`changed` are the queries whose first results are others, or in another order."""

    rows: tuple[DifferenceRow, ...]
    changed: tuple[str, ...]
    queries: int


def differences(one: Run, other: Run) -> Differences:
    rows = _rows(_facts(one), _facts(other))
    asked = sorted({*one.rankings, *other.rankings})
    return Differences(
        tuple(rows), tuple(query for query in asked if _top(one, query) != _top(other, query)), len(asked)
    )


def variant_rows(one: Variant, other: Variant) -> list[DifferenceRow]:
    """The options in which two variants differ."""
    return _rows(*(dict(flat(_options(each))) for each in (one, other)))


def _rows(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[DifferenceRow]:
    keys = [*mine, *(key for key in theirs if key not in mine)]
    return [
        DifferenceRow(key, mine.get(key, "-"), theirs.get(key, "-")) for key in keys if mine.get(key) != theirs.get(key)
    ]


def _options(variant: Variant) -> dict[str, Any]:
    """All of them, defaults included, legs by name."""
    plain = variant.model_dump(mode="json", by_alias=True)
    return {**plain, "leg": dict(zip(variant.leg_names, plain.pop("leg"), strict=True))}


def _facts(run: Run) -> dict[str, str]:
    """Everything as flat text, each under a dotted name."""
    subject = {**asdict(run.subject), "digest": run.subject.digest.hex()}
    environment = {key: value for key, value in run.environment.items() if "indexes" not in key}
    variant = _options(run.variant) if run.variant else {}
    return dict(flat({"over": subject, "variant": variant, "with": environment, "asked for": run.depth}))


def flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """What is nested, as rows of dotted names; without what is empty."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}" if name else str(key))
    elif (
        isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(each, Mapping) for each in value)
    ):
        for at, part in enumerate(value):
            yield from flat(part, f"{name}.{at}")
    elif value not in (None, ""):
        yield name, str(value)


def _top(run: Run, query: str) -> Any:
    ranked = run.rankings.get(query)
    return ranked.item_ids[:TOP] if ranked else ()
