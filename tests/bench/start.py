"""How soon the command answers."""

from __future__ import annotations

import subprocess
import sys

from tests.bench.figures import Figure, below, seconds


def measure() -> list[Figure]:
    def ask() -> None:
        subprocess.run([sys.executable, "-m", "workbench.cli", "--help"], check=True, capture_output=True)

    ask()
    return [below("rankbook --help, seconds (best of 5)", min(seconds(ask) for _ in range(5)), 0.5, "{:.2f}")]
