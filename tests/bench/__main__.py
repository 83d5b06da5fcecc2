"""Runs the benchmarks named, or all; prints each one's figures with their targets as they come.

The exit code is 1 where a target is missed.

python -m tests.bench             everything
python -m tests.bench embedding   one module
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.bench.figures import Figure

MODULES = ("start", "embedding", "quality", "reingest", "bulk", "latency", "legs", "hybrid", "recall", "presets")


def main() -> int:
    chosen = sys.argv[1:] or MODULES
    os.environ.pop("RANKBOOK_DSN", None)
    os.environ["RANKBOOK_HOME"] = tempfile.mkdtemp(prefix="rankbook-bench-", dir="/tmp")
    figures: list[Figure] = []
    try:
        for name in chosen:
            found = import_module(f"tests.bench.{name}").measure()
            show(name, found)
            figures += found
    finally:
        shutil.rmtree(Path(os.environ["RANKBOOK_HOME"]), ignore_errors=True)
    return 0 if all(figure.met for figure in figures) else 1


def show(title: str, figures: list[Figure]) -> None:
    table = Table("what", "measured", "target", "", title=title, title_justify="left")
    for figure in figures:
        table.add_row(figure.what, figure.measured, figure.target, "met" if figure.met else "MISSED")
    Console(width=120).print(table)


if __name__ == "__main__":
    sys.exit(main())
