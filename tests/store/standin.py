"""A database that looks like a Citus coordinator to Rankbook, on the server that the tests have anyway.

It has the catalogue and the functions that Rankbook asks of Citus, under their names, and no workers: tables that are
distributed are registered, and otherwise left alone. What Citus refuses to distribute, it refuses too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import conninfo, sql

from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.store import making

SCHEMA = """
CREATE SCHEMA standin;
CREATE TABLE standin.pg_dist_local_group (groupid int);
INSERT INTO standin.pg_dist_local_group VALUES (0);
CREATE TABLE standin.pg_dist_node (
    groupid int, nodename text, nodeport int, isactive bool, noderole text, shouldhaveshards bool);
INSERT INTO standin.pg_dist_node VALUES
    (0, 'coordinator', 5432, true, 'primary', false),
    (1, 'one', 5432, true, 'primary', true),
    (2, 'two', 5433, true, 'primary', true);
CREATE TABLE standin.pg_dist_partition (
    logicalrelid regclass, partkey text, colocated regclass, shards int, name text);
CREATE FUNCTION standin.name_of(relation regclass) RETURNS text LANGUAGE sql AS $$
SELECT space.nspname || '.' || relname FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace
WHERE pg_class.oid = relation $$;
CREATE TABLE standin.answers (nodename text, nodeport int, success bool, result text);
INSERT INTO standin.answers VALUES ('one', 5432, true, '0.8.1'), ('two', 5433, true, '0.8.1');

CREATE FUNCTION standin.citus_check_connection_to_node(nodename text, nodeport int) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
    answer record;
BEGIN
    SELECT * FROM standin.answers INTO answer
    WHERE answers.nodename = $1 AND answers.nodeport = $2;
    IF NOT answer.success THEN
        RAISE WARNING '%', answer.result;
    END IF;
    RETURN answer.success;
END $$;
CREATE FUNCTION standin.master_run_on_worker(worker_name text[], port int[], command text[], parallel bool)
RETURNS TABLE (node_name text, node_port int, success bool, result text)
LANGUAGE sql AS $$ SELECT * FROM standin.answers WHERE nodename = ANY (worker_name) $$;

CREATE VIEW standin.pg_settings AS
SELECT name, setting, source FROM pg_catalog.pg_settings
UNION ALL
SELECT 'citus.shard_count', coalesce(nullif(current_setting('citus.shard_count', true), ''), '32'),
       CASE WHEN nullif(current_setting('citus.shard_count', true), '') IS NULL THEN 'default' ELSE 'database' END;

CREATE VIEW standin.citus_shards AS
SELECT logicalrelid AS table_name, logicalrelid::oid::bigint * 100 + number AS shardid, node.nodename, node.nodeport,
       8192::bigint AS shard_size, CASE WHEN partkey IS NULL THEN 'reference' ELSE 'distributed' END AS citus_table_type
FROM standin.pg_dist_partition
CROSS JOIN LATERAL generate_series(1, shards) AS number
JOIN standin.pg_dist_node AS node ON node.groupid = 1 + number % 2;

CREATE FUNCTION standin.create_distributed_table(
    table_name regclass, distribution_column text, distribution_type text DEFAULT 'hash',
    colocate_with text DEFAULT 'default', shard_count int DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    spread smallint := (SELECT attnum FROM pg_attribute
                        WHERE attrelid = table_name AND attname = distribution_column AND attnotnull);
    beside regclass := CASE WHEN colocate_with NOT IN ('none', 'default') THEN to_regclass(colocate_with) END;
BEGIN
    IF spread IS NULL THEN
        RAISE EXCEPTION 'column "%" of relation "%" does not exist', distribution_column, table_name;
    END IF;
    IF current_setting('citus.multi_shard_modify_mode', true) IS DISTINCT FROM 'sequential' THEN
        RAISE EXCEPTION 'cannot run distribution command because there was a parallel operation';
    END IF;
    IF EXISTS (SELECT FROM pg_index WHERE indrelid = table_name AND indisunique AND NOT spread = ANY (indkey)) THEN
        RAISE EXCEPTION 'cannot create constraint on "%"', table_name USING DETAIL =
            'Distributed relations cannot have UNIQUE constraints that do not include the partition column.';
    END IF;
    IF EXISTS (SELECT FROM pg_trigger WHERE tgrelid = table_name) THEN
        RAISE EXCEPTION 'triggers are not supported on distributed tables';
    END IF;
    IF EXISTS (SELECT FROM pg_attribute WHERE attrelid = table_name AND (attidentity <> '' OR attgenerated <> '')) THEN
        RAISE EXCEPTION 'cannot complete operation on % with identity column', table_name;
    END IF;
    IF colocate_with NOT IN ('none', 'default') AND shard_count IS NOT NULL THEN
        RAISE EXCEPTION 'Cannot use colocate_with with a table and shard_count at the same time';
    END IF;
    IF beside IS NULL AND colocate_with NOT IN ('none', 'default') OR beside IS NOT NULL AND NOT EXISTS (
        SELECT FROM standin.pg_dist_partition WHERE logicalrelid = beside) THEN
        RAISE EXCEPTION 'relation % is not distributed', colocate_with;
    END IF;
    INSERT INTO standin.pg_dist_partition VALUES (
        table_name, distribution_column, coalesce(beside, table_name),
        coalesce(shard_count, (SELECT shards FROM standin.pg_dist_partition WHERE logicalrelid = beside)),
        standin.name_of(table_name));
END $$;

CREATE FUNCTION standin.create_reference_table(table_name regclass) RETURNS void LANGUAGE sql AS
$$ INSERT INTO standin.pg_dist_partition VALUES (table_name, NULL, NULL, 1, standin.name_of(table_name)) $$;
"""
# Real ones are registered in pg_catalog; here they are found on the path.
REGISTER = """
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
SELECT 59999, 'citus', 10, oid, false, '14.2-1' FROM pg_namespace WHERE nspname = 'standin'
"""


class StandIn:
    """The database: `dsn` opens it as Rankbook does, `connect` looks behind it."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.dsn, autocommit=True)

    def run(self, statement: str) -> list[tuple[object, ...]]:
        with self.connect() as connection:
            found = connection.execute(statement.encode())
            return found.fetchall() if found.description else []

    def register(self) -> None:
        """From now on the server says that it has Citus."""
        with self.connect() as connection:
            connection.execute("SET allow_system_table_mods = on")
            connection.execute(REGISTER)

    def places(self) -> dict[str, str | None]:
        """Every table that was ever distributed, with its column; None of those on every node."""
        found = self.run("SELECT name, partkey FROM standin.pg_dist_partition")
        return {str(name): None if key is None else str(key) for name, key in found}


def conninfo_of(store: Store, database: str) -> str:
    if store.server is not None:
        return store.server.conninfo(database)
    return conninfo.make_conninfo(TEST_DSN or "", dbname=database)


@contextmanager
def made(store: Store, *, registered: bool = True) -> Iterator[StandIn]:
    """A database of its own, dropped in the end."""
    if store.capabilities.distributed:
        pytest.skip("makes a database that looks like a coordinator, where Citus itself is loaded and misses the rest")
    if not making.is_superuser(store):
        pytest.skip("makes a database with a catalogue that looks like Citus, which takes a superuser")
    name = f"standin_{uuid.uuid4().hex[:8]}"
    database = sql.Identifier(name)
    with psycopg.connect(conninfo_of(store, "postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(database))
        path = sql.SQL("ALTER DATABASE {} SET search_path = public, standin, pg_catalog")
        connection.execute(path.format(database))
    there = StandIn(conninfo_of(store, name))
    try:
        there.run(SCHEMA)
        if registered:
            there.register()
        yield there
    finally:
        with psycopg.connect(conninfo_of(store, "postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))
