"""The nodes of a Citus cluster: which there are, what they hold, which one an error is about. Changes nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

# How Citus says that a node does not answer, the names being its own or libpq's.
GONE: Final = (
    re.compile(r"connection to the remote node (?:\S+@)?(\S+:\d+) failed"),
    re.compile(r"failure on connection marked as essential: (\S+:\d+)"),
    re.compile(r"connection error: (\S+:\d+)"),
    re.compile(r"(?:could not|cannot) connect to (?:(?:the |remote )?node )?(\S+:\d+)"),
    re.compile(r"connection establishment for node (\S+:\d+) failed"),
    re.compile(r"could not establish any connections to the node (\S+:\d+)"),
    re.compile(r"wait event for node (\S+:\d+) failed"),
    re.compile(r"failed to COPY to shard \d+ on (\S+:\d+)"),
    re.compile(r"failed to prepare transaction .* on host (\S+:\d+)"),
    re.compile(r"failed to read result .* from node (\S+:\d+)"),
)
SHUT: Final = re.compile(r"authentication failed|no pg_hba\.conf entry|no password supplied")
NAMELESS: Final = re.compile(r"could not connect to any active placements|no active placements were found")
PASSED_ON: Final = re.compile(r"while executing command on (\S+:\d+)")
BROKEN: Final = ("08", "57P")  # a connection's failure; the node was shut down, or crashed
# What libpq says of a connection that broke, where Citus passes it on under a code of no meaning: at COMMIT, say.
BROKE_OFF: Final = re.compile(
    r"server closed the connection|connection not open|no connection to the server|invalid socket"
    r"|could not (?:receive data from|send data to) server|connection (?:timed out|reset)|Broken pipe",
    re.IGNORECASE,
)

NODES: Final = """
SELECT nodename || ':' || nodeport AS address, groupid = 0 AS coordinator, isactive AS active, shouldhaveshards AS holds
FROM pg_dist_node
WHERE noderole = 'primary'
ORDER BY groupid, address
"""
# Asked of these workers by the coordinator. One that does not answer would hold it up, or be a row with its reason.
PGVECTOR: Final = """
SELECT node_name || ':' || node_port AS address, success, result
FROM master_run_on_worker(
    CAST(:hosts AS text[]), CAST(:ports AS integer[]),
    array_fill(CAST(:question AS text), ARRAY[cardinality(CAST(:hosts AS text[]))]), true)
"""
VERSION: Final = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
SHARDS: Final = """
SELECT collection.name, count(DISTINCT shard.shardid) AS shards,
       count(DISTINCT shard.nodename || ':' || shard.nodeport) AS nodes,
       pg_size_pretty(coalesce(sum(shard.shard_size), 0)) AS size
FROM rankbook.collections AS collection
JOIN pg_namespace AS space ON space.nspname = collection.namespace
JOIN pg_class AS relation ON relation.relnamespace = space.oid
JOIN citus_shards AS shard ON shard.table_name = relation.oid AND shard.citus_table_type = 'distributed'
GROUP BY collection.name
ORDER BY collection.name
"""


@dataclass(frozen=True, slots=True)
class Node:
    """One of the cluster, as its coordinator knows it. `problem` is why it does not answer, if so."""

    address: str
    coordinator: bool
    active: bool
    holds: bool
    pgvector: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """What of a collection lies in shards, on so many nodes."""

    collection: str
    shards: int
    nodes: int
    size: str


def lost(error: BaseException) -> str | None:
    """The node that did not answer, where an error is about one; the coordinator, who says so, is well."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    said = str(cause).strip().partition("\n")[0]  # what follows may quote a row
    if SHUT.search(str(cause)):
        return None
    for pattern in GONE:
        if found := pattern.search(said):
            return found[1]
    if NAMELESS.search(said):
        return "that holds what was asked for"
    passed_on = PASSED_ON.search(getattr(getattr(cause, "diag", None), "context", None) or said)
    broken = str(getattr(cause, "sqlstate", None) or "").startswith(BROKEN) or BROKE_OFF.search(said)
    if passed_on and broken:
        return passed_on[1]
    return None


def shut_out(error: BaseException) -> str | None:
    """The node that does not let in the role that asks, which is let in at the coordinator."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    found = GONE[0].search(str(cause))
    return found[1] if found and SHUT.search(str(cause)) else None


async def nodes(connection: AsyncConnection, problems: Mapping[str, str]) -> list[Node]:
    """The coordinator first, if it is listed at all. `problems` says of its active workers why they do not answer."""
    well = [address.rpartition(":") for address, problem in problems.items() if not problem]
    asked = {"hosts": [host for host, _, _ in well], "ports": [int(port) for *_, port in well], "question": VERSION}
    answers = {row.address: row for row in await connection.execute(text(PGVECTOR), asked)} if well else {}
    found = await connection.execute(text(NODES))
    return [_node(row, answers.get(row.address), problems.get(row.address, "")) for row in found]


def _node(row: Any, answer: Any, problem: str) -> Node:
    if problem:
        return Node(row.address, row.coordinator, row.active, row.holds, problem=problem.partition("\n")[0])
    if answer is None:  # the coordinator is not asked, nor a node that is not active
        return Node(row.address, row.coordinator, row.active, row.holds)
    if not answer.success:
        return Node(row.address, row.coordinator, row.active, row.holds, problem=str(answer.result).partition("\n")[0])
    return Node(row.address, row.coordinator, row.active, row.holds, pgvector=answer.result or None)


async def held(connection: AsyncConnection) -> list[Held]:
    return [Held(*row) for row in await connection.execute(text(SHARDS))]
