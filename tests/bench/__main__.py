"""Runs the benchmarks named, or all; prints each one's figures with their targets as they come.

The exit code is 1 where a target is missed. With --markdown, what belongs in a table of the README is printed as one.
Everything is made in a home that is thrown away, unless RANKBOOK_BENCH_HOME names one: what is there is used again.

python -m tests.bench                      everything
python -m tests.bench embedding            one module
python -m tests.bench presets --markdown   the README's table of results
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure, markdown
from tests.conftest import remove_home

MODULES = (
    "start",
    "embedding",
    "quality",
    "reingest",
    "bulk",
    "latency",
    "legs",
    "hybrid",
    "attached",
    "recall",
    "presets",
    "metrics",
    "statistics",
    "suite",
    "spread",
    "sweep",
    "notebook",
    "tuned",
    "weights",
    "screen",
    "sessions",
    "memory",
    "faults",
    "citus",
    "house",
)


def main() -> int:
    chosen = [each for each in sys.argv[1:] if not each.startswith("--")] or MODULES
    kept = os.environ.get("RANKBOOK_BENCH_HOME")
    os.environ.pop("RANKBOOK_DSN", None)
    os.environ["RANKBOOK_HOME"] = kept or tempfile.mkdtemp(prefix="rankbook-bench-", dir="/tmp")
    figures: list[Figure] = []
    try:
        for name in chosen:
            found = import_module(f"tests.bench.{name}").measure()
            show(name, found)
            figures += found
    finally:
        if not kept:
            remove_home(Path(os.environ["RANKBOOK_HOME"]))
    if "--markdown" in sys.argv:
        sys.stdout.write(f"\n{markdown(figures)}\n")
    return 0 if all(figure.met for figure in figures) else 1


def show(title: str, figures: list[Figure]) -> None:
    table = Table("what", "measured", "target", "", title=title, title_justify="left")
    for figure in figures:
        table.add_row(figure.what, figure.measured, figure.target, "met" if figure.met else "MISSED")
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main())
