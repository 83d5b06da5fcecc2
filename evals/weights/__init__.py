"""Former name of `evals.tuning`, kept for notebooks that were exported by earlier versions."""
