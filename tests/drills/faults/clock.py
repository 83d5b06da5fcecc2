"""A clock that jumps: under a load, under the times that decide which run, judgement or cached chunk is the newest."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path

from sqlalchemy import text

from core import bridge
from core.context import RequestContext
from core.store.engine import Store
from evals.judging import judgements
from evals.judging.judgements import Judgement
from evals.runs import run_store, runner
from evals.runs.plan import EvalOptions
from tests.drills.faults import server_killed
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import Outcome, account
from tests.effort import random_for
from tests.fakes import HashingEmbedder
from tests.store.making import documents, ids, make, some_name

DOCUMENTS = 300
JUMPS = ("+30d", "-30d", "+0", "-20y", "+5y", "-1d")
PLACES = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1")


class NoFakeClock(Exception):
    """Nobody here can set a process's clock."""


def library() -> str:
    """The library that gives a process a clock of its own: the package libfaketime's, or the system's."""
    spec = find_spec("libfaketime")
    places = [Path(place) for place in PLACES]
    if spec is not None and spec.origin is not None:
        places.insert(0, Path(spec.origin).parent / "vendor/libfaketime/src/libfaketime.so.1")
    for place in places:
        if sys.platform == "linux" and place.exists():
            return str(place)
    raise NoFakeClock("A clock that jumps takes libfaketime: pip install libfaketime, or apt install faketime.")


def under_load(store: Store, folder: Path) -> Outcome:
    """The loading process's clock is set to and fro all the time; what it tells of time is as it was."""
    name, moves = some_name(), random_for("clock")
    make(store, name, [HashingEmbedder(name=name)])
    moment = folder / "moment"
    moment.write_text("+0")
    environment = {
        "LD_PRELOAD": library(),
        "FAKETIME_TIMESTAMP_FILE": str(moment),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    with Nursery(environment) as nursery:
        nursery.start("tests.drills.faults.chores:load_and_time", name, name, DOCUMENTS, str(folder / "diary"), 0.1)
        begun, jumps = time.monotonic(), 0
        while time.monotonic() - begun < 2:
            part = folder / "part"
            part.write_text(moves.choice(JUMPS))
            part.replace(moment)
            jumps += 1
            time.sleep(0.05)
        ended = nursery.end()
    seconds = [float(line) for line in ended.out.split()] if ended.well else [-1.0]
    lost, doubled = account(store, name, ids(documents(DOCUMENTS)))
    works = ended.well and all(0 <= each <= ended.seconds for each in seconds)
    return Outcome("clock jumps under an ingest", jumps, lost, doubled, works, (ended.said,) if ended.said else ())


def put_back(store: Store) -> Outcome:
    """What was kept while the clock was a year ahead is not the newest for a year: the last one used is."""
    context = server_killed.searchable(store, some_name())
    name = context.view.name
    first, second = (bridge.run(_kept(context, number)) for number in (0, 1))
    _move(store, "runs", "used_at = used_at + interval '1 year'", f"id = '{first}'")
    _move(store, "runs", "names = jsonb_build_object(name, used_at)", f"id = '{first}'")
    bridge.run(run_store.mark_used(store, {second: ["same"]}))
    newest = bridge.run(run_store.find(store, "same", collection=name)).id
    _judge(store, name, "d00001")
    _move(store, "judgements", "judged_at = judged_at + interval '1 year'", f"collection = '{name}'")
    _judge(store, name, "d00002")
    undone = bridge.run(judgements.undo(store, name, "ada"))
    works = newest == second and undone is not None and undone.item_id == "d00002"
    return Outcome("clock put back by a year", 2, 0, 0, works)


async def _kept(context: RequestContext, number: int) -> str:
    variant = server_killed.VARIANTS[number].but(name="same")
    runs = await runner.run(
        context, [variant], server_killed.SPLIT, options=EvalOptions((), as_shipped=False, least_depth=10)
    )
    return runs[0].id


def _move(store: Store, table: str, to: str, where: str) -> None:
    async def move() -> None:
        async with store.begin() as connection:
            await connection.execute(text(f"UPDATE rankbook.{table} SET {to} WHERE {where}"))

    bridge.run(move())


def _judge(store: Store, name: str, item: str) -> None:
    bridge.run(judgements.save_judgements(store, name, [Judgement("q", item, "ada", 1, b"1")]))


DRILLS = (under_load, put_back)
