"""All pages of the workbench, in the order of the navigation. A new page is one line here."""

from __future__ import annotations

from importlib import import_module
from typing import Final

from workbench.components.page import WorkbenchPage

MODULES: Final = (
    "workbench.screens.search.page",
    "workbench.screens.notebook.page",
    "workbench.screens.weights.page",
    "workbench.screens.collections.page",
    "workbench.screens.variants.page",
    "workbench.screens.runs.page",
    "workbench.screens.judge.page",
)
PAGES: Final[tuple[WorkbenchPage, ...]] = tuple(import_module(name).PAGE for name in MODULES)
TITLES: Final = tuple(page.title for page in PAGES)
