"""Runs the benchmarks named, or all; prints each one's figures with their targets as they come.

The exit code is 1 where a target is missed. With --markdown, figures that have a row of a table are printed as tables.
Everything is made in a home that is thrown away, unless RANKBOOK_BENCH_HOME names one: what is there is used again.

python -m tests.bench                      everything
python -m tests.bench embedding            one module
python -m tests.bench presets --markdown   one module, its table as Markdown
python -m tests.bench results              everything that docs/results.md states; writes that page
python -m tests.bench results latency      one module; the other figures of the page stay as they are
python -m tests.bench results --as-kept    writes the page from the figures that were measured last
"""

from __future__ import annotations

import os
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench import results
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
    named = [each for each in sys.argv[1:] if not each.startswith("--")]
    writes = "results" in named
    chosen = [each for each in named if each != "results"] or (results.benchmarks() if writes else MODULES)
    if "--as-kept" in sys.argv:
        chosen = []
    if writes:  # the page has a million in its tables
        for name in ("RANKBOOK_BENCH_CHUNKS", "RANKBOOK_BENCH_HYBRID"):
            os.environ.setdefault(name, "10000,100000,1000000")
    kept = os.environ.get("RANKBOOK_BENCH_HOME")
    os.environ.pop("RANKBOOK_DSN", None)
    os.environ["RANKBOOK_HOME"] = kept or tempfile.mkdtemp(prefix="rankbook-bench-", dir="/tmp")
    figures: list[Figure] = []
    try:
        for name in chosen:
            found = import_module(f"tests.bench.{name}").measure()
            show(name, found)
            figures += found
            if writes:
                results.keep(name, found)
    finally:
        if not kept:
            remove_home(Path(os.environ["RANKBOOK_HOME"]))
    if writes:
        results.PAGE.write_text(results.page(results.read()), encoding="utf-8")
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
