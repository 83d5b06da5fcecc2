"""The charts of a compare cell: every query's difference, and every query at its two scores."""

from __future__ import annotations

from evals.evaluation.board import Board
from evals.reports.charts import axis_of, layout_of, safe
from evals.statistics.comparison import PairComparison
from workbench.notebooks.output import Figure

LEFT, RIGHT = 40, 80  # characters of an id and of a text


def differences(board: Board, made: PairComparison, metric: str) -> Figure:
    """Every query's difference, from the greatest gain to the greatest loss."""
    values = [each.difference for each in made.queries]
    colours = ["<win>" if value > 0 else "<loss>" if value < 0 else "<even>" for value in values]
    trace = {
        "type": "bar",
        "x": list(range(1, len(values) + 1)),
        "y": values,
        "marker": {"color": colours},
        "hoverinfo": "text",
        "hovertext": [f"{_asked(board, each.query)}<br>{each.difference:+.3f}" for each in made.queries],
    }
    layout = layout_of(
        280,
        bargap=0.1,
        xaxis=axis_of(title={"text": "Queries, by falling difference"}, showgrid=False),
        yaxis=axis_of(title={"text": f"{safe(metric)}, difference"}),
    )
    says = (
        f"Difference in {metric} of every query: {made.system} won {made.wins}, lost {made.losses} against "
        f"{made.baseline}, {made.ties} equal."
    )
    return Figure(title="Query by query", says=says, figure={"data": [trace], "layout": layout})


def scatter(board: Board, made: PairComparison, metric: str) -> Figure:
    """Every query at its two scores; above the line the first is better."""
    one, other = board.of(made.system, metric), board.of(made.baseline, metric)
    queries = [each.query for each in made.queries]
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [other[query] for query in queries],
        "y": [one[query] for query in queries],
        "marker": {"color": "<c0>", "size": 8, "opacity": 0.5},
        "hoverinfo": "text",
        "hovertext": [f"{_asked(board, query)}<br>{one[query]:.3f} and {other[query]:.3f}" for query in queries],
    }
    ends = [0.0, max([1.0, *one.values(), *other.values()])]
    line = {"type": "line", "x0": 0, "y0": 0, "x1": ends[1], "y1": ends[1], "line": {"color": "<muted>", "dash": "dot"}}
    layout = layout_of(
        360,
        xaxis=axis_of(title={"text": safe(made.baseline)}),
        yaxis=axis_of(title={"text": safe(made.system)}),
        shapes=[line],
    )
    says = f"{metric} of each query: {made.system} upwards, {made.baseline} to the right; above the line it is better."
    return Figure(title=f"{metric} of each query under both", says=says, figure={"data": [trace], "layout": layout})


def _asked(board: Board, query: str) -> str:
    return f"{safe(query, LEFT)}: {safe(board.split.queries[query].text, RIGHT)}"
