"""Weight surfaces drawn: a curve for two legs, a triangle for three, a profile by leg for four."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evals.reports.charts import Chart, Figure, axis_of, layout_of, safe
from evals.reports.model import FusionWeights, Weights, number


def drawn(weights: Weights) -> Chart:
    shown = {2: _curve, 3: _triangle}.get(len(weights.legs), _profile)
    figure = shown(weights)
    best = weights.fusions[weights.chosen]
    told = f"{weights.metric} of {weights.name} over the weights of {', '.join(weights.legs)}"
    return Chart(figure, f"{told}. In-sample best {number(weights.in_sample)} at {shares(weights, best.best)}.")


def shares(weights: Weights, point: int, fusion: FusionWeights | None = None) -> str:
    """vector 0.65, bm25 0.35."""
    grid = (fusion or weights.fusions[weights.chosen]).grid[point]
    return ", ".join(f"{leg} {share / weights.steps:.3g}" for leg, share in zip(weights.legs, grid, strict=True))


def _levels(weights: Weights) -> list[tuple[str, float, str]]:
    """The scores that a curve is to be read against."""
    told = [("equal weights", weights.untuned, "dot"), ("oracle", weights.oracle, "longdash")]
    if weights.cross_fitted is not None:
        told.insert(0, ("cross-fitted", weights.cross_fitted, "dash"))
    return told


def _level(name: str, value: float, dash: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": f"{name} {value:.3f}",
        "x": [0, 1],
        "y": [value, value],
        "line": {"color": "<muted>", "width": 1.5, "dash": dash},
        "hoverinfo": "skip",
    }


def _curve(weights: Weights) -> Figure:
    """Two legs: the mean by the first one's weight, a line a fusion; the band of the chosen one is thick."""
    traces = [_line(weights, at, fusion) for at, fusion in enumerate(weights.fusions)]
    best = weights.fusions[weights.chosen]
    colour = f"<c{weights.chosen % 8}>"
    held = [None if not tied else mean for tied, mean in zip(best.tied, best.means, strict=True)]
    x = [point[0] / weights.steps for point in best.grid]
    band = {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": held,
        "line": {"color": colour, "width": 9},
        "opacity": 0.3,
    }
    traces.append({**band, "name": "too close to the best to tell", "hoverinfo": "skip", "connectgaps": False})
    star = {"symbol": "star", "size": 15, "color": colour, "line": {"color": "<card>", "width": 1}}
    traces.append({
        "type": "scatter", "mode": "markers", "x": [x[best.best]], "y": [best.means[best.best]], "marker": star,
        "name": "in-sample best", "hoverinfo": "text", "hovertext": [f"in-sample best {best.means[best.best]:.3f}"],
    })  # fmt: skip
    traces += [_level(*each) for each in _levels(weights)]
    layout = layout_of(
        420,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis=axis_of(title={"text": f"Weight of {safe(weights.legs[0])} (the rest is {safe(weights.legs[1])})"}),
        yaxis=axis_of(title={"text": safe(weights.metric)}),
    )
    return {"data": traces, "layout": layout}


def _line(weights: Weights, at: int, fusion: FusionWeights) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": safe(fusion.fusion, 40),
        "x": [point[0] / weights.steps for point in fusion.grid],
        "y": list(fusion.means),
        "line": {"color": f"<c{at % 8}>", "width": 2},
        "hoverinfo": "text",
        "hovertext": [
            f"{safe(fusion.fusion, 40)}<br>{safe(shares(weights, point, fusion), 80)}<br>{mean:.3f}"
            for point, mean in enumerate(fusion.means)
        ],
    }


def _triangle(weights: Weights) -> Figure:
    """Three legs: a dot a point, those that are too close to the best to tell ringed; crosses are what folds chose."""
    best = weights.fusions[weights.chosen]
    hover = [f"{safe(shares(weights, at), 80)}<br>{mean:.3f}" for at, mean in enumerate(best.means)]
    size = max(5, min(17, 320 // (weights.steps + 1)))
    dots = {
        "size": size,
        "color": list(best.means),
        "colorscale": [[0, "<low>"], [1, "<high>"]],
        "line": {"color": ["<text>" if tied else "<line>" for tied in best.tied],
                 "width": [1.5 if tied else 0.5 for tied in best.tied]},
        "colorbar": {"orientation": "h", "thickness": 10, "len": 0.7, "y": -0.12, "yanchor": "top", "outlinewidth": 0},
    }  # fmt: skip
    everything = range(len(best.grid))
    traces = [
        {**_points(best, list(everything)), "marker": dots, "hovertext": hover},
        {**_points(best, sorted(set(weights.folds))), "hoverinfo": "skip", "marker": _crosses(weights)},
        {
            **_points(best, [best.best]),
            "hovertext": [hover[best.best]],
            "marker": {"symbol": "star", "size": size + 3, "color": "<loss>", "line": {"color": "<card>", "width": 1}},
        },
    ]
    axes = {
        name: {**axis_of(title={"text": safe(leg)}, tickformat=".1f", nticks=6), "automargin": None}
        for name, leg in zip(("aaxis", "baxis", "caxis"), weights.legs, strict=True)
    }
    for axis in axes.values():
        del axis["automargin"], axis["zerolinecolor"]
    layout = layout_of(
        520, margin={"l": 50, "r": 50, "t": 50, "b": 50}, ternary={"sum": 1, "bgcolor": "rgba(0,0,0,0)", **axes}
    )
    return {"data": [trace for trace in traces if trace["a"]], "layout": layout}


def _crosses(weights: Weights) -> Figure:
    """Larger where more folds chose the point."""
    votes = Counter(weights.folds)
    most = max(votes.values(), default=1)
    sizes = [6 + 6 * votes[point] / most for point in sorted(votes)]
    return {"symbol": "x-thin", "size": sizes, "line": {"color": "<loss>", "width": 2}}


def _points(fusion: FusionWeights, points: list[int]) -> Figure:
    a, b, c = ([fusion.grid[point][leg] for point in points] for leg in range(3))
    return {
        "type": "scatterternary",
        "mode": "markers",
        "a": a,
        "b": b,
        "c": c,
        "hoverinfo": "text",
        "cliponaxis": False,
    }


def _profile(weights: Weights) -> Figure:
    """Four legs: the best that can be had with each weight of each, the others free."""
    best = weights.fusions[weights.chosen]
    grid, means = np.array(best.grid), np.array(best.means)
    traces = []
    for at, leg in enumerate(weights.legs):
        highest = [float(means[grid[:, at] == share].max()) for share in range(weights.steps + 1)]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": safe(leg),
            "x": [share / weights.steps for share in range(weights.steps + 1)], "y": highest,
            "line": {"color": f"<c{at % 8}>", "width": 2}, "marker": {"size": 5}, "hoverinfo": "x+y+name",
        })  # fmt: skip
    traces += [_level(*each) for each in _levels(weights)]
    layout = layout_of(
        420,
        showlegend=True,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        xaxis=axis_of(title={"text": "Weight of a leg, the others at their best"}),
        yaxis=axis_of(title={"text": safe(weights.metric)}),
    )
    return {"data": traces, "layout": layout}
