"""`rankbook compare`: two runs held together, scored where they are over the same, else only how alike they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output, runtime

if TYPE_CHECKING:
    from evals.evaluation.board import Board
    from evals.evaluation.compare_runs import RunPair

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
    from core import bridge
    from evals.evaluation.compare_runs import Where, pair
    from evals.evaluation.context import EvalOptions
    from evals.statistics.verdicts import Rules
    from workbench.session import store

    wanted = None if overlap else EvalOptions(tuple(metric or ["ndcg@10"]), rules=Rules(seed=seed))
    with output.waiting(f"Opening {one} and {other} ...", quiet=as_json):
        found = bridge.run(pair(store(output.notice), (one, other), Where(collection, queries, split), wanted))
    if as_json:
        output.as_document(_plain_pair(found, by))
        return
    output.show_foreign(found.foreign)
    if found.board is None:
        for note in (note for each in found.foreign for note in each.run.notes):
            output.notice(f"Note: {note}")
        _show_overlap(found)
        return
    for name in found.board.metrics:
        _show_comparison(found.board, name, by)
    for warned in found.board.warnings:
        output.notice(f"Note: {warned.message}")


def _show_comparison(board: Board, metric: str, by: str) -> None:
    from evals.evaluation.compare_runs import compared
    from evals.presentation.comparison import comparison

    other, one = board.names  # B is the baseline, and stands first
    shown = comparison(board, compared(board, metric, by), metric)
    output.notice(shown.headline)
    known, scores = shown.finding.difference, board.cells(metric)
    rows = [(name, f"{scores[name].text} {scores[name].brackets}".strip()) for name in (one, other) if name in scores]
    rows += [("won, equal, lost", f"{known.wins}, {known.ties}, {known.losses}")]
    output.table(f"{one} against {other}", ("", metric), rows)
    groups = [
        (each.group or "(none)", each.finding.difference.queries, output.verdict(each.finding)) for each in shown.groups
    ]
    if groups:
        output.table(f"By {by} of query", (by, "queries", f"{one} is"), groups, right=("queries",))
    if shown.deciding:
        deciding = [[cell.text for cell in row] for row in shown.deciding_table().rows]
        output.table("The queries that decide", ("id", "query", one, other, "difference"), deciding)


def _show_overlap(found: RunPair) -> None:
    from evals.runs.types import unlike

    one, other = found.runs
    if differs := unlike(one.subject, other.subject):
        output.notice(f"They are not over the same data: {differs}.")
    measures = found.overlap()
    rows = [(name, f"{_mean(values):.3f}", _alike(values)) for name, values in measures.items()]
    output.table(
        f"{one.name} and {other.name}, {len(measures['rbo'])} queries", ("", "mean", "queries that are equal"), rows
    )
    apart = sorted(measures["rbo"].items(), key=lambda pair: (pair[1], pair[0]))[:TOP]
    texts = {query: found.split.queries[query].text if query in found.split.queries else "" for query, _ in apart}
    shown = [(query, texts[query], f"{value:.3f}") for query, value in apart if value < 1]
    if shown:
        output.table("The queries that differ most", ("id", "query", "rbo"), shown, right=("rbo",))
    output.notice("1 is the same ranking, 0 nothing in common. Which of the two is better, only labels tell.")


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0


def _alike(values: Mapping[str, float]) -> int:
    return sum(value >= 1 - 1e-12 for value in values.values())


def _plain_pair(found: RunPair, by: str) -> dict[str, Any]:
    from evals.evaluation.compare_runs import compared
    from evals.presentation.comparison import comparison

    one, other = found.runs
    told: dict[str, Any] = {"runs": [{"name": run.name, "id": run.id} for run in (one, other)]}
    if found.board is None:
        measures = found.overlap()
        means = {name: _mean(values) for name, values in measures.items()}
        return {**told, "overlap": means, "by query": measures}
    board = found.board
    shown = {metric: comparison(board, compared(board, metric, by), metric) for metric in board.metrics}
    return {**told, "metrics": {metric: each.document() for metric, each in shown.items()}}
