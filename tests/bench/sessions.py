"""Twenty people at once, over real websockets, on the demo collection: searching and changing weights.

Owns the little of Streamlit's wire protocol that a client needs. A session opens a page, thinks, moves on by another
address, as the browser's own client does when somebody follows a link or goes back, and waits until the run has ended.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from core import bridge
from tests.bench.figures import Figure, below, percentile
from tests.browser.conftest import SERVE

SESSIONS, ROUNDS, THINKS = 20, 6, 2.0  # people; what each does; seconds between two of these
LONG_RUN, WARM = 1_000, 200  # interactions of the memory's test, and how many come before it is first looked at
QUERIES = ("reset hub 3", "FL-4021", "who pays for return shipping", "batery low", "probe reads too high")
GREATEST = 2**26  # bytes of one message
COMPLAINT = 'class="rb-box rb-complaint"'


def measure() -> list[Figure]:
    load_demo()
    with _served() as (address, server):
        taken, failed = asyncio.run(_crowd(address))
        grown = asyncio.run(_grown(address, server.pid))
    return [
        below(f"{SESSIONS} sessions with {THINKS:.0f} s to think, errors", failed, 1, "{:.0f}"),
        below(f"{SESSIONS} sessions with {THINKS:.0f} s to think, p95 seconds", percentile(taken, 0.95), 2, "{:.2f}"),
        Figure(f"{SESSIONS} sessions with {THINKS:.0f} s to think, p50 seconds", f"{statistics.median(taken):.2f}"),
        below(f"memory gained over {LONG_RUN:,} interactions, share", grown, 0.05, "{:.3f}"),
    ]


def load_demo() -> None:
    from evals.collections import load
    from evals.sources import guess
    from workbench import session

    source = guess("handbook")
    bridge.run(load.load_collection(session.store(), "handbook", source, load.plan_for(source)))


@contextmanager
def _served() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    server = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[4], server
    finally:
        server.terminate()
        server.wait(30)


class Visitor:
    """One browser's session."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def go(self, page: str, **selection: str) -> bool:
        """Open a view and wait until it is drawn; whether it was, without an error."""
        asked = BackMsg()
        asked.rerun_script.page_name = page
        asked.rerun_script.query_string = urlencode(selection)
        await self.socket.send(asked.SerializeToString())
        well = True
        async for sent in self.socket:
            told = ForwardMsg.FromString(sent if isinstance(sent, bytes) else sent.encode())
            kind = told.WhichOneof("type")
            well = well and not (kind == "delta" and told.delta.new_element.WhichOneof("type") == "exception")
            well = well and not (kind == "delta" and COMPLAINT in told.delta.new_element.html.body)
            if kind == "script_finished":
                return well and told.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY
        return False


def _visit(address: str) -> connect:
    place = f"{address.replace('http', 'ws', 1)}/_stcore/stream"
    return connect(place, subprotocols=[Subprotocol("streamlit")], max_size=GREATEST)


def _views(seed: int) -> Iterator[tuple[str, dict[str, str]]]:
    """Searches and points of the weight surface in turn, each person's own."""
    drawn = random.Random(seed)
    while True:
        yield "search", {"query": f"{drawn.choice(QUERIES)} {drawn.randint(1, 400)}"}
        share = drawn.randint(0, 20)
        yield "weights", {"legs": "bm25,fulltext", "weights": f"{share}-{20 - share}"}


async def _crowd(address: str) -> tuple[list[float], int]:
    """Seconds of every interaction, and how many went wrong."""
    async with _visit(address) as socket:
        first = Visitor(socket)
        for page, selection in itertools.islice(_views(0), 2):
            await first.go(page, **selection)  # the model and the surface are there: a start is measured elsewhere
    people = await asyncio.gather(*(_person(address, seed) for seed in range(SESSIONS)))
    each = list(itertools.chain.from_iterable(people))
    return [seconds for seconds, _ in each], sum(not well for _, well in each)


async def _person(address: str, seed: int) -> list[tuple[float, bool]]:
    await asyncio.sleep(THINKS * seed / SESSIONS)
    done = []
    async with _visit(address) as socket:
        visitor = Visitor(socket)
        for page, selection in itertools.islice(_views(seed), ROUNDS):
            begun = time.perf_counter()
            well = await visitor.go(page, **selection)
            done.append((time.perf_counter() - begun, well))
            await asyncio.sleep(THINKS)
    return done


async def _grown(address: str, process: int) -> float:
    """By which share the server's memory grew between the first interactions and the last."""
    async with _visit(address) as socket:
        visitor, before = Visitor(socket), 0
        for number, (page, selection) in enumerate(itertools.islice(_views(-1), LONG_RUN)):
            if number == WARM:
                before = _memory(process)
            await visitor.go(page, **selection)
    return _memory(process) / before - 1


def _memory(process: int) -> int:
    """Kilobytes that a process holds, as Linux tells them."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
