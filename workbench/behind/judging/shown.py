"""Where judging stands, as blocks: of a pool what is judged, how runs score on the labels so far, how judges agree.

Owns the choice of what is shown; pools, scores and agreement are `evals`'s. The judging page and the judge cell call
it. Knows no Streamlit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from sqlalchemy import func, select

from core.context import Resources
from core.errors import InputError, LanguageModelError, UnknownName
from core.progress import Listener, nobody
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import ItemRow, chunk_table
from core.variant import Variant
from evals.display import Table, TableCell
from evals.evaluation.board import Board, Score
from evals.evaluation.context import EvalContext, EvalOptions
from evals.evaluation.evaluate import run_variants
from evals.judging import judgements as judging
from evals.judging.agreement import PairId
from evals.judging.judgements import Judgement, Task
from evals.judging.llm_judge import ModelJudge, grade
from evals.judging.merging import Agreed, SettledGrade, agreed, qrels, resolved, with_judgements
from evals.judging.pooling import Outlook, PooledPair, order_by_influence, pool
from evals.judging.queue import QueueSpec
from evals.metrics import scoring
from evals.presentation.text import line
from evals.presentation.types import Block, Text
from evals.runs import run_store
from evals.runs.types import Run
from evals.schema import JudgementRow as StoredJudgement
from evals.statistics.verdicts import Rules
from evals.types import Grades, QuerySplit
from evals.variants import every_name, resolve_variant

Form = Literal["trec", "beir"]
LONGEST: Final = 120  # characters of a text in a table
USUAL: Final = Rules()


# -- runs --------------------------------------------------------------------------------------------------------------


async def entry(ground: EvalContext, split: str, name: str) -> Variant | Run:
    """A variant known by name, or a kept run. No file: an address may come from anybody."""
    known = every_name()
    if name in known:
        return resolve_variant(name, chunks=ground.view.default_chunk_set)
    try:
        found = await run_store.load(ground.store, name, collection=ground.view.name, split=split)
    except UnknownName as error:
        raise UnknownName("variant, preset, leg or kept run", name, [*known, *error.known]) from None
    if found.subject.query_set != ground.query_set:
        raise InputError(f"The run {name!r} is over the query set {found.subject.query_set!r}. Choose that one.")
    return found


async def runs_of(
    ground: EvalContext, entries: Sequence[Variant | Run], split: QuerySplit, listener: Listener = nobody
) -> list[Run]:
    """One run an entry in the order given, each once; variants are run, or taken from before."""
    variants = [each for each in entries if isinstance(each, Variant)]
    found = iter(await run_variants(ground, variants, split, EvalOptions(), listener) if variants else [])
    ordered = [each if isinstance(each, Run) else next(found) for each in entries]
    return list({run.id: run for run in ordered}.values())


# -- where it stands ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Covered:
    """Of the pairs that one run has near its top, how many there are and how many of them are judged."""

    judged: int
    pairs: int


@dataclass(frozen=True, slots=True)
class Figures:
    """A pool, at one moment. Scores are means over the queries; without any relevant document there is no `board`."""

    names: tuple[str, ...]
    metric: str
    depth: int
    whole: Covered
    by_run: tuple[Covered, ...]
    board: Board | None
    labels_alone: tuple[float | None, ...]
    outlook: Outlook | None

    @property
    def headline(self) -> str:
        if self.outlook is not None:
            return self.outlook.sentence(*self.names)
        judged, pairs = self.whole.judged, self.whole.pairs
        left = f"{pairs - judged:,} are left." if pairs > judged else "Nothing is left."
        return f"{judged:,} of the {pairs:,} pairs in the top {self.depth} are judged. {left}"

    def scores(self) -> list[Score | None]:
        if self.board is None:
            return [None] * len(self.names)
        cells = self.board.cells(self.metric)
        return [cells.get(name) for name in self.board.names]


@dataclass(frozen=True, slots=True)
class State:
    """The figures of a pool, how the judges of its collection agree, and the one grade of each pair that is judged."""

    figures: Figures
    agreed: Agreed
    settled: dict[PairId, SettledGrade]


async def state(
    ground: EvalContext, runs: Sequence[Run], split: QuerySplit, spec: QueueSpec, *, rules: Rules = USUAL
) -> State:
    """Judgements that hold count as labels beside those that came with the collection; models' count for nothing."""
    of_judges = await agreed(ground.store, ground.view, name=ground.query_set)
    settled = resolved(of_judges.standing.current)
    judged = replace(split, grades=with_judgements(split.grades, settled))
    return State(await asyncio.to_thread(_figures, runs, split, judged, spec, rules), of_judges, settled)


def _figures(runs: Sequence[Run], split: QuerySplit, judged: QuerySplit, spec: QueueSpec, rules: Rules) -> Figures:
    pairs = pool(runs, split, spec.depth, {})
    ranked = [[pair for pair in pairs if pair.ranks[at] is not None] for at in range(len(runs))]
    settles = spec.order == "settle" and len(runs) == 2
    # Judging changes labels, so a run made over older ones is as good as any: its rankings come of none.
    over = [replace(run, subject=replace(run.subject, digest=split.digest)) for run in runs]
    board = Board(judged, over, [spec.metric], rules=rules) if scoring.relevant_queries(judged.grades) else None
    return Figures(
        names=board.names if board else told_apart(runs),
        metric=spec.metric,
        depth=spec.depth,
        whole=_covered(pairs, judged.grades),
        by_run=tuple(_covered(several, judged.grades) for several in ranked),
        board=board,
        labels_alone=tuple(_alone(split, run, spec.metric) for run in runs),
        outlook=order_by_influence(runs[0], runs[1], split, spec.metric, judged.grades).outlook if settles else None,
    )


def told_apart(runs: Sequence[Run]) -> tuple[str, ...]:
    """Of runs of one name, each with the beginning of its id."""
    names = [run.name for run in runs]
    return tuple(f"{run.name} ({run.id[:8]})" if names.count(run.name) > 1 else run.name for run in runs)


def _covered(pairs: Sequence[PooledPair], grades: Grades) -> Covered:
    return Covered(sum(pair.item_id in grades.get(pair.query_id, ()) for pair in pairs), len(pairs))


def _alone(split: QuerySplit, run: Run, metric: str) -> float | None:
    if not scoring.relevant_queries(split.grades):
        return None
    weights = {query.id: query.weight for query in split.queries.values()}
    return scoring.score_rankings(split.grades, run.seen_by(metric), [metric]).means(weights)[metric]


# -- as blocks ---------------------------------------------------------------------------------------------------------


def scores_table(found: Figures) -> Table:
    """How each run scores on the labels so far, what it scored on those that came along, and how much is judged."""
    at = f"judged@{found.depth}"
    columns = ("variant", found.metric, "labels alone", at)
    rows = []
    for name, score, alone, covered in zip(found.names, found.scores(), found.labels_alone, found.by_run, strict=True):
        mean = TableCell(text="-", hint="No query has a relevant document yet.")
        if score is not None:
            mean = TableCell(text=score.text, aside=score.brackets)
        share = f"{covered.judged / covered.pairs:.0%}" if covered.pairs else "-"
        judged = TableCell(text=share, aside=f"{covered.judged:,} of {covered.pairs:,}")
        rows.append((name, mean, "-" if alone is None else f"{alone:.3f}", judged))
    note = (
        f"{found.metric}: on the labels with all judgements that hold; labels alone: without them. {at}: the share of "
        f"the first {found.depth} results that has a label or a judgement."
    )
    return Table.of("Scores so far", columns, rows, columns[1:], (note,))


def agreement_blocks(found: Agreed) -> Iterator[Block]:
    """How far people agree, what a model's grades are worth beside theirs, and what no longer holds."""
    yield Text(text=found.people.sentence())
    if found.people.two:
        rows = [
            (f"{two.one} and {two.other}", two.shared, f"{two.same:.0%}", _figure(two.kappa), _figure(two.weighted))
            for two in found.people.two
        ]
        figures = ("both graded", "same grade", "kappa", "weighted kappa")
        yield Table.of("Judges two by two", ("judges", *figures), rows, figures)
    if found.counts:
        yield Table.of("Judgements that hold", ("judge", "judgements"), found.counts, ("judgements",))
    for each in found.models:
        yield Text(text=each.sentence(), tone="note")
    if found.standing.stale:
        yield Text(text=found.standing.sentence(), tone="note")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def next_table(tasks: Sequence[Task]) -> Table:
    rows = [
        (line(task.query.text, LONGEST), task.query.kind, line(task.item.title or task.item.id, LONGEST))
        for task in tasks
    ]
    return Table.of("Next to judge", ("query", "kind", "document"), rows)


def plain(found: State) -> dict[str, Any]:
    """The figures, for whoever draws or computes further."""
    figures, judges = found.figures, found.agreed
    scored = zip(figures.names, figures.by_run, figures.scores(), figures.labels_alone, strict=True)
    return {
        "metric": figures.metric,
        "depth": figures.depth,
        "pool": asdict(figures.whole),
        "variants": [
            {"name": name, **asdict(covered), "score": cell.mean if cell else None, "labels alone": alone}
            for name, covered, cell, alone in scored
        ],
        "alpha": judges.people.alpha,
        "stale": len(judges.standing.stale),
    }


# -- what changes, and what is taken along -----------------------------------------------------------------------------


async def mark(store: Store, collection: str) -> str:
    """What changes with every judgement of the collection."""
    table = StoredJudgement
    wanted = select(func.count(), func.max(table.judged_at), func.sum(table.grade + 1))
    async with store.begin(read_only=True) as connection:
        row = (await connection.execute(wanted.where(table.collection == collection))).one()
        return " ".join(map(str, row))


def exported(found: State, form: Form) -> str:
    """A qrels file of people's judgements that hold, one grade a pair, as `rankbook judge export` writes it."""
    return qrels({pair: each.grade for pair, each in found.settled.items()}, form)


# -- a language model's suggestion -------------------------------------------------------------------------------------


async def suggested(store: Store, collection: str, judge: ModelJudge, resources: Resources, task: Task) -> Judgement:
    """What the model says of one pair, asked once a text: kept as a model's, and counted nowhere unless asked for."""
    name = judge.signature(resources)
    known = await _kept(store, collection, name, task)
    if known is None:
        outcome = await grade(store, collection, judge, resources, [task])
        known = await _kept(store, collection, name, task)
        if known is None:
            raise LanguageModelError("; ".join(outcome.failures) or f"{name} gave no grade. Ask again.")
    return known


async def _kept(store: Store, collection: str, judge: str, task: Task) -> Judgement | None:
    every = await judging.load(store, collection)
    mine = [each for each in every if each.judge == judge and each.pair == (task.query.id, task.item.id)]
    return next((each for each in mine if each.version == task.item.version), None)


# -- passages ----------------------------------------------------------------------------------------------------------


async def passages(store: Store, view: CollectionView, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
    """Where the passages of these documents begin and end, by the collection's first chunk set; none without one."""
    chunk_set = next((each for each in view.chunk_sets if each.key), None)
    if view.row.attached is not None or chunk_set is None:
        return {}
    chunks, found = chunk_table(chunk_set.key), dict[str, list[tuple[int, int]]]()
    asked = select(ItemRow.id, chunks.c.start_at, chunks.c.end_at).join(chunks, chunks.c.item_key == ItemRow.key)
    async with store.begin(view.namespace, read_only=True) as connection:
        rows = await connection.execute(asked.where(ItemRow.id.in_(ids)).order_by(ItemRow.id, chunks.c.start_at))
        for row in rows:
            found.setdefault(row.id, []).append((row.start_at, row.end_at))
    return found
