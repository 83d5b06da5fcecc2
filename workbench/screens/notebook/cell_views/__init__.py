"""How the output of each kind of cell is drawn on the page: one file each, and its line below.

A kind without a view of its own is drawn block by block.
"""

from workbench.screens.notebook.cell_views import compare, context, evaluate, fusion, judge, search
from workbench.screens.notebook.cell_views.base import CellView, View

VIEWS: dict[str, View] = {
    "search": search.draw,
    "fusion": fusion.draw,
    "context": context.draw,
    "evaluate": evaluate.draw,
    "compare": compare.draw,
    "judge": judge.draw,
}

__all__ = ["VIEWS", "CellView", "View"]
