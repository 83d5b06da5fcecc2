"""How the output of each kind of cell is drawn on the page: one file each, and its line below.

A kind without a view of its own is drawn block by block.
"""

from workbench.ui.outputs.base import Shown, View

VIEWS: dict[str, View] = {}

__all__ = ["VIEWS", "Shown", "View"]
