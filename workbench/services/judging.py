"""How far judging is, as blocks: what of a pool is judged, how runs score on the labels so far, how judges agree.

Owns the choice of what is shown; pools, scores and agreement are computed in `evals`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from core.context import Resources
from core.errors import InputError, LanguageModelError, UnknownName
from core.progress import Listener, nobody
from core.store.engine import Store
from core.variant import Variant
from evals.display import Table, TableCell
from evals.evaluation.board import Board, Score
from evals.evaluation.context import EvalContext
from evals.evaluation.evaluate import run_variants
from evals.judging import judgements as judging
from evals.judging.agreement import PairId
from evals.judging.judgements import Judgement, Task
from evals.judging.llm_judge import ModelJudge, grade
from evals.judging.merging import (
    JudgeAgreement,
    SettledGrade,
    judge_agreement,
    qrels_text,
    settle_grades,
    with_judgements,
)
from evals.judging.pooling import Outlook, PooledPair, order_by_influence, pool
from evals.judging.queue import QueueSpec
from evals.metrics import scoring
from evals.presentation.text import line
from evals.presentation.types import Block, Text
from evals.runs import run_store
from evals.runs.plan import EvalOptions
from evals.runs.types import Run
from evals.statistics.verdicts import Rules
from evals.types import Grades, QuerySplit
from evals.variants import every_name, resolve_variant

Form = Literal["trec", "beir"]
LONGEST: Final = 120  # characters of a text in a table
USUAL: Final = Rules()


# -- runs --------------------------------------------------------------------------------------------------------------


async def resolve_entry(ctx: EvalContext, split: str, name: str) -> Variant | Run:
    """A variant by name, or a kept run. Never a file: an address may come from anybody."""
    known = every_name()
    if name in known:
        return resolve_variant(name, chunks=ctx.view.default_chunk_set)
    try:
        found = await run_store.load(ctx.store, name, collection=ctx.view.name, split=split)
    except UnknownName as error:
        raise UnknownName("variant, preset, leg or kept run", name, [*known, *error.known]) from None
    if found.subject.query_set != ctx.query_set:
        raise InputError(f"The run {name!r} is over the query set {found.subject.query_set!r}. Choose that one.")
    return found


async def runs_of(
    ctx: EvalContext, entries: Sequence[Variant | Run], split: QuerySplit, listener: Listener = nobody
) -> list[Run]:
    """One run for each entry, in their order and without repetitions; variants are run, or their kept runs taken."""
    variants = [each for each in entries if isinstance(each, Variant)]
    found = iter(await run_variants(ctx, variants, split, EvalOptions(), listener))
    ordered = [each if isinstance(each, Run) else next(found) for each in entries]
    return list({run.id: run for run in ordered}.values())


# -- where it stands ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PoolCoverage:
    """How many pairs there are, and how many of them are judged."""

    judged: int
    pairs: int


@dataclass(frozen=True, slots=True)
class PoolFigures:
    """The figures of a pool at one moment. Scores are means over the queries; without a relevant document there is
    no `board`.
    """

    names: tuple[str, ...]
    metric: str
    depth: int
    whole: PoolCoverage
    by_run: tuple[PoolCoverage, ...]
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
class JudgingStatus:
    """The figures of a pool, how the judges of its collection agree, and the one settled grade of each pair."""

    figures: PoolFigures
    agreed: JudgeAgreement
    settled: dict[PairId, SettledGrade]


async def pool_status(
    ctx: EvalContext, runs: Sequence[Run], split: QuerySplit, spec: QueueSpec, *, rules: Rules = USUAL
) -> JudgingStatus:
    """Valid judgements count as labels beside those of the collection; those of models do not count."""
    of_judges = await judge_agreement(ctx.store, ctx.view, name=ctx.query_set)
    settled = settle_grades(of_judges.status.current)
    judged = replace(split, grades=with_judgements(split.grades, settled))
    return JudgingStatus(await asyncio.to_thread(_figures, runs, split, judged, spec, rules), of_judges, settled)


def _figures(runs: Sequence[Run], split: QuerySplit, judged: QuerySplit, spec: QueueSpec, rules: Rules) -> PoolFigures:
    pairs = pool(runs, split, spec.depth, {})
    ranked = [[pair for pair in pairs if pair.ranks[at] is not None] for at in range(len(runs))]
    settles = spec.order == "settle" and len(runs) == 2
    # Judging changes labels, so a run made over older ones is as good as any: its rankings come of none.
    over = [replace(run, subject=replace(run.subject, digest=split.digest)) for run in runs]
    board = Board(judged, over, [spec.metric], rules=rules) if scoring.relevant_queries(judged.grades) else None
    return PoolFigures(
        names=board.names if board else distinct_names(runs),
        metric=spec.metric,
        depth=spec.depth,
        whole=_covered(pairs, judged.grades),
        by_run=tuple(_covered(several, judged.grades) for several in ranked),
        board=board,
        labels_alone=tuple(_alone(split, run, spec.metric) for run in runs),
        outlook=order_by_influence(runs[0], runs[1], split, spec.metric, judged.grades).outlook if settles else None,
    )


def distinct_names(runs: Sequence[Run]) -> tuple[str, ...]:
    """The names of the runs; runs of one name get the beginning of their id too."""
    names = [run.name for run in runs]
    return tuple(f"{run.name} ({run.id[:8]})" if names.count(run.name) > 1 else run.name for run in runs)


def _covered(pairs: Sequence[PooledPair], grades: Grades) -> PoolCoverage:
    return PoolCoverage(sum(pair.item_id in grades.get(pair.query_id, ()) for pair in pairs), len(pairs))


def _alone(split: QuerySplit, run: Run, metric: str) -> float | None:
    if not scoring.relevant_queries(split.grades):
        return None
    weights = {query.id: query.weight for query in split.queries.values()}
    return scoring.score_rankings(split.grades, run.seen_by(metric), [metric]).means(weights)[metric]


# -- as blocks ---------------------------------------------------------------------------------------------------------


def scores_table(figures: PoolFigures) -> Table:
    """How each run scores on the labels so far, what it scored on those that came along, and how much is judged."""
    at = f"judged@{figures.depth}"
    columns = ("variant", figures.metric, "labels alone", at)
    rows = []
    for name, score, alone, covered in zip(
        figures.names, figures.scores(), figures.labels_alone, figures.by_run, strict=True
    ):
        mean = TableCell(text="-", hint="No query has a relevant document yet.")
        if score is not None:
            mean = TableCell(text=score.text, aside=score.brackets)
        share = f"{covered.judged / covered.pairs:.0%}" if covered.pairs else "-"
        judged = TableCell(text=share, aside=f"{covered.judged:,} of {covered.pairs:,}")
        rows.append((name, mean, "-" if alone is None else f"{alone:.3f}", judged))
    note = (
        f"{figures.metric}: on the labels with all judgements that hold; labels alone: without them. {at}: the "
        f"share of the first {figures.depth} results that has a label or a judgement."
    )
    return Table.of("Scores so far", columns, rows, columns[1:], (note,))


def agreement_blocks(found: JudgeAgreement) -> Iterator[Block]:
    """How far people agree, how well a model's grades match theirs, and which judgements are stale."""
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
    if found.status.stale:
        yield Text(text=found.status.sentence(), tone="note")


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def next_table(tasks: Sequence[Task]) -> Table:
    rows = [
        (line(task.query.text, LONGEST), task.query.kind, line(task.item.title or task.item.id, LONGEST))
        for task in tasks
    ]
    return Table.of("Next to judge", ("query", "kind", "document"), rows)


def status_values(state: JudgingStatus) -> dict[str, Any]:
    """The figures as plain values."""
    figures, judges = state.figures, state.agreed
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
        "stale": len(judges.status.stale),
    }


# -- what changes, and what is taken along -----------------------------------------------------------------------------


def settled_qrels(state: JudgingStatus, form: Form) -> str:
    """A qrels file of people's valid judgements, one grade a pair, as `rankbook judge export` writes it."""
    return qrels_text({pair: each.grade for pair, each in state.settled.items()}, form)


# -- a language model's suggestion -------------------------------------------------------------------------------------


async def suggest(store: Store, collection: str, judge: ModelJudge, resources: Resources, task: Task) -> Judgement:
    """The model's grade of one pair, asked once for each text. It is kept as a model's, and counts nowhere by
    itself.
    """
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
