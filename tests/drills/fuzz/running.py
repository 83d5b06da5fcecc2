"""Runs targets, each in a process of its own, and says what came of it. `nursery` owns the processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from core.errors import RankbookError, UnknownName
from tests.drills.fuzz import scratch, worker
from tests.drills.fuzz.target import HOUSE
from tests.drills.fuzz.targets import TARGETS


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one target. `signs` are the kinds of findings, whose inputs lie in the folder of the run."""

    name: str
    executions: int
    findings: int
    signs: tuple[str, ...] = ()


def run_all(seconds: float, names: Iterable[str] = (), *, folder: Path | None = None, at_once: int = 1) -> list[Result]:
    """Every target, or those named, each for an equal share of the time."""
    return list(results(seconds, names, folder=folder, at_once=at_once))


def results(
    seconds: float,
    names: Iterable[str] = (),
    *,
    folder: Path | None = None,
    at_once: int = 1,
    guided: bool = True,
    inputs: int | None = None,
) -> Iterator[Result]:
    """The same as they come; without guidance nothing is watched, so that the first one begins at once."""
    chosen = list(names) or list(TARGETS)
    for name in chosen:
        if name not in TARGETS:
            raise UnknownName("fuzz target", name, TARGETS)
    with tempfile.TemporaryDirectory(prefix="rankbook-fuzz-") as kept:
        into = (folder or Path(kept)).resolve()
        into.mkdir(parents=True, exist_ok=True)
        asked = [sys.executable, "-m", "tests.drills.fuzz.nursery", str(seconds), str(at_once), str(into), *chosen]
        settings = {} if guided else {worker.UNGUIDED: "1"}
        yield from _told(asked, into, settings if inputs is None else settings | {worker.INPUTS: str(inputs)})


def _told(command: list[str], into: Path, settings: dict[str, str]) -> Iterator[Result]:
    """What the nursery says, line by line."""
    environment = {**os.environ, "RANKBOOK_HOME": str(into / "home"), "PYTHONHASHSEED": "0", **settings}
    with (
        tempfile.TemporaryDirectory(prefix="rankbook-fuzz-", dir=scratch.MEMORY) as within,
        (into / "loading.txt").open("wb") as log,
        subprocess.Popen(
            command,
            cwd=HOUSE,
            env=environment | {scratch.WITHIN: within},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        ) as nursery,
    ):
        try:
            assert nursery.stdout is not None
            for line in nursery.stdout:
                told = json.loads(line)
                yield Result(told["name"], told["executions"], len(told["signs"]), tuple(told["signs"]))
        except BaseException:
            nursery.terminate()
            raise
    if nursery.returncode:
        raise RankbookError(f"The fuzzers could not be started; see {into / 'loading.txt'}.")
