"""`rankbook compare`: two runs held together, scored where they are over the same, else only how alike they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from core import bridge
from workbench.commands import output, runtime

if TYPE_CHECKING:
    from evals.evaluation.board import Board
    from evals.evaluation.compare_runs import RunPair
    from evals.presentation.comparison import Comparison

TOP = 10


def compare(  # noqa: PLR0913, PLR0917 - a flag each
    one: Annotated[str, typer.Argument(metavar="A", help="A kept run (its name, pin, or id), or a file of one.")],
    other: Annotated[str, typer.Argument(metavar="B", help="The run to compare A with.")],
    metric: runtime.Metrics = None,
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", help="Over which collection; needed for files.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Over which split; for files by default test.")] = None,
    queries: runtime.Queries = "default",
    overlap: Annotated[
        bool, typer.Option("--overlap", help="How alike they are (RBO, Jaccard), which needs no labels.")
    ] = False,
    by: Annotated[str, typer.Option(help="Break the difference down by: kind, or tag.")] = "kind",
    seed: runtime.Seed = 0,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Say whether A is better than B, by how much and on which queries. Only runs over the same data are scored.

    \b
    rankbook compare hybrid-retriever bm25 --collection handbook
    rankbook compare main 3f9a1c2b --metric mrr@10 --metric recall@10
    rankbook compare lucene.trec ours.trec --collection handbook --split test
    rankbook compare before after --overlap
    """
    from evals.evaluation.compare_runs import RunScope, compare_runs, compared
    from evals.presentation.comparison import comparison
    from evals.runs.plan import EvalOptions
    from evals.statistics.verdicts import Rules

    options = None if overlap else EvalOptions(tuple(metric or ["ndcg@10"]), rules=Rules(seed=seed))
    with output.waiting(f"Opening {one} and {other} ...", quiet=as_json):
        both = bridge.run(
            compare_runs(runtime.open_store(), (one, other), RunScope(collection, queries, split), options)
        )
    if as_json:
        runs = [{"name": run.name, "id": run.id} for run in both.runs]
        if both.board is None:
            measures = both.overlap()
            means = {name: _mean(values) for name, values in measures.items()}
            output.document({"runs": runs, "overlap": means, "by query": measures})
        else:
            board = both.board
            shown = {metric: comparison(board, compared(board, metric, by), metric) for metric in board.metrics}
            output.document({"runs": runs, "metrics": {metric: each.document() for metric, each in shown.items()}})
        return
    output.show_foreign(both.foreign)
    if both.board is None:
        for note in (note for each in both.foreign for note in each.run.notes):
            output.notice(f"Note: {note}")
        _show_overlap(both)
        return
    for name in both.board.metrics:
        _show_comparison(both.board, comparison(both.board, compared(both.board, name, by), name), by)
    for warning in both.board.warnings:
        output.notice(f"Note: {warning.message}")


def _show_comparison(board: Board, shown: Comparison, by: str) -> None:
    other, one = board.names  # B is the baseline, and stands first
    output.notice(shown.headline)
    known, scores = shown.finding.difference, board.cells(shown.metric)
    rows = [(name, f"{scores[name].text} {scores[name].brackets}".strip()) for name in (one, other) if name in scores]
    rows += [("won, equal, lost", f"{known.wins}, {known.ties}, {known.losses}")]
    output.table(f"{one} against {other}", ("", shown.metric), rows)
    groups = [
        (each.group or "(none)", each.finding.difference.queries, output.verdict(each.finding)) for each in shown.groups
    ]
    if groups:
        output.table(f"By {by} of query", (by, "queries", f"{one} is"), groups, right=("queries",))
    if shown.deciding:
        deciding = [[cell.text for cell in row] for row in shown.deciding_table().rows]
        output.table("The queries that decide", ("id", "query", one, other, "difference"), deciding)


def _show_overlap(both: RunPair) -> None:
    from evals.runs.types import unlike

    one, other = both.runs
    if differences := unlike(one.subject, other.subject):
        output.notice(f"They are not over the same data: {differences}.")
    measures = both.overlap()
    rows = [
        (name, f"{_mean(values):.3f}", sum(value >= 1 - 1e-12 for value in values.values()))
        for name, values in measures.items()
    ]
    title = f"{one.name} and {other.name}, {len(measures['rbo'])} queries"
    output.table(title, ("", "mean", "queries that are equal"), rows)
    least_alike = sorted(measures["rbo"].items(), key=lambda pair: (pair[1], pair[0]))[:TOP]
    least_alike = [(key, value) for key, value in least_alike if value < 1]
    queries = both.split.queries
    apart = [(key, queries[key].text if key in queries else "", f"{value:.3f}") for key, value in least_alike]
    if apart:
        output.table("The queries that differ most", ("id", "query", "rbo"), apart, right=("rbo",))
    output.notice("1 is the same ranking, 0 nothing in common. Which of the two is better, only labels tell.")


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0
