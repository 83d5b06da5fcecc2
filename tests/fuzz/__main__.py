"""Fuzz every parser, or those named, and print what came of it; the exit code is 1 where something was found.

python -m tests.fuzz                            ten seconds a target
python -m tests.fuzz --seconds 600 beir_zip     one of them, for ten minutes
python -m tests.fuzz --into found               keep the inputs that were findings, and what was said of each
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.running import Result, results
from tests.fuzz.targets import TARGETS

SECONDS_A_TARGET = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("target", nargs="*", help=f"of: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, help="for all of them together")
    parser.add_argument("--into", type=Path, help="a folder for findings; the next run goes on from what is in it")
    parser.add_argument("--at-once", type=int, default=1, help="how many processes; the time is that of one")
    given = parser.parse_args()
    seconds = given.seconds or SECONDS_A_TARGET * len(given.target or TARGETS)
    console, found = Console(width=140), list[Result]()
    with console.status("fuzzing") as status:
        for each in results(seconds, given.target, folder=given.into, at_once=given.at_once):
            found.append(each)
            status.update(f"fuzzing: {each.name} done, {len(found)} in all")
    console.print(shown(found))
    return 1 if any(each.findings for each in found) else 0


def shown(found: list[Result]) -> Table:
    table = Table("target", "inputs", "findings", "", title="Fuzzing", title_justify="left")
    for each in found:
        table.add_row(each.name, f"{each.executions:,}", str(each.findings), "; ".join(each.signs))
    table.add_row("all", f"{sum(each.executions for each in found):,}", str(sum(each.findings for each in found)), "")
    return table


if __name__ == "__main__":
    sys.exit(main())
