"""What stands in a collection: counted once for each state of it, and not remembered past anybody's change."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import delete, event, update

from core import bridge
from core.store.engine import Store
from core.store.schema import Collection
from core.store.schema import ItemRow as StoredItem
from core.types import Item
from evals.runs.provenance import content_of
from tests.conftest import TEST_DSN
from tests.store.making import ingest, make

ITEMS = [Item("a", "A kettle boils water."), Item("b", "A pot holds tea.")]


@pytest.fixture
def view(store, name):
    made = make(store, name)
    ingest(store, name, ITEMS)
    return made


@contextmanager
def countings(store: Store) -> Iterator[list[str]]:
    """The statements that look at every item."""
    seen: list[str] = []

    def before(_connection, _cursor, statement, *_rest):
        if "hashtextextended" in statement:
            seen.append(statement)

    event.listen(store.engine.sync_engine, "before_cursor_execute", before)
    yield seen
    event.remove(store.engine.sync_engine, "before_cursor_execute", before)


@pytest.mark.slow
def test_items_are_counted_once_however_often_one_asks(store, view):
    with countings(store) as seen:
        told = {bridge.run(content_of(store, view)) for _ in range(10)}
    assert len(told) == 1
    assert len(seen) == 1


@pytest.mark.slow
def test_a_change_by_another_process_is_noticed_by_who_opened_the_collection_before(store, view):
    before = bridge.run(content_of(store, view))
    elsewhere = bridge.run(Store.open(TEST_DSN))  # with a memory of its own, as another process has
    ingest(elsewhere, view.name, [*ITEMS, Item("c", "One more pot.")])
    bridge.run(elsewhere.close())
    with countings(store) as seen:
        assert bridge.run(content_of(store, view)) != before
    assert len(seen) == 1


def test_a_collection_restored_to_a_version_that_it_once_had_is_counted_anew(store, view):
    """As a backup is: with the version and the date of then, over texts that came another way."""
    before = bridge.run(content_of(store, view))

    async def restored() -> None:
        async with store.begin(view.namespace) as connection:
            await connection.execute(delete(StoredItem).where(StoredItem.id == "b"))
            version = Collection.version + 0
            await connection.execute(update(Collection).where(Collection.name == view.name).values(version=version))

    bridge.run(restored())
    assert bridge.run(content_of(store, view)) != before
