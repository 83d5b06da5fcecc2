"""Kept runs: which of them filters leave, and the tables, charts and pages of one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, Final

from core.errors import SpecError
from core.store.engine import Store
from evals.evaluation.board import METRICS, Board, ScoreCell, board_table
from evals.evaluation.compare_runs import RunPair, Where, compared, differences, flat, pair
from evals.evaluation.context import EvalContext, EvalOptions, open_eval
from evals.evaluation.evaluate import score_runs
from evals.lab.results import Compared
from evals.reports import Part, documents, render_html, report
from evals.runs import run_store
from evals.runs.run_store import SHOWN, RunSummary
from evals.runs.types import Run, RunSubject, looks_beyond, unlike
from evals.statistics.verdicts import Finding
from evals.types import QuerySplit
from workbench.notebooks.cells import compare_charts
from workbench.notebooks.output import Block, Code, Said, Table
from workbench.services.url_state import UrlState, page_number
from workbench.services.variants import in_words

VIEWS: Final = ("scores", "made", "compare")
BY: Final = ("kind", "tag")
PAGE: Final = 10  # rows: what is open stands below them
FOREIGN: Final = "another engine's"


@dataclass(frozen=True)
class RunsState(UrlState):
    """A view of the page, all of it text. `run` and `beside` are ids, names or pins, as on the command line.

    `new` opens a way to make a run, `variants` are those to evaluate, one a line.
    """

    run: str = ""
    beside: str = ""
    view: str = ""
    metric: str = ""
    by: str = ""
    collection: str = ""
    split: str = ""
    find: str = ""
    page: str = ""
    new: str = ""
    variants: str = ""

    @property
    def shown(self) -> str:
        """What holds where the address does not say: a link with another run beside is to their comparison."""
        return self.view if self.view in VIEWS else "compare" if self.beside else VIEWS[0]

    @property
    def grouped(self) -> str:
        return self.by if self.by in BY else BY[0]

    @property
    def number(self) -> int:
        """The page, counted from 1."""
        return page_number(self.page)


def pipeline(run: RunSummary) -> str:
    return in_words(run.variant) if run.variant else FOREIGN


def metrics_of(runs: Iterable[RunSummary]) -> list[str]:
    """Those that runs have scores of, the usual ones first. Beside them stand others under names with a blank."""
    there = dict.fromkeys(name for run in runs for name in run.scores if " " not in name)
    return sorted(there, key=lambda name: (METRICS.index(name) if name in METRICS else len(METRICS), name))


def found(runs: Sequence[RunSummary], words: str) -> list[RunSummary]:
    """Those in one of whose names, pin, collection, split, id or pipeline each of the words stands."""
    wanted = words.lower().split()
    return [run for run in runs if all(word in _text(run) for word in wanted)]


def _text(run: RunSummary) -> str:
    of = run.subject
    return "\n".join((run.name, *run.names, *run.pins, of.collection, of.split, run.id, pipeline(run))).lower()


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


def by_group(board: Board, metric: str, by: str) -> list[tuple[str, int, ScoreCell]]:
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
    yield Table.of(board_table(board))
    rows = [
        (group or "(none)", count, f"{cell.mean:.3f}", interval(cell))
        for group, count, cell in by_group(board, metric, by)
    ]
    if len(rows) > 1:
        yield Table.made(
            f"{metric} by {by} of query", (by, "queries", metric, "interval"), rows, ("queries", metric, "interval")
        )
    columns = ("query", "text", "kind", metric, "first relevant at")
    found = worst_rows(worst(board, metric))
    yield Table.made(f"The queries it does worst on, by {metric}", columns, found, (metric, "first relevant at"))


def worst_rows(found: Sequence[Worst]) -> list[tuple[object, ...]]:
    return [
        (each.query, each.text, each.kind, f"{each.score:.3f}", each.first_relevant or "not found") for each in found
    ]


def interval(cell: ScoreCell) -> str:
    return "" if cell.low is None or cell.high is None else f"{cell.low:.3f} to {cell.high:.3f}"


# -- how it was made ---------------------------------------------------------------------------------------------------


def means(run: RunSummary) -> dict[str, float]:
    """Beside them stand intervals and the scores by query, under names with a blank."""
    return {name: value for name, value in run.scores.items() if " " not in name and isinstance(value, int | float)}


def badge(run: RunSummary, metric: str) -> str:
    """What is said beside a score in a list: that it is not one of what ships."""
    return "deep" if run.depth else "beyond" if looks_beyond(run.variant, metric) else ""


def subject(of: RunSubject) -> dict[str, Any]:
    return {
        "collection": of.collection,
        "version": of.version,
        "content": of.content,
        "query_set": of.query_set,
        "queries_and_labels": of.digest.hex(),
        "split": of.split,
    }


def made(summary: RunSummary, run: Run) -> list[Block]:
    """Everything that it takes to repeat it."""
    facts = {
        "id": run.id,
        "made": f"{summary.made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
        **subject(run.subject),
        "asked for": f"{run.depth} results, deep" if run.depth else "as the variant ships",
        "queries": f"{summary.queries:,}",
        "failed": f"{summary.failed:,}",
        "pinned as": ", ".join(summary.pins),
        "evaluated also as": summary.other_names,
    }
    blocks: list[Block] = [Table.made("What it was made over", ("what", "value"), _told(facts))]
    blocks += [Table.made("Made with", ("what", "value"), _told(dict(flat(surroundings(run)))))]
    if times := stages(run):
        numbers = ("p50", "p95", "queries")
        blocks.append(Table.made("Milliseconds a query", ("stage", *numbers), times, numbers))
    if run.failures:
        failed = list(run.failures.items())[:WORST]
        blocks.append(Table.made("Queries that failed", ("query", "why"), failed))
    blocks += [Said(text=note, tone="note") for note in run.notes]
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
    told = compared(board, metric, by)
    yield Said(text=f"{metric}: {told.finding.sentence}", tone="headline")
    yield Said(text=f"{told.system} won {told.wins} queries, lost {told.losses}, and {told.ties} were equal.")
    yield Table.of(board_table(board))
    yield compare_charts.differences(board, told, metric)
    yield compare_charts.scatter(board, told, metric)
    yield from map(Table.of, Compared(board, told, metric).tables()[1:2])
    groups = [
        (each.group or "(none)", each.finding.difference.queries, str(each.finding.verdict), _signed(each.finding))
        for each in told.groups
    ]
    if groups:
        columns = (by, "queries", f"{told.system} is", "difference")
        yield Table.made(f"By {by} of query", columns, groups, ("queries", "difference"))
    yield from (Said(text=warned.message, tone="note") for warned in board.warnings)


def _signed(finding: Finding) -> str:
    mean = finding.difference.mean
    return "" if mean is None else f"{mean:+.3f}"


def differing(one: Run, other: Run) -> Iterator[Block]:
    found = differences(one, other)
    names = (f"{one.name} {one.id[:SHOWN]}", f"{other.name} {other.id[:SHOWN]}")
    if found.rows:
        yield Table.made("What differs", ("", *names), [(row.where, row.one, row.other) for row in found.rows])
    yield Said(text=f"{len(found.changed)} of {found.queries} queries have other first results, or in another order.")


async def alike(store: Store, one: str, other: str) -> list[Block]:
    """How alike they are, which needs no labels and no common data."""
    found = await pair(store, (one[:SHOWN], other[:SHOWN]), Where(), None)
    mine, theirs = found.runs
    measures = found.overlap()
    blocks: list[Block] = []
    if differs := unlike(mine.subject, theirs.subject):
        blocks.append(Said(text=f"They are not over the same data: {differs}.", tone="note"))
    rows = [(name, f"{sum(of.values()) / len(of):.3f}" if of else "-") for name, of in measures.items()]
    blocks.append(Table.made("How alike their rankings are", ("", "mean"), rows, ("mean",)))
    blocks.append(Said(text="1 is the same ranking, 0 nothing in common. Which is better, only labels tell."))
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
