"""The page Search: one query, several legs side by side."""
