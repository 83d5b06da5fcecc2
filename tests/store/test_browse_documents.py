"""Documents as people look through them: a page at a time, by title, and in full with their chunks."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest

from core import bridge
from core.errors import InputError
from core.store import browse
from core.store.browse import ROWS_A_PAGE, ChunkSpan, DocumentMatch, DocumentText, Page, TextPiece
from core.store.collections import CollectionView
from core.types import Item
from tests.store.making import FAMILY, FIXED, fresh, ingest, make, some_name

SENTENCE = "one two three four five six seven eight nine ten eleven twelve"


@pytest.fixture(scope="module")
def view(store) -> CollectionView:
    name = some_name()
    make(store, name, chunks={"small": FIXED, "family": FAMILY})
    items = [Item(f"d{number:02}", SENTENCE, f"Title {number}") for number in range(ROWS_A_PAGE + 3)]
    ingest(store, name, [*items, Item("kettle", "boil", "A kettle"), Item("50% off", "cheap", "")])
    return fresh(store, name)


def listed(store, view, find="", number=1) -> Page[DocumentMatch]:
    return bridge.run(browse.list_documents(store, view, find, number))


def test_documents_are_listed_by_id_a_page_at_a_time(store, view):
    first, second = listed(store, view), listed(store, view, number=2)
    assert [each.id for each in first.rows][:2] == ["50% off", "d00"]
    assert (len(first.rows), len(second.rows), first.pages) == (ROWS_A_PAGE, 5, 2)
    assert (first.range_text, second.range_text) == ("1\u201325 of 30", "26\u201330 of 30")
    assert listed(store, view, number=99) == second


def test_a_filter_finds_ids_and_titles_and_takes_no_sign_for_a_pattern(store, view):
    assert [each.id for each in listed(store, view, " KETTLE ").rows] == ["kettle"]
    assert [each.id for each in listed(store, view, "%").rows] == ["50% off"]
    nothing = listed(store, view, "title 4_")
    assert (nothing.rows, nothing.range_text, nothing.pages) == ((), "", 1)


def test_a_document_is_found_by_its_id_by_its_title_and_by_words_of_it(store, view):
    def found(typed: str) -> list[str]:
        return [each.id for each in bridge.run(browse.find_documents(store, view, typed))]

    assert found("d03") == found("title 3") == ["d03"]
    assert found("itle 2")[:2] == ["d02", "d20"], "the shortest title first"
    assert found("kettle#0001") == ["kettle#0001"], "the id of a chunk stands for itself"
    assert found("nowhere") == ["nowhere"]
    with pytest.raises(InputError, match="Type the id of a document"):
        found(" ")


def test_a_document_is_read_with_the_chunks_of_one_set(store, view):
    document = bridge.run(browse.read_document(store, view, "d03", "small"))
    assert (document.id, document.title, document.text) == ("d03", "Title 3", SENTENCE)
    assert [SENTENCE[each.start : each.end].split() for each in document.chunks] == [
        SENTENCE.split()[:8],
        SENTENCE.split()[8:],
    ]
    assert bridge.run(browse.read_document_of_unit(store, view, document.chunks[1].id, "small")) == document
    assert bridge.run(browse.read_document_of_unit(store, view, "d03", "items")).chunks == ()
    assert bridge.run(browse.chunk_offsets(store, view, ["d03", "gone"])) == {
        "d03": [(each.start, each.end) for each in document.chunks]
    }


@pytest.mark.parametrize(("of_unit", "says"), [(False, "has no document 'gone'"), (True, "has no 'gone'")])
def test_what_is_gone_is_told_by_its_name(store, view, of_unit, says):
    work = (
        browse.read_document_of_unit(store, view, "gone", "small")
        if of_unit
        else browse.read_document(store, view, "gone", "small")
    )
    with pytest.raises(InputError, match=says):
        bridge.run(work)


def test_a_text_is_cut_where_chunks_begin_and_end():
    parent = ChunkSpan("p", 0, 10, 0, "parent")
    left, right = ChunkSpan("a", 0, 6, 1), ChunkSpan("b", 4, 10, 2)
    document = DocumentText("d", "", "0123456789ab", {}, (parent, left, right))
    assert document.pieces(100) == (
        TextPiece("0123", (1,), (parent, left)),
        TextPiece("45", (1, 2), (right,)),
        TextPiece("6789", (2,)),
        TextPiece("ab"),
    )
    assert [piece.text for piece in document.pieces(5)] == ["0123", "4"]
    assert DocumentText("d", "", "", {}).pieces(5) == (TextPiece(""),)
