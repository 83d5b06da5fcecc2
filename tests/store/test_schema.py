"""Migrations: they end where the mapped classes are, carry data along, and meet each other and the future politely."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import subprocess
import sys
import uuid
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Boolean, Float, Integer, LargeBinary, MetaData, String, insert, select, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.schema import DropSchema

from core import bridge
from core.errors import StoreError
from core.store.engine import Store
from core.store.migrations import Chain, catalog, collection
from core.store.schema import CATALOG, HERE, Base
from core.types import Item
from evals.schema import schema_chain as evals_chain
from tests.store.making import fresh, ingest, make

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def schema(store):
    made = f"migrated {uuid.uuid4().hex[:8]}"
    yield made
    on(store, lambda connection: connection.execute(DropSchema(made, cascade=True, if_exists=True)))


def on(store, work):
    async def wrapped():
        async with store.begin() as connection:
            return await connection.run_sync(work)

    return bridge.run(wrapped())


def mapped(of: str, schema: str) -> MetaData:
    """The mapped tables of one kind of schema, as if they stood in `schema`."""
    made = MetaData(naming_convention=Base.metadata.naming_convention)
    for table in Base.metadata.sorted_tables:
        if table.schema == of:
            table.to_metadata(made, schema=schema, referred_schema_fn=lambda *_: schema)
    return made


def differences(connection, metadata: MetaData, schema: str) -> list[object]:
    def looked_at(entry, name, kind, reflected, compare_to):
        return kind != "table" or (entry.schema == schema and not name.startswith("revision_"))

    options = {
        "include_schemas": True,
        "include_name": lambda name, kind, parents: kind != "schema" or name == schema,
        "include_object": looked_at,
        "compare_type": True,
    }
    # The server's user has the name of the catalogue, whose schema may so be the default, which alembic does not name.
    connection.dialect.default_schema_name = "public"
    return compare_metadata(MigrationContext.configure(connection, opts=options), metadata)


def test_the_catalogue_and_the_harness_are_migrated_to_the_mapped_classes(store):
    assert {"collections", "query_sets", "runs"} <= {table.name for table in mapped(CATALOG, CATALOG).tables.values()}
    assert on(store, lambda connection: differences(connection, mapped(CATALOG, CATALOG), CATALOG)) == []


def test_a_collection_is_migrated_to_the_mapped_classes(store, schema):
    def work(connection):
        collection.upgrade(connection, schema)
        return differences(connection, mapped(HERE, schema), schema)

    assert {"items", "chunk_sets"} <= {table.name for table in mapped(HERE, schema).tables.values()}
    assert on(store, work) == []


def test_a_difference_would_be_seen(store, schema):
    def work(connection):
        collection.upgrade(connection, schema)
        connection.execute(text(f'ALTER TABLE "{schema}".items DROP COLUMN digest'))
        connection.execute(text(f'ALTER TABLE "{schema}".chunk_sets ALTER COLUMN units TYPE integer'))
        return differences(connection, mapped(HERE, schema), schema)

    assert len(on(store, work)) == 2


def test_ids_compare_bytewise_wherever_they_stand(store, schema):
    def work(connection):
        for chain in (catalog, evals_chain, collection):
            chain.upgrade(connection, schema)
        found = connection.execute(
            text(
                "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = :schema"
                " AND column_name IN ('id', 'name', 'item_id', 'query_id', 'namespace', 'model', 'collection', 'split')"
                " AND collation_name IS DISTINCT FROM 'C'"
            ),
            {"schema": schema},
        )
        return [row[0] for row in found]

    assert on(store, work) == []


VALUES = {
    JSONB: {"a": [1]},
    ARRAY: ["t"],
    LargeBinary: b"\x00\x01",
    Boolean: True,
    Integer: 3,
    Float: 0.5,
    String: "x",
}


def fill(connection, metadata: MetaData) -> dict[str, dict[str, object]]:
    """One row in every table of a half-migrated schema that exists, with a value for every column."""
    rows = {}
    for table in metadata.sorted_tables:
        row = {}
        for column in table.columns:
            if column.identity is not None:
                continue
            if not column.server_default:
                row[column.name] = (
                    1
                    if column.foreign_keys
                    else next(value for kind, value in VALUES.items() if isinstance(column.type, kind))
                )
        connection.execute(insert(table), row)
        rows[table.name] = row
    return rows


@pytest.mark.parametrize("chain", [catalog, evals_chain, collection], ids=lambda chain: chain.name)
def test_an_upgrade_from_the_first_revision_keeps_what_is_there(store, schema, chain):
    first = min(path.name.split("_")[0] for path in chain.folder.glob("[a-z][0-9]*_*.py"))

    def work(connection):
        chain.upgrade(connection, schema, target=first)
        old = MetaData()
        old.reflect(connection, schema=schema)
        old.remove(old.tables[f"{schema}.{chain.version_table}"])
        rows = fill(connection, old)
        assert chain.revision(connection, schema) == first
        chain.upgrade(connection, schema)
        assert chain.is_current(connection, schema)
        return {
            table.name: {
                name: value
                for name, value in connection.execute(select(table)).mappings().one().items()
                if name in rows[table.name]
            }
            for table in old.sorted_tables
        } == rows

    assert on(store, work)


def test_collections_of_before_the_mark_are_loaded_where_they_hold_something_or_are_attached(store, schema):
    def work(connection):
        catalog.upgrade(connection, schema, target="c0001")
        statement = (
            f'INSERT INTO "{schema}".collections (name, namespace, language, card, origin, fields, attached, version)'
            " VALUES (:name, :name, '', '', '{}', '[]', CAST(:attached AS jsonb), :version)"
        )
        for name, attached, version in (("filled", None, 3), ("killed", None, 0), ("theirs", "{}", 0)):
            connection.execute(text(statement), {"name": name, "attached": attached, "version": version})
        catalog.upgrade(connection, schema)
        found = connection.execute(text(f'SELECT name FROM "{schema}".collections WHERE loaded_at = changed_at'))
        return sorted(found.scalars())

    assert on(store, work) == ["filled", "theirs"]


def test_rights_that_our_roles_have_on_attached_tables_are_noted_when_the_notes_begin(store, schema):
    """Of other tables, of other people's roles and of what all may do there is nothing to take back."""
    ours, theirs = f"rankbook_viewer_{uuid.uuid4().hex[:8]}", f"viewer_{uuid.uuid4().hex[:8]}"

    def work(connection):
        catalog.upgrade(connection, schema, target="c0002")
        for role in (ours, theirs):
            connection.execute(text(f"CREATE ROLE {role}"))
        for table in ("mapped", "other"):
            connection.execute(text(f'CREATE TABLE "{schema}".{table} (id int)'))
            connection.execute(text(f'GRANT SELECT ON "{schema}".{table} TO {ours}, {theirs}, PUBLIC'))
        connection.execute(text(f'GRANT USAGE ON SCHEMA "{schema}" TO {ours}'))
        row = (
            f'INSERT INTO "{schema}".collections (name, namespace, language, card, origin, fields, attached, version)'
            " VALUES ('theirs', 'c_theirs', '', '', '{}', '[]', jsonb_build_object('table',"
            " jsonb_build_object('namespace', CAST(:schema AS text), 'table', 'mapped')), 0)"
        )
        connection.execute(text(row), {"schema": schema})
        catalog.upgrade(connection, schema)
        noted = connection.execute(text(f'SELECT role, namespace, relation, collection FROM "{schema}".table_grants'))
        found = {tuple(row) for row in noted}
        for role in (ours, theirs):
            connection.execute(text(f"DROP OWNED BY {role}"))
            connection.execute(text(f"DROP ROLE {role}"))
        return found

    assert on(store, work) == {(ours, schema, "", ""), (ours, schema, "mapped", "")}


def test_upgrading_again_does_nothing(store, schema):
    def work(connection):
        for chain in (catalog, evals_chain, collection):
            chain.upgrade(connection, schema)
        before = catalogued(connection)
        for chain in (catalog, evals_chain, collection):
            assert chain.is_current(connection, schema)
            chain.upgrade(connection, schema)
        return before, catalogued(connection)

    def catalogued(connection):
        query = text(
            "SELECT oid, relname, xmin::text FROM pg_class WHERE relnamespace = CAST(:schema AS regnamespace) ORDER BY oid"  # noqa: E501
        )
        return connection.execute(query, {"schema": f'"{schema}"'}).all()

    before, after = on(store, work)
    assert before == after
    assert before


def test_a_migration_that_fails_half_way_leaves_nothing(store, schema, tmp_path):
    (tmp_path / "x0001_good.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\nrevision = 'x0001'\ndown_revision = None\n"
        "def upgrade():\n    op.create_table('made', sa.Column('a', sa.Integer), schema=op.get_context().version_table_schema)\n"  # noqa: E501
    )
    (tmp_path / "x0002_bad.py").write_text(
        "revision = 'x0002'\ndown_revision = 'x0001'\ndef upgrade():\n    raise ZeroDivisionError('half way')\n"
    )
    broken = Chain("broken", tmp_path)
    with pytest.raises(ZeroDivisionError, match="half way"):
        on(store, lambda connection: broken.upgrade(connection, schema))
    assert on(store, lambda connection: broken.revision(connection, schema)) is None


def test_a_collection_made_by_a_newer_rankbook_is_refused_in_a_sentence(store, name):
    view = make(store, name, chunks={})
    statement = text(f'UPDATE "{view.namespace}".revision_collection SET version_num = :revision')
    (known,) = on(store, lambda each: each.scalars(text(f'SELECT * FROM "{view.namespace}".revision_collection')))
    on(store, lambda each: each.execute(statement, {"revision": "k9999"}))
    try:
        with pytest.raises(StoreError, match=r"at revision k9999.*written by a newer one: upgrade Rankbook"):
            fresh(store, name)
    finally:  # whatever looks at all collections must not meet it
        on(store, lambda each: each.execute(statement, {"revision": known}))


@pytest.mark.slow
def test_an_older_collection_is_upgraded_when_it_is_found(store, name):
    view = make(store, name, chunks={})
    ingest(store, name, [Item("a", "text")])

    def downgrade(connection):
        connection.execute(text(f'DROP TABLE "{view.namespace}".chunk_cache'))
        connection.execute(text(f"UPDATE \"{view.namespace}\".revision_collection SET version_num = 'k0001'"))

    on(store, downgrade)
    assert fresh(store, name).chunk_set("items").last_key == 1
    assert on(store, lambda connection: collection.is_current(connection, view.namespace))
    assert ingest(store, name, [Item("a", "other")]).changed == 1


@pytest.fixture
def database(store):
    """An empty database on the same server, and the string that opens it."""
    if store.server is None:
        pytest.skip("makes databases, which it does on the embedded server only")
    made = f"db_{uuid.uuid4().hex[:8]}"
    import psycopg

    with psycopg.connect(store.server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {made}")
    yield store.server.conninfo(made)
    with psycopg.connect(store.server.conninfo("postgres"), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {made} WITH (FORCE)")


def test_a_store_of_a_newer_rankbook_is_refused_in_a_sentence(database):
    async def open_and_move_on():
        async with await Store.open(database) as opened, opened.begin() as connection:
            await connection.execute(text("UPDATE rankbook.revision_catalog SET version_num = 'c9999'"))

    bridge.run(open_and_move_on())
    with pytest.raises(StoreError, match=r"at revision c9999.*written by a newer one: upgrade Rankbook"):
        bridge.run(Store.open(database))


OPENS = """
import sys
sys.path.insert(0, {repository!r})
from core import bridge
from core.store.engine import Store
from core.store import collections
from evals.schema import schema_chain
print("ready", flush=True)
sys.stdin.readline()
store = bridge.run(Store.open({dsn!r}, chains=[schema_chain]))
view = bridge.run(collections.find(store, "shared"))
print(sorted(store.capabilities.missing), store.capabilities.extensions.get("vector"), flush=True)
bridge.run(store.close())
"""


@pytest.mark.slow
def test_several_processes_that_migrate_at_once_all_arrive(database):
    command = [sys.executable, "-c", OPENS.format(repository=str(REPOSITORY), dsn=database)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for each in started:
        assert each.stdout.readline() == "ready\n"
    for each in started:
        each.stdin.write("go\n")
        each.stdin.flush()
    answers = [each.communicate(timeout=60) for each in started]
    assert [each.returncode for each in started] == [0] * 4, answers
    assert {out.split("]")[0] for out, _ in answers} == {"["}
    assert len({out for out, _ in answers}) == 1
