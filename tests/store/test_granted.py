"""What is granted as collections come: ours and no other, whatever the catalogue says, and beside work on the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from core import bridge
from core.errors import NotAllowed
from core.store import collections, granting, roles
from core.store.attached import AttachedTable, attach
from core.store.engine import Store
from core.store.logins import driver_of
from core.store.names import trash_schema
from core.store.roles import EDITOR, JUDGE, VIEWER, RoleStore, name_of
from evals import library, trash
from evals.store import chain
from tests.fakes import HashingEmbedder
from tests.store.making import documents, ingest, make, some_name
from workbench.access import gate
from workbench.access.rights import JUDGES


@pytest.fixture(scope="module")
def editor(store: Store) -> Iterator[RoleStore]:
    bridge.run(granting.set_up(store, JUDGES))
    opened = bridge.run(roles.opened(store, EDITOR, [chain]))
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
        bridge.run(granting.refresh(store))
        assert owner_of(store, other) == before
    finally:
        asked(store, change, schema=row.namespace, name=row.name)
        asked(store, f'DROP SCHEMA "{other}"')
    bridge.run(granting.refresh(store))
    assert owner_of(store, row.namespace) == owner_of(store, "rankbook") != before


def test_a_collection_that_is_dropped_while_its_rights_are_given_is_passed_over(store, editor):
    async def work() -> None:
        async with store.begin() as connection:
            names = {EDITOR: (await driver_of(connection)).info.user}
        await granting._give(store, granting._read("c_gone meanwhile", names))
        await granting._hand_over(store, "c_gone meanwhile", names[EDITOR])

    bridge.run(work())


def test_a_collection_of_an_older_version_is_opened_by_whoever_only_reads(store, editor):
    """Only its owner may bring it up to date, which is done before readers are let in."""
    view = make(store, some_name(), chunks={})
    bridge.run(granting.refresh(store))
    asked(store, f'DROP TABLE "{view.namespace}".chunk_cache')
    asked(store, f"UPDATE \"{view.namespace}\".revision_collection SET version_num = 'k0001'")
    viewer = bridge.run(roles.opened(store, VIEWER, [chain]))
    try:
        with pytest.raises(NotAllowed):
            bridge.run(collections.get(viewer, view.name))
        bridge.run(gate._brought_up_to_date(store))
        assert bridge.run(collections.get(viewer, view.name)).name == view.name
    finally:
        bridge.run(viewer.close())


# -- the trash ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def viewer(store: Store, editor: RoleStore) -> Iterator[RoleStore]:
    opened = bridge.run(roles.opened(store, VIEWER, [chain]))
    yield opened
    bridge.run(opened.close())


def may_read(store: Store, role: str, table: str) -> bool:
    (database,) = asked(store, "SELECT current_database()")
    question = "SELECT has_table_privilege(:role, :table, 'SELECT')"
    return asked(store, question, role=name_of(role, database), table=table) == ["True"]


def some_table(store: Store) -> str:
    name = f"theirs_{some_name().split()[-1]}"
    asked(store, f"CREATE TABLE public.{name} (id int PRIMARY KEY, body text)")
    return name


def attached(store: Store, table: str) -> str:
    name = some_name()
    bridge.run(attach(store, name, AttachedTable(table=table, id="id", text="body")))
    return name


def test_what_the_owner_drops_an_editor_brings_back_and_readers_search_it_again(store, editor, viewer):
    view = make(store, some_name(), chunks={})
    ingest(store, view.name, documents(3), [HashingEmbedder()])
    bridge.run(granting.refresh(store))
    entry = bridge.run(library.drop(store, view.name))
    for schema in (view.namespace, trash_schema(entry.id)):
        with pytest.raises((NotAllowed, ProgrammingError)):
            asked(viewer, f'SELECT count(*) FROM "{schema}".items')
    bridge.run(granting.refresh(store))
    with pytest.raises(NotAllowed):
        asked(viewer, f'SELECT count(*) FROM "{trash_schema(entry.id)}".items')
    assert asked(editor, f'SELECT count(*) FROM "{trash_schema(entry.id)}".items') == ["3"]
    bridge.run(trash.restore(editor, entry.id))
    bridge.run(granting.refresh(store))
    assert asked(viewer, f'SELECT count(*) FROM "{view.namespace}".items') == ["3"]


def test_what_was_dropped_before_editors_had_it_is_theirs_in_the_trash(store, editor):
    view = make(store, some_name(), chunks={})
    entry = bridge.run(library.drop(store, view.name))
    bridge.run(granting.refresh(store))
    assert bridge.run(trash.restore(editor, entry.id)).name == view.name
    again = bridge.run(library.drop(editor, view.name))
    assert bridge.run(trash.destroy(editor, again))


def test_viewers_see_nothing_of_the_trash_and_change_nothing_in_it(store, editor, viewer):
    entry = bridge.run(library.drop(editor, make(editor, some_name(), chunks={}).name))
    for work in (trash.listed(viewer), trash.expire(viewer), trash.empty(viewer), trash.restore(viewer, entry.id)):
        with pytest.raises(NotAllowed, match="only editors may look into the trash"):
            bridge.run(work)
    with pytest.raises(NotAllowed):
        asked(viewer, "SELECT * FROM rankbook.trash")
    assert entry in bridge.run(trash.listed(editor))


@pytest.mark.parametrize("dropper", ["owner", "editor"])
def test_what_lies_in_the_trash_holds_no_right_on_anybodys_table(store, editor, dropper):
    table = some_table(store)
    name = attached(store, table)
    bridge.run(granting.refresh(store))
    roles_of_ours = (VIEWER, JUDGE, EDITOR)
    assert all(may_read(store, role, table) for role in roles_of_ours)
    entry = bridge.run(library.drop(editor if dropper == "editor" else store, name))
    if dropper == "editor":  # who may not revoke what the owner granted: that comes with anybody's next click
        bridge.run(granting.refresh(store))
    assert not any(may_read(store, role, table) for role in roles_of_ours)
    assert asked(store, "SELECT role FROM rankbook.table_grants WHERE relation = :name", name=table) == []
    bridge.run(trash.restore(editor, entry.id, reader=store))
    bridge.run(granting.refresh(store))
    assert all(may_read(store, role, table) for role in roles_of_ours)


def test_a_right_that_another_attached_collection_needs_stays(store, editor):
    table = some_table(store)
    first, second = attached(store, table), attached(store, table)
    bridge.run(granting.refresh(store))
    bridge.run(library.drop(store, first))
    assert may_read(store, VIEWER, table)
    bridge.run(library.drop(store, second))
    assert not may_read(store, VIEWER, table)


def test_a_right_that_somebody_granted_by_hand_stays(store, editor):
    table = some_table(store)
    (database,) = asked(store, "SELECT current_database()")
    asked(store, f"GRANT SELECT ON public.{table} TO {name_of(JUDGE, database)}")
    name = attached(store, table)
    bridge.run(granting.refresh(store))
    bridge.run(library.drop(store, name))
    assert [role for role in (VIEWER, JUDGE, EDITOR) if may_read(store, role, table)] == [JUDGE]


def test_notes_of_other_roles_than_our_own_take_nothing_from_anybody(store, editor):
    """Editors write the notes, and the owner of all goes by what they say."""
    table, role = some_table(store), f"theirs_{some_name().split()[-1]}"
    asked(store, f"CREATE ROLE {role}")
    asked(store, f"GRANT SELECT ON public.{table} TO {role}")
    note = "INSERT INTO rankbook.table_grants VALUES (:role, 'public', :table, '')"
    asked(editor, note, role=role, table=table)
    try:
        bridge.run(granting.refresh(store))
        assert asked(store, "SELECT has_table_privilege(:role, :table, 'SELECT')", role=role, table=table) == ["True"]
    finally:
        asked(store, "DELETE FROM rankbook.table_grants WHERE role = :role", role=role)
        asked(store, f"DROP OWNED BY {role}")
        asked(store, f"DROP ROLE {role}")
