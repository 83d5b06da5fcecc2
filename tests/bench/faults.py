"""Faults that were really injected, with the rows that each of them cost, and the executions of the fuzzers.

Owns the table. The drills are those of `tests/drills/faults`, more often than there.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from rich.console import Console

from core import bridge
from core.store.engine import Store
from evals.store import chain
from tests.bench.figures import Figure
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
from tests.drills.faults.outcome import Outcome

OPERATIONS = 10_000
FUZZING = float(os.environ.get("RANKBOOK_FUZZ_SECONDS", "60"))
Drill = Callable[[], Outcome]


def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="rankbook-faults-", dir="/tmp") as folder:
        store = bridge.run(Store.open(chains=[chain]))
        try:
            outcomes = [outcome for drill in _drills(store, Path(folder)) if (outcome := _carried_out(drill))]
        finally:
            bridge.run(store.close())
    return [*map(_figure, outcomes), _all_of(outcomes), *_fuzzed()]


def _drills(store: Store, folder: Path) -> Iterator[Drill]:
    yield partial(ingest_killed.drill, store, folder)
    yield partial(server_killed.drill, store, 8)
    yield from (partial(each, store) for each in cut.DRILLS)
    yield partial(kills.drill, 300)
    yield from disk.DRILLS
    yield partial(beside.at_once, store, folder, 5)
    yield partial(beside.overtaken, store, folder)
    yield from (partial(each, store) for each in migrating.DRILLS)
    yield partial(clock.under_load, store, folder)
    yield partial(clock.put_back, store)
    yield from endpoints.DRILLS
    yield from (partial(each, store) for each in crowd.DRILLS)
    yield partial(soak.drill, store, OPERATIONS)


def _carried_out(drill: Drill) -> Outcome | None:
    try:
        return drill()
    except (disk.CannotMount, clock.NoFakeClock) as reason:
        Console(stderr=True).print(f"Left out: {reason}")
        return None


def _figure(each: Outcome) -> Figure:
    works = "the next command works" if each.works else "the next command FAILS"
    told = f"{each.injected:,} injected, {each.lost} rows lost, {each.doubled} doubled, {works}"
    cells = ("fault", each.fault), ("injected", f"{each.injected:,}"), ("rows lost", str(each.lost))
    row = (*cells, ("rows doubled", str(each.doubled)), ("next command", "works" if each.works else "fails"))
    return Figure(each.fault, told, "0 lost, 0 doubled", each.clean, "Faults", row)


def _all_of(outcomes: list[Outcome]) -> Figure:
    faults = [each for each in outcomes if "soak" not in each.fault]
    injected, lost, doubled = (sum(getattr(each, of) for each in faults) for of in ("injected", "lost", "doubled"))
    told = f"{injected:,} injected, {lost} rows lost, {doubled} doubled"
    return Figure("all faults", told, "0 lost, 0 doubled", not lost and not doubled)


def _fuzzed() -> list[Figure]:
    from tests.drills.fuzz.running import run_all

    results = run_all(FUZZING)
    executions, findings = sum(each.executions for each in results), sum(each.findings for each in results)
    return [
        *(_fuzzer(each.name, each.executions, each.findings) for each in results),
        _fuzzer("all", executions, findings),
    ]


def _fuzzer(name: str, executions: int, findings: int) -> Figure:
    row = (("parser", name), ("executions", f"{executions:,}"), ("findings", str(findings)))
    told = f"{executions:,} executions, {findings} findings"
    return Figure(f"fuzzing {name}", told, "0 findings", not findings, "Fuzzers", row)
