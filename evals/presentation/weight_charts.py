"""Weight surfaces drawn: a curve for two legs, a triangle for three, a profile by leg for four."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evals.presentation.charts import Figure, axis_of, layout_of, safe
from evals.presentation.text import number
from evals.presentation.types import Chart
from evals.presentation.weight_surface import FusionMeans, WeightSurface, weights_text

LEGEND = {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"}


def weight_chart(surface: WeightSurface, title: str = "") -> Chart:
    draw = {2: _curve, 3: _triangle}.get(len(surface.legs), _profile)
    best = weights_text(surface.weights_at(surface.best.best))
    description = (
        f"{surface.metric} of {surface.name} over the weights of {', '.join(surface.legs)}. In-sample best "
        f"{number(surface.in_sample)} at {best}."
    )
    return Chart(title=title, description=description, figure=draw(surface))


def _levels(surface: WeightSurface) -> list[Figure]:
    """Lines of the scores that a curve is to be read against."""
    levels = [("equal weights", surface.equal_weights, "dot"), ("oracle", surface.oracle, "longdash")]
    if surface.cross_fitted is not None:
        levels.insert(0, ("cross-fitted", surface.cross_fitted, "dash"))
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": f"{name} {value:.3f}",
            "x": [0, 1],
            "y": [value, value],
            "line": {"color": "<muted>", "width": 1.5, "dash": dash},
            "hoverinfo": "skip",
        }
        for name, value, dash in levels
    ]


def _curve(surface: WeightSurface) -> Figure:
    """Two legs: the mean by the first one's weight, a line a fusion; the band of the chosen one is thick."""
    traces: list[Figure] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": safe(fusion.name, 40),
            "x": [point[0] / surface.steps for point in fusion.grid],
            "y": list(fusion.means),
            "line": {"color": f"<c{at % 8}>", "width": 2},
            "hoverinfo": "text",
            "hovertext": [
                f"{safe(fusion.name, 40)}<br>{safe(weights_text(surface.weights_at(point, fusion)), 80)}<br>{mean:.3f}"
                for point, mean in enumerate(fusion.means)
            ],
        }
        for at, fusion in enumerate(surface.fusions)
    ]
    best, colour = surface.best, f"<c{surface.chosen % 8}>"
    x = [point[0] / surface.steps for point in best.grid]
    highest = best.means[best.best]
    star = {"symbol": "star", "size": 15, "color": colour, "line": {"color": "<card>", "width": 1}}
    traces += [
        {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "y": [None if not tied else mean for tied, mean in zip(surface.tied, best.means, strict=True)],
            "line": {"color": colour, "width": 9},
            "opacity": 0.3,
            "name": "too close to the best to tell",
            "hoverinfo": "skip",
            "connectgaps": False,
        },
        {
            "type": "scatter", "mode": "markers", "x": [x[best.best]], "y": [highest], "marker": star,
            "name": "in-sample best", "hoverinfo": "text", "hovertext": [f"in-sample best {highest:.3f}"],
        },
        *_levels(surface),
    ]  # fmt: skip
    layout = layout_of(
        420,
        showlegend=True,
        legend=LEGEND,
        xaxis=axis_of(title={"text": f"Weight of {safe(surface.legs[0])} (the rest is {safe(surface.legs[1])})"}),
        yaxis=axis_of(title={"text": safe(surface.metric)}),
    )
    return {"data": traces, "layout": layout}


def _triangle(surface: WeightSurface) -> Figure:
    """Three legs: a dot a point, those that are too close to the best to tell ringed; crosses are what folds chose."""
    best = surface.best
    hover = [f"{safe(weights_text(surface.weights_at(at)), 80)}<br>{mean:.3f}" for at, mean in enumerate(best.means)]
    size = max(5, min(17, 320 // (surface.steps + 1)))
    dots = {
        "size": size,
        "color": list(best.means),
        "colorscale": [[0, "<low>"], [1, "<high>"]],
        "line": {"color": ["<text>" if tied else "<line>" for tied in surface.tied],
                 "width": [1.5 if tied else 0.5 for tied in surface.tied]},
        "colorbar": {"orientation": "h", "thickness": 10, "len": 0.7, "y": -0.12, "yanchor": "top", "outlinewidth": 0},
    }  # fmt: skip
    votes = Counter(surface.folds)
    most = max(votes.values(), default=1)
    crosses = {  # larger where more folds chose the point
        "symbol": "x-thin",
        "size": [6 + 6 * votes[point] / most for point in sorted(votes)],
        "line": {"color": "<loss>", "width": 2},
    }
    star = {"symbol": "star", "size": size + 3, "color": "<loss>", "line": {"color": "<card>", "width": 1}}
    traces = [
        {**_points(best, list(range(len(best.grid)))), "marker": dots, "hovertext": hover},
        {**_points(best, sorted(votes)), "hoverinfo": "skip", "marker": crosses},
        {**_points(best, [best.best]), "hovertext": [hover[best.best]], "marker": star},
    ]
    axes = {}
    for name, leg in zip(("aaxis", "baxis", "caxis"), surface.legs, strict=True):
        axes[name] = axis_of(title={"text": safe(leg)}, tickformat=".1f", nticks=6)
        del axes[name]["automargin"], axes[name]["zerolinecolor"]  # which a ternary axis has not
    layout = layout_of(
        520, margin={"l": 50, "r": 50, "t": 50, "b": 50}, ternary={"sum": 1, "bgcolor": "rgba(0,0,0,0)", **axes}
    )
    return {"data": [trace for trace in traces if trace["a"]], "layout": layout}


def _points(fusion: FusionMeans, points: list[int]) -> Figure:
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


def _profile(surface: WeightSurface) -> Figure:
    """Four legs: the best that can be had with each weight of each, the others free."""
    grid, means = np.array(surface.best.grid), np.array(surface.best.means)
    shares = range(surface.steps + 1)
    traces = [
        {
            "type": "scatter", "mode": "lines+markers", "name": safe(leg),
            "x": [share / surface.steps for share in shares],
            "y": [float(means[grid[:, at] == share].max()) for share in shares],
            "line": {"color": f"<c{at % 8}>", "width": 2}, "marker": {"size": 5}, "hoverinfo": "x+y+name",
        }
        for at, leg in enumerate(surface.legs)
    ]  # fmt: skip
    layout = layout_of(
        420,
        showlegend=True,
        legend=LEGEND,
        xaxis=axis_of(title={"text": "Weight of a leg, the others at their best"}),
        yaxis=axis_of(title={"text": safe(surface.metric)}),
    )
    return {"data": [*traces, *_levels(surface)], "layout": layout}
