"""Charts of scores, latencies and comparisons, as Plotly figures whose colours are names of `palette`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from os.path import commonprefix
from typing import Any

from evals.evaluation.board import Score
from evals.presentation import palette
from evals.presentation.comparison import ComparedQuery, Comparison
from evals.presentation.leaderboard import Leaderboard, MetricInfo, QueryGroup
from evals.presentation.text import line, number
from evals.presentation.types import Chart
from evals.statistics.verdicts import Verdict

Figure = dict[str, Any]
LONGEST = 26  # characters of a name on an axis
LISTED = 6  # entries of a list that a chart's description begins with
SCORE_ROW, COMPARISON_ROW = 25, 28  # pixels of a run
MOST_NAMED = 8  # points of a chart; of more, only those of the front
NEAR_ACROSS, NEAR_DOWN = 0.15, 0.2  # of the chart: nearer than that, two names lie on each other
WIDE_LATENCIES = 15  # times; beyond it the axis is logarithmic


def safe(text: str, most: int = LONGEST) -> str:
    """The text without what Plotly takes for markup."""
    short = line(text, max(most, 2))
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short_names(names: Sequence[str], most: int = LONGEST) -> list[str]:
    """Names that fit. Variants of a grid begin alike, so what too long ones have in common is what goes first."""
    long = [name for name in names if len(name) > most]
    alike = commonprefix(long) if len(long) > 1 else ""  # noqa: RUF071 - these are no paths
    alike = alike[: alike.rfind(" ") + 1]  # at a word's end
    telling = alike and all(len(name) > len(alike) + 2 for name in long)  # what is left must say something
    short = [f"…{name.removeprefix(alike)}" if telling and name in long else name for name in names]
    head = most // 3  # what is still too long loses its middle, as names differ at their ends
    return [
        name if len(name) <= most else f"{name[:head].rstrip()}…{name[head + 1 - most :].lstrip()}" for name in short
    ]


def axis_of(**options: Any) -> Figure:
    return {"gridcolor": "<line>", "linecolor": "<line>", "zerolinecolor": "<line>", "automargin": True, **options}


def layout_of(height: int, **options: Any) -> Figure:
    return {
        "height": height,
        "margin": {"l": 8, "r": 16, "t": 8, "b": 40},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "<text>", "size": 12, "family": "system-ui, sans-serif"},
        "hoverlabel": {"bgcolor": "<card>", "bordercolor": "<line>", "font": {"color": "<text>"}, "align": "left"},
        "showlegend": False,
        "hovermode": "closest",
        **options,
    }


def names_axis(names: Sequence[str], **options: Any) -> Figure:
    """Names from above to below, each at its number, so that equal beginnings stay apart."""
    return axis_of(
        tickvals=list(range(len(names))),
        ticktext=[safe(short) for short in short_names(names)],
        range=[len(names) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        **options,
    )


def _marker(style: int, **options: Any) -> Figure:
    return {"color": f"<{palette.colour(style)}>", "symbol": palette.shape(style), "size": 10, **options}


def restyled(figure: Figure, styles: Mapping[str, int]) -> Figure:
    """The figure with the marks that variants have on this page; it was drawn with those of one table."""
    known = {digest_of(name): style for name, style in styles.items()}
    traces = []
    for trace in figure.get("data", ()):
        meta = trace.get("meta")
        style = known.get(meta.get("variant", "")) if isinstance(meta, dict) else None
        if style is not None:
            look = {"color": f"<{palette.colour(style)}>", "symbol": palette.shape(style)}
            bars = {"error_x": {**trace["error_x"], "color": look["color"]}} if "error_x" in trace else {}
            traces.append({**trace, "marker": {**trace["marker"], **look}, **bars})
        else:
            traces.append(trace)
    return {**figure, "data": traces}


def digest_of(name: str) -> str:
    """A digest of a variant's name, for traces: no text of a stranger's may stand in them."""
    return blake2b(name.encode(errors="replace"), digest_size=8).hexdigest()


def _error_bars(low: float | None, mean: float, high: float | None, style: int) -> Figure:
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if low is None or high is None else high - mean],
        "arrayminus": [0.0 if low is None or high is None else mean - low],
        "color": f"<{palette.colour(style)}>",
        "thickness": 2,
        "width": 4,
    }


def vertical(at: float, dash: str) -> Figure:
    style = {"color": "<muted>", "width": 1, "dash": dash}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": style, "layer": "below"}


def _listed(sentences: Sequence[str]) -> str:
    more = f"; and {len(sentences) - LISTED} more" if len(sentences) > LISTED else ""
    return f"{'; '.join(sentences[:LISTED])}{more}."


# -- scores ------------------------------------------------------------------------------------------------------------


def intervals(board: Leaderboard, metric: MetricInfo, title: str = "") -> Chart:
    """Each run's mean with its interval, and a line at the baseline."""
    scores = {each.name: each.scores[metric.name] for each in board.rows if metric.name in each.scores}
    styles = {each.name: each.style for each in board.rows}
    return interval_chart(metric.name, scores, styles, board.baseline, title)


def interval_chart(
    metric: str, scores: Mapping[str, Score], styles: Mapping[str, int], baseline: str, title: str = ""
) -> Chart:
    traces, described = [], []
    for at, (name, score) in enumerate(scores.items()):
        words = f"{score.text} ({score.interval or 'no interval'})"
        described.append(f"{name} {words}")
        traces.append({
            "type": "scatter",
            "mode": "markers",
            "meta": {"variant": digest_of(name)},
            "x": [score.mean],
            "y": [at],
            "marker": _marker(styles[name]),
            "error_x": _error_bars(score.low, score.mean, score.high, styles[name]),
            "hoverinfo": "text",
            "hovertext": [f"{safe(name, 80)}<br>{words}"],
        })  # fmt: skip
    layout = layout_of(
        70 + SCORE_ROW * len(scores),
        xaxis=axis_of(title={"text": safe(metric)}, nticks=6),
        yaxis=names_axis(list(scores)),
        shapes=[vertical(scores[baseline].mean, "dash")] if baseline in scores else [],
    )
    description = f"{metric} with intervals: {_listed(described)}"
    return Chart(title=title, description=description, figure={"data": traces, "layout": layout})


def latency(board: Leaderboard, metric: MetricInfo) -> Chart | None:
    """Quality against the median time of a query run alone; a line joins the Pareto front, whose runs are named."""
    points = [
        (each, each.latency.p50, each.scores[metric.name].mean)
        for each in board.rows
        if each.latency is not None and metric.name in each.scores
    ]
    if not points:
        return None
    axis = _latency_axis([time for _, time, _ in points])
    least, most = axis["range"]
    across = {  # how far along the axis each point is, from 0 to 1
        each.name: ((math.log10(time or 1.0) if axis.get("type") == "log" else time) - least) / (most - least)
        for each, time, _ in points
    }
    front = [point for name in metric.front for point in points if point[0].name == name]
    on_front = {each.name for each, _, _ in front}
    # A name is written where it has room, the best first; the others appear under the pointer.
    heights = [mean for _, _, mean in points]
    room = NEAR_DOWN * (max(heights) - min(heights) or 1.0)
    named: list[tuple[str, float]] = []
    candidates = points if len(points) <= MOST_NAMED else front or points
    for each, _, mean in sorted(candidates, key=lambda point: (-point[2], point[0].name)):
        if all(
            abs(across[name] - across[each.name]) >= NEAR_ACROSS or abs(height - mean) >= room for name, height in named
        ):
            named.append((each.name, mean))
    short = short_names([each.name for each, _, _ in points])
    line_of_front: Figure = {
        "type": "scatter",
        "mode": "lines",
        "x": [time for _, time, _ in front],
        "y": [mean for _, _, mean in front],
        "line": {"color": "<muted>", "width": 1.5, "dash": "dot", "shape": "hv"},
        "hoverinfo": "skip",
    }
    traces = [line_of_front]
    for (each, time, mean), name in zip(points, short, strict=True):
        score, best = each.scores[metric.name], each.name in on_front
        has_room = any(each.name == other for other, _ in named)
        quality = f"{score.text} ({score.interval or 'no interval'})"
        side = "left" if has_room and across[each.name] > 0.6 else "right"
        cost = f"p50 {time:.1f} ms, p95 {number(each.latency.p95 if each.latency else None, '.1f')} ms"
        bars = _error_bars(score.low, mean, score.high, each.style)
        traces.append({
            "type": "scatter",
            "mode": "markers+text" if has_room else "markers",
            "meta": "front" if best else "aside",
            "x": [time],
            "y": [mean],
            "text": [safe(name)],
            "textposition": f"{'top' if best else 'bottom'} {side}",
            "textfont": {"color": "<text>" if best else "<muted>", "size": 11},
            "cliponaxis": False,
            "marker": _marker(each.style, size=12 if best else 9),
            "error_y": {**bars, "thickness": 1, "width": 0},
            "hoverinfo": "text",
            "hovertext": [f"{safe(each.name, 80)}<br>{quality}<br>{cost}"],
        })  # fmt: skip
    layout = layout_of(
        400,
        margin={"l": 8, "r": 24, "t": 24, "b": 40},
        xaxis=axis_of(title={"text": "Median ms a query"}, **axis),
        yaxis=axis_of(title={"text": safe(metric.name)}, nticks=7),
    )
    names = ", ".join(each.name for each, _, _ in front) or "none"
    description = f"{metric.name} against latency. Front: {names}."
    return Chart(description=description, figure={"data": traces, "layout": layout})


def _latency_axis(times: Sequence[float]) -> Figure:
    """With room for a name to the right. Logarithmic, in steps of 1, 2 and 5, where times lie far apart."""
    least, most = min(times), max(times)
    if least <= 0 or most / least <= WIDE_LATENCIES:
        return {"range": [0, most * 1.1 or 1.0], "nticks": 7}
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    ticks = [round(step * 10.0**decade, 9) for decade in decades for step in (1, 2, 5)]
    room = [math.log10(least) - 0.12, math.log10(most) + 0.05]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks], "range": room}


def groups(board: Leaderboard, metric: MetricInfo, title: str = "") -> Chart | None:
    """Runs by kinds and tags, each cell a mean."""
    columns = [group for group in board.groups if metric.name in group.means]
    if not columns:
        return None
    values = [[group.means[metric.name][each.name] for group in columns] for each in board.rows]
    trace = {
        "type": "heatmap",
        "x": list(range(len(columns))),
        "y": list(range(len(board.rows))),
        "z": values,
        "text": [[f"{value:.2f}" for value in row] for row in values],
        "texttemplate": "%{text}",
        "textfont": {"color": "<text>"},
        "hoverinfo": "text",
        "hovertext": [
            [f"{safe(each.name, 80)}<br>{_group_name(group, 80)}: {value:.3f}, {group.queries} queries"
             for group, value in zip(columns, row, strict=True)]
            for each, row in zip(board.rows, values, strict=True)
        ],
        "colorscale": [[0, "<cool>"], [1, "<warm>"]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }  # fmt: skip
    layout = layout_of(
        120 + COMPARISON_ROW * len(board.rows),
        margin={"l": 8, "r": 16, "t": 8, "b": 8},
        xaxis=axis_of(
            tickvals=list(range(len(columns))),
            ticktext=[
                f"{_group_name(group, 18)}<br>{group.queries}{' (few)' if group.few else ''}" for group in columns
            ],
            side="top",
            showgrid=False,
            tickangle=-40 if len(columns) > 12 else 0,
        ),
        yaxis=names_axis([each.name for each in board.rows]),
    )
    description = f"{metric.name} by kind of query and tag. The numbers are in the cells; {len(columns)} groups."
    width = 230 + 84 * len(columns)
    return Chart(title=title, description=description, figure={"data": [trace], "layout": layout}, width=width)


def _group_name(group: QueryGroup, most: int) -> str:
    name = safe(group.name, most) or "(no kind)"
    return name if group.by == "kind" else f"#{name}"


# -- against the baseline ----------------------------------------------------------------------------------------------


def outcomes(board: Leaderboard, metric: MetricInfo) -> Chart | None:
    """Queries won, equal and lost against the baseline."""
    judged = board.findings(metric.name)
    if not judged:
        return None
    traces = []
    for field, word, colour in (("wins", "won", "win"), ("ties", "equal", "even"), ("losses", "lost", "loss")):
        counts = [getattr(finding.difference, field) for _, finding in judged]
        traces.append({
            "type": "bar",
            "orientation": "h",
            "name": word,
            "x": counts,
            "y": list(range(len(judged))),
            "text": [str(count or "") for count in counts],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "constraintext": "none",
            "textfont": {"color": "<text>" if word == "equal" else "<paper>"},
            "marker": {"color": f"<{colour}>", "line": {"color": "<card>", "width": 1}},
            "hoverinfo": "text",
            "hovertext": [
                f"{safe(each.name, 80)}<br>{count} {word}" for (each, _), count in zip(judged, counts, strict=True)
            ],
        })  # fmt: skip
    layout = layout_of(
        112 + COMPARISON_ROW * len(judged),
        barmode="stack",
        bargap=0.25,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        xaxis=axis_of(title={"text": f"Queries, against {safe(board.baseline)}"}, showgrid=False),
        yaxis=names_axis([each.name for each, _ in judged]),
    )
    counts = [f"{each.name} won {f.difference.wins}, lost {f.difference.losses}" for each, f in judged]
    description = f"Queries won and lost against {board.baseline} by {metric.name}: {_listed(counts)}"
    return Chart(description=description, figure={"data": traces, "layout": layout})


def differences(board: Leaderboard, metric: MetricInfo) -> Chart | None:
    """Each run minus the baseline, with the band within which differences do not matter."""
    judged = [(each, f) for each, f in board.findings(metric.name) if f.difference.mean is not None]
    if not judged:
        return None
    traces = []
    for at, (each, finding) in enumerate(judged):
        known, mean = finding.difference, finding.difference.mean or 0.0
        interval = "no interval" if known.low is None or known.high is None else f"{known.low:.3f} to {known.high:.3f}"
        hollow = finding.verdict in (Verdict.TOO_FEW, Verdict.TIED)
        traces.append({
            "type": "scatter",
            "mode": "markers",
            "x": [mean],
            "y": [at],
            "marker": _marker(each.style, symbol=f"{palette.shape(each.style)}{'-open' if hollow else ''}"),
            "error_x": _error_bars(known.low, mean, known.high, each.style),
            "hoverinfo": "text",
            "hovertext": [f"{safe(each.name, 80)}<br>{mean:+.3f} ({interval}), {finding.verdict}"],
        })  # fmt: skip
    band = {"type": "rect", "x0": -board.tie, "x1": board.tie, "yref": "paper", "y0": 0, "y1": 1}
    layout = layout_of(
        112 + COMPARISON_ROW * len(judged),
        xaxis=axis_of(title={"text": f"{safe(metric.name)} minus {safe(board.baseline)}"}, nticks=6),
        yaxis=names_axis([each.name for each, _ in judged]),
        shapes=[
            {**band, "fillcolor": "<quiet>", "line": {"width": 0}, "layer": "below"},
            vertical(0.0, "solid"),
        ],
    )
    description = f"Differences from {board.baseline} in {metric.name}, with intervals. Filled marks are significant."
    return Chart(description=description, figure={"data": traces, "layout": layout})


# -- two runs ----------------------------------------------------------------------------------------------------------


def query_differences(comparison: Comparison) -> Chart:
    """Every query's difference, from the greatest gain to the greatest loss."""
    values = [each.difference for each in comparison.queries]
    trace = {
        "type": "bar",
        "x": list(range(1, len(values) + 1)),
        "y": values,
        "marker": {"color": ["<win>" if value > 0 else "<loss>" if value < 0 else "<even>" for value in values]},
        "hoverinfo": "text",
        "hovertext": [f"{_query_name(each)}<br>{each.difference:+.3f}" for each in comparison.queries],
    }
    layout = layout_of(
        280,
        bargap=0.1,
        xaxis=axis_of(title={"text": "Queries, by falling difference"}, showgrid=False),
        yaxis=axis_of(title={"text": f"{safe(comparison.metric)}, difference"}),
    )
    known = comparison.finding.difference
    description = (
        f"Difference in {comparison.metric} of every query: {comparison.system} won {known.wins}, lost {known.losses} "
        f"against {comparison.baseline}, {known.ties} equal."
    )
    return Chart(title="Query by query", description=description, figure={"data": [trace], "layout": layout})


def query_scores(comparison: Comparison) -> Chart:
    """Every query at its two scores; above the line the system is better."""
    metric, one, other = comparison.metric, comparison.system, comparison.baseline
    trace = {
        "type": "scatter",
        "mode": "markers",
        "x": [each.other for each in comparison.queries],
        "y": [each.one for each in comparison.queries],
        "marker": {"color": "<c0>", "size": 8, "opacity": 0.5},
        "hoverinfo": "text",
        "hovertext": [f"{_query_name(each)}<br>{each.one:.3f} and {each.other:.3f}" for each in comparison.queries],
    }
    end = max([1.0, *(max(each.one, each.other) for each in comparison.queries)])
    diagonal = {"type": "line", "x0": 0, "y0": 0, "x1": end, "y1": end, "line": {"color": "<muted>", "dash": "dot"}}
    layout = layout_of(
        360,
        xaxis=axis_of(title={"text": safe(other)}),
        yaxis=axis_of(title={"text": safe(one)}),
        shapes=[diagonal],
    )
    description = f"{metric} of each query: {one} upwards, {other} to the right; above the line it is better."
    title = f"{metric} of each query under both"
    return Chart(title=title, description=description, figure={"data": [trace], "layout": layout})


def _query_name(each: ComparedQuery) -> str:
    return f"{safe(each.id, 40)}: {safe(each.text, 80)}"
