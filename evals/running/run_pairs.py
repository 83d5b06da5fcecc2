"""Two runs side by side, kept ones or files of another engine: over the same data scored, else only how alike they are.

Owns finding both and the refusal to score what is not over the same; the numbers are `evals.statistics.comparison`'s.
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
from evals.running import run_store
from evals.runs import Run
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
    kept = {
        each: await run_store.load(store, each, collection=where.collection, split=where.split)
        for each in references
        if not is_file(each)
    }
    ground, split = await _ground(store, where, list(kept.values()), labelled=wanted is not None)
    named = [each for each in references if each not in kept]
    foreign = dict(zip(named, await foreign_runs(ground, split, list(map(_path, named))), strict=True))
    one, other = (kept[each] if each in kept else foreign[each].run for each in references)
    if one.name == other.name:
        one, other = replace(one, name=references[0]), replace(other, name=references[1])
    if one.id == other.id:
        raise InputError(f"{references[0]!r} and {references[1]!r} are one and the same run. Name two.")
    if wanted is None:
        return Pair((one, other), split, None, tuple(foreign.values()))
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


def _refuse_relabelled(runs: Sequence[Run], split: Split) -> None:
    for run in runs:
        if run.subject.digest != split.digest or run.subject.split != split.name:
            raise SpecError(
                f"{run.name!r} was made over other queries or labels than {run.subject.collection!r} has now. Evaluate "
                "both anew: what legs found is kept, so that it is quick. How alike they are, --overlap tells even so."
            )


def compared(board: Board, metric: str, by: str) -> Comparison:
    """A, which stands last, against B, broken down in one way: groups are a family of their own."""
    if by not in board.groups:
        raise UnknownName("way to group queries", by, board.groups)
    other, one = board.names
    return board.compare(one, other, metric, by)
