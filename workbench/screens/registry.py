"""All pages of the workbench, in the order of the navigation. A new page is one line here."""

from __future__ import annotations

from typing import Final

from workbench.components.page import Page
from workbench.screens.collections.page import PAGE as COLLECTIONS
from workbench.screens.judge.page import PAGE as JUDGE
from workbench.screens.notebook.page import PAGE as NOTEBOOK
from workbench.screens.runs.page import PAGE as RUNS
from workbench.screens.search.page import PAGE as SEARCH
from workbench.screens.variants.page import PAGE as VARIANTS
from workbench.screens.weights.page import PAGE as WEIGHTS

PAGES: Final[tuple[Page, ...]] = (SEARCH, NOTEBOOK, WEIGHTS, COLLECTIONS, VARIANTS, RUNS, JUDGE)
TITLES: Final = tuple(page.title for page in PAGES)
