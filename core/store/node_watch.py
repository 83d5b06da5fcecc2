"""Silent nodes of a Citus cluster: a worker that is frozen or cut off neither answers nor breaks its connections.

While a statement takes long, the coordinator is asked on a separate connection whether it reaches each node. Where one
does not answer twice in a row, the statement's connection is shut, which would otherwise wait without end. A statement
whose nodes answer is never ended.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg
from psycopg.pq import TransactionStatus

from core.store.db_errors import SHUT

PATIENCE: Final = 5.0  # seconds that a statement takes before the nodes are checked
ANSWER_WITHIN: Final = 8.0  # seconds for a node to let the coordinator in
BETWEEN: Final = 2.0  # seconds from one check to the next
REMEMBERED: Final = 60.0  # seconds for which a node that was silent is checked at once
COORDINATOR: Final = "coordinator"

WORKERS: Final = """
SELECT nodename, nodeport FROM pg_dist_node
WHERE isactive AND noderole = 'primary' AND groupid <> 0
ORDER BY groupid
"""
ANSWERS: Final = "SELECT citus_check_connection_to_node(%s, %s)"
# When the running statement of a connection began. A later one on the same connection has another time.
UNDER_WAY: Final = "SELECT query_start FROM pg_stat_activity WHERE pid = %s AND state = 'active'"

Connect = Callable[[], Awaitable[psycopg.AsyncConnection[Any]]]


@dataclass(slots=True)
class Watched:
    """One connection under watch. `silent` is the node because of which its statement was ended."""

    connection: psycopg.AsyncConnection[Any] | None = None
    silent: str | None = None

    @property
    def is_waiting(self) -> bool:
        raw = self.connection
        return raw is not None and not raw.closed and raw.pgconn.transaction_status == TransactionStatus.ACTIVE


@dataclass(slots=True)
class NodeWatch:
    """Watches a store's statements on a cluster. `connect` makes a connection to the coordinator."""

    connect: Connect
    patience: float = PATIENCE
    answer_within: float = ANSWER_WITHIN
    between: float = BETWEEN
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    _seen: tuple[float, str | None] = (0.0, None)  # when the last check ended, and which node was silent

    @asynccontextmanager
    async def over(self, watched: Watched) -> AsyncIterator[None]:
        """Watch for the time of a connection, which the caller sets in `watched`."""
        watching = asyncio.ensure_future(self._watch(watched))
        try:
            yield
        finally:
            watching.cancel()
            with suppress(asyncio.CancelledError):
                await watching

    async def _watch(self, watched: Watched) -> None:
        waited_since: float | None = None
        suspect: tuple[str, Any] | None = None  # a node that did not answer, and since when the statement is under way
        while True:
            await asyncio.sleep(self.between)
            if not watched.is_waiting or watched.connection is None:
                waited_since = suspect = None
                continue
            waited_since = waited_since or time.monotonic()
            known = self._lately_silent
            if known is None and time.monotonic() - waited_since < self.patience:
                continue
            begun = await self._begun(watched.connection.pgconn.backend_pid)
            node = await self.silent()
            again = node == known or suspect == (node, begun)
            if node is not None and begun is not None and again and watched.is_waiting:
                watched.silent = node
                shut(watched.connection)
                return
            suspect = None if node is None else (node, begun)

    @property
    def _lately_silent(self) -> str | None:
        seen, node = self._seen
        return node if time.monotonic() - seen < REMEMBERED else None

    async def _begun(self, pid: int) -> Any:
        """When the statement of that process of the coordinator began; None where it is over, or that is unknown."""
        with suppress(psycopg.Error, TimeoutError):
            async with asyncio.timeout(2 * self.answer_within), self._coordinator() as connection:
                found = await (await connection.execute(UNDER_WAY, [pid])).fetchone()
                return found and found[0]
        return None

    async def silent(self) -> str | None:
        """The first node that does not answer the coordinator, or the coordinator itself.

        Statements that wait at the same time share one check.
        """
        begun = time.monotonic()
        async with self._looking:
            if self._seen[0] < begun:
                self._seen = (time.monotonic(), await self._first_silent())
            return self._seen[1]

    async def _first_silent(self) -> str | None:
        try:
            async with self._coordinator() as connection:
                for host, port in await self._workers(connection):
                    problem = await self._problem(connection, host, port)
                    if problem and not SHUT.search(problem):  # a node that rejects the role answers too
                        return f"{host}:{port}"
        except (psycopg.errors.ConnectionTimeout, TimeoutError):
            return COORDINATOR
        except psycopg.Error:  # it has no connection left, say, which says nothing of the nodes
            return None
        return None

    async def problems(self) -> dict[str, str]:
        """Why each active worker does not answer, by its address; empty where it does."""
        async with self._coordinator() as connection:
            workers = await self._workers(connection)
            return {f"{host}:{port}": await self._problem(connection, host, port) for host, port in workers}

    async def _workers(self, connection: psycopg.AsyncConnection[Any]) -> list[tuple[str, int]]:
        async with asyncio.timeout(2 * self.answer_within):
            return await (await connection.execute(WORKERS)).fetchall()

    @asynccontextmanager
    async def _coordinator(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        connection = await self.connect()
        try:
            await connection.set_autocommit(True)
            for name, seconds in (
                ("citus.node_connection_timeout", self.answer_within),
                ("statement_timeout", 2 * self.answer_within),
            ):
                await connection.execute("SELECT set_config(%s, %s, false)", [name, f"{seconds * 1000:.0f}ms"])
            yield connection
        finally:
            await connection.close()

    async def _problem(self, connection: psycopg.AsyncConnection[Any], host: str, port: int) -> str:
        notices: list[str] = []

        def keep(notice: psycopg.errors.Diagnostic) -> None:
            notices.append(notice.message_primary or "")

        connection.add_notice_handler(keep)
        try:
            async with asyncio.timeout(4 * self.answer_within):  # the coordinator's own patience is half of it
                found = await (await connection.execute(ANSWERS, [host, port])).fetchone()
        except psycopg.errors.QueryCanceled:
            return f"it lets nobody in within {self.answer_within:g} s"
        finally:
            connection.remove_notice_handler(keep)
        return "" if found and found[0] else " ".join(notices) or "it does not say why"


def shut(connection: psycopg.AsyncConnection[Any]) -> None:
    """Close it at once: to cancel its statement, the coordinator would itself wait for the silent node."""
    with suppress(OSError), socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
        wire.shutdown(socket.SHUT_RDWR)
