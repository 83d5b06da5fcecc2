"""What Rankbook does on a Citus coordinator: it is recognised, tables are put where they belong, lost nodes are named.

The server is a real PostgreSQL with a database that looks like a coordinator (`standin.py`); it distributes nothing,
but refuses what Citus would refuse.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import re
import uuid
from contextlib import contextmanager
from types import SimpleNamespace

import psycopg
import pytest
from psycopg import conninfo, sql
from sqlalchemy import event, text

from core import bridge
from core.context import RequestContext, Resources
from core.doctor import examine_cluster
from core.errors import ConnectionFailed, MissingCapability
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.store import attached, collections, db_errors
from core.store.db_errors import lost
from core.store.engine import Store
from core.store.verify import verify
from core.variant import Variant
from evals.schema import schema_chain as evals_chain
from tests.fakes import HashingEmbedder
from tests.store import making, standin
from tests.store.making import documents, fresh, ingest, make, some_name, wrong

EMBEDDER = HashingEmbedder()
SAID = "current_setting('citus.propagate_set_commands', true)"


async def asked(dsn, statement):
    async with await Store.open(dsn, chains=[evals_chain]) as opened, opened.begin() as connection:
        return await connection.scalar(text(statement))


def placed(coordinator, view):
    begin = f"{view.namespace}."
    return {name.removeprefix(begin): key for name, key in coordinator.places().items() if name.startswith(begin)}


@pytest.mark.usefixtures("one_server")
def test_a_plain_server_is_no_cluster(store):
    assert not store.capabilities.distributed
    assert bridge.run(examine_cluster(store)) == []


def test_a_coordinator_is_recognised_and_lets_settings_through_to_its_workers(cluster, coordinator):
    assert cluster.capabilities.distributed
    assert coordinator.run(f"SELECT {SAID}") == [("local",)]


def test_who_may_not_set_the_database_up_says_it_on_each_connection(other):
    role = f"role_{uuid.uuid4().hex[:8]}"
    database = conninfo.conninfo_to_dict(other.dsn)["dbname"]
    with other.connect() as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        for grant in (
            "CREATE ON DATABASE {database}",
            "USAGE ON SCHEMA standin",
            "SELECT ON ALL TABLES IN SCHEMA standin",
        ):
            allowed = sql.SQL("GRANT " + grant + " TO {role}")
            connection.execute(allowed.format(database=sql.Identifier(str(database)), role=sql.Identifier(role)))
    try:
        theirs = conninfo.make_conninfo(other.dsn, user=role)
        assert bridge.run(asked(theirs, f"SELECT {SAID}")) == "local"
        assert other.run(f"SELECT {SAID}") != [("local",)]
    finally:
        with other.connect() as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_worker_is_refused_and_told_apart_from_its_coordinator(other):
    other.run("UPDATE standin.pg_dist_local_group SET groupid = 2")
    with pytest.raises(ConnectionFailed, match=r"is a worker of a Citus cluster.*coordinator:5432"):
        bridge.run(Store.open(other.dsn))


def test_what_belongs_to_a_document_is_distributed_and_what_is_small_stands_everywhere(cluster, coordinator, name):
    view = make(cluster, name, [EMBEDDER])
    everywhere = {"chunk_sets", "embedding_sets", "terms_0", "terms_1"}
    beside = {"chunk_cache", "chunks_1", "lexemes_0", "lexemes_1", "postings_0", "postings_1", "vectors_1", "vectors_2"}
    expected = {"items": "key", **dict.fromkeys(beside, "item_key"), **dict.fromkeys(everywhere)}
    assert placed(coordinator, view) == expected
    tables = {
        row[0]
        for row in coordinator.run(
            f"SELECT relname FROM pg_class JOIN pg_namespace AS n ON "
            f"n.oid = relnamespace WHERE nspname = '{view.namespace}' AND relkind = 'r'"
        )
    }
    assert tables - set(expected) == {"revision_collection"}
    colocated = coordinator.run(
        f"SELECT DISTINCT colocated::text, shards FROM standin.pg_dist_partition "
        f"WHERE name LIKE '{view.namespace}.%' AND partkey IS NOT NULL"
    )
    assert colocated == [(f'"{view.namespace}".items', 4)]


def test_the_catalogue_stays_with_the_coordinator(cluster, coordinator):
    assert [name for name in coordinator.places() if name.startswith("rankbook.")] == []


def test_the_number_of_shards_is_the_one_that_somebody_set(other):
    other.run("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET citus.shard_count = 16', current_database()); END $$")

    async def work():
        async with await Store.open(other.dsn) as opened:
            await collections.create(opened, "many")

    bridge.run(work())
    assert other.run("SELECT DISTINCT shards FROM standin.pg_dist_partition WHERE partkey IS NOT NULL") == [(16,)]


@pytest.mark.slow
def test_a_collection_from_before_the_cluster_stays_whole(store):
    async def work(dsn, step):
        async with await Store.open(dsn) as opened:
            return await step(opened)

    with standin.made(store, registered=False) as made:
        bridge.run(work(made.dsn, lambda opened: collections.create(opened, "old")))
        made.register()

        async def add(opened):
            view = await collections.get(opened, "old")
            await collections.add_chunk_set(opened, view, "small", {"kind": "fixed"})

        bridge.run(work(made.dsn, add))
        assert made.places() == {}


def test_rights_that_a_new_schema_has_by_default_are_granted_by_a_statement_which_workers_are_sent(other):
    role = f'role: "{uuid.uuid4().hex[:8]}"'
    with other.connect() as connection:
        connection.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        connection.execute(
            sql.SQL("ALTER DEFAULT PRIVILEGES GRANT USAGE ON SCHEMAS TO {}").format(sql.Identifier(role))
        )
    sent: list[str] = []

    async def work():
        async with await Store.open(other.dsn) as opened:
            with listening(opened, sent):
                await collections.create(opened, "read by default")

    try:
        bridge.run(work())
        quoted = role.replace('"', '""')
        assert f'GRANT USAGE ON SCHEMA "c_read by default" TO "{quoted}"' in sent
    finally:
        with other.connect() as connection:
            connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(role)))
            connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def test_a_cluster_without_a_node_for_shards_says_how_to_add_one(other):
    other.run("UPDATE standin.pg_dist_node SET shouldhaveshards = false")

    async def work():
        async with await Store.open(other.dsn) as opened:
            findings = await examine_cluster(opened)
            with pytest.raises(MissingCapability, match="citus_add_node"):
                await collections.create(opened, "nowhere")
            return findings, await collections.find(opened, "nowhere")

    findings, found = bridge.run(work())
    assert [(each.what, each.ok) for each in findings][-1] == ("Shards", False)
    assert found is None


@pytest.mark.slow
def test_ids_that_no_unique_key_keeps_apart_are_still_kept_apart_and_verified(cluster, name):
    view = make(cluster, name)
    items = documents(8)
    ingest(cluster, name, [*items, items[3]])
    assert ingest(cluster, name, items).unchanged == 8
    assert wrong(cluster, name) == {}
    making.query(cluster, view, "UPDATE {items} SET id = 'd00001' WHERE key = 3")
    assert "items: ids that two items have" in wrong(cluster, name)
    assert not any(each.wrong for each in bridge.run(verify(cluster, fresh(cluster, name))) if "indexes" in each.check)


def test_what_is_written_to_an_attached_table_is_not_counted_once_its_rows_are_in_shards(cluster, coordinator, name):
    coordinator.run("CREATE TABLE public.their (id int PRIMARY KEY, body text)")
    mapping = attached.AttachedTable(table="their", id="id", text="body")
    view = bridge.run(attached.build_side_tables(cluster, bridge.run(attached.attach_table(cluster, name, mapping))))
    assert attached.Attachment.of(view).aside.writes is not None
    assert bridge.run(attached.staleness_sentence(cluster, view)) == ""
    coordinator.run("INSERT INTO standin.pg_dist_partition VALUES ('public.their', 'id', 'public.their', 4, 'their')")
    assert "cannot be told without comparing its rows" in bridge.run(attached.staleness_sentence(cluster, view))
    view = bridge.run(attached.build_side_tables(cluster, view))
    assert attached.Attachment.of(view).aside.writes is None
    coordinator.run("DELETE FROM standin.pg_dist_partition WHERE name = 'their'")
    coordinator.run("DROP TABLE public.their")


def test_of_units_whose_bits_tie_those_are_compared_that_come_first_by_id_and_not_those_of_the_first_node(
    cluster, name
):
    make(cluster, name, [EMBEDDER], index="bit")
    ingest(cluster, name, documents(9), [EMBEDDER])
    sent: list[str] = []
    with listening(cluster, sent):
        context = RequestContext(cluster, fresh(cluster, name), Resources(embedder=lambda _: EMBEDDER))
        assert bridge.run(search(context, "word3", Variant.of_leg(VectorLeg(), chunks="small"))).hits
    (by_bits,) = (each for each in sent if "<~>" in each and "EXPLAIN" not in each)
    within, _ = by_bits.split("LIMIT", 1)
    assert re.search(r"ORDER BY .* <~> .*\.vectors_2\.id\s*$", within)


@contextmanager
def listening(store, sent):
    """Keeps the statements that the store sends."""

    def keep(connection, cursor, statement, *_):
        sent.append(statement)

    engines = (store.engine.sync_engine, store.cluster.unpooled.sync_engine)
    for each in engines:
        event.listen(each, "before_cursor_execute", keep)
    try:
        yield
    finally:
        for each in engines:
            event.remove(each, "before_cursor_execute", keep)


# -- the doctor ------------------------------------------------------------------------------------------------------


def test_the_doctor_lists_nodes_and_the_shards_of_each_collection(cluster):
    name = some_name()
    make(cluster, name)
    findings = {each.what: each for each in bridge.run(examine_cluster(cluster))}
    assert findings["Node coordinator:5432"].found == "coordinator, active, takes no shards"
    assert findings["Node one:5432"].found == "worker, active, pgvector 0.8.1"
    # Four each of items, the cache of chunks, chunks, and the lexemes and postings of both; none of what is everywhere.
    assert findings[f"Shards of {name}"].found == "28 on 2 nodes, 224 kB"
    assert all(each.ok for each in findings.values())


@pytest.mark.parametrize(
    ("change", "found", "way_out"),
    [
        ("UPDATE standin.answers SET result = '' WHERE nodename = 'two'", "without the extension vector", "pgvector"),
        ("UPDATE standin.answers SET success = false, result = 'refused' WHERE nodename = 'two'", "answer", "refused"),
        (
            """UPDATE standin.pg_dist_node SET isactive = false WHERE nodename = 'two';
            DELETE FROM standin.answers WHERE nodename = 'two'""",
            "not active",
            "citus_activate_node('two', 5433)",
        ),
    ],
)
def test_the_doctor_finds_a_node_that_is_not_well(other, change, found, way_out):
    other.run(change)

    async def work():
        async with await Store.open(other.dsn) as opened:
            return await examine_cluster(opened)

    (sick,) = [each for each in bridge.run(work()) if not each.ok]
    assert sick.what == "Node two:5433"
    assert found in sick.found
    assert way_out in sick.way_out


# -- a lost node -----------------------------------------------------------------------------------------------------

LOST = "connection to the remote node rankbook@two:5433 failed with the following error: Connection refused"


def test_a_lost_node_is_one_clear_sentence_and_the_next_try_succeeds(cluster):
    raised = f"DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '08006', MESSAGE = '{LOST}'; END $$"

    async def ask(statement):
        async with cluster.begin() as connection:
            return await connection.execute(text(statement))

    with pytest.raises(ConnectionFailed) as told:
        bridge.run(ask(raised.replace(":", r"\:")))
    assert str(told.value).startswith("The node two:5433 of the Citus cluster at ")
    assert "run the same command again" in str(told.value)
    assert bridge.run(ask("SELECT 1"))


def driver_error(message, state=None, context=None):
    made = psycopg.OperationalError(message)
    made.sqlstate = state
    diag = SimpleNamespace(context=context)
    return type("Told", (type(made),), {"diag": diag, "sqlstate": state})(message)


@pytest.mark.parametrize(
    ("error", "node"),
    [
        (driver_error(LOST, "08006"), "two:5433"),
        (driver_error("connection to the remote node two:5433 failed", "XX000"), "two:5433"),
        (
            driver_error(
                "terminating connection due to administrator command", "57P01", "while executing command on two:5433"
            ),
            "two:5433",
        ),
        (driver_error("failure on connection marked as essential: two:5433", "XX000"), "two:5433"),
        (  # of a worker that was killed before COMMIT
            driver_error("server closed the connection unexpectedly", "XX000", "while executing command on two:5433"),
            "two:5433",
        ),
        (driver_error("connection not open\n\tContext", "XX000", "while executing command on two:5433"), "two:5433"),
        (driver_error("failed to COPY to shard 103278 on two:5433", "58030"), "two:5433"),
        (driver_error("connection establishment for node two:5433 failed", "08006"), "two:5433"),
        (driver_error("could not establish any connections to the node two:5433 after 5000 ms", "XX000"), "two:5433"),
        (driver_error("cannot connect to two:5433 to fetch intermediate results", "08006"), "two:5433"),
        (driver_error("failed to prepare transaction 'citus_0_1_2' on host two:5433", "XX000"), "two:5433"),
        (driver_error("could not connect to any active placements", "XX000"), "that holds what was asked for"),
        (driver_error("division by zero", "22012", "while executing command on two:5433"), None),
        (driver_error("terminating connection due to administrator command", "57P01"), None),
    ],
)
def test_an_error_that_is_about_a_node_names_it(error, node):
    assert lost(error) == node
    said = str(db_errors.translate_error(error, "here"))
    assert ("of the Citus cluster" in said) == (node is not None)


def test_a_node_that_does_not_let_a_role_in_is_not_taken_for_lost():
    shut = (
        "connection to the remote node viewer@two:5433 failed with the following error: FATAL: password authentication"
    )
    error = driver_error(f'{shut} failed for user "viewer"', "08006")
    assert lost(error) is None
    said = str(db_errors.translate_error(error, "here"))
    assert "two:5433" in said
    assert "pg_dist_authinfo" in said
