"""The workbench's pages by their names, as the navigation shows them and every text calls them. Knows no Streamlit."""

from typing import Final

SEARCH: Final = "Search"
NOTEBOOK: Final = "Notebook"
WEIGHTS: Final = "Weights"
COLLECTIONS: Final = "Collections"
VARIANTS: Final = "Variants"
RUNS: Final = "Runs"
JUDGE: Final = "Judge"
TITLES: Final = (SEARCH, NOTEBOOK, WEIGHTS, COLLECTIONS, VARIANTS, RUNS, JUDGE)
