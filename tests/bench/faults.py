"""Faults that were really injected, with the rows that each of them cost, and the executions of the fuzzers.

Owns the table and its figures. The drills are those of `tests/drills/faults`, more often than there. All of it takes
most of an hour on two cores; `measure(0.01)` does a hundredth, to see that it works.
"""

from __future__ import annotations

import os
import queue
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console

from core import bridge
from core.store.engine import Store
from evals.schema import schema_chain
from tests.bench.figures import Figure, at_least, below
from tests.drills.faults import (
    beside,
    clock,
    crowd,
    cut,
    disk,
    endpoints,
    ingest_killed,
    kills,
    migrating,
    server_killed,
    soak,
)
from tests.drills.faults.outcome import Outcome, is_sentence

INJECTED: Final = 2_000  # faults, at least; and so on
KINDS: Final = 20
INPUTS: Final = 1_000_000
MINUTES: Final = 60.0  # at most
OPERATIONS: Final = 10_000
FUZZING: Final = float(os.environ.get("RANKBOOK_FUZZ_SECONDS", "1200"))
HUNG: Final = 1_800.0  # seconds; the longest drill takes half of that
Drill = Callable[[], Outcome]


@dataclass
class Found:
    """What came of the drills. One that hung or broke down has no outcome, and says so."""

    outcomes: list[Outcome] = field(default_factory=list)
    hung: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def faults(self) -> list[Outcome]:
        return [each for each in self.outcomes if "soak" not in each.fault]


def measure(share: float = 1.0) -> list[Figure]:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="rankbook-faults-", dir="/tmp") as folder:
        store = bridge.run(Store.open(chains=[schema_chain]))
        try:
            found = Found()
            for drill in _drills(store, Path(folder), share):
                carry_out(drill, found)
        finally:
            bridge.run(store.close())
    fuzzed = _fuzzed(FUZZING * share)
    took = below("all of it", (time.monotonic() - begun) / 60, MINUTES, "{:.1f} minutes")
    return [*map(_figure, found.outcomes), *in_all(found), *fuzzed, took]


def _drills(store: Store, folder: Path, share: float) -> Iterator[Drill]:
    """As many of each as make the figures, most of what is quick."""

    def times(count: int) -> int:
        return max(1, round(count * share))

    yield partial(kills.drill, times(800))
    yield partial(ingest_killed.drill, store, folder, times(150))
    yield partial(server_killed.drill, store, times(60))
    yield partial(cut.drops, store, times(150))
    yield partial(cut.under_search, store, times(300))  # each twice: while it is asked, and while it rests
    yield partial(cut.under_suite, store, times(60))
    yield from (partial(each, store) for each in (cut.lost_answers, cut.delays, cut.under_silence))
    yield from disk.DRILLS
    yield partial(beside.at_once, store, folder, times(20))
    yield partial(beside.overtaken, store, folder)
    yield from (partial(each, store) for each in migrating.DRILLS)
    yield partial(clock.under_load, store, folder)
    yield partial(clock.put_back, store)
    yield from endpoints.DRILLS
    yield from (partial(each, store) for each in crowd.DRILLS)
    yield partial(soak.drill, store, times(OPERATIONS))


def carry_out(drill: Drill, found: Found, within: float = HUNG) -> None:
    """In a thread of its own, so that one that hangs is told and the next one begins."""
    ended: queue.SimpleQueue[Outcome | BaseException] = queue.SimpleQueue()

    def work() -> None:
        try:
            ended.put(drill())
        except BaseException as error:
            ended.put(error)

    threading.Thread(target=work, daemon=True).start()
    function = drill.func if isinstance(drill, partial) else drill
    name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
    try:
        came = ended.get(timeout=within)
    except queue.Empty:
        found.hung.append(name)
        Console(stderr=True).print(f"{name} did not end within {within:,.0f} s.")
        return
    if isinstance(came, disk.CannotMount | clock.NoFakeClock):
        Console(stderr=True).print(f"Left out: {came}")
    elif isinstance(came, BaseException):
        found.broken.append(name)
        Console(stderr=True).print(f"{name}: {came!r}")
    else:
        found.outcomes.append(came)


def _figure(each: Outcome) -> Figure:
    works = "the next command works" if each.works else "the next command FAILS"
    told = f"{each.injected:,} injected, {each.lost} rows lost, {each.doubled} doubled, {works}"
    cells = ("fault", each.fault), ("injected", f"{each.injected:,}"), ("rows lost", str(each.lost))
    row = (*cells, ("rows doubled", str(each.doubled)), ("next command", "works" if each.works else "fails"))
    return Figure(each.fault, told, "0 lost, 0 doubled", each.clean, "Faults", row)


def in_all(found: Found) -> list[Figure]:
    kinds = [each for each in found.faults if each.injected]
    leaks = sum(not each.works for each in found.outcomes if "soak" in each.fault)
    unhandled = [said for each in found.faults for said in each.said if not is_sentence(said)]
    return [
        at_least("faults injected", sum(each.injected for each in found.faults), INJECTED, "{:,.0f}"),
        at_least("kinds of faults", len(kinds), KINDS, "{:.0f}"),
        _none("rows lost or doubled", sum(each.lost + each.doubled for each in found.outcomes)),
        _none("hangs", len(found.hung)),
        _none("errors that were no sentence", len(unhandled) + len(found.broken)),
        _none("leaks of memory or connections", leaks),
    ]


def _none(what: str, count: int) -> Figure:
    return Figure(what, f"{count:,}", "0", not count)


def _fuzzed(seconds: float) -> list[Figure]:
    from tests.drills.fuzz.running import run_all

    results = run_all(seconds, at_once=os.cpu_count() or 1)
    executions, findings = sum(each.executions for each in results), sum(each.findings for each in results)
    return [
        *(_fuzzer(each.name, each.executions, each.findings) for each in results),
        _fuzzer("all", executions, findings),
        at_least("fuzzed inputs", executions, INPUTS, "{:,.0f}"),
    ]


def _fuzzer(name: str, executions: int, findings: int) -> Figure:
    row = (("parser", name), ("executions", f"{executions:,}"), ("findings", str(findings)))
    told = f"{executions:,} executions, {findings} findings"
    return Figure(f"fuzzing {name}", told, "0 findings", not findings, "Fuzzers", row)
