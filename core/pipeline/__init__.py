"""A search from query to result: recall, fusion, postprocessing, and what it would cost before it runs."""
