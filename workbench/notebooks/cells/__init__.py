"""The kinds of cells: one file each. A new one is one more file here and its import below."""

from workbench.notebooks.cells import compare, context, evaluate, fusion, judge, search
from workbench.notebooks.cells.base import CellSpec, PythonExport, kinds, ordered_kinds

__all__ = [
    "CellSpec",
    "PythonExport",
    "compare",
    "context",
    "evaluate",
    "fusion",
    "judge",
    "kinds",
    "ordered_kinds",
    "search",
]
