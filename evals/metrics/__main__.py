"""`python -m evals.metrics` compiles what the metrics need, so that the first evaluation need not."""

from __future__ import annotations

from evals.metrics.scoring import warm_up

if __name__ == "__main__":
    warm_up()
