"""Fuzz every parser, or those named, and print what came of it; the exit code is 1 where something was found.

python -m tests.drills.fuzz                            ten seconds a target
python -m tests.drills.fuzz --seconds 600 beir_zip     one of them, for ten minutes
python -m tests.drills.fuzz --inputs 500               as many inputs a target, the same in every run with one seed
python -m tests.drills.fuzz --into found               keep the inputs that were findings, and what was said of each
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.drills.fuzz.running import Result, results
from tests.drills.fuzz.targets import TARGETS

SECONDS_A_TARGET = 10.0
ENOUGH = 600.0  # where the number of inputs decides


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drills.fuzz", description=(__doc__ or "").split("\n", maxsplit=1)[0]
    )
    parser.add_argument("target", nargs="*", help=f"of: {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, help="for all of them together")
    parser.add_argument("--inputs", type=int, help="for each of them, at the most")
    parser.add_argument("--seed", type=int, help="of the inputs")
    parser.add_argument("--into", type=Path, help="a folder for findings; the next run goes on from what is in it")
    parser.add_argument("--at-once", type=int, default=1, help="how many processes; the time is that of one")
    given = parser.parse_args()
    seconds = given.seconds or (ENOUGH if given.inputs else SECONDS_A_TARGET) * len(given.target or TARGETS)
    if given.seed is not None:
        os.environ["RANKBOOK_TEST_SEED"] = str(given.seed)
    console, found = Console(width=140), list[Result]()
    with console.status("fuzzing") as status:
        for each in results(seconds, given.target, folder=given.into, at_once=given.at_once, inputs=given.inputs):
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
