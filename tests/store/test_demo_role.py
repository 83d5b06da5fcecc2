"""The demo's own role: what it may do works, and whatever else is tried, the server refuses."""

# mypy: disable-error-code="no-untyped-call, no-any-return, union-attr, misc"

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import conninfo, sql
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from core import bridge
from core.context import RequestContext
from core.errors import ConnectionFailed, MissingCapability, NotAllowed, StoreError
from core.legs import legs
from core.pipeline.retriever import search
from core.store import collections, demo_role
from core.store.attached import AttachedTable, attach_table, let_read
from core.store.collections import CollectionView
from core.store.demo_role import open_demo
from core.store.engine import Store
from core.variant import Variant
from evals.collections import load
from evals.judging import votes
from evals.judging.votes import BOTH, Contest, Vote
from evals.schema import schema_chain as evals_chain
from tests.fakes import HashingEmbedder
from tests.store.making import documents, fresh, ingest, make, some_name
from workbench.demo.show import RIGHTS

WORDS, SPELLING = (Variant.of_leg(legs[kind](), chunks="small") for kind in ("bm25", "trigram"))
REFUSED = psycopg.errors.InsufficientPrivilege  # for want of the right, and not because the transaction only reads


def collection(store: Store) -> CollectionView:
    made = some_name()
    embedder = HashingEmbedder()
    make(store, made, [embedder])
    ingest(store, made, documents(6), [embedder])
    return fresh(store, made)


@pytest.fixture(scope="module")
def view(store) -> CollectionView:
    return collection(store)


@pytest.fixture(scope="module")
def contest(store, view) -> Contest:
    made = Contest.of(view.name, {"Words": WORDS, "Spelling": SPELLING})
    bridge.run(votes.announce(store, made))
    return made


@pytest.fixture(scope="module")
def demo(store, view) -> Iterator[Store]:
    """The store as visitors reach it."""
    opened = bridge.run(open_demo(store, view, RIGHTS))
    yield opened
    bridge.run(opened.close())


def refused(demo: Store, *statements: str) -> type[BaseException]:
    """What the server says to statements of one transaction that begins by asking for the right to write."""

    async def work() -> None:
        async with demo.begin() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            await driver.execute("SET TRANSACTION READ WRITE")
            for statement in statements:
                await driver.execute(statement)

    with pytest.raises(psycopg.Error) as caught:
        bridge.run(work())
    return type(caught.value)


# -- what it may -----------------------------------------------------------------------------------------------------


def test_it_is_another_role_than_the_owners_and_the_server_says_so(store, view, demo):
    async def user(of: Store) -> str:
        async with of.begin() as connection:
            return await connection.scalar(text("SELECT session_user || ' ' || current_user"))

    database = bridge.run(_scalar(store, "SELECT current_database()"))
    expected = demo_role.role_of(database, view)
    assert bridge.run(user(demo)) == f"{expected} {expected}"
    assert expected not in bridge.run(user(store))


async def _scalar(of: Store, statement: str):
    async with of.begin() as connection:
        return await connection.scalar(text(statement))


@pytest.mark.parametrize("kind", ["bm25", "fulltext", "trigram", "fuzzy"])
@pytest.mark.parametrize("chunks", ["small", "items"])
def test_it_searches(demo, view, kind, chunks):
    variant = Variant.of_leg(legs[kind](), chunks=chunks)
    assert bridge.run(search(RequestContext(demo, view), "unique3", variant)).hits


def test_it_reads_vectors(demo, view):
    embedding_set = view.embedding_sets[0]
    assert bridge.run(_scalar(demo, f'SELECT count(*) FROM "{view.namespace}".vectors_{embedding_set.key}')) > 0


def test_it_votes_changes_a_vote_and_takes_it_back(demo, contest):
    before = bridge.run(votes.count(demo, contest))
    for choice, more in ((WORDS.id, 1), (BOTH, 1), (None, 0)):
        bridge.run(votes.cast(demo, contest, Vote("ada", "unique3", choice)))
        assert bridge.run(votes.choice_of(demo, contest, "ada", "unique3")) == choice
        assert bridge.run(votes.count(demo, contest)) == before + more


# -- what it may not -------------------------------------------------------------------------------------------------


def tables(store: Store, view: CollectionView) -> list[str]:
    """Every table of the catalogue and of the collection."""
    names = "string_agg(format('%I.%I', schemaname, tablename), ',')"
    where = f"schemaname IN ('rankbook', '{view.namespace}')"
    return bridge.run(_scalar(store, f"SELECT {names} FROM pg_tables WHERE {where}")).split(",")


@pytest.mark.parametrize(
    "attempt",
    ["DELETE FROM {}", "TRUNCATE {}", "DROP TABLE {}", "ALTER TABLE {} ADD COLUMN more int", "LOCK TABLE {}"],
)
def test_no_table_can_be_emptied_dropped_or_changed_not_even_the_votes(store, demo, view, attempt):
    every = tables(store, view)
    assert "rankbook.votes" in every
    assert any(view.namespace in each for each in every)
    for each in every:
        assert refused(demo, attempt.format(each)) is REFUSED


def test_no_row_of_any_other_table_can_be_written(store, demo, view):
    for each in tables(store, view):
        if each != "rankbook.votes":
            assert refused(demo, f"INSERT INTO {each} DEFAULT VALUES") is REFUSED
            schema, table = (part.strip('"') for part in each.rsplit(".", 1))
            column = bridge.run(
                _scalar(
                    store,
                    "SELECT quote_ident(column_name) FROM information_schema.columns WHERE ordinal_position = 1 "
                    f"AND table_schema = '{schema}' AND table_name = '{table}'",
                )
            )
            assert refused(demo, f"UPDATE {each} SET {column} = {column}") is REFUSED


@pytest.mark.parametrize("column", ["contest", "visitor", "query"])
def test_a_vote_cannot_be_made_somebody_elses(demo, column):
    assert refused(demo, f"UPDATE rankbook.votes SET {column} = 'x'") is REFUSED


BEYOND = [
    "CREATE TABLE public.mine (a int)",
    "CREATE SCHEMA mine",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE ROLE mine",
    "CREATE EXTENSION hstore",
    "COPY rankbook.votes TO '/tmp/rankbook-demo-votes'",
    "COPY rankbook.votes TO PROGRAM 'cat'",
    "SELECT pg_read_file('postgresql.conf')",
    "SELECT pg_reload_conf()",
    "SET ROLE {owner}",
    "SET SESSION AUTHORIZATION {owner}",
    "SELECT * FROM rankbook.judgements",
    "SELECT * FROM rankbook.labels",
    "SELECT passwd FROM pg_shadow",
]


@pytest.mark.parametrize("statement", BEYOND)
def test_nothing_else_can_be_made_read_or_become(store, demo, statement):
    there = "SELECT count(*) FROM pg_available_extensions WHERE name = 'hstore'"
    if "EXTENSION" in statement and not bridge.run(_scalar(store, there)):
        pytest.skip("this server has not got the extension that is to be refused")
    owner = bridge.run(_scalar(store, "SELECT quote_ident(current_user)"))
    assert refused(demo, statement.replace("{owner}", owner)) is REFUSED


@pytest.mark.parametrize("statement", ["CREATE TEMP TABLE mine (a int)", "SELECT lo_create(0)", "SELECT lo_creat(1)"])
def test_on_our_own_server_not_even_temporary_tables_and_large_objects(demo, statement):
    if demo.server is None:
        pytest.skip("somebody else's server lets everybody do so")
    assert refused(demo, statement) is REFUSED


def test_turning_its_settings_off_gains_it_nothing(demo, view):
    off = ("SET SESSION default_transaction_read_only = off", "SET SESSION statement_timeout = 0")
    assert refused(demo, *off, f'DELETE FROM "{view.namespace}".items') is REFUSED
    assert refused(demo, "RESET ALL", "RESET ROLE", f'DELETE FROM "{view.namespace}".items') is REFUSED


@pytest.mark.slow
def test_another_collection_cannot_even_be_read(store, demo):
    other = collection(store)
    assert refused(demo, f'SELECT * FROM "{other.namespace}".items') is REFUSED


def test_every_transaction_but_a_vote_begins_read_only_on_whatever_connection(demo, contest):
    """After votes and snapshots have gone through the pool's connections too."""
    for _ in range(3):
        bridge.run(votes.cast(demo, contest, Vote("bob", "q", BOTH)))
        bridge.run(votes.count(demo, contest))
        with pytest.raises(DBAPIError, match="read-only transaction"):
            bridge.run(_scalar(demo, "INSERT INTO rankbook.votes VALUES ('a', 'b', 'c', 'd') RETURNING 1"))


def test_of_an_attached_table_it_reads_that_table_alone(store):
    tables = [f"theirs_{uuid.uuid4().hex[:8]}" for _ in range(2)]
    variant = Variant.of_leg(legs["trigram"]())

    async def work() -> None:
        for table in tables:
            async with store.begin() as connection:
                await connection.execute(text(f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)"))
                await connection.execute(text(f"INSERT INTO public.{table} VALUES (1, 'reset the hub')"))
        view = await attach_table(store, some_name(), AttachedTable(table=tables[0], id="id", text="body"))
        async with await open_demo(store, view, RIGHTS) as opened:
            assert (await search(RequestContext(opened, view), "reset hub", variant)).hits
            async with opened.begin() as connection:
                for table in tables:
                    may = "SELECT has_table_privilege(:table, 'SELECT'), has_table_privilege(:table, 'INSERT, DELETE')"
                    row = (await connection.execute(text(may), {"table": table})).one()
                    assert tuple(row) == (table == tables[0], False)

    bridge.run(work())


def test_a_table_that_only_the_catalogue_names_is_shown_to_no_stranger(store):
    tables = [f"theirs_{uuid.uuid4().hex[:8]}" for _ in range(2)]
    name = some_name()
    rewrite = """UPDATE rankbook.collections
        SET attached = jsonb_set(attached, '{table,table}', to_jsonb(CAST(:table AS text))) WHERE name = :name"""

    async def work() -> None:
        for table in tables:
            async with store.begin() as connection:
                await connection.execute(text(f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)"))
        await attach_table(store, name, AttachedTable(table=tables[0], id="id", text="body"))
        async with store.begin() as connection:
            await connection.execute(text(rewrite), {"table": tables[1], "name": name})
        view = await collections.get(store, name)
        with pytest.raises(NotAllowed, match=f"rankbook access --attached '{name}=public.{tables[1]}'"):
            await open_demo(store, view, RIGHTS)
        await let_read(store, name, f"public.{tables[1]}")
        async with await open_demo(store, view, RIGHTS) as opened, opened.begin() as connection:
            assert await connection.scalar(text(f"SELECT count(*) FROM public.{tables[1]}")) == 0

    bridge.run(work())


def test_a_demo_of_an_attached_table_can_read_it_no_more_once_its_collection_is_dropped(store):
    table = f"theirs_{uuid.uuid4().hex[:8]}"

    async def work() -> tuple[object, object]:
        async with store.begin() as connection:
            await connection.execute(text(f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)"))
        mapping = AttachedTable(table=table, id="id", text="body")
        view, _other = await attach_table(store, some_name(), mapping), await attach_table(store, some_name(), mapping)
        async with await open_demo(store, view, RIGHTS) as opened:
            may = f"SELECT has_table_privilege('public.{table}', 'SELECT')"
            before = await _scalar(opened, may)
            await load.drop(store, view.name)
            return before, await _scalar(opened, may)

    assert bridge.run(work()) == (True, False)


# -- a role that somebody else made ----------------------------------------------------------------------------------


@pytest.fixture
def admin(store) -> Iterator[psycopg.Connection]:
    if store.server is None:
        pytest.skip("makes roles, which it does on the embedded server only")
    with psycopg.connect(store.server.conninfo(), autocommit=True) as connection:
        yield connection


@pytest.fixture
def given(store, admin, monkeypatch) -> Iterator[str]:
    """A role that may log in and nothing more, named by RANKBOOK_DEMO_DSN."""
    made = f"given_{uuid.uuid4().hex[:8]}"
    name = sql.Identifier(made)
    admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(name))
    monkeypatch.setenv(demo_role.DSN, conninfo.make_conninfo(store.server.conninfo(), user=made))
    yield made
    admin.execute(sql.SQL("DROP OWNED BY {}").format(name))
    admin.execute(sql.SQL("DROP ROLE {}").format(name))


def test_a_role_that_was_given_gets_what_it_lacks_and_no_more(store, view, contest, given):
    for _ in range(2):  # the second time it lacks nothing
        opened = bridge.run(open_demo(store, view, RIGHTS))
        try:
            assert bridge.run(_scalar(opened, "SELECT current_user")) == given
            assert bridge.run(search(RequestContext(opened, view), "unique3", WORDS)).hits
            bridge.run(votes.cast(opened, contest, Vote("eve", "q", BOTH)))
            assert refused(opened, f'DELETE FROM "{view.namespace}".items') is REFUSED
        finally:
            bridge.run(opened.close())


TOO_MUCH = {
    "GRANT UPDATE ON rankbook.collections TO {}": "may write to rankbook.collections",
    "GRANT UPDATE (title) ON {items} TO {}": r"may write to c_test .*\.items",
    "GRANT DELETE ON rankbook.votes TO {}": "may write to rankbook.votes",
    "GRANT CREATE ON SCHEMA public TO {}": "may create things in the schema public",
    "ALTER ROLE {} CREATEROLE": "rules the server",
    "GRANT rankbook TO {}": "may become the role rankbook, which rules the server",
    "GRANT pg_write_all_data TO {}": "may write to ",
}


@pytest.mark.parametrize("grant", TOO_MUCH)
def test_a_role_that_may_do_more_is_refused(store, view, admin, given, grant):
    items = sql.Identifier(view.namespace, "items").as_string(None)
    admin.execute(grant.replace("{items}", items).format(given))
    with pytest.raises(StoreError, match=TOO_MUCH[grant]) as caught:
        bridge.run(open_demo(store, view, RIGHTS))
    assert demo_role.DSN in str(caught.value)


def test_the_owner_itself_is_no_role_for_a_demo(store, view, admin, monkeypatch):
    monkeypatch.setenv(demo_role.DSN, store.server.conninfo())
    with pytest.raises(StoreError, match="rules the server"):
        bridge.run(open_demo(store, view, RIGHTS))


@pytest.mark.parametrize("string", ["garbage s3cret", "postgresql://:s3cret@host/db", "mysql://u:s3cret@host/db"])
def test_garbage_in_its_place_is_refused_without_the_password(store, view, monkeypatch, string):
    monkeypatch.setenv(demo_role.DSN, string)
    with pytest.raises(ConnectionFailed, match=demo_role.DSN) as caught:
        bridge.run(open_demo(store, view, RIGHTS))
    assert "s3cret" not in str(caught.value)


def test_a_role_that_the_server_does_not_know_is_named(store, view, admin, monkeypatch):
    monkeypatch.setenv(demo_role.DSN, conninfo.make_conninfo(store.server.conninfo(), user="nobody_at_all"))
    with pytest.raises(ConnectionFailed, match="knows no role 'nobody_at_all'"):
        bridge.run(open_demo(store, view, RIGHTS))


# -- a server of somebody else's -------------------------------------------------------------------------------------


@pytest.fixture
def elsewhere(store, admin) -> Iterator[str]:
    """The connection string of a role that owns a database with a collection, and may make no roles."""
    database, owner = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("db", "owner"))
    admin.execute(f"CREATE ROLE {owner} LOGIN")
    admin.execute(f"CREATE DATABASE {database} OWNER {owner}")
    with psycopg.connect(store.server.conninfo(database), autocommit=True) as connection:
        connection.execute("CREATE EXTENSION vector")
    yield conninfo.make_conninfo(store.server.conninfo(database), user=owner)
    admin.execute(f"DROP DATABASE {database} WITH (FORCE)")
    admin.execute(f"DROP ROLE {owner}")


@pytest.mark.slow
def test_where_no_role_may_be_made_the_demo_says_what_to_run_and_that_is_enough(store, admin, elsewhere, monkeypatch):
    async def work() -> None:
        async with await Store.open(elsewhere, chains=[evals_chain]) as owner:
            from core.store import collections, demo_role

            view = await collections.create(owner, "there")
            with pytest.raises(MissingCapability, match="may not set up") as caught:
                await open_demo(owner, view, RIGHTS)
            told = str(caught.value).split("to run: ")[1].split("; Then set")[0]
            made = told.split('"')[1]
            with psycopg.connect(store.server.conninfo(owner.engine.url.database), autocommit=True) as administrator:
                for statement in told.split("; "):
                    administrator.execute(statement)
            try:
                monkeypatch.setenv(demo_role.DSN, conninfo.make_conninfo(elsewhere, user=made))
                async with await open_demo(owner, view, RIGHTS) as opened:
                    assert await _scalar(opened, "SELECT current_user") == made
            finally:
                with psycopg.connect(store.server.conninfo(owner.engine.url.database), autocommit=True) as again:
                    again.execute(f"DROP OWNED BY {made}")
                    again.execute(f"DROP ROLE {made}")

    bridge.run(work())


@pytest.mark.slow
def test_an_owner_who_may_make_roles_and_is_no_superuser_sets_it_up_alone(store, admin, elsewhere):
    owner_name = conninfo.conninfo_to_dict(elsewhere)["user"]
    admin.execute(f"ALTER ROLE {owner_name} CREATEROLE")

    async def work() -> None:
        async with await Store.open(elsewhere, chains=[evals_chain]) as owner:
            from core.store import collections, demo_role

            view = await collections.create(owner, "there")
            async with await open_demo(owner, view, RIGHTS) as opened:
                made = await _scalar(opened, "SELECT current_user")
                assert made.startswith(demo_role.PREFIX)
            admin.execute(f"ALTER ROLE {made} NOLOGIN")
            with pytest.raises(ConnectionFailed, match=f"cannot log in.*{demo_role.DSN}"):
                await open_demo(owner, view, RIGHTS)
            with psycopg.connect(store.server.conninfo(owner.engine.url.database), autocommit=True) as again:
                again.execute(f"DROP OWNED BY {made}")
                again.execute(f"DROP ROLE {made}")

    bridge.run(work())


@pytest.mark.slow
def test_on_a_server_that_asks_for_passwords_the_role_has_one(store, admin, elsewhere):
    """It follows from the owner's, so that two demos at once agree on it."""
    parts = conninfo.conninfo_to_dict(elsewhere)
    admin.execute(f"ALTER ROLE {parts['user']} CREATEROLE PASSWORD 's3cret'")
    hba = store.server.data / "pg_hba.conf"
    whole = hba.read_text()
    hba.write_text(f"local {parts['dbname']} all scram-sha-256\n{whole}")
    try:
        admin.execute("SELECT pg_reload_conf()")
        while not _asks_for_a_password(elsewhere):
            pass  # the reload has not reached the server's own process
        bridge.run(_opened_twice(elsewhere))
    finally:
        hba.write_text(whole)
        admin.execute("SELECT pg_reload_conf()")
        with psycopg.connect(store.server.conninfo(parts["dbname"]), autocommit=True) as again:
            (made,) = again.execute(
                "SELECT rolname FROM pg_roles WHERE rolname = ANY (%s)", ([_made(parts)],)
            ).fetchone()
            again.execute(f"DROP OWNED BY {made}")
            again.execute(f"DROP ROLE {made}")


def _asks_for_a_password(string: str) -> bool:
    try:
        psycopg.connect(string).close()
    except psycopg.OperationalError:
        return True
    return False


def _made(parts) -> str:
    from types import SimpleNamespace

    return demo_role.role_of(parts["dbname"], SimpleNamespace(namespace="c_there"))  # type: ignore[arg-type]


async def _opened_twice(string: str) -> None:
    from core.store import collections, demo_role

    async with await Store.open(conninfo.make_conninfo(string, password="s3cret"), chains=[evals_chain]) as owner:
        view = await collections.create(owner, "there")
        async with await open_demo(owner, view, RIGHTS) as first, await open_demo(owner, view, RIGHTS) as second:
            for each in (first, second):
                assert (await _scalar(each, "SELECT current_user")).startswith(demo_role.PREFIX)
                assert "s3cret" not in each.where
