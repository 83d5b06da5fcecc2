"""The queue of pairs for a judge, made of runs, labels and judgements.

Owns which pairs count as judged and what a queue holds. Their order is in `pooling`, the stored rows in `judgements`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from core.types import Flaw, Place, Row
from evals.judging.judgements import Judgement, Task, judge_name, judgement_status
from evals.judging.merging import settle_grades, with_judgements
from evals.judging.pooling import Outlook, PooledPair, order_by_depth, order_by_influence, pool, shuffled
from evals.labels import query_sets
from evals.labels.label_checks import check_labels
from evals.runs.types import Run
from evals.sources.files import open_file, require_file
from evals.sources.rows import read_qrels
from evals.types import DEFAULT_QUERY_SET, Grades, QuerySplit


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
    """Tasks in the order in which they are shown, without ranks and runs.

    `outlook` is given where two runs are compared. `gone` counts pairs whose document is no longer stored.
    """

    tasks: tuple[Task, ...]
    sentence: str
    outlook: Outlook | None = None
    stale: int = 0
    gone: int = 0


async def build_queue(
    store: Store, view: CollectionView, runs: Sequence[Run], spec: QueueSpec, judge: str = ""
) -> Queue:
    """What this judge should grade next: pairs that nobody has graded or, with `again`, that this judge has not.

    Models' grades do not count: a pair that only a model has judged still needs a person.
    """
    split = await _split(store, view, runs)
    status = await judgement_status(store, view)
    if spec.again:
        judged = with_judgements({}, settle_grades(each for each in status.current if each.judge == judge))
    else:
        judged = with_judgements(split.grades, settle_grades(status.current))
    pairs, outlook, sentence = _ordered(runs, split, spec, judged)
    chosen = pairs[: spec.limit]
    items = await read_items(store, view, {pair.item_id for pair in chosen})
    tasks = tuple(Task(split.queries[pair.query_id], items[pair.item_id]) for pair in chosen if pair.item_id in items)
    return Queue(tasks, sentence, outlook, len(status.stale), len(chosen) - len(tasks))


async def _split(store: Store, view: CollectionView, runs: Sequence[Run]) -> QuerySplit:
    """The split that the runs were made over, with its present labels."""
    if not runs:
        raise InputError("A queue is made from what runs found. Name one or more; see `rankbook runs list`.")
    over = {(run.subject.collection, run.subject.query_set, run.subject.split) for run in runs}
    if len(over) > 1:
        splits = "; ".join(f"{split!r} of {name!r} in {collection!r}" for collection, name, split in sorted(over))
        raise InputError(f"The runs are over different queries ({splits}). Name runs over the same split.")
    collection, name, split_name = over.pop()
    if collection != view.name:
        raise InputError(f"The runs are over the collection {collection!r}, and {view.name!r} was named.")
    return QuerySplit.of(await query_sets.load(store, collection, name=name), split_name)


def _ordered(
    runs: Sequence[Run], split: QuerySplit, spec: QueueSpec, judged: Grades
) -> tuple[list[PooledPair], Outlook | None, str]:
    settle = len(runs) == 2 if spec.order == "auto" else spec.order == "settle"
    if not settle:
        pooled = order_by_depth(pool(runs, split, spec.depth, judged), spec.seed)
        return pooled, None, f"{len(pooled)} unjudged pairs in the top {spec.depth} of {len(runs)} runs."
    if len(runs) != 2:
        raise InputError(f"Two runs can be settled, and {len(runs)} were named. Name two, or order by depth.")
    first, second = runs
    plan = order_by_influence(first, second, split, spec.metric, judged)
    chosen = plan.needed if spec.limit is None else plan.pairs[: spec.limit]
    alike = first.name == second.name
    sentence = plan.outlook.sentence(*(f"{run.name} ({run.id[:8]})" if alike else run.name for run in runs))
    if len(chosen) != len(plan.needed):
        sentence += f" This queue holds {len(chosen)}, the most telling ones."
    return shuffled(chosen, spec.seed), plan.outlook, sentence


@dataclass(frozen=True, slots=True)
class FileJudgements:
    """Judgements of a file, and flaws of its other lines."""

    judgements: tuple[Judgement, ...]
    flaws: tuple[Flaw, ...]


async def read_judgements(
    store: Store, view: CollectionView, path: Path, judge: str, *, name: str = DEFAULT_QUERY_SET, note: str = ""
) -> FileJudgements:
    """The grades of a qrels file as judgements of the present texts. Nothing is stored."""
    require_file(path, "a file of grades")
    with open_file(path) as stream:
        rows = list(read_qrels(stream, str(path), "judged"))
    labelled = await query_sets.load(store, view.name, name=name)
    items = await read_items(store, view, {row.value.item_id for row in rows if not isinstance(row, Flaw)})
    queries = [Row(query, Place(name)) for query in labelled.queries]
    checked = check_labels(queries, rows, has_item=items.__contains__)
    judge = judge_name(judge)
    judgements = [
        Judgement(each.query_id, each.item_id, judge, each.grade, items[each.item_id].version, note=note)
        for each in (row.value for row in checked.labels)
    ]
    return FileJudgements(tuple(judgements), tuple(flaw for flaw in checked.flaws if flaw.place.file == str(path)))


def task_values(task: Task) -> Mapping[str, str]:
    """A task as plain values, for tables and JSON."""
    return {"query_id": task.query.id, "query": task.query.text, "item_id": task.item.id, "title": task.item.title}
