"""Two runs side by side, kept ones or files of another engine: over the same data scored, else only how alike they are.

Owns how both are found and why they are not scored where they are not; the numbers are `evals.statistics.comparison`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import InputError, SpecError, UnknownName
from core.store.engine import Store
from evals import overlap
from evals.board import Board
from evals.evaluation import Opened, Wanted, every, foreign_runs, opened, scored
from evals.exchange import Foreign
from evals.query_sets import DEFAULT
from evals.references import every_name
from evals.running import run_store
from evals.runs import Run, not_comparable
from evals.splits import Split
from evals.statistics.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Pair:
    """Both runs and the queries they are over; `board` where they were scored."""

    runs: tuple[Run, Run]
    split: Split
    board: Board | None = None
    foreign: tuple[Foreign, ...] = ()

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
    query_set: str = DEFAULT
    split: str | None = None


def is_file(reference: str) -> bool:
    return _path(reference).is_file()


def _path(reference: str) -> Path:
    return Path(reference).expanduser()


async def pair(store: Store, references: tuple[str, str], where: Where, wanted: Wanted | None) -> Pair:
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
        return Pair((one, other), split, None, tuple(foreign.values()))
    _refuse_unlike(one, other)
    _refuse_relabelled([one, other], split)
    board = await scored(ground, split, [other, one], wanted, None)
    return Pair((one, other), split, board, tuple(foreign.values()))


async def _ground(store: Store, where: Where, kept: Sequence[Run], *, labelled: bool) -> tuple[Opened, Split]:
    """The collection and split of the kept runs, or those that were named."""
    subject = kept[0].subject if kept else None
    collection = where.collection or (subject.collection if subject else None)
    if collection is None:
        raise SpecError("Files do not say which collection they are runs over. Name it with --collection.")
    ground = await opened(store, collection, subject.query_set if subject else where.query_set)
    name = where.split or (subject.split if subject else every(ground.labelled))
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


def _refuse_relabelled(runs: Sequence[Run], split: Split) -> None:
    for run in runs:
        if run.subject.digest != split.digest or run.subject.split != split.name:
            raise SpecError(
                f"The queries or labels of {run.subject.split!r} of {run.subject.collection!r} have changed since "
                f"{run.name!r} was made. Evaluate both anew: what legs found is kept, so that it is quick. How alike "
                "they are, --overlap tells even so."
            )


def compared(board: Board, metric: str, by: str) -> Comparison:
    """A, which stands last, against B, broken down in one way: groups are a family of their own."""
    if by not in board.groups:
        raise UnknownName("way to group queries", by, board.groups)
    other, one = board.names
    return board.compare(one, other, metric, by)
