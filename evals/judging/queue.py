"""From runs, labels and judgements to the queue that a judge works off, for the command line and the page alike.

Owns what counts as judged already and what a queue holds. The orders are `pooling`'s, the rows `judgements`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError
from core.store import names
from core.store.collections import View
from core.store.engine import Store
from core.types import Flaw, Place, Row
from evals import query_sets
from evals.judging.agreement import Agreement, Calibration, agreement, calibration
from evals.judging.judgements import (
    Judgement,
    Merged,
    Standing,
    Task,
    by_judge,
    merged,
    resolved,
    shown,
    signed,
    standing,
    with_judgements,
)
from evals.judging.pooling import Outlook, Pair, by_depth, hidden, pool, settling
from evals.label_revisions import Cause
from evals.labels import check_labels
from evals.merged_from import MergedFrom, Way
from evals.query_sets import Labelled
from evals.runs import Run
from evals.sources.qrels import read_qrels
from evals.sources.trees import open_file, require_file
from evals.splits import Grades, Split


class QueueSpec(BaseModel):
    """Which pairs a queue holds, and in which order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    order: Literal["auto", "settle", "depth"] = Field(
        "auto", description="What would settle two runs soonest, or round by round; auto settles where runs are two."
    )
    metric: str = Field("ndcg@10", description="The metric to settle: ndcg, precision or recall at a cut-off.")
    depth: int = Field(10, ge=1, le=1000, description="How deep the pool by depth goes.")
    limit: int | None = Field(None, ge=1, description="How many pairs; by default as many as would be enough.")
    seed: int = Field(0, description="The order in which equals are shown.")
    again: bool = Field(False, description="Also what others have judged or labels say, so that agreement can be told.")


@dataclass(frozen=True, slots=True)
class Queue:
    """Pairs in the order in which they are shown; rank and run are nowhere in it.

    `outlook` is there where two runs are to be settled. `gone` counts pairs whose document is no longer there.
    """

    tasks: tuple[Task, ...]
    sentence: str
    outlook: Outlook | None = None
    stale: int = 0
    gone: int = 0


async def queue(store: Store, view: View, runs: Sequence[Run], spec: QueueSpec, judge: str = "") -> Queue:
    """What this judge should grade next. With `again`, all that this judge has not graded; else what nobody has.

    Models' grades do not count: a pair that only a model has judged still wants a person.
    """
    split = await _split(store, view, runs)
    stood = await standing(store, view)
    judged = _own(stood, judge) if spec.again else with_judgements(split.grades, resolved(stood.current))
    pairs, outlook, sentence = _ordered(runs, split, spec, judged)
    chosen = pairs[: spec.limit]
    items = await shown(store, view, {pair.item_id for pair in chosen})
    tasks = tuple(Task(split.queries[pair.query_id], items[pair.item_id]) for pair in chosen if pair.item_id in items)
    return Queue(tasks, sentence, outlook, len(stood.stale), len(chosen) - len(tasks))


async def _split(store: Store, view: View, runs: Sequence[Run]) -> Split:
    """What the runs were made over, as it is labelled now."""
    if not runs:
        raise InputError("A queue is made from what runs found. Name one or more; see `rankbook runs list`.")
    over = {(run.subject.collection, run.subject.query_set, run.subject.split) for run in runs}
    if len(over) > 1:
        told = "; ".join(f"{split!r} of {name!r} in {collection!r}" for collection, name, split in sorted(over))
        raise InputError(f"The runs are over different queries ({told}). Name runs over the same split.")
    collection, name, split_name = over.pop()
    if collection != view.name:
        raise InputError(f"The runs are over the collection {collection!r}, and {view.name!r} was named.")
    return Split.of(await query_sets.load(store, collection, name=name), split_name)


def _own(stood: Standing, judge: str) -> Grades:
    return with_judgements({}, resolved(each for each in stood.current if each.judge == judge))


def _ordered(
    runs: Sequence[Run], split: Split, spec: QueueSpec, judged: Grades
) -> tuple[list[Pair], Outlook | None, str]:
    settle = len(runs) == 2 if spec.order == "auto" else spec.order == "settle"
    if not settle:
        pooled = by_depth(pool(runs, split, spec.depth, judged), spec.seed)
        return pooled, None, f"{len(pooled)} unjudged pairs in the top {spec.depth} of {len(runs)} runs."
    if len(runs) != 2:
        raise InputError(f"Two runs can be settled, and {len(runs)} were named. Name two, or order by depth.")
    first, second = runs
    plan = settling(first, second, split, spec.metric, judged)
    wanted = plan.needed if spec.limit is None else plan.pairs[: spec.limit]
    sentence = plan.outlook.sentence(*_names(runs))
    if len(wanted) != len(plan.needed):
        sentence += f" This queue holds {len(wanted)}, the most telling ones."
    return hidden(wanted, spec.seed), plan.outlook, sentence


def _names(runs: Sequence[Run]) -> list[str]:
    """Of two runs of one name, each with the beginning of its id."""
    alike = len({run.name for run in runs}) < len(runs)
    return [f"{run.name} ({run.id[:8]})" if alike else run.name for run in runs]


@dataclass(frozen=True, slots=True)
class FromFile:
    """Judgements of a file, and what was wrong with other lines of it."""

    judgements: tuple[Judgement, ...]
    flaws: tuple[Flaw, ...]


async def from_file(
    store: Store, view: View, path: Path, judge: str, *, name: str = query_sets.DEFAULT, note: str = ""
) -> FromFile:
    """Grades of `query item grade` or TREC's four columns as judgements on the texts as they are; nothing is kept."""
    require_file(path, "a file of grades")
    with open_file(path) as stream:
        rows = list(read_qrels(stream, str(path), "judged"))
    labelled = await query_sets.load(store, view.name, name=name)
    items = await shown(store, view, {row.value.item_id for row in rows if not isinstance(row, Flaw)})
    queries = [Row(query, Place(name)) for query in labelled.queries]
    checked = check_labels(queries, rows, has_item=items.__contains__)
    judge = signed(judge)
    labels = [row.value for row in checked.labels]
    made = [
        Judgement(each.query_id, each.item_id, judge, each.grade, items[each.item_id].version, note=note)
        for each in labels
    ]
    return FromFile(tuple(made), tuple(flaw for flaw in checked.flaws if flaw.place.file == str(path)))


def described(task: Task) -> Mapping[str, str]:
    """A task as plain values, for tables and machines."""
    return {"query_id": task.query.id, "query": task.query.text, "item_id": task.item.id, "title": task.item.title}


@dataclass(frozen=True, slots=True)
class Agreed:
    """How far people agree with each other, and each model with them. Stale judgements are in neither."""

    standing: Standing
    counts: tuple[tuple[str, int], ...]
    people: Agreement
    models: tuple[Calibration, ...]


async def agreed(store: Store, view: View, *, name: str = query_sets.DEFAULT) -> Agreed:
    """Models are held against what people settled on, and against the labels where no person has judged."""
    stood = await standing(store, view)
    labels = (await query_sets.load(store, view.name, name=name)).labels
    reference = {(each.query_id, each.item_id): each.grade for each in labels}
    reference |= {pair: each.grade for pair, each in resolved(stood.current).items()}
    people = by_judge(each for each in stood.current if not each.is_model)
    models = by_judge(each for each in stood.current if each.is_model)
    counts = tuple((judge, len(grades)) for judge, grades in sorted((people | models).items()))
    held = tuple(calibration(judge, grades, reference) for judge, grades in sorted(models.items()))
    return Agreed(stood, counts, agreement(people), held)


class WouldLose(InputError):
    """A query set of that name is there, with labels or queries that nothing else has."""


async def merge_into(  # noqa: PLR0913 - a merge has that many sides
    store: Store,
    view: View,
    into: str,
    *,
    name: str = query_sets.DEFAULT,
    split: str = "test",
    models: bool | None = None,
    overrule: bool | None = None,
    overwrite: bool = False,
    author: str = "",
) -> tuple[Merged, bool]:
    """Keep a query set with the judgements that hold as labels, under `into`; and whether that changed anything.

    Under another name than `name`, what came with the collection stays apart from what was judged, for good. A set
    that is as an earlier merge from `name` left it is made anew, in the splits of that one too; any other one may lose
    nothing, unless `overwrite` says so. Each split is made anew as it was: with models' grades, and overruling, or not.
    So is `split`, but for what `models` and `overrule` say of it.
    """
    into = names.checked(into, what="The query set's name")
    async with query_sets.changing(store, view.name, into):
        base = await query_sets.load(store, view.name, name=name)
        if not base.queries:
            raise InputError(
                f"{view.name!r} has no query set {name!r}, or an empty one. See `rankbook queries add --help`."
            )
        stood = await standing(store, view)
        before = await query_sets.merged_from(store, view.name, name=into)
        again = before if before is not None and before.query_set == name else None
        ways = _ways(again, split, models=models, overrule=overrule)
        for other in sorted({*ways} - {split}):
            base = _judged(base, stood, other, ways[other]).labelled
        made = replace(_judged(base, stood, split, ways[split]), ways=ways)
        if into != name and again is None and not overwrite:
            there = await query_sets.load(store, view.name, name=into)
            if lost := _lost(there, made.labelled):
                raise WouldLose(
                    f"The query set {into!r} is there already, and not as a merge from {name!r} left it: {lost} would "
                    "be lost. Choose another name, or say that it may be overwritten."
                )
        of = MergedFrom(query_set=name, splits=ways) if into != name else None
        cause = Cause(author, f"judgements merged with {name!r}, into {split!r}")
        return made, await query_sets.keep(store, view.name, made.labelled, name=into, merged=of, cause=cause)


def _ways(again: MergedFrom | None, split: str, *, models: bool | None, overrule: bool | None) -> dict[str, Way]:
    """How each split is made: as it was, and this one otherwise where that is said."""
    before = again.splits if again else {}
    was = before.get(split, Way(models=False, overrule=False))
    way = Way(models=was.models if models is None else models, overrule=was.overrule if overrule is None else overrule)
    return {**before, split: way}


def _judged(labelled: Labelled, stood: Standing, split: str, way: Way) -> Merged:
    return merged(labelled, resolved(stood.current, models=way.models), split=split, overrule=way.overrule)


def others_anew(made: Merged, split: str) -> str:
    """The splits of earlier merges that were made anew with this one, in words; empty where there are none."""
    told = ", ".join(f"{other!r}{way}" for other, way in sorted(made.ways.items()) if other != split)
    return f"Made anew as before: {told}." if told else ""


def _lost(there: Labelled, made: Labelled) -> str:
    """What the set that is there has and the new one has not, in words; empty where that is nothing."""
    said = [f"its choice of {len(there.queries):,} queries"] if there.queries and there.queries != made.queries else []
    for what in ("labels", "spans", "exclusions"):
        old, new = set(getattr(there, what)), set(getattr(made, what))
        if gone := len(old - new):
            said.append(f"{gone:,} of its {len(old):,} {what}")
    return " and ".join(said)
