"""A notebook with its outputs as one HTML file that opens offline, in the dress of the reports.

Prose goes through `markdown`, outputs through `evals.presentation.html`, so that neither can be markup of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from evals.display import Table, el, written
from evals.presentation import html, palette
from evals.presentation.charts import restyled
from evals.presentation.types import Block, Chart, Code, SearchResults, Text
from workbench.notebooks import markdown
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.document import Cell, Notebook, Prose


def render(notebook: Notebook, results: Sequence[CellState]) -> str:
    """The page. Cells without a result are shown as they are written."""
    page = _NotebookPage(notebook, results)
    title = notebook.title or "Rankbook notebook"
    return html.page(title, page.body(), page.charts, style=f"\n{html.asset('book.css')}")


class _NotebookPage:
    """The body, and the figures that its script draws, in the order in which their places were made."""

    def __init__(self, notebook: Notebook, results: Sequence[CellState]) -> None:
        self.notebook = notebook
        self.results = {result.cell.id: result for result in results}
        self.styles = palette.styles_of(result.output for result in results)
        self.charts: list[dict[str, Any]] = []

    def body(self) -> str:
        parts = "\n".join(
            f'<section class="prose">{markdown.html(part.text)}</section>'
            if isinstance(part, Prose)
            else written(self._cell(part))
            for part in self.notebook.shown
        )
        head = "" if self.notebook.title else written(el("header", el("h1", "A notebook")))
        foot = written(el("footer", el("p", "Made by Rankbook. This page needs no network, and asks for none.")))
        return f'<body class="book">{head}<main>{parts}</main>{foot}</body>'

    def _cell(self, cell: Cell) -> Element:
        result = self.results.get(cell.id)
        source = el("details", el("summary", "Source"), el("pre", el("code", cell.source), tabindex="0"))
        if cell not in self.notebook.cells:
            return el("section", el("p", "Shared by all cells", class_="kicker"), source, class_="cell shared")
        number = self.notebook.cells.index(cell) + 1
        heading = f"{number}. {result.title if result else cell.name or cell.kind}"
        return el(
            "section",
            el("p", cell.kind, class_="kicker"),
            el("h3", heading),
            _state(result),
            *(map(self._block, result.output.blocks) if result and result.output else []),
            source,
            class_="cell",
            id=f"cell-{number}",
        )

    def _block(self, block: Block) -> Element:
        match block:
            case Text():
                return el("p", block.text, class_=f"said {block.tone}")
            case Table():
                return html.table(block)
            case Chart():
                self.charts.append(restyled(block.figure, self.styles))
                title = el("h4", block.title) if block.title else None
                return el("div", title, html.chart_place(block, len(self.charts) - 1), class_="card")
            case SearchResults():
                return html.search_results(block, self.styles)
            case Code():
                text = el("pre", el("code", block.text), tabindex="0")
                return el("details", el("summary", block.title), text)


def _state(result: CellState | None) -> Element | None:
    """What is to be known before the output: that there is none, that it failed, or that it is stale."""
    if result is None or (result.output is None and not result.problem):
        return el("p", "Not run yet.", class_="nothing")
    if result.problem:
        return el("p", el("strong", "It failed. "), result.problem, class_="doubts problem")
    if result.stale:
        return el("p", el("strong", "Stale: "), stale_sentence(result), class_="doubts stale")
    return None


def stale_sentence(result: CellState) -> str:
    """What changed since the output was made, and when that was."""
    moment = f", on {result.made_at:%Y-%m-%d %H:%M}" if result.made_at else ""
    return f"{' and '.join(result.stale)} since this was made{moment}."
