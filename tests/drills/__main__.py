"""Run the drills: what proves a promise by taking long.

python -m tests.drills                 every part, sampled, from the seed of this repository
python -m tests.drills faults dask     those parts
python -m tests.drills all             every part, whole, from a seed of the day, which is printed
python -m tests.drills all --seed 7    the same from another seed, to see again what was found
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from tests.effort import SEED

WHOLE: Final = 10  # times as much as a sample
PYTEST: Final = ("pytest", "--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile", "--no-loadscope-reorder")
PATIENCE: Final = 600  # seconds a test of a sample
EXAMPLES, INPUTS = 3, 500  # in a sample: times as many examples of a property as in `make test`; inputs a fuzz target

PARTS: Final = {
    "faults": "processes, connections, disks and clocks that fail",
    "soak": "memory and connections over thousands of operations",
    "dask": "clusters of real Dask processes",
    "packaging": "an installed wheel; a move between two major versions of PostgreSQL",
    "upgrade": "a home that the first build made, opened by this version",
    "help": "every example of every command's help",
    "demo": "which leg wins which kind of query, as the demo collection's card says",
    "mutants": "every protection of SECURITY.md taken out, one at a time: a test fails",
    "properties": "every property, with many more examples than in `make test`",
    "fuzz": "every parser",
}
# These share a run, so that no process waits.
FOLDERS: Final = ("faults", "soak", "dask", "packaging", "upgrade", "help", "demo", "mutants")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.drills",
        description=__doc__,
        epilog="\n".join(["parts:", *(f"  {name:12}{what}" for name, what in PARTS.items())]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", nargs="*", help="`all`, or some of the parts below")
    parser.add_argument("--seed", type=int, help="of everything that is drawn")
    given = parser.parse_args()
    if unknown := [part for part in given.part if part not in {*PARTS, "all"}]:
        parser.error(f"there is no part {unknown[0]!r}; the parts are: {', '.join(PARTS)}, all")
    whole = "all" in given.part
    parts = [part for part in PARTS if part in given.part] or list(PARTS)
    seed = given.seed or (int(f"{datetime.now(UTC):%Y%m%d}") if whole else SEED)
    print(f"Drills: {', '.join(parts)}; {'whole' if whole else 'sampled'}; seed {seed}", flush=True)
    failed = [part for part in runs(parts, seed, WHOLE if whole else 1) if not part.passed()]
    for each in failed:
        print(f"Failed: {each.name}. To see it again: {'all ' if whole else ''}{each.name} --seed {seed}")
    return 1 if failed else 0


@dataclass(frozen=True)
class Run:
    """One `python -m ...`, with how much it does and from which seed."""

    name: str
    command: Sequence[str]
    seed: int
    times: int

    def passed(self) -> bool:
        begun = time.monotonic()
        environment = {**os.environ, "RANKBOOK_TEST_SEED": str(self.seed), "RANKBOOK_TEST_TIMES": str(self.times)}
        ended = subprocess.run([sys.executable, "-m", *self.command], env=environment, check=False)
        print(f"\nDrills, {self.name}: {time.monotonic() - begun:.0f} s\n", flush=True)
        return ended.returncode == 0


def runs(parts: Sequence[str], seed: int, times: int) -> Iterator[Run]:
    pytest = [*PYTEST, f"--timeout={PATIENCE * times}"]
    if folders := [part for part in parts if part in FOLDERS]:
        yield Run(" ".join(folders), [*pytest, *(f"tests/drills/{each}" for each in folders)], seed, times)
    if "properties" in parts:
        yield Run("properties", [*pytest, "-m", "hypothesis", f"--hypothesis-seed={seed}"], seed, EXAMPLES * times)
    if "fuzz" in parts:
        inputs = [f"--inputs={INPUTS * times}", f"--seed={seed}", f"--at-once={os.cpu_count() or 1}"]
        yield Run("fuzz", ["tests.drills.fuzz", *inputs], seed, times)


if __name__ == "__main__":
    sys.exit(main())
