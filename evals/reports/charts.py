"""Charts of scores, latencies and comparisons, as Plotly figures in the report's colours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from os.path import commonprefix
from typing import Any

from evals.reports import palette
from evals.reports.model import Group, ReportColumn, ReportLine, Section, line, number, span
from evals.statistics.verdicts import Verdict

Figure = dict[str, Any]
LONGEST = 26  # characters of a name on an axis
TOLD = 6  # of a list that a chart's text begins


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with its words: what a person sees is also said. `metric` is empty where it shows all the same."""

    figure: Figure
    says: str
    metric: str = ""
    width: int = 0


def safe(text: str, most: int = LONGEST) -> str:
    """A text that Plotly shows as it stands."""
    short = line(text, max(most, 2))
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def short_names(names: Sequence[str], most: int = LONGEST) -> list[str]:
    """Names that fit. Variants of a grid begin alike, so what too long ones have in common is what goes first."""
    long = [name for name in names if len(name) > most]
    alike = commonprefix(long) if len(long) > 1 else ""  # noqa: RUF071 - these are no paths
    alike = alike[: alike.rfind(" ") + 1]  # at a word's end
    telling = alike and all(len(name) > len(alike) + 2 for name in long)  # what is left must say something
    return [_middle_cut(f"…{name.removeprefix(alike)}" if telling and name in long else name, most) for name in names]


def _middle_cut(text: str, most: int) -> str:
    """Without its middle, as names differ at their ends."""
    head = most // 3
    return text if len(text) <= most else f"{text[:head].rstrip()}…{text[head + 1 - most :].lstrip()}"


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


def names_axis(lines: Sequence[ReportLine], **options: Any) -> Figure:
    """Names from above to below, each at its number, so that equal beginnings stay apart."""
    return axis_of(
        tickvals=list(range(len(lines))),
        ticktext=[safe(short) for short in short_names([each.name for each in lines])],
        range=[len(lines) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        **options,
    )


def marker_of(each: ReportLine, **options: Any) -> Figure:
    return {**_look(each.style), "size": 10, **options}


def _look(style: int) -> Figure:
    return {"color": f"<{palette.colour(style)}>", "symbol": palette.shape(style)}


def restyled(figure: Figure, styles: Mapping[str, int]) -> Figure:
    """The figure with each variant's marks as they are where it is shown: it was drawn for a table of its own."""
    known = {digest_of(name): style for name, style in styles.items()}
    return {**figure, "data": [_restyled(trace, known) for trace in figure.get("data", ())]}


def digest_of(name: str) -> str:
    """Stands for a variant's name in a trace, where no stranger's text may be."""
    return blake2b(name.encode(errors="replace"), digest_size=8).hexdigest()


def _restyled(trace: Figure, styles: Mapping[str, int]) -> Figure:
    meta = trace.get("meta")
    name = meta.get("variant") if isinstance(meta, dict) else None
    if not isinstance(name, str) or name not in styles:
        return trace
    look = _look(styles[name])
    bars = {"error_x": {**trace["error_x"], "color": look["color"]}} if "error_x" in trace else {}
    return {**trace, "marker": {**trace["marker"], **look}, **bars}


def bars_of(low: float | None, mean: float, high: float | None, colour: str) -> Figure:
    known = low is not None and high is not None
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - mean if known and high is not None else 0.0],
        "arrayminus": [mean - low if known and low is not None else 0.0],
        "color": f"<{colour}>",
        "thickness": 2,
        "width": 4,
    }


def vertical(at: float, dash: str) -> Figure:
    style = {"color": "<muted>", "width": 1, "dash": dash}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "line": style, "layer": "below"}


def first_of(told: Sequence[str]) -> str:
    more = f"; and {len(told) - TOLD} more" if len(told) > TOLD else ""
    return f"{'; '.join(told[:TOLD])}{more}."


SCORE_ROW = 25  # pixels of a run
MOST_NAMED = 8  # points of a chart; of more, only those of the front
NEAR_ACROSS, NEAR_DOWN = 0.15, 0.2  # of the chart: nearer than that, two names lie on each other
WIDE_LATENCIES = 15  # times; beyond it the axis is logarithmic


def intervals(section: Section, column: ReportColumn) -> Chart:
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
        70 + SCORE_ROW * len(lines),
        xaxis=axis_of(title={"text": safe(column.metric)}, nticks=6),
        yaxis=names_axis(lines),
        shapes=[vertical(base, "dash")] if base is not None else [],
    )
    return Chart({"data": traces, "layout": layout}, f"{column.metric} with intervals: {first_of(told)}", "")


def latency(section: Section, column: ReportColumn) -> Chart | None:
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


def _named(lines: Sequence[ReportLine], metric: str, axis: Figure, room: float) -> list[ReportLine]:
    """Those whose names have room: the best first, and none on another's. The rest say theirs when pointed at."""
    found: list[ReportLine] = []
    for each in sorted(lines, key=lambda line: (-(line.values[metric].mean or 0.0), line.name)):
        near = [
            other
            for other in found
            if abs(_place(axis, other) - _place(axis, each)) < NEAR_ACROSS
            and abs((other.values[metric].mean or 0.0) - (each.values[metric].mean or 0.0)) < room
        ]
        found += [] if near else [each]
    return found


def _place(axis: Figure, each: ReportLine) -> float:
    """How far along the axis a point is, from 0 to 1."""
    least, most = axis["range"]
    at = math.log10(each.p50 or 1.0) if axis.get("type") == "log" else each.p50 or 0.0
    return float((at - least) / (most - least))


def _front(front: Sequence[ReportLine], metric: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [each.p50 for each in front],
        "y": [each.values[metric].mean for each in front],
        "line": {"color": "<muted>", "width": 1.5, "dash": "dot", "shape": "hv"},
        "hoverinfo": "skip",
    }


def _side(axis: Figure, each: ReportLine) -> str:
    """On which side of a point its name has room."""
    return "left" if _place(axis, each) > 0.6 else "right"


def _timed(each: ReportLine, name: str, metric: str, on_front: bool, side: str) -> Figure:
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


COMPARISON_ROW = 28  # pixels of a run


def outcomes(section: Section, column: ReportColumn) -> Chart | None:
    """Queries won, equal and lost against the baseline."""
    found = section.findings[column.metric]
    if not found:
        return None
    lines = [each for each, _ in found]
    parts = (("wins", "won", "win"), ("ties", "equal", "even"), ("losses", "lost", "loss"))
    traces = [
        {
            "type": "bar",
            "orientation": "h",
            "name": word,
            "x": [getattr(finding.difference, name) for _, finding in found],
            "y": list(range(len(found))),
            "text": [str(getattr(finding.difference, name) or "") for _, finding in found],
            "textposition": "inside",
            "insidetextanchor": "middle",
            "textangle": 0,
            "constraintext": "none",
            "textfont": {"color": "<text>" if word == "equal" else "<paper>"},
            "marker": {"color": f"<{colour}>", "line": {"color": "<card>", "width": 1}},
            "hoverinfo": "text",
            "hovertext": [f"{safe(each.name, 80)}<br>{getattr(f.difference, name)} {word}" for each, f in found],
        }
        for name, word, colour in parts
    ]
    layout = layout_of(
        112 + COMPARISON_ROW * len(found),
        barmode="stack",
        bargap=0.25,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        xaxis=axis_of(title={"text": f"Queries, against {safe(section.baseline)}"}, showgrid=False),
        yaxis=names_axis(lines),
    )
    told = [f"{each.name} won {f.difference.wins}, lost {f.difference.losses}" for each, f in found]
    says = f"Queries won and lost against {section.baseline} by {column.metric}: {first_of(told)}"
    return Chart({"data": traces, "layout": layout}, says, column.metric)


def differences(section: Section, column: ReportColumn) -> Chart | None:
    """Each run minus the baseline, with the band within which differences do not matter."""
    found = [(each, f) for each, f in section.findings[column.metric] if f.difference.mean is not None]
    if not found:
        return None
    traces = []
    for at, (each, finding) in enumerate(found):
        difference = finding.difference
        mean = difference.mean or 0.0
        told = f"{mean:+.3f} ({span(difference.low, difference.high) or 'no interval'}), {finding.verdict}"
        hollow = finding.verdict in (Verdict.TOO_FEW, Verdict.TIED)
        marker = marker_of(each) if not hollow else {**marker_of(each), "symbol": f"{palette.shape(each.style)}-open"}
        traces.append({
            "type": "scatter",
            "mode": "markers",
            "x": [mean],
            "y": [at],
            "marker": marker,
            "error_x": bars_of(difference.low, mean, difference.high, palette.colour(each.style)),
            "hoverinfo": "text",
            "hovertext": [f"{safe(each.name, 80)}<br>{told}"],
        })  # fmt: skip
    band = {"type": "rect", "x0": -section.tie, "x1": section.tie, "yref": "paper", "y0": 0, "y1": 1}
    layout = layout_of(
        112 + COMPARISON_ROW * len(found),
        xaxis=axis_of(title={"text": f"{safe(column.metric)} minus {safe(section.baseline)}"}, nticks=6),
        yaxis=names_axis([each for each, _ in found]),
        shapes=[
            {**band, "fillcolor": "<quiet>", "line": {"width": 0}, "layer": "below"},
            vertical(0.0, "solid"),
        ],
    )
    says = f"Differences from {section.baseline} in {column.metric}, with intervals. Filled marks are significant."
    return Chart({"data": traces, "layout": layout}, says, column.metric)


def groups(section: Section, column: ReportColumn) -> Chart | None:
    """Runs by kinds and tags, each cell a mean."""
    found = [group for group in section.groups if column.metric in group.means]
    if not found:
        return None
    lines = section.lines
    values = [[group.means[column.metric][each.name] for group in found] for each in lines]
    trace = {
        "type": "heatmap",
        "x": list(range(len(found))),
        "y": list(range(len(lines))),
        "z": values,
        "text": [[f"{value:.2f}" for value in row] for row in values],
        "texttemplate": "%{text}",
        "textfont": {"color": "<text>"},
        "hoverinfo": "text",
        "hovertext": [
            [f"{safe(each.name, 80)}<br>{_group_name(group, 80)}: {value:.3f}, {group.queries} queries"
             for group, value in zip(found, row, strict=True)]
            for each, row in zip(lines, values, strict=True)
        ],
        "colorscale": [[0, "<cool>"], [1, "<warm>"]],
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }  # fmt: skip
    layout = layout_of(
        120 + COMPARISON_ROW * len(lines),
        margin={"l": 8, "r": 16, "t": 8, "b": 8},
        xaxis=axis_of(
            tickvals=list(range(len(found))),
            ticktext=[f"{_group_name(group, 18)}<br>{group.queries}{' (few)' if group.few else ''}" for group in found],
            side="top",
            showgrid=False,
            tickangle=-40 if len(found) > 12 else 0,
        ),
        yaxis=names_axis(lines),
    )
    says = f"{column.metric} by kind of query and tag. The numbers are in the cells; {len(found)} groups."
    return Chart({"data": [trace], "layout": layout}, says, column.metric, 230 + 84 * len(found))


def _group_name(group: Group, most: int) -> str:
    name = safe(group.name, most) or "(no kind)"
    return name if group.by == "kind" else f"#{name}"
