"""Imports everything once, watched for coverage, and has each target fuzzed in a child of its own.

`python -m tests.drills.fuzz.nursery SECONDS AT_ONCE FOLDER TARGET...` prints a line of JSON as each target is done.
Watching makes the import slow, which is why children are forked from here wherever that can be done.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Final

from tests.drills.fuzz import worker

TRIES: Final = 5  # processes that one target may end
LOADING: Final = 120.0  # seconds that a child may take before it begins, where nothing can be forked
CONTEXT: Final[Any] = multiprocessing.get_context(
    "fork" if "fork" in multiprocessing.get_all_start_methods() and sys.platform == "linux" else "spawn"
)


@dataclass
class Child:
    """A target being fuzzed: what its processes came to so far, and the one that is at it."""

    name: str
    folder: Path
    left: float
    tries: int = 0
    executions: int = 0
    signs: set[str] = field(default_factory=set)
    process: BaseProcess = field(init=False)
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.begin()

    @property
    def own(self) -> Path:
        return self.folder / (f"{self.name}-{self.tries}" if self.tries else self.name)

    def begin(self) -> None:
        self.own.mkdir(parents=True, exist_ok=True)
        (self.own / worker.NOTE).unlink(missing_ok=True)
        self.began = time.monotonic()
        self.process = CONTEXT.Process(target=worker.work, args=(self.name, self.left, self.own), daemon=True)
        self.process.start()

    @property
    def late(self) -> bool:
        """Whether it hears no alarm any more."""
        return time.monotonic() > self.began + self.left + worker.HARD_SECONDS + LOADING

    def ended(self) -> bool:
        """Take down what its process came to. Whether that was the last one."""
        if self.late:
            self.process.kill()
        self.process.join()
        told = worker.state(self.own)
        self.executions += told["executions"]
        self.signs |= set(told["findings"])
        self.left -= time.monotonic() - self.began
        if not self.process.exitcode:
            return True
        self.signs.add(f"the process ended with {self.process.exitcode}")
        self.tries += 1
        if self.left < 1 or self.tries >= TRIES:
            return True
        self.begin()
        return False

    def line(self) -> str:
        return json.dumps({"name": self.name, "executions": self.executions, "signs": sorted(self.signs)})


def children(names: list[str], share: float, at_once: int, folder: Path) -> Iterator[Child]:
    """Each as it is done."""
    waiting, busy = list(names), list[Child]()
    while waiting or busy:
        while waiting and len(busy) < at_once:
            busy.append(Child(waiting.pop(0), folder, share))
        ready = wait([child.process.sentinel for child in busy], timeout=1)
        for child in list(busy):
            if (child.process.sentinel in ready or child.late) and child.ended():
                busy.remove(child)
                yield child


def main() -> None:
    seconds, at_once, folder, names = float(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # in good order, so that no child goes on
    if CONTEXT.get_start_method() == "fork":
        worker.load()
    for child in children(names, seconds * at_once / len(names), at_once, folder):
        sys.stdout.write(f"{child.line()}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
