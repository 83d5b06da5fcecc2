"""Viewers, judges and editors: what each may do works, and what it may not the server refuses, in a sentence."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import conninfo
from sqlalchemy import text

from core import bridge
from core.context import RequestContext
from core.errors import MissingCapability, NotAllowed
from core.legs import legs
from core.pipeline.retriever import search
from core.store import collections, grants, roles
from core.store.attached import AttachedTable, attach_table
from core.store.collections import CollectionView
from core.store.engine import Store, driver_of
from core.store.roles import EDITOR, JUDGE, VIEWER, RoleStore
from core.types import Query
from core.variant import Variant
from evals.judging import judgements, votes
from evals.judging.judgements import Judgement
from evals.judging.votes import BOTH, Contest, Vote
from evals.labels import corrections, query_sets
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.schema import schema_chain
from evals.types import Label, LabelledQueries
from tests.fakes import HashingEmbedder
from tests.store.making import documents, fresh, ingest, make, some_name
from workbench.server.access import JUDGES

WORDS = Variant.of_leg(legs["bm25"](), chunks="small")
REFUSED = psycopg.errors.InsufficientPrivilege
TRASH = '"rankbook"."trash"'  # what was deleted is nothing for readers


def collection(store: Store, name: str = "") -> CollectionView:
    made, embedder = name or some_name(), HashingEmbedder()
    make(store, made, [embedder])
    ingest(store, made, documents(6), [embedder])
    return fresh(store, made)


@pytest.fixture(scope="module")
def view(store) -> CollectionView:
    made = collection(store)
    bridge.run(query_sets.keep(store, made.name, LabelledQueries((Query("q1", "word1"),), (Label("q1", "d00001", 1),))))
    bridge.run(run_store.save(store, a_run(made)))
    return made


@pytest.fixture(scope="module")
def stores(store, view) -> Iterator[dict[str, RoleStore]]:
    """The store as each role sees it."""
    bridge.run(grants.set_up(store, JUDGES))
    opened = {role: bridge.run(roles.opened(store, role, [schema_chain])) for role in roles.ROLES}
    yield opened
    for each in opened.values():
        bridge.run(each.close())


def said(store: Store, *statements: str) -> type[BaseException] | None:
    """What the server itself says to statements of one transaction; nothing of it stays."""

    async def work() -> None:
        async with store.engine.connect() as connection:
            driver = await driver_of(connection)
            for statement in statements:
                await driver.execute(statement)

    try:
        bridge.run(work())
    except psycopg.Error as error:
        return type(error)
    return None


def scalar(store: Store, statement: str) -> Any:
    async def work() -> Any:
        async with store.begin() as connection:
            return await connection.scalar(text(statement))

    return bridge.run(work())


def tables(store: Store, *schemas: str) -> list[tuple[str, str, str]]:
    """Every table of these schemas, as a statement names it; and its first column."""
    listed = scalar(
        store,
        "SELECT json_agg(json_build_array(table_schema, table_name, quote_ident(column_name))) "
        "FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) "
        f"WHERE ordinal_position = 1 AND table_type = 'BASE TABLE' AND table_schema IN {(*schemas, '')}",
    )
    return [(schema, f'"{schema}"."{table}"', column) for schema, table, column in listed]


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", roles.ROLES)
def test_each_is_a_login_role_of_its_own_and_says_so_in_where_it_is(store, stores, role):
    assert scalar(stores[role], "SELECT session_user") == roles.name_of(
        role, scalar(store, "SELECT current_database()")
    )
    assert stores[role].where == f"{store.where.replace('rankbook@', '')} as {role}" or store.server is None
    assert len({each.where for each in stores.values()} | {store.where}) == 4


@pytest.mark.parametrize("role", roles.ROLES)
def test_each_reads_every_table_but_the_trash_and_searches(stores, view, role):
    for _, table, _ in tables(stores[EDITOR], "rankbook", view.namespace):
        allowed = role == EDITOR or table != TRASH
        assert said(stores[role], f"SELECT * FROM {table} LIMIT 1") is (None if allowed else REFUSED), table
    assert bridge.run(search(RequestContext(stores[role], view), "unique3", WORDS)).hits


# -- what viewers and judges may not -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", roles.READERS)
@pytest.mark.parametrize(
    "attempt",
    [
        "TRUNCATE {}",
        "DROP TABLE {}",
        "ALTER TABLE {} ADD COLUMN more int",
        "LOCK TABLE {}",
        "GRANT ALL ON {} TO PUBLIC",
    ],
)
def test_readers_empty_drop_lock_and_change_no_table_at_all(stores, view, role, attempt):
    every_table = tables(stores[EDITOR], "rankbook", view.namespace)
    assert len(every_table) > 20
    if attempt.startswith("GRANT"):  # which is a warning, and no error, where nothing can be granted
        assert {said(stores[role], attempt.format(table)) for _, table, _ in every_table} <= {REFUSED, None}
        assert not scalar(
            stores[EDITOR],
            "SELECT count(*) FROM information_schema.table_privileges "
            "WHERE grantee = 'PUBLIC' AND table_schema = 'rankbook'",
        )
        return
    for _, table, _ in every_table:
        own = role == JUDGE and attempt.startswith("LOCK") and table.split('"')[3] in {right.table for right in JUDGES}
        assert own or said(stores[role], attempt.format(table)) is REFUSED, table


@pytest.mark.parametrize("role", roles.READERS)
def test_readers_write_no_row_but_judges_their_judgements_and_votes(stores, view, role):
    for schema, table, column in tables(stores[EDITOR], "rankbook", view.namespace):
        name = table.split(".")[1].strip('"')
        if role == JUDGE and schema == "rankbook" and name in {right.table for right in JUDGES}:
            continue
        assert said(stores[role], f"INSERT INTO {table} DEFAULT VALUES") is REFUSED, table
        assert said(stores[role], f"UPDATE {table} SET {column} = {column}") is REFUSED, table
        assert said(stores[role], f"DELETE FROM {table}") is REFUSED, table


BEYOND = [
    "CREATE TABLE public.mine (a int)",
    "CREATE SCHEMA mine",
    "CREATE TABLE rankbook.mine (a int)",
    "CREATE FUNCTION public.mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE ROLE mine",
    "CREATE EXTENSION hstore",
    "COPY rankbook.votes TO PROGRAM 'cat'",
    "SELECT pg_read_file('postgresql.conf')",
    "SET ROLE {owner}",
    "SET ROLE {editor}",
    "SET SESSION AUTHORIZATION {owner}",
    "SELECT passwd FROM pg_shadow",
]


IS_THERE = "SELECT count(*) FROM pg_available_extensions WHERE name = 'hstore'"


@pytest.mark.parametrize("role", roles.READERS)
@pytest.mark.parametrize("statement", BEYOND)
def test_readers_make_nothing_and_become_nobody_else(store, stores, role, statement):
    if "hstore" in statement and not scalar(store, IS_THERE):
        pytest.skip("this server's packages have no hstore")
    owner = scalar(store, "SELECT quote_ident(current_user)")
    editor = scalar(stores[EDITOR], "SELECT quote_ident(current_user)")
    assert said(stores[role], statement.replace("{owner}", owner).replace("{editor}", editor)) is REFUSED


@pytest.mark.parametrize("statement", ["CREATE TEMP TABLE mine (a int)", "SELECT lo_create(0)"])
def test_on_our_own_server_readers_have_no_temporary_tables_and_no_large_objects(stores, statement):
    if stores[VIEWER].server is None:
        pytest.skip("somebody else's server lets everybody do so")
    assert said(stores[VIEWER], statement) is REFUSED


# -- in sentences, by the functions that pages call --------------------------------------------------------------------


def a_run(view: CollectionView) -> Run:
    subject = RunSubject(view.name, view.row.version, "default", b"x", "test", "content")
    return Run("theirs", subject, {"q1": Ranking(("d00001",), (0.5,))}, depth=10)


async def _pin(store: Store, view: CollectionView) -> None:
    found, *_ = await run_store.listed(store, collection=view.name)
    await run_store.pin(store, found.id, "best")


def writes(view: CollectionView):
    judged = Judgement("q1", "d00001", "ada", 2, b"v", False, "")
    return {
        "judgements": lambda store: judgements.save_judgements(store, view.name, [judged]),
        "runs": lambda store: run_store.save(store, replace(a_run(view), name="mine")),
        "pins": lambda store: _pin(store, view),
        "collections": lambda store: collections.drop(store, view.name),
        "query_sets": lambda store: query_sets.keep(store, view.name, LabelledQueries((Query("q9", "new"),))),
        "contests": lambda store: votes.announce(store, Contest.of(view.name, {"A": WORDS})),
    }


@pytest.mark.parametrize("table", ["judgements", "runs", "pins", "collections", "query_sets", "contests"])
def test_what_a_viewer_may_not_is_told_in_a_sentence_and_nothing_is_written(store, stores, view, table):
    before = scalar(store, f"SELECT json_agg(t)::text FROM rankbook.{table} AS t")
    with pytest.raises(NotAllowed, match="You are here as viewer, and viewers may not do this") as caught:
        bridge.run(writes(view)[table](stores[VIEWER]))
    assert "Nothing was changed" in str(caught.value)
    assert "access.toml" in str(caught.value)
    assert scalar(store, f"SELECT json_agg(t)::text FROM rankbook.{table} AS t") == before


@pytest.mark.parametrize("table", ["runs", "pins", "collections", "query_sets", "contests"])
def test_a_judge_may_not_either_but_for_judging(stores, view, table):
    with pytest.raises(NotAllowed, match="as judge"):
        bridge.run(writes(view)[table](stores[JUDGE]))


def test_an_editor_corrects_a_label_and_undoes_it_and_nobody_below_does(store, stores, view):
    before = bridge.run(query_sets.load(store, view.name))

    def correct(role: str) -> Any:
        return bridge.run(corrections.relabel(stores[role], view, "q1", "d00001", 3))

    for role in roles.READERS:
        with pytest.raises(NotAllowed, match=f"as {role}"):
            correct(role)
    correct(EDITOR)
    for role in roles.READERS:
        with pytest.raises(NotAllowed, match=f"as {role}"):
            bridge.run(corrections.undo(stores[role], view.name))
        assert len(bridge.run(corrections.changes(stores[role], view.name))) == 1
    bridge.run(corrections.undo(stores[EDITOR], view.name))
    assert bridge.run(query_sets.load(store, view.name)) == before


@pytest.mark.parametrize("table", ["labels", "queries", "query_sets"])
def test_a_judge_makes_changes_and_takes_no_label(stores, table):
    for statement in ("INSERT INTO {} DEFAULT VALUES", "UPDATE {} SET {} = {}", "DELETE FROM {}"):
        column = "grade" if table == "labels" else "id" if table == "queries" else "name"
        asked = statement.format(f"rankbook.{table}", column, column)
        assert said(stores[JUDGE], asked) is REFUSED, asked


def test_a_judge_grades_changes_a_grade_takes_it_back_and_votes(store, stores, view):
    judge, contest = stores[JUDGE], Contest.of(view.name, {"Words": WORDS})
    first = Judgement("q1", "d00001", "grace", 1, b"v", False, "")
    bridge.run(judgements.save_judgements(judge, view.name, [first]))
    (before,) = bridge.run(
        judgements.save_judgements(judge, view.name, [Judgement("q1", "d00001", "grace", 2, b"v", False, "")])
    )
    assert before.grade == 1
    undone = bridge.run(judgements.undo(judge, view.name, "grace", before=[before]))
    assert undone
    assert undone.grade == 2
    assert [each.grade for each in bridge.run(judgements.load(judge, view.name)) if each.judge == "grace"] == [1]
    bridge.run(votes.announce(store, contest))
    bridge.run(votes.cast(judge, contest, Vote("grace", "word1", BOTH)))
    assert bridge.run(votes.count(stores[VIEWER], contest)) == 1


# -- computing without keeping -----------------------------------------------------------------------------------------


def test_what_a_reader_evaluates_is_held_in_memory_and_nothing_of_it_is_kept(store, stores, view):
    from evals.runs import runner
    from evals.types import QuerySplit

    labelled = bridge.run(query_sets.load(store, view.name))
    split = QuerySplit.of(labelled, "test")

    def rows() -> list[int]:
        return [scalar(store, f"SELECT count(*) FROM rankbook.{table}") for table in ("runs", "ranking_batches")]

    before = rows()
    (run,) = bridge.run(runner.run(RequestContext(stores[VIEWER], view), [WORDS], split))
    assert run.rankings["q1"].length > 0
    assert rows() == before
    (kept,) = bridge.run(runner.run(RequestContext(stores[EDITOR], view), [WORDS], split))
    assert kept.rankings == run.rankings
    assert rows() > before
    (again,) = bridge.run(runner.run(RequestContext(stores[VIEWER], view), [WORDS], split))
    assert again.made_at == kept.made_at


# -- editors -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_an_editor_makes_readers_can_read_at_once_and_the_owner_can_drop(store, stores):
    made = collection(stores[EDITOR])
    for role in roles.READERS:
        assert bridge.run(search(RequestContext(stores[role], made), "unique3", WORDS)).hits
        assert said(stores[role], f'DELETE FROM "{made.namespace}".items') is REFUSED
    bridge.run(collections.drop(store, made.name))
    assert bridge.run(collections.find(store, made.name)) is None


@pytest.mark.slow
def test_what_the_owner_makes_readers_can_read_and_editors_change_after_the_next_look(store, stores):
    made = collection(store)
    assert said(stores[VIEWER], f'SELECT * FROM "{made.namespace}".items') is REFUSED
    bridge.run(grants.refresh(store))
    assert bridge.run(search(RequestContext(stores[VIEWER], made), "unique3", WORDS)).hits
    changed = bridge.run(collections.add_chunk_set(stores[EDITOR], made, "more", {"kind": "none"}))
    assert said(stores[VIEWER], f'SELECT * FROM "{changed.namespace}".chunk_sets') is None
    bridge.run(collections.drop(stores[EDITOR], made.name))


@pytest.mark.slow
def test_a_collection_that_is_being_written_is_handed_over_later_and_read_at_once(store, stores):
    made = collection(store)

    async def work() -> None:
        async with store.begin(made.namespace) as connection:
            await connection.execute(text(f'LOCK TABLE "{made.namespace}".items IN ROW EXCLUSIVE MODE'))
            await grants.refresh(store)
            owner = text("SELECT tableowner FROM pg_tables WHERE schemaname = :schema AND tablename = 'items'")
            assert await connection.scalar(owner, {"schema": made.namespace}) == await connection.scalar(
                text("SELECT current_user")
            )
        await grants.refresh(store)

    bridge.run(work())
    assert said(stores[VIEWER], f'SELECT * FROM "{made.namespace}".items') is None
    bridge.run(collections.drop(stores[EDITOR], made.name))


@pytest.mark.parametrize(
    "statement", ["CREATE ROLE mine", "ALTER ROLE {viewer} SUPERUSER", "SET ROLE {owner}", "GRANT {owner} TO {viewer}"]
)
def test_editors_change_no_roles(store, stores, statement):
    owner = scalar(store, "SELECT quote_ident(current_user)")
    viewer = scalar(stores[VIEWER], "SELECT quote_ident(current_user)")
    assert said(stores[EDITOR], statement.replace("{owner}", owner).replace("{viewer}", viewer)) is REFUSED


def test_of_other_peoples_tables_only_the_attached_ones_can_be_read(store, stores):
    mine, other = (f"theirs_{uuid.uuid4().hex[:8]}" for _ in range(2))

    async def work() -> None:
        async with store.begin() as connection:
            for table in (mine, other):
                await connection.execute(text(f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)"))
        await attach_table(store, some_name(), AttachedTable(table=mine, id="id", text="body"))
        await grants.refresh(store)

    bridge.run(work())
    for role in roles.ROLES:
        assert said(stores[role], f"SELECT * FROM public.{mine}") is None
        assert said(stores[role], f"SELECT * FROM public.{other}") is REFUSED
        assert said(stores[role], f"INSERT INTO public.{mine} VALUES (1, 'x')") is REFUSED


# -- set up ------------------------------------------------------------------------------------------------------------


def test_set_up_again_takes_away_what_somebody_added_by_hand(store, stores):
    viewer = scalar(stores[VIEWER], "SELECT quote_ident(current_user)")
    driver_says = f"GRANT DELETE ON rankbook.judgements TO {viewer}"

    async def work() -> None:
        async with store.begin() as connection:
            await connection.execute(text(driver_says))

    bridge.run(work())
    assert said(stores[VIEWER], "DELETE FROM rankbook.judgements") is None
    bridge.run(grants.set_up(store, JUDGES))
    assert said(stores[VIEWER], "DELETE FROM rankbook.judgements") is REFUSED


@pytest.fixture
def elsewhere(store) -> Iterator[str]:
    """The connection string of a role that owns a database, and may make no roles."""
    if store.server is None:
        pytest.skip("makes roles and databases, which it does on the embedded server only")
    database, owner = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("db", "owner"))
    with psycopg.connect(store.server.conninfo(), autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {owner} LOGIN")
        admin.execute(f"CREATE DATABASE {database} OWNER {owner}")
        with psycopg.connect(store.server.conninfo(database), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION vector")
        yield conninfo.make_conninfo(store.server.conninfo(database), user=owner)
        admin.execute(f"DROP DATABASE {database} WITH (FORCE)")
        for role in (*(roles.name_of(each, database) for each in roles.ROLES), owner):
            admin.execute(f"DROP ROLE IF EXISTS {role}")


@pytest.mark.slow
def test_an_owner_who_is_no_superuser_sets_all_up_and_keeps_all_rights(store, elsewhere):
    user = conninfo.conninfo_to_dict(elsewhere)["user"]
    with psycopg.connect(store.server.conninfo(), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {user} CREATEROLE")
    owner = bridge.run(Store.open(elsewhere, chains=[schema_chain]))
    try:
        before = collection(owner)
        for _ in range(2):
            bridge.run(grants.set_up(owner, JUDGES))
        stores = {role: bridge.run(roles.opened(owner, role, [schema_chain])) for role in roles.ROLES}
        try:
            assert said(stores[VIEWER], f'DELETE FROM "{before.namespace}".items') is REFUSED
            made = collection(stores[EDITOR])
            bridge.run(collections.add_chunk_set(owner, made, "more", {"kind": "none"}))
            bridge.run(grants.refresh(owner))
            assert said(stores[VIEWER], f'SELECT * FROM "{made.namespace}".chunk_sets') is None
            bridge.run(collections.drop(owner, made.name))
            bridge.run(collections.drop(stores[EDITOR], before.name))
        finally:
            for each in stores.values():
                bridge.run(each.close())
    finally:
        bridge.run(owner.close())


def test_where_no_role_may_be_made_it_says_what_to_run(elsewhere):
    owner = bridge.run(Store.open(elsewhere, chains=[schema_chain]))
    try:
        with pytest.raises(MissingCapability, match=r"may not set up.*CREATEROLE"):
            bridge.run(grants.set_up(owner, JUDGES))
    finally:
        bridge.run(owner.close())


@pytest.mark.slow
def test_a_collection_whose_mapping_is_the_null_of_json_is_granted_like_any_other(store, stores):
    made = collection(store)

    async def work() -> None:
        async with store.begin() as connection:
            await connection.execute(
                text("UPDATE rankbook.collections SET attached = CAST('null' AS jsonb) WHERE name = :name"),
                {"name": made.name},
            )
        await grants.refresh(store)

    bridge.run(work())
    assert scalar(stores[VIEWER], f'SELECT count(*) FROM "{made.namespace}".items') == 6
