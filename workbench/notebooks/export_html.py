"""A notebook with its outputs as one HTML file that opens offline, in the dress of `evals.reports`.

Owns how each form of output is drawn there. The page's policy lets nothing run but its own scripts, and nothing be
fetched; texts go through the element tree, prose through `markdown`, so that neither can be markup of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

import evals.reports
from evals.display import el, embedded, plotly_script, script_hash, written
from evals.reports import palette
from evals.reports.charts import restyled
from workbench.notebooks import markdown, named
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells.base import CellQuery
from workbench.notebooks.cells.search import pieces
from workbench.notebooks.document import Cell, Notebook, Prose
from workbench.notebooks.output import Code, Figure, FoundHit, HitColumn, Hits, Output, Said, Table, TableCell

DRESS = Path(evals.reports.__file__).parent
STYLE = Path(__file__).with_name("book.css")
Styles = Mapping[str, int]


def render(notebook: Notebook, results: Sequence[CellState]) -> str:
    """The page. Cells without a result are shown as they are written."""
    page = _Page(notebook, results)
    body = page.body()
    plotly = plotly_script() if page.charts else ""
    script = _read(DRESS / "page.js")
    values = {"colours": palette.named(), "charts": page.charts, "sections": []}
    return Template(_read(DRESS / "page.html")).substitute(
        title=written(el("title", notebook.title or "Rankbook notebook")),
        policy=f"{script_hash(plotly)} {script_hash(script)}",
        style=f":root{{{palette.variables()}}}\n{_read(DRESS / 'page.css')}\n{_read(STYLE)}",
        body=body,
        values=embedded(values),
        plotly=plotly,
        script=script,
    )


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


class _Page:
    """The body, and the figures that its script draws, in the order in which their places were made."""

    def __init__(self, notebook: Notebook, results: Sequence[CellState]) -> None:
        self.notebook = notebook
        self.results = {result.cell.id: result for result in results}
        self.styles = named.styles(result.output for result in results)
        self.charts: list[dict[str, Any]] = []

    def body(self) -> str:
        parts = "\n".join(map(self._part, self.notebook.shown))
        head = "" if self.notebook.title else written(el("header", el("h1", "A notebook")))
        foot = written(el("footer", el("p", "Made by Rankbook. This page needs no network, and asks for none.")))
        return f'<body class="book">{head}<main>{parts}</main>{foot}</body>'

    def _part(self, part: Prose | Cell) -> str:
        if isinstance(part, Prose):
            return f'<section class="prose">{markdown.html(part.text)}</section>'
        return written(self._cell(part))

    def _cell(self, cell: Cell) -> Element:
        result = self.results.get(cell.id)
        source = el("details", el("summary", "Source"), el("pre", el("code", cell.source), tabindex="0"))
        if cell not in self.notebook.cells:
            return el("section", el("p", "SharedOptions by all cells", class_="kicker"), source, class_="cell shared")
        number = self.notebook.cells.index(cell) + 1
        heading = f"{number}. {result.title if result else cell.name or cell.kind}"
        return el(
            "section",
            el("p", cell.kind, class_="kicker"),
            el("h3", heading),
            *_state(result),
            *(self._output(result.output) if result and result.output else []),
            source,
            class_="cell",
            id=f"cell-{number}",
        )

    def _output(self, output: Output) -> list[Element]:
        return [self._block(block) for block in output.blocks]

    def _block(self, block: Said | Table | Figure | Hits | Code) -> Element:
        match block:
            case Said():
                return el("p", block.text, class_=f"said {block.tone}")
            case Table():
                return table(block)
            case Figure():
                return self._figure(block)
            case Hits():
                return hits(block, self.styles)
            case Code():
                return el(
                    "details",
                    el("summary", block.title),
                    el("pre", el("code", block.text), tabindex="0"),
                )

    def _figure(self, block: Figure) -> Element:
        self.charts.append(restyled(block.figure, self.styles))
        height = block.figure.get("layout", {}).get("height", 360)
        style = f"height:{height}px" + (f";min-width:{block.width}px" if block.width else "")
        at = len(self.charts) - 1
        place = el("div", class_="chart", role="img", aria_label=block.says, style=style, data_chart=at)
        scrolled = el("div", place, class_="scrolled", tabindex="0" if block.width else None)
        return el("div", el("h4", block.title) if block.title else None, scrolled, class_="card")


def _state(result: CellState | None) -> list[Element]:
    """What is to be known before the output: that there is none, that it failed, or that it is of another day."""
    if result is None or (result.output is None and not result.problem):
        return [el("p", "Not run yet.", class_="nothing")]
    if result.problem:
        return [el("p", el("strong", "It failed. "), result.problem, class_="doubts problem")]
    if result.stale:
        return [el("p", el("strong", "Stale: "), stale_sentence(result), class_="doubts stale")]
    return []


def stale_sentence(result: CellState) -> str:
    """Why an output is not of today."""
    return f"{' and '.join(result.stale)} since this was made{_when(result.made_at)}."


def _when(moment: datetime | None) -> str:
    return f", on {moment:%Y-%m-%d %H:%M}" if moment else ""


# -- forms -------------------------------------------------------------------------------------------------------------


def table(block: Table) -> Element:
    sides = ["number" if column in block.right else None for column in block.columns]
    heads = [el("th", name, scope="col", class_=side) for name, side in zip(block.columns, sides, strict=True)]
    rows = [el("tr", *(_td(each, side) for each, side in zip(row, sides, strict=True))) for row in block.rows]
    notes = [el("span", note) for note in block.notes]
    made = el(
        "table",
        el("caption", *notes) if notes else None,
        el("thead", el("tr", *heads)) if any(block.columns) else None,
        el("tbody", *rows),
    )
    title = el("h4", block.title) if block.title else None
    return el("div", title, el("div", made, class_="scrolled table", tabindex="0") if block.columns else None)


def _td(cell: TableCell, side: str | None) -> Element:
    text = el("b", cell.text) if cell.strong else cell.text
    mark = " *" if cell.strong else None
    beside = el("small", f" {cell.beside}", class_="muted") if cell.beside else None
    return el("td", text, mark, beside, class_=side, title=cell.hint or None)


def hits(block: Hits, styles: Styles | None = None) -> Element:
    """Side by side. `styles` are the colours and marks of the variants in view, where there are more than these."""
    styles = styles or palette.styles(column.variant for column in block.columns)
    columns = [_column(at, column, block, styles) for at, column in enumerate(block.columns)]
    said = f"{block.query_id}: " if block.query_id else ""
    return el(
        "div",
        el("p", said, el("q", block.query), class_="asked"),
        el("div", *columns, class_="columns", tabindex="0", role="region", aria_label="Results side by side"),
    )


def _column(at: int, column: HitColumn, block: Hits, styles: Styles) -> Element:
    cards = [_hit(hit, at, block) for hit in column.hits]
    style = styles[column.variant]
    head = el(
        "h4",
        el("i", class_=f"key {palette.shape(style)}"),
        el("bdi", column.variant),
        el("b", f"{column.milliseconds:.0f} ms"),
    )
    return el(
        "section",
        head,
        el("ol", *cards) if cards else el("p", "Nothing was found.", class_="nothing"),
        *(el("p", note, class_="muted") for note in column.notes),
        class_=f"ranked {palette.colour(style)}",
        aria_label=f"Results of {column.variant}",
    )


def _hit(hit: FoundHit, at: int, block: Hits) -> Element:
    bar = el("div", el("span", str(hit.rank), class_="rank"), *_badge(hit, block), *_move(hit, at), class_="bar")
    title = hit.title or hit.item
    return el(
        "li",
        bar,
        el("div", *_marked(pieces(title, CellQuery(block.query).keywords, len(title) or 1)), class_="title"),
        el("div", hit.item, class_="id muted") if hit.title else None,
        el("p", *_marked(hit.snippet)),
        _shares(hit),
        class_="hit",
        title=f"{hit.where}; score {hit.score:.4g}".lstrip("; "),
    )


def _marked(pieces_: Iterable[tuple[str, bool]]) -> list[Element | str]:
    return [el("mark", text) if matched else text for text, matched in pieces_]


def _badge(hit: FoundHit, block: Hits) -> list[Element]:
    """What the labels say, where the query has any."""
    if block.query_id is None:
        return []
    if hit.grade is None:
        return [el("span", "unjudged", class_="badge unjudged")]
    top = max((each.grade or 0 for column in block.columns for each in column.hits), default=0)
    tone = "zero" if hit.grade <= 0 else "best" if hit.grade == top else "good"
    return [el("span", f"grade {hit.grade}" if hit.grade > 0 else "judged 0", class_=f"badge {tone}")]


def _move(hit: FoundHit, at: int) -> list[Element]:
    if hit.again:
        return [el("span", "same document", class_="move", title="Another passage of it stands above")]
    if at == 0:
        return []
    if hit.before is None:
        return [el("span", "new", class_="move", title="Not among the first column's results")]
    up = hit.before - hit.rank
    mark = "=" if up == 0 else f"{'↑' if up > 0 else '↓'} {abs(up)}"
    return [
        el(
            "span",
            mark,
            class_=f"move {'up' if up > 0 else 'down' if up < 0 else ''}",
            title=f"First column: {hit.before}",
        )
    ]


def _shares(hit: FoundHit) -> Element | None:
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
    said = ", ".join(f"{leg.leg} {leg.rank}" for leg in hit.legs)
    return el("div", el("div", *bars, class_="shares"), el("small", f"ranks: {said}", class_="muted"))
