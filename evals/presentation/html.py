"""The forms of output as static HTML, and the page around them: one file that opens offline.

Texts go through the element tree, so that none can be markup. The page's policy lets nothing run but its own scripts,
and nothing be fetched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

from core.expansion.base import content_words
from core.snippets import pieces
from evals.display import Table, as_html, el, embedded, plotly_script, printable, script_hash, written
from evals.presentation import palette
from evals.presentation.text import tables_of, text_of
from evals.presentation.types import Chart, Code, ResultHit, SearchResults, Text

Styles = Mapping[str, int]


def page(
    title: str, body: str, charts: Sequence[dict[str, Any]], *, sections: Sequence[Any] = (), style: str = ""
) -> str:
    """The whole file. `charts` are figures in the order of their places, `sections` what a report's script reads."""
    plotly, script = plotly_script() if charts else "", asset("page.js")
    return Template(asset("page.html")).substitute(
        title=written(el("title", title)),
        policy=f"{script_hash(plotly)} {script_hash(script)}",
        style=f":root{{{palette.variables()}}}\n{asset('page.css')}{style}",
        body=body,
        values=embedded({"colours": palette.named(), "charts": charts, "sections": sections}),
        plotly=plotly,
        script=script,
    )


def asset(name: str) -> str:
    """A file that lies beside this one, and comes along in a wheel."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def chart_place(chart: Chart, at: int, metric: str | None = None) -> Element:
    """Where the page's script draws the chart of this number once it comes into view; `metric`: only when chosen."""
    height = chart.figure.get("layout", {}).get("height", 360)
    style = f"height:{height}px" + (f";min-width:{chart.width}px" if chart.width else "")
    place = el("div", class_="chart", role="img", aria_label=chart.description, style=style, data_chart=at)
    return el("div", place, class_="scrolled", data_metric=metric, tabindex="0" if chart.width else None)


def table(block: Table) -> Element:
    sides = ["number" if column in block.numeric else None for column in block.columns]
    heads = [el("th", name, scope="col", class_=side) for name, side in zip(block.columns, sides, strict=True)]
    rows = []
    for row in block.rows:
        cells = []
        for cell, side in zip(row, sides, strict=True):
            text = el("b", cell.text) if cell.strong else cell.text
            aside = el("small", f" {cell.aside}", class_="muted") if cell.aside else None
            mark = " *" if cell.strong else None
            cells.append(el("td", text, mark, aside, class_=side, title=cell.hint or None))
        rows.append(el("tr", *cells))
    notes = [el("span", note) for note in block.notes]
    drawn = el(
        "table",
        el("caption", *notes) if notes else None,
        el("thead", el("tr", *heads)) if any(block.columns) else None,
        el("tbody", *rows),
    )
    title = el("h4", block.title) if block.title else None
    return el("div", title, el("div", drawn, class_="scrolled table", tabindex="0") if block.columns else None)


# -- search results ----------------------------------------------------------------------------------------------------


def search_results(block: SearchResults, styles: Styles | None = None) -> Element:
    """Side by side. `styles` are the colours and marks of the variants in view, where there are more than these."""
    styles = styles or palette.styles(column.name for column in block.columns)
    columns = []
    for at, column in enumerate(block.columns):
        cards = [_hit(hit, at, block) for hit in column.hits]
        style = styles[column.name]
        head = el(
            "h4",
            el("i", class_=f"key {palette.shape(style)}"),
            el("bdi", column.name),
            el("b", f"{column.milliseconds:.0f} ms"),
        )
        columns.append(
            el(
                "section",
                head,
                el("ol", *cards) if cards else el("p", "Nothing was found.", class_="nothing"),
                *(el("p", note, class_="muted") for note in column.notes),
                class_=f"ranked {palette.colour(style)}",
                aria_label=f"Results of {column.name}",
            )
        )
    query_id = f"{block.query_id}: " if block.query_id else ""
    return el(
        "div",
        el("p", query_id, el("q", block.query), class_="asked"),
        el("div", *columns, class_="columns", tabindex="0", role="region", aria_label="Results side by side"),
    )


def _hit(hit: ResultHit, at: int, block: SearchResults) -> Element:
    badge = None  # what the labels say, where the query has any
    if block.query_id is not None and hit.grade is None:
        badge = el("span", "unjudged", class_="badge unjudged")
    elif block.query_id is not None and hit.grade is not None:
        top = max((each.grade or 0 for column in block.columns for each in column.hits), default=0)
        tone = "zero" if hit.grade <= 0 else "best" if hit.grade == top else "good"
        badge = el("span", f"grade {hit.grade}" if hit.grade > 0 else "judged 0", class_=f"badge {tone}")
    title = hit.title or hit.item_id
    return el(
        "li",
        el("div", el("span", str(hit.rank), class_="rank"), badge, _move(hit, at), class_="bar"),
        el("div", *_marked(pieces(title, content_words(block.query), len(title) or 1)), class_="title"),
        el("div", hit.item_id, class_="id muted") if hit.title else None,
        el("p", *_marked(hit.snippet)),
        _leg_shares(hit),
        class_="hit",
        title=f"{hit.place}; score {hit.score:.4g}".lstrip("; "),
    )


def _marked(parts: Iterable[tuple[str, bool]]) -> list[Element | str]:
    return [el("mark", text) if matched else text for text, matched in parts]


def _move(hit: ResultHit, at: int) -> Element | None:
    """How its document moved from its rank in the first column."""
    if hit.repeats_item:
        return el("span", "same document", class_="move", title="Another passage of it stands above")
    if at == 0:
        return None
    if hit.previous_rank is None:
        return el("span", "new", class_="move", title="Not among the first column's results")
    up = hit.previous_rank - hit.rank
    mark = "=" if up == 0 else f"{'↑' if up > 0 else '↓'} {abs(up)}"
    tone = "up" if up > 0 else "down" if up < 0 else ""
    return el("span", mark, class_=f"move {tone}", title=f"First column: {hit.previous_rank}")


def _leg_shares(hit: ResultHit) -> Element | None:
    """Each leg's part in the score, where there are several legs."""
    styles = palette.styles(leg.leg for leg in hit.legs)
    whole = sum(max(0.0, leg.contribution) for leg in hit.legs)
    if len(hit.legs) < 2 or whole <= 0:
        return None
    bars = [
        el(
            "i",
            class_=f"key {palette.colour(styles[leg.leg])}",
            style=f"flex:{max(0.0, leg.contribution) / whole:.4f}",
            title=f"{leg.leg}: rank {leg.rank}, {leg.raw:.4g}, adds {leg.contribution:.4g}",
        )
        for leg in hit.legs
    ]
    ranks = ", ".join(f"{leg.leg} {leg.rank}" for leg in hit.legs)
    return el("div", el("div", *bars, class_="shares"), el("small", f"ranks: {ranks}", class_="muted"))


# -- for Jupyter -------------------------------------------------------------------------------------------------------


def fragment(block: Text | Table | Chart | SearchResults | Code) -> str:
    """The block for a page that brings no style of ours; MathJax must not take a price in it for a formula."""
    match block:
        case Text() if block.tone == "headline":
            inner = f"<strong>{escape(printable(block.text))}</strong>"
        case Text() | Chart():
            inner = escape(text_of(block))
        case Code():
            title, text = escape(printable(block.title)), escape(block.text)
            inner = f"<details><summary>{title}</summary><pre>{text}</pre></details>"
        case _:
            inner = as_html(tuple(tables_of(block)))
    return f'<div class="tex2jax_ignore mathjax_ignore">{inner}</div>'
