"""What is granted as collections come: ours and no other, whatever the catalogue says, and beside work on the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from core import bridge
from core.errors import NotAllowed, SpecError, StoreError
from core.store import attached, collections, grants, readable_tables, roles
from core.store.engine import Store, driver_of
from core.store.names import trash_mark, trash_schema
from core.store.roles import EDITOR, JUDGE, VIEWER, RoleStore, name_of
from evals import trash
from evals.collections import load
from evals.schema import schema_chain
from tests.fakes import HashingEmbedder
from tests.store.making import documents, ingest, make, some_name
from workbench.server import access
from workbench.server.access import JUDGES


@pytest.fixture(scope="module")
def editor(store: Store) -> Iterator[RoleStore]:
    bridge.run(grants.set_up(store, JUDGES))
    opened = bridge.run(roles.opened(store, EDITOR, [schema_chain]))
    yield opened
    bridge.run(opened.close())


def asked(store: Store, statement: str, **values: str) -> list[str]:
    async def work() -> list[str]:
        async with store.begin() as connection:
            found = await connection.execute(text(statement), values)
            return [str(row[0]) for row in found] if found.returns_rows else []

    return bridge.run(work())


def owner_of(store: Store, schema: str) -> str:
    (name,) = asked(store, "SELECT nspowner::regrole FROM pg_namespace WHERE nspname = :schema", schema=schema)
    return name


def test_a_row_of_the_catalogue_that_names_another_schema_hands_nothing_over(store, editor):
    """Editors write the catalogue, and the owner of all goes by what it says."""
    other, row = some_name(), make(store, some_name()).row
    asked(store, f'CREATE SCHEMA "{other}"')
    before = owner_of(store, other)
    change = "UPDATE rankbook.collections SET namespace = :schema WHERE name = :name"
    asked(editor, change, schema=other, name=row.name)
    try:
        bridge.run(grants.refresh(store))
        assert owner_of(store, other) == before
    finally:
        asked(store, change, schema=row.namespace, name=row.name)
        asked(store, f'DROP SCHEMA "{other}"')
    bridge.run(grants.refresh(store))
    assert owner_of(store, row.namespace) == owner_of(store, "rankbook") != before


@pytest.fixture
def secret(store: Store) -> Iterator[str]:
    """A table that nobody attached."""
    table = f"secret_{some_name()[-8:]}"
    asked(store, f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)")
    yield table
    asked(store, f"DROP TABLE public.{table}")


@pytest.fixture
def attached_one(store: Store) -> Iterator[str]:
    """A collection over a table that its owner attached."""
    name, table = some_name(), f"open_{some_name()[-8:]}"
    asked(store, f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)")
    bridge.run(attached.attach_table(store, name, attached.AttachedTable(table=table, id="id", text="body")))
    yield name
    asked(store, f"DROP TABLE public.{table}")


def may_read(store: Store, role: RoleStore, table: str) -> bool:
    (name,) = asked(role, "SELECT current_user")
    return asked(store, f"SELECT has_table_privilege('{name}', 'public.{table}', 'SELECT')") == ["True"]


def rewrite(store: Store, name: str, table: str) -> None:
    """The row of an attached collection names another table, as an editor or an archive could make it."""
    statement = """UPDATE rankbook.collections
        SET attached = jsonb_set(attached, '{table,table}', to_jsonb(CAST(:table AS text))) WHERE name = :name"""
    asked(store, statement, table=table, name=name)


def test_a_row_of_the_catalogue_grants_nobody_somebodys_table(store, editor, secret, attached_one, caplog):
    """Neither one that was rewritten nor one that an editor made; the log says what the owner may do."""
    rewrite(editor, attached_one, secret)
    bridge.run(grants.refresh(store))
    assert not may_read(store, editor, secret)
    with pytest.raises(NotAllowed):
        asked(editor, f"SELECT * FROM public.{secret}")
    assert f"rankbook access --attached '{attached_one}=public.{secret}'" in caplog.text


def test_what_the_owner_attached_or_let_be_read_is_granted(store, editor, secret, attached_one):
    bridge.run(grants.refresh(store))
    table = attached.Attachment.of(bridge.run(collections.get(store, attached_one))).table.table
    assert may_read(store, editor, table)
    rewrite(editor, attached_one, secret)
    with pytest.raises(SpecError, match=f"is attached to public.{secret}, and not to public.{table}"):
        bridge.run(attached.let_read(store, attached_one, f"public.{table}"))
    bridge.run(attached.let_read(store, attached_one, f"public.{secret}"))
    bridge.run(grants.refresh(store))
    assert may_read(store, editor, secret)


def test_what_editors_can_read_they_let_others_read(store, editor, secret):
    """They could copy it into a collection as well."""
    (role,) = asked(editor, "SELECT quote_ident(current_user)")
    asked(store, f"GRANT SELECT ON public.{secret} TO {role}")
    bridge.run(attached.attach_table(editor, some_name(), attached.AttachedTable(table=secret, id="id", text="body")))
    bridge.run(grants.refresh(store))
    viewer = bridge.run(roles.opened(store, VIEWER, [schema_chain]))
    try:
        assert may_read(store, viewer, secret)
    finally:
        bridge.run(viewer.close())


def test_a_dropped_collections_table_is_no_longer_let_be_read(store, editor, secret, attached_one):
    bridge.run(collections.drop(store, attached_one))

    async def work() -> set[str]:
        async with store.begin() as connection:
            return {name for name, *_ in await readable_tables.allowed(connection)}

    assert attached_one not in bridge.run(work())


def test_a_list_that_an_editor_made_lets_nobody_read_anything(store, editor, secret, attached_one):
    asked(store, "ALTER SCHEMA rankbook_owner RENAME TO put_away")
    try:
        asked(editor, "CREATE SCHEMA rankbook_owner")
        columns = "collection text, namespace text, name text, allowed_at timestamptz"
        asked(editor, f"CREATE TABLE rankbook_owner.readable_tables ({columns})")
        forged = "INSERT INTO rankbook_owner.readable_tables VALUES (:name, 'public', :table)"
        asked(editor, forged, name=attached_one, table=secret)
        rewrite(editor, attached_one, secret)
        bridge.run(grants.refresh(store))
        assert not may_read(store, editor, secret)
        with pytest.raises(StoreError, match="is another role's"):
            bridge.run(attached.let_read(store, attached_one, f"public.{secret}"))
    finally:
        asked(store, "DROP SCHEMA IF EXISTS rankbook_owner CASCADE")
        asked(store, "ALTER SCHEMA put_away RENAME TO rankbook_owner")


@pytest.mark.parametrize("statement", ["INSERT INTO {list} VALUES ('a', 'b', 'c')", "SELECT * FROM {list}"])
def test_editors_neither_read_nor_write_the_owners_list(editor, attached_one, statement):
    with pytest.raises(NotAllowed):
        asked(editor, statement.replace("{list}", "rankbook_owner.readable_tables"))


def test_a_collection_that_is_dropped_while_its_rights_are_given_is_passed_over(store, editor):
    async def work() -> None:
        async with store.begin() as connection:
            names = {EDITOR: (await driver_of(connection)).info.user}
        await grants._give(store, grants._read_schema("c_gone meanwhile", names))
        await grants._hand_over(store, "c_gone meanwhile", names[EDITOR])

    bridge.run(work())


def test_a_collection_of_an_older_version_is_opened_by_whoever_only_reads(store, editor):
    """Only its owner may bring it up to date, which is done before readers are let in."""
    view = make(store, some_name(), chunks={})
    bridge.run(grants.refresh(store))
    asked(store, f'DROP TABLE "{view.namespace}".chunk_cache')
    asked(store, f"UPDATE \"{view.namespace}\".revision_collection SET version_num = 'k0001'")
    viewer = bridge.run(roles.opened(store, VIEWER, [schema_chain]))
    try:
        with pytest.raises(NotAllowed):
            bridge.run(collections.get(viewer, view.name))
        bridge.run(access._migrate_collections(store))
        assert bridge.run(collections.get(viewer, view.name)).name == view.name
    finally:
        bridge.run(viewer.close())


# -- the trash ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def viewer(store: Store, editor: RoleStore) -> Iterator[RoleStore]:
    opened = bridge.run(roles.opened(store, VIEWER, [schema_chain]))
    yield opened
    bridge.run(opened.close())


def role_may_read(store: Store, role: str, table: str) -> bool:
    (database,) = asked(store, "SELECT current_database()")
    question = "SELECT has_table_privilege(:role, :table, 'SELECT')"
    return asked(store, question, role=name_of(role, database), table=table) == ["True"]


def some_table(store: Store) -> str:
    name = f"theirs_{some_name().split()[-1]}"
    asked(store, f"CREATE TABLE public.{name} (id int PRIMARY KEY, body text)")
    return name


def attached_to(store: Store, table: str) -> str:
    name = some_name()
    bridge.run(attached.attach_table(store, name, attached.AttachedTable(table=table, id="id", text="body")))
    return name


def test_what_the_owner_drops_an_editor_brings_back_and_readers_search_it_again(store, editor, viewer):
    view = make(store, some_name(), chunks={})
    ingest(store, view.name, documents(3), [HashingEmbedder()])
    bridge.run(grants.refresh(store))
    entry = bridge.run(load.drop(store, view.name))
    for schema in (view.namespace, trash_schema(entry.id)):
        with pytest.raises((NotAllowed, ProgrammingError)):
            asked(viewer, f'SELECT count(*) FROM "{schema}".items')
    bridge.run(grants.refresh(store))
    with pytest.raises(NotAllowed):
        asked(viewer, f'SELECT count(*) FROM "{trash_schema(entry.id)}".items')
    assert asked(editor, f'SELECT count(*) FROM "{trash_schema(entry.id)}".items') == ["3"]
    bridge.run(trash.restore(editor, entry.id))
    bridge.run(grants.refresh(store))
    assert asked(viewer, f'SELECT count(*) FROM "{view.namespace}".items') == ["3"]


def test_what_was_dropped_before_editors_had_it_is_theirs_in_the_trash(store, editor):
    view = make(store, some_name(), chunks={})
    entry = bridge.run(load.drop(store, view.name))
    bridge.run(grants.refresh(store))
    assert bridge.run(trash.restore(editor, entry.id)).name == view.name
    again = bridge.run(load.drop(editor, view.name))
    assert bridge.run(trash.destroy(editor, again))


def test_viewers_see_nothing_of_the_trash_and_change_nothing_in_it(store, editor, viewer):
    entry = bridge.run(load.drop(editor, make(editor, some_name(), chunks={}).name))
    for work in (trash.listed(viewer), trash.expire(viewer), trash.empty(viewer), trash.restore(viewer, entry.id)):
        with pytest.raises(NotAllowed, match="only editors may look into the trash"):
            bridge.run(work)
    with pytest.raises(NotAllowed):
        asked(viewer, "SELECT * FROM rankbook.trash")
    assert entry in bridge.run(trash.listed(editor))


@pytest.mark.parametrize("dropper", ["owner", "editor"])
def test_what_lies_in_the_trash_holds_no_right_on_anybodys_table(store, editor, dropper):
    table = some_table(store)
    name = attached_to(store, table)
    bridge.run(grants.refresh(store))
    roles_of_ours = (VIEWER, JUDGE, EDITOR)
    assert all(role_may_read(store, role, table) for role in roles_of_ours)
    entry = bridge.run(load.drop(editor if dropper == "editor" else store, name))
    if dropper == "editor":  # who may not revoke what the owner granted: that comes with anybody's next click
        bridge.run(grants.refresh(store))
    assert not any(role_may_read(store, role, table) for role in roles_of_ours)
    assert asked(store, "SELECT role FROM rankbook.table_grants WHERE relation = :name", name=table) == []
    bridge.run(trash.restore(editor, entry.id, reader=store))
    bridge.run(grants.refresh(store))
    if dropper == "owner":  # who took the leave back by that; an editor's restore is no reason to grant anything
        assert not any(role_may_read(store, role, table) for role in roles_of_ours)
        bridge.run(attached.let_read(store, name, f"public.{table}"))
        bridge.run(grants.refresh(store))
    assert all(role_may_read(store, role, table) for role in roles_of_ours)


def test_what_the_owner_brings_back_others_read_again(store, editor):
    table = some_table(store)
    entry = bridge.run(load.drop(store, attached_to(store, table)))
    assert not bridge.run(trash.restore(store, entry.id)).note
    bridge.run(grants.refresh(store))
    assert role_may_read(store, VIEWER, table)


def test_an_entry_that_an_editor_rewrote_grants_nobody_somebodys_table_when_its_owner_brings_it_back(
    store, editor, secret
):
    entry = bridge.run(load.drop(store, attached_to(store, some_table(store))))
    statement = """UPDATE rankbook.trash
        SET details = jsonb_set(details, '{row,table,table}', to_jsonb(CAST(:table AS text))) WHERE id = :id"""
    asked(editor, statement, table=secret, id=entry.id)
    back = bridge.run(trash.restore(store, entry.id))
    assert f"rankbook access --attached '{back.name}=public.{secret}'" in back.note
    bridge.run(grants.refresh(store))
    assert not role_may_read(store, VIEWER, secret)


def test_a_leave_waits_in_the_trash_for_its_collection_and_goes_with_it(store, editor):
    first, second = (bridge.run(load.drop(store, attached_to(store, some_table(store)))) for _ in range(2))

    async def waiting() -> set[str]:
        async with store.begin() as connection:
            return {name for name, *_ in await readable_tables.allowed(connection)}

    marks = {trash_mark(first.id), trash_mark(second.id)}
    assert marks <= bridge.run(waiting())
    back = bridge.run(trash.restore(store, first.id, name=some_name()))
    bridge.run(trash.destroy(store, second))
    assert back.name in bridge.run(waiting())
    assert not marks & bridge.run(waiting())


def test_a_right_that_another_attached_collection_needs_stays(store, editor):
    table = some_table(store)
    first, second = attached_to(store, table), attached_to(store, table)
    bridge.run(grants.refresh(store))
    bridge.run(load.drop(store, first))
    assert role_may_read(store, VIEWER, table)
    bridge.run(load.drop(store, second))
    assert not role_may_read(store, VIEWER, table)


def test_a_right_that_somebody_granted_by_hand_stays(store, editor):
    table = some_table(store)
    (database,) = asked(store, "SELECT current_database()")
    asked(store, f"GRANT SELECT ON public.{table} TO {name_of(JUDGE, database)}")
    name = attached_to(store, table)
    bridge.run(grants.refresh(store))
    bridge.run(load.drop(store, name))
    assert [role for role in (VIEWER, JUDGE, EDITOR) if role_may_read(store, role, table)] == [JUDGE]


def test_notes_of_other_roles_than_our_own_take_nothing_from_anybody(store, editor):
    """Editors write the notes, and the owner of all goes by what they say."""
    table, role = some_table(store), f"theirs_{some_name().split()[-1]}"
    asked(store, f"CREATE ROLE {role}")
    asked(store, f"GRANT SELECT ON public.{table} TO {role}")
    note = "INSERT INTO rankbook.table_grants VALUES (:role, 'public', :table, '')"
    asked(editor, note, role=role, table=table)
    try:
        bridge.run(grants.refresh(store))
        assert asked(store, "SELECT has_table_privilege(:role, :table, 'SELECT')", role=role, table=table) == ["True"]
    finally:
        asked(store, "DELETE FROM rankbook.table_grants WHERE role = :role", role=role)
        asked(store, f"DROP OWNED BY {role}")
        asked(store, f"DROP ROLE {role}")
