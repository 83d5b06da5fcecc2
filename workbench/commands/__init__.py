"""The command line's groups. What they do happens in `core` and `evals`; this is asking and telling."""
