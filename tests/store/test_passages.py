"""Chunks by their ids and what stands around them, read from the real server."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from contextlib import contextmanager

import pytest
from sqlalchemy import event, text

from core import bridge
from core.chunking import chunker_from
from core.store import attached, collections, passages
from core.store.attached import AttachedTable
from core.store.schema import ChunkSet
from core.types import Item
from tests.fakes import words
from tests.store.making import documents, fresh, ingest, make, some_name

PAGES = {"kind": "pages", "max_tokens": 5}
HEADINGS = {"kind": "headings", "max_tokens": 5}
FAMILY = {"kind": "parent_child", "parents": "pages", "parent_tokens": 100, "child_tokens": 5}


def page(number, sentences=3):
    return " ".join(f"Page{number} has sentence{at}." for at in range(sentences))


PAGED = Item("paged", "\f".join(page(number) for number in (1, 2, 3, 4)), title="Four pages", metadata={"lang": "en"})
SECTIONED = Item(
    "odd # id", "# One\n\nFirst of one. Second of one.\n\n# Two\n\nFirst of two. Second of two. Third here."
)
TABLE = Item("table", "| a | b |\n|---|---|\n" + "".join(f"| {at} | x |\n" for at in range(6)))
CHUNKERS = {"pages": PAGES, "headings": HEADINGS, "family": FAMILY}


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, [], CHUNKERS)
    ingest(store, name, [PAGED, SECTIONED, TABLE, *documents(30)])
    return fresh(store, name)


@pytest.fixture
def ask(store, collection):
    """A question of the module by name, over a chunk set by name."""

    def work(question, chunks, ids, **options):
        return bridge.run(getattr(passages, question)(store, collection, collection.chunk_set(chunks), ids, **options))

    return work


@pytest.fixture
def around(ask):
    """What stands around some chunks: so many on the same page, and so many on adjacent ones."""
    return lambda chunks, ids, here=0, beside=0: ask(
        "around", chunks, ids, siblings_on_page=here, on_adjacent_pages=beside
    )


@contextmanager
def statements(store):
    """What is sent to the server meanwhile, with its values."""
    sent = []

    def keep(connection, cursor, statement, parameters, context, executemany):
        sent.append((statement, parameters))

    event.listen(store.engine.sync_engine, "before_cursor_execute", keep)
    try:
        yield sent
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", keep)


def ids_of(found):
    return {asked: [each.id for each in several] for asked, several in found.items()}


def of_paged(*ordinals):
    return [f"paged#{ordinal:04d}" for ordinal in ordinals]


@pytest.mark.parametrize("item", [PAGED, SECTIONED, TABLE])
@pytest.mark.parametrize("chunks", sorted(CHUNKERS))
def test_a_stored_chunk_holds_all_that_its_chunker_said_of_it(around, chunks, item):
    made = chunker_from(CHUNKERS[chunks]).chunk(item, words)
    ids = [f"{item.id}#{each.ordinal:04d}" for each in made]
    found = around(chunks, ids).chunks
    assert list(found) == ids
    for chunk, stored in zip(made, found.values(), strict=True):
        for field in ("text", "ordinal", "start", "end", "level", "heading_path", "page_first", "page_last"):
            assert getattr(stored, field) == getattr(chunk, field), field
        assert dict(stored.metadata) == dict(chunk.metadata)
        assert (stored.item_id, stored.title) == (item.id, item.title)
        assert stored.parent_id == (None if chunk.parent is None else ids[chunk.parent])
        assert item.text[stored.start : stored.end] == stored.text


def test_chunks_come_in_the_order_asked_for_and_unknown_ids_are_left_out(around):
    asked = ["paged#0002", "nobody#0001", "paged#0000", "paged#0002", "paged", "", "odd # id#0000", "paged#9999"]
    assert list(around("pages", asked).chunks) == ["paged#0002", "paged#0000", "odd # id#0000"]


def test_ids_that_no_database_can_hold_are_ids_of_nothing(ask, around):
    hostile = ["paged#0000\x00", "\ud800#0000", "'; DROP TABLE items; --#0000", "%s#0000", "paged#0000"]
    found = around("pages", hostile, 1, 1)
    for of in (found.chunks, found.siblings, found.neighbours):
        assert list(of) == ["paged#0000"]
    assert ask("parents", "family", [*hostile, "paged#0001"]).keys() == {"paged#0001"}
    assert ask("whole_items", "pages", hostile) == {}


def test_no_ids_are_no_question(store, collection):
    with statements(store) as sent:
        found = bridge.run(passages.parents(store, collection, collection.chunk_set("pages"), []))
    assert found == {}
    assert sent == []


def test_a_child_has_the_parent_it_was_cut_from_and_others_have_none(ask):
    found = ask("parents", "family", of_paged(0, 1, 3, 5))
    assert ids_of({asked: [parent] for asked, parent in found.items()}) == {
        "paged#0001": ["paged#0000"],
        "paged#0003": ["paged#0000"],
        "paged#0005": ["paged#0004"],
    }
    assert found["paged#0005"].text == page(2)
    assert found["paged#0005"].level == "parent"
    assert ask("parents", "pages", of_paged(0, 1)) == {}


def test_siblings_are_the_other_children_of_one_parent_nearest_first(around):
    found = ids_of(around("family", of_paged(5, 6), 9).siblings)
    assert found == {"paged#0005": of_paged(6, 7), "paged#0006": of_paged(7, 5)}


@pytest.mark.slow
def test_siblings_of_chunks_without_parents_stand_under_the_same_headings(ask, around):
    found = ids_of(around("headings", ["odd # id#0003", "odd # id#0000"], 9).siblings)
    by_heading = {
        chunk.id: chunk.heading_path
        for chunk in ask("whole_items", "headings", ["odd # id"])["odd # id"].chunks
        if chunk.heading_path
    }
    for asked, several in found.items():
        assert set(several) == {
            other for other, path in by_heading.items() if path == by_heading[asked] and other != asked
        }
    assert found["odd # id#0003"]


def test_beside_parents_stand_parents_and_never_their_children(around):
    found = around("family", of_paged(4), 9, 9)
    assert found.siblings == {}
    assert ids_of(found.neighbours) == {"paged#0004": of_paged(8, 0)}


def test_neighbours_on_the_same_page_and_on_adjacent_pages(around):
    found = around("pages", of_paged(0, 4), 9, 9)
    assert ids_of(found.siblings) == {"paged#0000": of_paged(1, 2), "paged#0004": of_paged(5, 3)}
    assert ids_of(found.neighbours) == {"paged#0000": of_paged(3, 4, 5), "paged#0004": of_paged(6, 2, 7, 1, 8, 0)}


def test_a_text_without_pages_has_no_adjacent_ones(ask, around):
    everything = [chunk.id for chunk in ask("whole_items", "headings", ["odd # id"])["odd # id"].chunks]
    assert around("headings", everything, 9, 9).neighbours == {}


@pytest.mark.slow
@pytest.mark.parametrize("nearest", [1, 2])
def test_only_so_many_of_the_nearest_are_fetched(around, nearest):
    every, some = around("pages", of_paged(4, 7), 9, 9), around("pages", of_paged(4, 7), nearest, nearest)
    for of in ("siblings", "neighbours"):
        assert getattr(some, of) == {asked: several[:nearest] for asked, several in getattr(every, of).items()}


def test_around_a_chunk_stands_its_parent_and_nothing_that_is_not_wanted(ask, around):
    asked = of_paged(5, 6, 11)
    found = around("family", asked)
    assert found.parents == ask("parents", "family", asked)
    assert (found.siblings, found.neighbours) == ({}, {})


@pytest.mark.parametrize("count", [1, 60])
def test_one_statement_answers_a_question_however_many_ids_it_has(store, ask, around, count):
    asked = [f"d{number:05d}#{ordinal:04d}" for number in range(30) for ordinal in range(2)][:count]
    with statements(store) as sent:
        ask("parents", "family", asked)
    assert len(sent) == 1
    with statements(store) as sent:
        around("family", asked, 1, 1)
    assert len(sent) == 4


def test_whole_items_take_two_statements_and_come_with_their_chunks_in_order(store, ask):
    with statements(store) as sent:
        found = ask("whole_items", "family", ["paged", "nobody", "d00003"])
    assert len(sent) == 2
    assert list(found) == ["paged", "d00003"]
    item = found["paged"]
    assert (item.title, item.text, item.metadata) == (PAGED.title, PAGED.text, PAGED.metadata)
    assert [chunk.id for chunk in item.chunks] == of_paged(*range(16))


def test_no_question_reads_a_whole_table_or_pairs_an_item_with_itself(store, collection, around):
    with statements(store) as sent:
        around("family", of_paged(5), 1, 1)

    async def plan(statement, parameters):
        async with store.begin(collection.namespace) as connection:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            rows = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            return "\n".join(row[0] for row in rows)

    picked = "->  Unique" if store.capabilities.distributed else "CTE asked"
    for planned in [bridge.run(plan(*each)) for each in sent]:
        assert "Distributed Subplan" not in planned, "each worker picks its own"
        assert "Seq Scan" not in planned
        assert picked in planned  # before they are paired: else an item of many chunks takes seconds


def test_the_items_themselves_have_no_chunks(store, collection):
    for chunk_set in (None, collection.chunk_set("items")):
        assert bridge.run(passages.parents(store, collection, chunk_set, ["paged"])) == {}
        options = {"siblings_on_page": 1, "on_adjacent_pages": 1}
        assert bridge.run(passages.around(store, collection, chunk_set, ["paged"], **options)) == passages.Around()
        found = bridge.run(passages.whole_items(store, collection, chunk_set, ["paged"]))
        assert found["paged"].text == PAGED.text
        assert found["paged"].chunks == ()


def test_an_attached_table_has_no_chunks_and_its_rows_are_items(store, name):
    async def work():
        async with store.begin() as connection:
            await connection.execute(text(f'CREATE TABLE public."{name}" (id text PRIMARY KEY, body text)'))
            await connection.execute(text(f"INSERT INTO public.\"{name}\" VALUES ('a', 'A text of theirs')"))
        view = await attached.attach_table(store, name, AttachedTable(table=name, id="id", text="body"))
        try:
            chunk_set = ChunkSet(key=1, name="small")
            found = await passages.parents(store, view, chunk_set, ["a", "a#0000"])
            around = await passages.around(store, view, chunk_set, ["a"], siblings_on_page=1, on_adjacent_pages=1)
            return found, around, await passages.whole_items(store, view, chunk_set, ["a", "b"])
        finally:
            await collections.drop(store, name)
            async with store.begin() as connection:
                await connection.execute(text(f'DROP TABLE public."{name}"'))

    found, around, items = bridge.run(work())
    assert found == {}
    assert around == passages.Around()
    assert {key: (item.text, item.chunks) for key, item in items.items()} == {"a": ("A text of theirs", ())}
