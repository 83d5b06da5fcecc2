"""Citus: how tables are distributed, and which nodes and shards there are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from sqlalchemy import event, text
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from core.errors import ConnectionFailed, MissingCapability
from core.store.names import identifier, plain_text, quoted, written

DEFAULT_SHARDS: Final = 4  # of a collection, unless citus.shard_count is set: each query visits all of them
ANCHOR: Final = "items"  # the table beside which a collection's others are put
BY_DOCUMENT: Final = re.compile(r"chunk_cache|(chunks|lexemes|postings|vectors)_\d+")  # by their item_key
EVERYWHERE: Final = re.compile(r"chunk_sets|embedding_sets|terms_\d+")

PROPAGATED: Final = "current_setting('citus.propagate_set_commands', true) = 'local'"
PROPAGATE: Final = "SET citus.propagate_set_commands TO 'local'"
COORDINATOR: Final = "SELECT nodename || ':' || nodeport FROM pg_dist_node WHERE groupid = 0"
ROOM: Final = "SELECT count(*) FROM pg_dist_node WHERE isactive AND shouldhaveshards AND noderole = 'primary'"
CHOSEN: Final = "SELECT setting FROM pg_settings WHERE name = 'citus.shard_count' AND source <> 'default'"
# DDL of several tables in one transaction, one connection a node: in parallel, a later statement may be refused.
ONE_BY_ONE: Final = "SET LOCAL citus.multi_shard_modify_mode TO 'sequential'"
TABLES: Final = """
SELECT relation.relname, distributed.logicalrelid IS NOT NULL AS placed
FROM pg_class AS relation
JOIN pg_namespace AS space ON space.oid = relation.relnamespace
LEFT JOIN pg_dist_partition AS distributed ON distributed.logicalrelid = relation.oid
WHERE space.nspname = :namespace AND relation.relkind = 'r'
ORDER BY relation.relname
"""
# A unique key must hold the column that a table is distributed by. That ids stay distinct is kept by the one writer
# that a collection has at a time, who looks every id up; `verify` counts those that are not.
ANY_ID: Final = ("ALTER TABLE {items} DROP CONSTRAINT items_id_key", "CREATE INDEX items_id_key ON {items} (id)")
# What default privileges gave on a new schema is on the coordinator alone: workers are sent CREATE SCHEMA without it.
RIGHTS: Final = """
SELECT rolname, privilege_type FROM pg_namespace
CROSS JOIN LATERAL aclexplode(nspacl)
JOIN pg_roles ON pg_roles.oid = grantee
WHERE nspname = :namespace AND grantee <> nspowner
ORDER BY rolname, privilege_type
"""
PLACE_ANCHOR: Final = """
SELECT create_distributed_table(
    CAST(:table AS regclass), 'key', colocate_with => 'none', shard_count => CAST(:shards AS integer))
"""
PLACE_BESIDE: Final = "SELECT create_distributed_table(CAST(:table AS regclass), 'item_key', colocate_with => :anchor)"
PLACE_EVERYWHERE: Final = "SELECT create_reference_table(CAST(:table AS regclass))"


async def prepare_coordinator(engine: AsyncEngine) -> bool:
    """Whether the server is a Citus coordinator; if so, SET LOCAL reaches its workers from now on. Refuses a worker.

    Indexes are searched on the workers, so they need our settings. The setting is kept with the database where that is
    allowed, else made on each connection.
    """
    async with engine.connect() as connection:
        if not await connection.scalar(text("SELECT count(*) FROM pg_extension WHERE extname = 'citus'")):
            return False
        if await connection.scalar(text("SELECT groupid FROM pg_dist_local_group")):
            coordinator = await connection.scalar(text(COORDINATOR)) or "which its administrator knows"
            where = engine.url.render_as_string(hide_password=True)
            raise ConnectionFailed(
                f"{where} is a worker of a Citus cluster. Set RANKBOOK_DSN to the cluster's coordinator, {coordinator}."
            )
    if await _propagated(engine):
        return True
    try:
        async with engine.begin() as connection:
            database = identifier(await connection.scalar(text("SELECT current_database()")))
            await connection.execute(plain_text(f"ALTER DATABASE {database} {PROPAGATE}"))
    except ProgrammingError as error:
        if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise
        event.listen(engine.sync_engine, "connect", _propagate_on_connect)
    await engine.dispose()  # existing connections do not have it
    if not await _propagated(engine):  # a setting of the role overrides that of the database
        event.listen(engine.sync_engine, "connect", _propagate_on_connect)
        await engine.dispose()
    return True


async def _propagated(engine: AsyncEngine) -> bool:
    async with engine.connect() as connection:
        return bool(await connection.scalar(text(f"SELECT {PROPAGATED}")))


def listen_as(engine: AsyncEngine, other: AsyncEngine) -> None:
    """Connections of the other engine are set up as those of this one are."""
    if event.contains(engine.sync_engine, "connect", _propagate_on_connect):
        event.listen(other.sync_engine, "connect", _propagate_on_connect)


def _propagate_on_connect(connection: Any, _: object) -> None:
    cursor = connection.cursor()
    cursor.execute(PROPAGATE)
    cursor.close()
    connection.commit()


def is_distributed(connection: AsyncConnection) -> bool:
    """Whether the store's connection leads to the coordinator of a Citus cluster."""
    sync = connection.sync_connection
    return bool(sync and sync.get_execution_options().get("distributed"))


async def distribute(connection: AsyncConnection, namespace: str, where: str) -> None:
    """Distribute the tables of a new, empty collection. `where` names the server in an error."""
    if not is_distributed(connection):
        return
    if not await connection.scalar(text(ROOM)):
        raise MissingCapability(
            f"The Citus cluster at {where} has no node for shards. Add a worker: SELECT citus_add_node('host', "
            "5432); or let a cluster of one keep them itself: SELECT citus_set_coordinator_host('host', 5432); SELECT "
            "citus_set_node_property('host', 5432, 'shouldhaveshards', true);"
        )
    await connection.execute(text(ONE_BY_ONE))
    for role, right in (await connection.execute(text(RIGHTS), {"namespace": namespace})).all():
        granted = f"GRANT {right} ON SCHEMA {identifier(namespace)} TO {identifier(role)}"
        await connection.execute(plain_text(granted))
    for statement in ANY_ID:
        await connection.execute(written(statement, namespace, items=ANCHOR))
    shards = int(await connection.scalar(text(CHOSEN)) or DEFAULT_SHARDS)
    await connection.execute(text(PLACE_ANCHOR), {"table": quoted(namespace, ANCHOR), "shards": shards})
    await follow(connection, namespace)


async def follow(connection: AsyncConnection, namespace: str) -> None:
    """Distribute a collection's new tables as its others are. A collection older than the cluster stays local."""
    if not is_distributed(connection):
        return
    tables = {row.relname: row.placed for row in await connection.execute(text(TABLES), {"namespace": namespace})}
    new = [name for name, placed in tables.items() if not placed]
    new = [name for name in new if BY_DOCUMENT.fullmatch(name) or EVERYWHERE.fullmatch(name)]
    if not tables.get(ANCHOR) or not new:
        return
    await connection.execute(text(ONE_BY_ONE))
    for name in new:
        table = {"table": quoted(namespace, name)}
        if EVERYWHERE.fullmatch(name):
            await connection.execute(text(PLACE_EVERYWHERE), table)
        else:
            await connection.execute(text(PLACE_BESIDE), {**table, "anchor": quoted(namespace, ANCHOR)})


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
SHARDS_OF_NODES: Final = """
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
    """A node as its coordinator knows it. `problem` says why it does not answer; empty where it does."""

    address: str
    coordinator: bool
    active: bool
    holds: bool
    pgvector: str | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodeShards:
    """How many shards a collection has, on how many nodes, and their size."""

    collection: str
    shards: int
    nodes: int
    size: str


async def list_nodes(connection: AsyncConnection, problems: Mapping[str, str]) -> list[Node]:
    """The nodes, the coordinator first if it is listed. `problems` maps active workers to why they do not answer."""
    well = [address.rpartition(":") for address, problem in problems.items() if not problem]
    values = {"hosts": [host for host, _, _ in well], "ports": [int(port) for *_, port in well], "question": VERSION}
    answers = {row.address: row for row in await connection.execute(text(PGVECTOR), values)} if well else {}
    nodes = []
    for row in await connection.execute(text(NODES)):
        answer = answers.get(row.address)  # the coordinator gives none, nor does a node that is not active
        problem = problems.get(row.address, "") or (str(answer.result) if answer and not answer.success else "")
        pgvector = answer.result or None if answer and not problem else None
        nodes.append(Node(row.address, row.coordinator, row.active, row.holds, pgvector, problem.partition("\n")[0]))
    return nodes


async def node_shards(connection: AsyncConnection) -> list[NodeShards]:
    return [NodeShards(*row) for row in await connection.execute(text(SHARDS_OF_NODES))]
