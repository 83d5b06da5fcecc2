"""The kinds of cells: one file each. A new one is one more file here and its import below."""

from workbench.book.cells import compare, context, evaluate, fusion, judge, search
from workbench.book.cells.base import CellSpec, Told, kinds

__all__ = ["CellSpec", "Told", "compare", "context", "evaluate", "fusion", "judge", "kinds", "search"]
