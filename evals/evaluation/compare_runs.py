"""Two runs compared: scored side by side where labels allow it, and in what they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError, SpecError, UnknownName
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import default_split, open_eval
from evals.evaluation.evaluate import foreign_runs, score_runs
from evals.metrics import overlap
from evals.runs import run_store
from evals.runs.exchange import ForeignRun
from evals.runs.plan import EvalOptions
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
class RunScope:
    """What files are runs over. Kept runs say it themselves; here it tells those of one name apart."""

    collection: str | None = None
    query_set: str = DEFAULT_QUERY_SET
    split: str | None = None


def is_file(reference: str) -> bool:
    return _path(reference).is_file()


def _path(reference: str) -> Path:
    return Path(reference).expanduser()


async def compare_runs(
    store: Store, references: tuple[str, str], scope: RunScope, options: EvalOptions | None
) -> RunPair:
    """Both runs, kept or from files, scored as `options` say; without options only loaded, labels or not."""
    kept = {each: await _load(store, each, scope) for each in references if not is_file(each)}
    if options is not None and len(kept) == 2:  # before what one of them is over is opened
        _refuse_unlike(*_with_unique_names(references, *kept.values()))
    subject = next((run.subject for run in kept.values()), None)
    collection = scope.collection or (subject.collection if subject else None)
    if collection is None:
        raise SpecError("Files do not say which collection they are runs over. Name it with --collection.")
    ctx = await open_eval(store, collection, subject.query_set if subject else scope.query_set)
    name = scope.split or (subject.split if subject else default_split(ctx.labelled))
    split = ctx.any_split(name) if options is None else ctx.split(name)
    files = [each for each in references if each not in kept]
    read = await foreign_runs(ctx, split, [_path(each) for each in files])
    foreign = dict(zip(files, read, strict=True))
    one, other = (kept[each] if each in kept else foreign[each].run for each in references)
    if one.id == other.id:
        same = f"{one.name!r} ({one.id[: run_store.SHOWN]})"
        raise InputError(f"{references[0]!r} and {references[1]!r} are one and the same run, {same}. Name two.")
    one, other = _with_unique_names(references, one, other)
    board = None
    if options is not None:
        _refuse_unlike(one, other)
        for run in (one, other):
            if run.subject.digest != split.digest or run.subject.split != split.name:
                raise SpecError(
                    f"The queries or labels of {run.subject.split!r} of {run.subject.collection!r} have changed since "
                    f"{run.name!r} was made. Evaluate both anew: what legs found is kept, so that it is quick. How "
                    "alike they are, --overlap tells even so."
                )
        board = await score_runs(ctx, split, [other, one], options, None)
    return RunPair((one, other), split, board, tuple(foreign.values()))


async def _load(store: Store, reference: str, scope: RunScope) -> Run:
    try:
        found = await run_store.find(
            store, reference, collection=scope.collection, split=scope.split, query_set=scope.query_set
        )
    except UnknownName as error:
        if reference not in every_name():
            raise
        collection, split = scope.collection or "COLLECTION", f" --split {scope.split}" if scope.split else ""
        raise UnknownName(
            "kept run",
            reference,
            error.known,
            way_out=f"It is a variant, of which this makes a run: rankbook eval {collection} {reference}{split}",
        ) from None
    return await run_store.load(store, found.id)


def _with_unique_names(references: tuple[str, str], one: Run, other: Run) -> tuple[Run, Run]:
    """Runs of one name are called what they were named by."""
    if one.name != other.name:
        return one, other
    return replace(one, name=references[0]), replace(other, name=references[1])


def _refuse_unlike(one: Run, other: Run) -> None:
    if why := not_comparable(one, other):
        raise SpecError(f"{why} How alike they are, --overlap tells even so.")


def compared(board: Board, metric: str, by: str) -> PairComparison:
    """The second run, A, against the first, B, broken down in one way: groups are a family of their own."""
    if by not in board.groups:
        raise UnknownName("way to group queries", by, board.groups)
    other, one = board.names
    return board.compare(one, other, metric, by)


TOP = 10  # results that are compared


@dataclass(frozen=True, slots=True)
class DifferenceRow:
    """One thing that differs, and what it is in each."""

    where: str
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Differences:
    """In what two runs differ. `changed` are the queries whose first results are others, or in another order."""

    rows: tuple[DifferenceRow, ...]
    changed: tuple[str, ...]
    queries: int


def differences(one: Run, other: Run) -> Differences:
    """In what two runs differ: what they were made over and with, and their first results."""

    def first(run: Run, query: str) -> tuple[str, ...]:
        return run.rankings[query].item_ids[:TOP] if query in run.rankings else ()

    queries = sorted({*one.rankings, *other.rankings})
    changed = tuple(query for query in queries if first(one, query) != first(other, query))
    return Differences(tuple(_rows(_facts(one), _facts(other))), changed, len(queries))


def variant_rows(one: Variant, other: Variant) -> list[DifferenceRow]:
    """The options in which two variants differ."""
    return _rows(*(dict(flat(_options(each))) for each in (one, other)))


def _rows(one: Mapping[str, str], other: Mapping[str, str]) -> list[DifferenceRow]:
    keys = [*one, *(key for key in other if key not in one)]
    return [
        DifferenceRow(key, one.get(key, "-"), other.get(key, "-")) for key in keys if one.get(key) != other.get(key)
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
    """Nested values as rows of dotted names, without what is empty."""
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
