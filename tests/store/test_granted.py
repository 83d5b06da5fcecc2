"""What is granted as collections come: ours and no other, whatever the catalogue says, and beside work on the same."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from core import bridge
from core.errors import NotAllowed
from core.store import collections, granting, roles
from core.store.engine import Store
from core.store.logins import driver_of
from core.store.roles import EDITOR, VIEWER, RoleStore
from evals.store import chain
from tests.store.making import make, some_name
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
