"""Kept runs: which of them match a filter, and the tables, charts and reports of one or two."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from core.errors import SpecError
from core.store.engine import Store
from evals.display import Table
from evals.evaluation.board import Board, Score, board_table
from evals.evaluation.compare_runs import RunPair, RunScope, compare_runs, compared, differences, flat
from evals.evaluation.context import EvalContext, open_eval
from evals.evaluation.evaluate import score_runs
from evals.measures import METRICS
from evals.presentation import charts
from evals.presentation.comparison import comparison as view_of
from evals.presentation.comparison import signed
from evals.presentation.run_history import subject_facts
from evals.presentation.types import Block, Code, Text
from evals.reports import Part, documents, render_html, report
from evals.runs import run_store
from evals.runs.plan import EvalOptions
from evals.runs.run_store import SHOWN, RunSummary
from evals.runs.types import Run, unlike
from evals.types import QuerySplit
from workbench.services.variants import in_words

FOREIGN: Final = "another engine's"


def pipeline(run: RunSummary) -> str:
    return in_words(run.variant) if run.variant else FOREIGN


def metrics_of(runs: Iterable[RunSummary]) -> list[str]:
    """The metrics that runs have scores of, the default ones first. Names with a blank are no metrics."""
    there = dict.fromkeys(name for run in runs for name in run.scores if " " not in name)
    return sorted(there, key=lambda name: (METRICS.index(name) if name in METRICS else len(METRICS), name))


def matching(runs: Sequence[RunSummary], words: str) -> list[RunSummary]:
    """The runs in whose name, pin, collection, split, id or pipeline every word occurs."""
    wanted = words.lower().split()
    return [run for run in runs if all(word in _text(run) for word in wanted)]


def _text(run: RunSummary) -> str:
    of = run.subject
    return "\n".join((run.name, *run.names, *run.pins, of.collection, of.split, run.id, pipeline(run))).lower()


WORST = 10
LONGEST_TEXT = 200  # characters of a query


# -- one run -----------------------------------------------------------------------------------------------------------


async def board_of(store: Store, identity: str, metrics: Sequence[str]) -> Board:
    """The run scored anew against its own labels; an error where these have changed."""
    run = await run_store.load(store, identity)
    ground, split = await _ground(store, run)
    return await score_runs(ground, split, [run], EvalOptions(tuple(metrics)), None)


async def _ground(store: Store, run: Run) -> tuple[EvalContext, QuerySplit]:
    of = run.subject
    ground = await open_eval(store, of.collection, of.query_set)
    if ground.labelled.digest() != of.digest:
        raise SpecError(
            f"{run.name!r} was made over other queries or labels than {of.collection!r} has now, so it cannot be "
            "scored query by query. Its scores of then stand in the list. Evaluate its variant anew, which is quick."
        )
    return ground, ground.split(of.split)


@dataclass(frozen=True, slots=True)
class WorstQuery:
    """A query with its score and the rank of the first relevant document; 0 where none was found."""

    query: str
    text: str
    kind: str
    score: float
    first_relevant: int


def worst_queries(board: Board, metric: str, most: int = WORST) -> list[WorstQuery]:
    """The queries with the lowest scores of the board's first run."""
    run = board.runs[0]
    scores = board.of(board.names[0], metric)
    least = sorted(scores, key=lambda query: (scores[query], query))[:most]
    return [_worst(board, run, query, scores[query]) for query in least]


def _worst(board: Board, run: Run, query: str, score: float) -> WorstQuery:
    asked, grades = board.split.queries[query], board.split.grades.get(query, {})
    ranked = run.rankings.get(query)
    items = list(dict.fromkeys(ranked.item_ids)) if ranked else []
    first = next((rank for rank, item in enumerate(items, 1) if grades.get(item, 0) > 0), 0)
    return WorstQuery(query, asked.text[:LONGEST_TEXT], asked.kind, score, first)


def by_group(board: Board, metric: str, by: str) -> list[tuple[str, int, Score]]:
    """The first run's mean for each kind or tag, with the number of queries."""
    scores = set(board.queries(metric))
    counts = {group: len(scores.intersection(ids)) for group, ids in board.groups[by].items()}
    found = board.by(metric, by)
    return [(group, counts[group], cells[board.names[0]]) for group, cells in found.items() if cells]


async def scores(store: Store, identity: str, metrics: Sequence[str], by: str) -> list[Block]:
    """The run's scores, in all and by group, and its worst queries by the first metric."""
    board = await board_of(store, identity, metrics)
    return await asyncio.to_thread(lambda: list(_scores(board, by)))


def _scores(board: Board, by: str) -> Iterator[Block]:
    metric = board.metrics[0]
    yield board_table(board)
    rows = [
        (group or "(none)", count, score.text, score.interval) for group, count, score in by_group(board, metric, by)
    ]
    if len(rows) > 1:
        yield Table.of(
            f"{metric} by {by} of query", (by, "queries", metric, "interval"), rows, ("queries", metric, "interval")
        )
    columns = ("query", "text", "kind", metric, "first relevant at")
    found = worst_rows(worst_queries(board, metric))
    yield Table.of(f"The queries it does worst on, by {metric}", columns, found, (metric, "first relevant at"))


def worst_rows(found: Sequence[WorstQuery]) -> list[tuple[object, ...]]:
    return [
        (each.query, each.text, each.kind, f"{each.score:.3f}", each.first_relevant or "not found") for each in found
    ]


# -- how it was made ---------------------------------------------------------------------------------------------------


def details(summary: RunSummary, run: Run) -> list[Block]:
    """Everything that is needed to repeat the run."""
    facts = {
        "id": run.id,
        "made": f"{summary.made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        **subject_facts(run.subject),
        "asked for": f"{run.depth} results, deep" if run.depth else "as the variant ships",
        "queries": f"{summary.queries:,}",
        "failed": f"{summary.failed:,}",
        "pinned as": ", ".join(summary.pins),
        "evaluated also as": summary.other_names,
    }
    blocks: list[Block] = [Table.of("What it was made over", ("what", "value"), _told(facts))]
    blocks += [Table.of("Made with", ("what", "value"), _told(dict(flat(surroundings(run)))))]
    if times := stages(run):
        numbers = ("p50", "p95", "queries")
        blocks.append(Table.of("Milliseconds a query", ("stage", *numbers), times, numbers))
    if run.failures:
        failed = list(run.failures.items())[:WORST]
        blocks.append(Table.of("Queries that failed", ("query", "why"), failed))
    blocks += [Text(text=note, tone="note") for note in run.notes]
    if run.variant is not None:
        blocks.append(Code(title="The variant as it was", language="toml", text=run.variant.to_toml()))
        import shlex

        of = run.subject
        queries = [] if of.query_set == "default" else ["--queries", of.query_set]
        deep = ["--deep"] if run.depth else []
        command = ["rankbook", "eval", of.collection, "variant.toml", "--split", of.split, *queries, *deep, "--again"]
        blocks.append(
            Code(
                title="The same again",
                language="bash",
                text=f"# with the variant above in variant.toml\n{shlex.join(command)}",
            )
        )
    return blocks


def _told(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), str(value)) for name, value in facts.items() if value not in (None, "")]


def surroundings(run: Run) -> dict[str, Any]:
    """What it was made with; for indexes only their total size."""
    sizes: Mapping[str, int] = run.environment.get("indexes", {})
    whole = {"indexes": f"{sum(sizes.values()) / 1e6:,.1f} MB in {len(sizes)}"} if sizes else {}
    told = {name: value for name, value in run.environment.items() if name != "own indexes"}
    return {**told, **whole}


def stages(run: Run) -> list[tuple[object, ...]]:
    """For each stage the median and the 95th percentile in milliseconds, and the number of queries, each run alone."""
    times = {"whole search": run.latency} if run.latency else {}
    return [
        (stage, f"{each.p50:.1f}", f"{each.p95:.1f}", each.queries)
        for stage, each in (times | run.stage_latencies).items()
    ]


# -- two of them -------------------------------------------------------------------------------------------------------


async def load_pair(store: Store, one: str, other: str, *metrics: str) -> RunPair:
    """Both runs, told apart by their ids where they have one name."""
    return await compare_runs(store, (one[:SHOWN], other[:SHOWN]), RunScope(), EvalOptions(metrics))


async def comparison(store: Store, one: str, other: str, metric: str, by: str) -> list[Block]:
    """Whether the first is better, by how much, on which queries, and in what they differ."""
    found = await load_pair(store, one, other, metric)
    return await asyncio.to_thread(lambda: [*_compared(found, by), *difference_blocks(*found.runs)])


def _compared(found: RunPair, by: str) -> Iterator[Block]:
    board = found.board
    if board is None:
        return
    metric = board.metrics[0]
    shown = view_of(board, compared(board, metric, by), metric)
    yield Text(text=shown.headline, tone="headline")
    yield Text(text=shown.counts)
    yield board_table(board)
    yield charts.query_differences(shown)
    yield charts.query_scores(shown)
    yield shown.deciding_table()
    groups = []
    for each in shown.groups:
        known = each.finding.difference
        change = "" if known.mean is None else signed(known.mean)
        groups.append((each.group or "(none)", known.queries, str(each.finding.verdict), change))
    if groups:
        columns = (by, "queries", f"{shown.system} is", "difference")
        yield Table.of(f"By {by} of query", columns, groups, ("queries", "difference"))
    yield from (Text(text=warned.message, tone="note") for warned in board.warnings)


def difference_blocks(one: Run, other: Run) -> Iterator[Block]:
    found = differences(one, other)
    names = (f"{one.name} {one.id[:SHOWN]}", f"{other.name} {other.id[:SHOWN]}")
    if found.rows:
        yield Table.of("What differs", ("", *names), [(row.where, row.one, row.other) for row in found.rows])
    yield Text(text=f"{len(found.changed)} of {found.queries} queries have other first results, or in another order.")


async def similarity(store: Store, one: str, other: str) -> list[Block]:
    """How similar the rankings are, which needs neither labels nor common data."""
    found = await compare_runs(store, (one[:SHOWN], other[:SHOWN]), RunScope(), None)
    mine, theirs = found.runs
    measures = found.overlap()
    blocks: list[Block] = []
    if differs := unlike(mine.subject, theirs.subject):
        blocks.append(Text(text=f"They are not over the same data: {differs}.", tone="note"))
    rows = [(name, f"{sum(of.values()) / len(of):.3f}" if of else "-") for name, of in measures.items()]
    blocks.append(Table.of("How alike their rankings are", ("", "mean"), rows, ("mean",)))
    blocks.append(Text(text="1 is the same ranking, 0 nothing in common. Which is better, only labels tell."))
    return [*blocks, *difference_blocks(mine, theirs)]


# -- out ---------------------------------------------------------------------------------------------------------------


async def report_html(store: Store, one: str, metrics: Sequence[str], other: str | None = None) -> str:
    """An HTML report that opens offline: of a run, or of a run against another."""
    if other is None:
        board = await board_of(store, one, metrics)
    else:
        found = await load_pair(store, one, other, *metrics)
        if found.board is None:
            raise SpecError("These two were not scored.")
        board = found.board
    ground, _ = await _ground(store, board.runs[0])
    texts = await documents(store, ground.view, board)
    title = f"{board.runs[0].subject.collection}: {', '.join(board.names)}"
    return await asyncio.to_thread(lambda: render_html(report([Part(board, documents=texts)], title=title)))
