"""What the report's charts are made of: Plotly figures in plain values, which `page.js` draws in light or dark.

A colour is a name in angle brackets, <c0> or <text>, filled in by the page. Plotly takes texts for markup, so every
stranger's text goes through `safe`, and no such name can come from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from os.path import commonprefix
from typing import Any

from evals.report import palette
from evals.report.model import Line
from evals.report.texts import line

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


def names_axis(lines: Sequence[Line], **options: Any) -> Figure:
    """Names from above to below, each at its number, so that equal beginnings stay apart."""
    return axis_of(
        tickvals=list(range(len(lines))),
        ticktext=[safe(short) for short in short_names([each.name for each in lines])],
        range=[len(lines) - 0.4, -0.6],
        showgrid=False,
        zeroline=False,
        **options,
    )


def marker_of(each: Line, **options: Any) -> Figure:
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
