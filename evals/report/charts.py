"""Charts of scores: every metric with its interval, and quality against latency."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evals.report import palette
from evals.report.figures import (
    Chart,
    Figure,
    axis_of,
    bars_of,
    digest_of,
    first_of,
    layout_of,
    marker_of,
    names_axis,
    safe,
    short_names,
    vertical,
)
from evals.report.model import Column, Line, Section
from evals.report.texts import number, span

ROW = 25  # pixels of a run
MOST_NAMED = 8  # points of a chart; of more, only those of the front
NEAR_ACROSS, NEAR_DOWN = 0.15, 0.2  # of the chart: nearer than that, two names lie on each other
WIDE_LATENCIES = 15  # times; beyond it the axis is logarithmic


def intervals(section: Section, column: Column) -> Chart:
    """Each run's mean with its interval, and a line at the baseline."""
    lines = [each for each in section.lines if each.values[column.metric].mean is not None]
    traces, told = [], []
    for at, each in enumerate(lines):
        value = each.values[column.metric]
        mean = value.mean or 0.0
        words = f"{number(mean)} ({span(value.low, value.high) or 'no interval'})"
        told.append(f"{each.name} {words}")
        traces.append({
            "type": "scatter",
            "mode": "markers",
            "meta": {"variant": digest_of(each.name)},
            "x": [mean],
            "y": [at],
            "marker": marker_of(each),
            "error_x": bars_of(value.low, mean, value.high, palette.colour(each.style)),
            "hoverinfo": "text",
            "hovertext": [f"{safe(each.name, 80)}<br>{words}"],
        })  # fmt: skip
    base = next((each.values[column.metric].mean for each in lines if each.baseline), None)
    layout = layout_of(
        70 + ROW * len(lines),
        xaxis=axis_of(title={"text": safe(column.metric)}, nticks=6),
        yaxis=names_axis(lines),
        shapes=[vertical(base, "dash")] if base is not None else [],
    )
    return Chart({"data": traces, "layout": layout}, f"{column.metric} with intervals: {first_of(told)}", "")


def latency(section: Section, column: Column) -> Chart | None:
    """Quality against the median time of a query asked alone; the Pareto front is joined, and named."""
    timed = [each for each in section.lines if each.p50 is not None and each.values[column.metric].mean is not None]
    if not timed:
        return None
    front = [each for name in column.front for each in timed if each.name == name]
    traces = [_front(front, column.metric)]
    times = [each.p50 or 0.0 for each in timed]
    axis = _times_axis(times)
    heights = [each.values[column.metric].mean or 0.0 for each in timed]
    room = NEAR_DOWN * (max(heights) - min(heights) or 1.0)
    named = _named(timed if len(timed) <= MOST_NAMED else front or timed, column.metric, axis, room)
    shown = dict(zip((each.name for each in timed), short_names([each.name for each in timed]), strict=True))
    traces += [
        _timed(each, shown[each.name], column.metric, each in front, _side(axis, each) if each in named else "")
        for each in timed
    ]
    layout = layout_of(
        400,
        margin={"l": 8, "r": 24, "t": 24, "b": 40},
        xaxis=axis_of(title={"text": "Median ms a query"}, **axis),
        yaxis=axis_of(title={"text": safe(column.metric)}, nticks=7),
    )
    names = ", ".join(each.name for each in front) or "none"
    says = f"{column.metric} against latency. Front: {names}."
    return Chart({"data": traces, "layout": layout}, says, column.metric)


def _times_axis(times: Sequence[float]) -> Figure:
    """With room for a name to the right. Logarithmic, in steps of 1, 2 and 5, where times lie far apart."""
    least, most = min(times), max(times)
    if least <= 0 or most / least <= WIDE_LATENCIES:
        return {"range": [0, most * 1.1 or 1.0], "nticks": 7}
    decades = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    ticks = [round(step * 10.0**decade, 9) for decade in decades for step in (1, 2, 5)]
    room = [math.log10(least) - 0.12, math.log10(most) + 0.05]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}" for tick in ticks], "range": room}


def _named(lines: Sequence[Line], metric: str, axis: Figure, room: float) -> list[Line]:
    """Those whose names have room: the best first, and none on another's. The rest say theirs when pointed at."""
    found: list[Line] = []
    for each in sorted(lines, key=lambda line: (-(line.values[metric].mean or 0.0), line.name)):
        near = [
            other
            for other in found
            if abs(_place(axis, other) - _place(axis, each)) < NEAR_ACROSS
            and abs((other.values[metric].mean or 0.0) - (each.values[metric].mean or 0.0)) < room
        ]
        found += [] if near else [each]
    return found


def _place(axis: Figure, each: Line) -> float:
    """How far along the axis a point is, from 0 to 1."""
    least, most = axis["range"]
    at = math.log10(each.p50 or 1.0) if axis.get("type") == "log" else each.p50 or 0.0
    return float((at - least) / (most - least))


def _front(front: Sequence[Line], metric: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [each.p50 for each in front],
        "y": [each.values[metric].mean for each in front],
        "line": {"color": "<muted>", "width": 1.5, "dash": "dot", "shape": "hv"},
        "hoverinfo": "skip",
    }


def _side(axis: Figure, each: Line) -> str:
    """On which side of a point its name has room."""
    return "left" if _place(axis, each) > 0.6 else "right"


def _timed(each: Line, name: str, metric: str, on_front: bool, side: str) -> Figure:
    value = each.values[metric]
    mean = value.mean or 0.0
    quality = f"{number(mean)} ({span(value.low, value.high) or 'no interval'})"
    cost = f"p50 {number(each.p50, '.1f')} ms, p95 {number(each.p95, '.1f')} ms"
    bars = bars_of(value.low, mean, value.high, palette.colour(each.style))
    return {
        "type": "scatter",
        "mode": "markers+text" if side else "markers",
        "meta": "front" if on_front else "aside",
        "x": [each.p50],
        "y": [mean],
        "text": [safe(name)],
        "textposition": f"{'top' if on_front else 'bottom'} {side or 'right'}",
        "textfont": {"color": "<text>" if on_front else "<muted>", "size": 11},
        "cliponaxis": False,
        "marker": marker_of(each, size=12 if on_front else 9),
        "error_y": {**bars, "thickness": 1, "width": 0},
        "hoverinfo": "text",
        "hovertext": [f"{safe(each.name, 80)}<br>{quality}<br>{cost}"],
    }
