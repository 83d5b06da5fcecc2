"""A TCP proxy between Rankbook and its server that drops, truncates, delays and swallows, when it is told to.

It knows nothing of PostgreSQL but that a commit is sent in that word.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from core import bridge
from tests.effort import random_for

Way = Literal["up", "down"]  # to the server, and back from it
PIECE = 2**16
COMMIT = b"COMMIT"
WRITES = (b"INSERT", b"UPDATE", b"COPY ")


class Cut(Exception):
    """This connection ends here."""


class Fault:
    """Lets everything through. `struck` counts what it did."""

    struck = 0

    async def through(self, way: Way, piece: bytes) -> bytes:
        """What goes on, of one piece; raises `Cut` where nothing does any more."""
        return piece


@dataclass
class Drop(Fault):
    """After so many pieces everything is cut at once; then there is peace, until it is told again."""

    after: int
    truncating: bool = False
    struck: int = 0

    async def through(self, way: Way, piece: bytes) -> bytes:
        self.after -= 1
        if self.after == 0:
            self.struck += 1
            if not self.truncating or len(piece) < 2:
                raise Cut
            raise Cut(piece[: len(piece) // 2])
        return piece


@dataclass
class Delay(Fault):
    """Pieces take their time, now and then."""

    seconds: float
    share: float
    drawn: random.Random = field(default_factory=lambda: random_for("delays"))
    struck: int = 0

    async def through(self, way: Way, piece: bytes) -> bytes:
        if self.drawn.random() < self.share:
            self.struck += 1
            await asyncio.sleep(self.seconds)
        return piece


@dataclass
class LostAnswer(Fault):
    """The nth commit of something written reaches the server; that it did, nobody hears. `seen` counts them all."""

    commit: int
    struck: int = 0
    seen: int = 0
    wrote: bool = False
    waiting: bool = False

    async def through(self, way: Way, piece: bytes) -> bytes:
        if self.waiting and way == "down":
            self.waiting = False
            self.struck += 1
            raise Cut
        if way == "up":
            self.wrote = self.wrote or any(word in piece for word in WRITES)
        if way == "up" and self.wrote and COMMIT in piece:
            self.seen, self.wrote = self.seen + 1, False
            self.waiting = self.seen == self.commit
        return piece


@dataclass
class Silence(Fault):
    """Nothing comes back any more, and nothing says so."""

    struck: int = 0

    async def through(self, way: Way, piece: bytes) -> bytes:
        if way == "down":
            self.struck += 1
            await asyncio.Event().wait()
        return piece


class Proxy:
    """Listens on loopback and passes on to a Unix socket. `fault` is what is wrong with the way at the moment."""

    def __init__(self, target: str, fault: Fault | None = None) -> None:
        self.target, self.fault = target, fault or Fault()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._passing: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        bridge.run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        bridge.run(self._close())

    def dsn(self, user: str = "rankbook", database: str = "rankbook") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}?sslmode=disable&gssencmode=disable"

    def cut(self) -> int:
        """Every connection there is; how many."""
        return bridge.run(self._cut())

    async def _cut(self) -> int:
        passing = list(self._passing)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        return len(passing)

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._met, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        await self._cut()
        await self._server.wait_closed()

    def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Known from this moment on, and closed however it ends: a task may be cancelled before its first step."""
        if self._server is None or not self._server.is_serving():  # it was taken up while the proxy closed
            writer.transport.abort()
            return
        task = asyncio.ensure_future(self._pass_on(reader, writer))
        self._passing.add(task)
        task.add_done_callback(lambda _: self._ended(task, writer))

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        self._passing.discard(task)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, thither = await asyncio.open_unix_connection(self.target)
        except OSError:  # the server is not there: whoever came is sent away
            return
        ways = [
            asyncio.ensure_future(self._carry("up", reader, thither)),
            asyncio.ensure_future(self._carry("down", there, writer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ways:
                each.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            _reset(writer)
            thither.transport.abort()

    async def _carry(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            try:
                writer.write(await self.fault.through(way, piece))
                await writer.drain()
            except Cut as cut:
                writer.write(b"".join(cut.args))
                await writer.drain()
                return


def _reset(writer: asyncio.StreamWriter) -> None:
    """As a cable that is pulled, not as a program that ends: no goodbye."""
    found = writer.get_extra_info("socket")
    if found is not None and writer.transport.get_write_buffer_size() == 0:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


Making = Callable[[random.Random], Fault]
