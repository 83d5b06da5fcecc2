"""What there is to see of kept runs: scores by kind, the worst queries, how a run was made, two held together.

Owns the choice of what is shown, as blocks; the numbers are the board's and the comparison's. Both the Runs page and
`rankbook runs` call it. Knows no Streamlit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from core.errors import SpecError
from core.store.engine import Store
from evals.display import Table
from evals.evaluation.board import Board, Score, board_table
from evals.evaluation.compare_runs import RunPair, Where, compared, differences, flat, pair
from evals.evaluation.context import EvalContext, EvalOptions, open_eval
from evals.evaluation.evaluate import score_runs
from evals.presentation import charts
from evals.presentation.comparison import comparison, signed
from evals.presentation.run_history import subject_facts
from evals.presentation.types import Block, Code, Text
from evals.reports import Part, documents, render_html, report
from evals.runs import run_store
from evals.runs.run_store import SHOWN, RunSummary
from evals.runs.types import Run, unlike
from evals.types import QuerySplit

WORST = 10
LONGEST_TEXT = 200  # characters of a query


# -- one run -----------------------------------------------------------------------------------------------------------


async def board_of(store: Store, identity: str, metrics: Sequence[str]) -> Board:
    """The run scored anew, against the labels that it was made over; refused where these are others now."""
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
class Worst:
    """A query with its score, and where the first relevant document was found: 0 where it was not."""

    query: str
    text: str
    kind: str
    score: float
    first_relevant: int


def worst(board: Board, metric: str, most: int = WORST) -> list[Worst]:
    """The queries that the board's first run does worst on."""
    run = board.runs[0]
    scores = board.of(board.names[0], metric)
    least = sorted(scores, key=lambda query: (scores[query], query))[:most]
    return [_worst(board, run, query, scores[query]) for query in least]


def _worst(board: Board, run: Run, query: str, score: float) -> Worst:
    asked, grades = board.split.queries[query], board.split.grades.get(query, {})
    ranked = run.rankings.get(query)
    items = list(dict.fromkeys(ranked.item_ids)) if ranked else []
    first = next((rank for rank, item in enumerate(items, 1) if grades.get(item, 0) > 0), 0)
    return Worst(query, asked.text[:LONGEST_TEXT], asked.kind, score, first)


def by_group(board: Board, metric: str, by: str) -> list[tuple[str, int, Score]]:
    """The first run's mean for the queries of each kind, or of each tag, and how many these are."""
    scores = set(board.queries(metric))
    counts = {group: len(scores.intersection(ids)) for group, ids in board.groups[by].items()}
    found = board.by(metric, by)
    return [(group, counts[group], cells[board.names[0]]) for group, cells in found.items() if cells]


async def scores(store: Store, identity: str, metrics: Sequence[str], by: str) -> list[Block]:
    """The run's scores, whole and by group, and where it does worst; by the first metric."""
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
    found = worst_rows(worst(board, metric))
    yield Table.of(f"The queries it does worst on, by {metric}", columns, found, (metric, "first relevant at"))


def worst_rows(found: Sequence[Worst]) -> list[tuple[object, ...]]:
    return [
        (each.query, each.text, each.kind, f"{each.score:.3f}", each.first_relevant or "not found") for each in found
    ]


# -- how it was made ---------------------------------------------------------------------------------------------------


def made(summary: RunSummary, run: Run) -> list[Block]:
    """Everything that it takes to repeat it."""
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
        blocks.append(Code(title="The same again", language="bash", text=_again(run)))
    return blocks


def _told(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), str(value)) for name, value in facts.items() if value not in (None, "")]


def surroundings(run: Run) -> dict[str, Any]:
    """What it was made with; of the indexes only how large they are together."""
    sizes: Mapping[str, int] = run.environment.get("indexes", {})
    whole = {"indexes": f"{sum(sizes.values()) / 1e6:,.1f} MB in {len(sizes)}"} if sizes else {}
    told = {name: value for name, value in run.environment.items() if name != "own indexes"}
    return {**told, **whole}


def stages(run: Run) -> list[tuple[object, ...]]:
    """By stage: milliseconds at the median and the 95th percentile, of how many queries, each asked alone."""
    times = {"whole search": run.latency} if run.latency else {}
    return [
        (stage, f"{each.p50:.1f}", f"{each.p95:.1f}", each.queries)
        for stage, each in (times | run.stage_latencies).items()
    ]


def _again(run: Run) -> str:
    import shlex

    of = run.subject
    queries = [] if of.query_set == "default" else ["--queries", of.query_set]
    deep = ["--deep"] if run.depth else []
    command = ["rankbook", "eval", of.collection, "variant.toml", "--split", of.split, *queries, *deep, "--again"]
    return f"# with the variant above in variant.toml\n{shlex.join(command)}"


# -- two of them -------------------------------------------------------------------------------------------------------


async def paired(store: Store, one: str, other: str, *metrics: str) -> RunPair:
    """Runs of one name are told apart by the beginning of their ids."""
    return await pair(store, (one[:SHOWN], other[:SHOWN]), Where(), EvalOptions(metrics))


async def against(store: Store, one: str, other: str, metric: str, by: str) -> list[Block]:
    """Whether the first is better, by how much, on which queries, and in what they differ."""
    found = await paired(store, one, other, metric)
    return await asyncio.to_thread(lambda: [*_compared(found, by), *differing(*found.runs)])


def _compared(found: RunPair, by: str) -> Iterator[Block]:
    board = found.board
    if board is None:
        return
    metric = board.metrics[0]
    shown = comparison(board, compared(board, metric, by), metric)
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


def differing(one: Run, other: Run) -> Iterator[Block]:
    found = differences(one, other)
    names = (f"{one.name} {one.id[:SHOWN]}", f"{other.name} {other.id[:SHOWN]}")
    if found.rows:
        yield Table.of("What differs", ("", *names), [(row.where, row.one, row.other) for row in found.rows])
    yield Text(text=f"{len(found.changed)} of {found.queries} queries have other first results, or in another order.")


async def alike(store: Store, one: str, other: str) -> list[Block]:
    """How alike they are, which needs no labels and no common data."""
    found = await pair(store, (one[:SHOWN], other[:SHOWN]), Where(), None)
    mine, theirs = found.runs
    measures = found.overlap()
    blocks: list[Block] = []
    if differs := unlike(mine.subject, theirs.subject):
        blocks.append(Text(text=f"They are not over the same data: {differs}.", tone="note"))
    rows = [(name, f"{sum(of.values()) / len(of):.3f}" if of else "-") for name, of in measures.items()]
    blocks.append(Table.of("How alike their rankings are", ("", "mean"), rows, ("mean",)))
    blocks.append(Text(text="1 is the same ranking, 0 nothing in common. Which is better, only labels tell."))
    return [*blocks, *differing(mine, theirs)]


# -- out ---------------------------------------------------------------------------------------------------------------


async def page_of(store: Store, one: str, metrics: Sequence[str], other: str | None = None) -> str:
    """A report in one HTML file that opens offline: of a run, or of a run against another."""
    if other is None:
        board = await board_of(store, one, metrics)
    else:
        board = _scored(await paired(store, one, other, *metrics))
    ground, _ = await _ground(store, board.runs[0])
    texts = await documents(store, ground.view, board)
    title = f"{board.runs[0].subject.collection}: {', '.join(board.names)}"
    return await asyncio.to_thread(lambda: render_html(report([Part(board, documents=texts)], title=title)))


def _scored(found: RunPair) -> Board:
    if found.board is None:
        raise SpecError("These two were not scored.")
    return found.board
