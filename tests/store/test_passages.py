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
def test_a_stored_chunk_holds_all_that_its_chunker_said_of_it(ask, chunks, item):
    made = chunker_from(CHUNKERS[chunks]).chunk(item, words)
    ids = [f"{item.id}#{each.ordinal:04d}" for each in made]
    found = ask("chunks", chunks, ids)
    assert list(found) == ids
    for chunk, stored in zip(made, found.values(), strict=True):
        for field in ("text", "ordinal", "start", "end", "level", "heading_path", "page_first", "page_last"):
            assert getattr(stored, field) == getattr(chunk, field), field
        assert dict(stored.metadata) == dict(chunk.metadata)
        assert (stored.item_id, stored.title) == (item.id, item.title)
        assert stored.parent_id == (None if chunk.parent is None else ids[chunk.parent])
        assert item.text[stored.start : stored.end] == stored.text


def test_chunks_come_in_the_order_asked_for_and_unknown_ids_are_left_out(ask):
    asked = ["paged#0002", "nobody#0001", "paged#0000", "paged#0002", "paged", "", "odd # id#0000", "paged#9999"]
    assert list(ask("chunks", "pages", asked)) == ["paged#0002", "paged#0000", "odd # id#0000"]


def test_ids_that_no_database_can_hold_are_ids_of_nothing(ask):
    hostile = ["paged#0000\x00", "\ud800#0000", "'; DROP TABLE items; --#0000", "%s#0000", "paged#0000"]
    for question in ("chunks", "parents", "siblings", "same_page", "adjacent_pages", "whole_items"):
        assert set(ask(question, "pages", hostile)) <= {"paged#0000"}
    assert list(ask("chunks", "pages", hostile)) == ["paged#0000"]


def test_no_ids_are_no_question(store, collection):
    with statements(store) as sent:
        found = bridge.run(passages.chunks(store, collection, collection.chunk_set("pages"), []))
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


def test_siblings_are_the_other_children_of_one_parent_nearest_first(ask):
    found = ids_of(ask("siblings", "family", of_paged(5, 6)))
    assert found == {"paged#0005": of_paged(6, 7), "paged#0006": of_paged(7, 5)}


def test_siblings_of_chunks_without_parents_stand_under_the_same_headings(ask):
    found = ids_of(ask("siblings", "headings", ["odd # id#0003", "odd # id#0000"]))
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


def test_parents_are_siblings_of_parents_and_not_of_children(ask):
    assert set(ids_of(ask("siblings", "family", of_paged(0)))["paged#0000"]) == set(of_paged(4, 8, 12))


def test_neighbours_on_the_same_page_and_on_adjacent_pages(ask):
    assert ids_of(ask("same_page", "pages", of_paged(4))) == {"paged#0004": of_paged(5, 3)}
    assert ids_of(ask("adjacent_pages", "pages", of_paged(4))) == {"paged#0004": of_paged(6, 2, 7, 1, 8, 0)}
    assert ids_of(ask("adjacent_pages", "pages", of_paged(0))) == {"paged#0000": of_paged(3, 4, 5)}


def test_a_text_without_pages_is_one_page_and_has_no_adjacent_ones(ask):
    everything = [chunk.id for chunk in ask("whole_items", "headings", ["odd # id"])["odd # id"].chunks]
    assert set(ids_of(ask("same_page", "headings", everything[:1]))[everything[0]]) == set(everything[1:])
    assert ask("adjacent_pages", "headings", everything) == {}


@pytest.mark.parametrize("question", ["siblings", "same_page", "adjacent_pages"])
def test_only_the_nearest_are_fetched_where_a_number_is_given(ask, question):
    every = ids_of(ask(question, "pages", of_paged(4, 7)))
    for nearest in (1, 2):
        some = ids_of(ask(question, "pages", of_paged(4, 7), nearest=nearest))
        assert some == {asked: several[:nearest] for asked, several in every.items()}


def test_all_around_is_what_the_questions_give_one_by_one(ask):
    asked = of_paged(5, 6, 11)
    found = ask("around", "family", asked, siblings_on_page=1, on_adjacent_pages=2)
    assert found.chunks == ask("chunks", "family", asked)
    assert found.parents == ask("parents", "family", asked)
    assert found.siblings == ask("siblings", "family", asked, nearest=1)
    assert found.neighbours == ask("adjacent_pages", "family", asked, nearest=2)
    none = ask("around", "family", asked, siblings_on_page=0, on_adjacent_pages=0)
    assert (none.siblings, none.neighbours) == ({}, {})


def test_siblings_around_a_chunk_share_its_page(store):
    """Two pages under one heading: the other page's chunks are siblings, but not beside it."""
    name = some_name()
    make(store, name, [], {"pages": PAGES})
    ingest(store, name, [PAGED])
    view = fresh(store, name)
    options = {"siblings_on_page": 9, "on_adjacent_pages": 0}
    found = bridge.run(passages.around(store, view, view.chunk_set("pages"), of_paged(4), **options))
    assert ids_of(found.siblings) == {"paged#0004": of_paged(5, 3)}


@pytest.mark.parametrize("question", ["chunks", "parents", "siblings", "same_page", "adjacent_pages"])
@pytest.mark.parametrize("count", [1, 60])
def test_one_statement_answers_a_question_however_many_ids_it_has(store, ask, question, count):
    asked = [f"d{number:05d}#{ordinal:04d}" for number in range(30) for ordinal in range(2)][:count]
    with statements(store) as sent:
        ask(question, "family", asked)
    assert len(sent) == 1


def test_whole_items_take_two_statements_and_come_with_their_chunks_in_order(store, ask):
    with statements(store) as sent:
        found = ask("whole_items", "family", ["paged", "nobody", "d00003"])
    assert len(sent) == 2
    assert list(found) == ["paged", "d00003"]
    item = found["paged"]
    assert (item.title, item.text, item.metadata) == (PAGED.title, PAGED.text, PAGED.metadata)
    assert [chunk.id for chunk in item.chunks] == of_paged(*range(16))


@pytest.mark.parametrize("question", ["chunks", "parents", "siblings", "same_page", "adjacent_pages"])
def test_no_question_reads_a_whole_table_or_pairs_an_item_with_itself(store, collection, ask, question):
    with statements(store) as sent:
        ask(question, "family", of_paged(5))
    ((statement, parameters),) = sent

    async def plan():
        async with store.begin(collection.namespace) as connection:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            rows = await connection.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            return "\n".join(row[0] for row in rows)

    planned = bridge.run(plan())
    assert "Seq Scan" not in planned
    assert "CTE asked" in planned  # picked before they are paired: else an item of many chunks takes seconds


def test_the_items_themselves_have_no_chunks(store, collection):
    for chunk_set in (None, collection.chunk_set("items")):
        for question in ("chunks", "parents", "siblings", "same_page", "adjacent_pages"):
            assert bridge.run(getattr(passages, question)(store, collection, chunk_set, ["paged"])) == {}
        found = bridge.run(passages.whole_items(store, collection, chunk_set, ["paged"]))
        assert found["paged"].text == PAGED.text
        assert found["paged"].chunks == ()


def test_an_attached_table_has_no_chunks_and_its_rows_are_items(store, name):
    async def work():
        async with store.begin() as connection:
            await connection.execute(text(f'CREATE TABLE public."{name}" (id text PRIMARY KEY, body text)'))
            await connection.execute(text(f"INSERT INTO public.\"{name}\" VALUES ('a', 'A text of theirs')"))
        view = await attached.attach(store, name, AttachedTable(table=name, id="id", text="body"))
        try:
            chunk_set = ChunkSet(key=1, name="small")
            found = [await passages.chunks(store, view, chunk_set, ["a", "a#0000"])]
            found.append(await passages.parents(store, view, chunk_set, ["a"]))
            around = await passages.around(store, view, chunk_set, ["a"], siblings_on_page=1, on_adjacent_pages=1)
            return found, around, await passages.whole_items(store, view, chunk_set, ["a", "b"])
        finally:
            await collections.drop(store, name)
            async with store.begin() as connection:
                await connection.execute(text(f'DROP TABLE public."{name}"'))

    found, around, items = bridge.run(work())
    assert found == [{}, {}]
    assert around == passages.Around()
    assert {key: (item.text, item.chunks) for key, item in items.items()} == {"a": ("A text of theirs", ())}
