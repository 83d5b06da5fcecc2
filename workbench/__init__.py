"""What a person touches: the command line and the pages. Work happens in `core` and `evals`."""
