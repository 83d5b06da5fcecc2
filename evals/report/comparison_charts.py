"""Charts of comparisons: queries won and lost, differences with their intervals, and kinds of queries."""

from __future__ import annotations

from evals.report import palette
from evals.report.figures import Chart, axis_of, bars_of, first_of, layout_of, marker_of, names_axis, safe, vertical
from evals.report.model import Column, Group, Section
from evals.report.texts import span
from evals.statistics.verdicts import Verdict

ROW = 28  # pixels of a run


def outcomes(section: Section, column: Column) -> Chart | None:
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
        112 + ROW * len(found),
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


def differences(section: Section, column: Column) -> Chart | None:
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
        112 + ROW * len(found),
        xaxis=axis_of(title={"text": f"{safe(column.metric)} minus {safe(section.baseline)}"}, nticks=6),
        yaxis=names_axis([each for each, _ in found]),
        shapes=[
            {**band, "fillcolor": "<quiet>", "line": {"width": 0}, "layer": "below"},
            vertical(0.0, "solid"),
        ],
    )
    says = f"Differences from {section.baseline} in {column.metric}, with intervals. Filled marks are significant."
    return Chart({"data": traces, "layout": layout}, says, column.metric)


def groups(section: Section, column: Column) -> Chart | None:
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
        120 + ROW * len(lines),
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
