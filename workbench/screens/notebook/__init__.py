"""The page Notebook: its cells, their sources, outputs and keys."""
