"""Rows that are wrong: cleaned, noted or left out with file and line, and never at the cost of another row."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import itertools
import string
from datetime import UTC, date, datetime

import pytest

from core import bridge
from core.store.change_detection import ITEMS_A_BATCH
from core.store.ingest import FLAWS_KEPT
from core.store.text_index import CAPPED
from core.types import Flaw, Item, Place, Row
from tests.fakes import rows
from tests.store.making import documents, fresh, ingest, loader, make, query, wrong
from tests.store.recalling import found_by_words

DEEP: dict[str, object] = {}
for _ in range(30):
    DEEP = {"in": DEEP}

QUARANTINED = {
    "blank id": (Item("", "text"), "id is missing or blank"),
    "id of blanks": (Item(" \t", "text"), "id is missing or blank"),
    "NUL in the id": (Item("a\x00b", "text"), "id holds a NUL"),
    "half a pair in the id": (Item("a\ud800", "text"), "id holds a NUL or half"),
    "endless id": (Item("é" * 501, "text"), "more than 1000 bytes"),
    "too deep": (Item("deep", "text", metadata=DEEP), "nested deeper than 16"),
    "endless integer": (Item("int", "text", metadata={"n": 10**5000}), "600 digits"),
}
CLEANED = {
    "NUL in the text": (Item("a", "nul\x00inside"), ("", "nulinside", {})),
    "half a pair in the text": (Item("a", "half\ud83d pair"), ("", "half\ufffd pair", {})),
    "NUL in the title": (Item("a", "text", "t\x00t"), ("tt", "text", {})),
    "NaN": (Item("a", "text", metadata={"n": float("nan")}), ("", "text", {"n": None})),
    "infinity in a list": (Item("a", "text", metadata={"n": [float("-inf"), 1.5]}), ("", "text", {"n": [None, 1.5]})),
    "NUL in a field's name": (Item("a", "text", metadata={"n\x00": "v\x00"}), ("", "text", {"n": "v"})),
    "an object": (Item("a", "text", metadata={"n": 1 + 2j}), ("", "text", {"n": "(1+2j)"})),
}
KEPT = {
    "dates": (
        Item("a", "t", metadata={"d": date(2024, 2, 29), "t": datetime(2024, 1, 2, tzinfo=UTC)}),
        {"d": "2024-02-29", "t": "2024-01-02T00:00:00+00:00"},
    ),
    "sets": (
        Item("a", "t", metadata={"s": {"b", "a", "c"}, "f": frozenset({2, 1})}),
        {"s": ["a", "b", "c"], "f": [1, 2]},
    ),
    "numbers": (
        Item("a", "t", metadata={"b": True, "i": -(10**300), "f": 1e-300}),
        {"b": True, "i": -(10**300), "f": 1e-300},
    ),
    "keys that are no strings": (Item("a", "t", metadata={1: {2: 3}}), {"1": {"2": 3}}),  # type: ignore[dict-item]
    "sixteen levels": (
        Item("a", "t", metadata={"a": [[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]}),
        {"a": [[[[[[[[[[[[[[["x"]]]]]]]]]]]]]]]},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", QUARANTINED)
def test_a_row_that_cannot_be_stored_is_left_out_with_its_place_and_reason(store, name, embedder, case):
    make(store, name, [embedder])
    item, reason = QUARANTINED[case]
    report = ingest(store, name, [Item("before", "text"), item, Item("after", "text")], [embedder])
    assert report.added == 2
    (flaw,) = report.flaws
    assert reason in flaw.message
    assert (flaw.outcome, str(flaw.place)) == ("quarantined", "corpus.jsonl, line 2")
    flaw.subject.encode()
    assert wrong(store, name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("case", CLEANED)
def test_a_row_that_can_be_mended_is_stored_mended_and_said_to_be(store, name, embedder, case):
    make(store, name, [embedder])
    item, (title, text, metadata) = CLEANED[case]
    report = ingest(store, name, [item, Item("after", "text")], [embedder])
    assert report.added == 2
    (flaw,) = report.flaws
    assert (flaw.outcome, flaw.place.line, flaw.subject) == ("cleaned", 1, "a")
    stored = query(store, fresh(store, name), "SELECT title, text, metadata FROM {items} WHERE id = 'a'")
    assert stored == [(title, text, metadata)]
    assert ingest(store, name, [item, Item("after", "text")], [embedder]).unchanged == 2
    assert wrong(store, name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("case", KEPT)
def test_metadata_of_every_kind_come_back_as_json_has_them(store, name, case):
    make(store, name)
    item, metadata = KEPT[case]
    assert ingest(store, name, [item]).flaws == []
    assert query(store, fresh(store, name), "SELECT metadata FROM {items}") == [(metadata,)]
    assert ingest(store, name, [item]).unchanged == 1


@pytest.mark.slow
@pytest.mark.parametrize("empty", ["", " ", "\n\t", "\x00"])
def test_an_empty_text_is_kept_and_noted(store, name, embedder, empty):
    make(store, name, [embedder])
    report = ingest(store, name, [Item("a", empty)], [embedder])
    assert report.added == 1
    assert [flaw.outcome for flaw in report.flaws][-1] == "noted"
    assert wrong(store, name) == {}


@pytest.mark.slow
@pytest.mark.parametrize("apart", [1, ITEMS_A_BATCH - 1, ITEMS_A_BATCH, 3 * ITEMS_A_BATCH])
def test_a_repeated_id_names_file_and_line_of_the_first_and_the_first_is_kept(store, name, apart):
    make(store, name, chunks={})
    items = [*documents(apart), Item("d00000", "an impostor"), Item("after", "text")]
    for _ in range(2):
        report = ingest(store, name, items)
        (flaw,) = report.flaws
        assert (flaw.outcome, flaw.subject, flaw.place.line) == ("quarantined", "d00000", apart + 1)
        assert "stands already in corpus.jsonl, line 1: the first one is kept" in flaw.message
    assert report.unchanged == apart + 1
    assert query(store, fresh(store, name), "SELECT text FROM {items} WHERE id = 'd00000'") == [(documents(1)[0].text,)]


@pytest.mark.slow
def test_a_repeated_id_of_an_item_that_changed_keeps_the_first_of_the_new(store, name):
    make(store, name)
    ingest(store, name, [Item("a", "old")])
    report = ingest(store, name, [Item("a", "new"), Item("a", "newer")])
    assert (report.changed, len(report.flaws)) == (1, 1)
    assert query(store, fresh(store, name), "SELECT text FROM {items}") == [("new",)]
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_ids_that_only_look_alike_are_different_ids(store, name):
    make(store, name)
    alike = ["a", "A", "a ", " a", "é", "e\u0301", "\u200ba", "%61", "a#0000"]
    assert ingest(store, name, [Item(each, "text") for each in alike]).added == len(alike)
    assert ingest(store, name, [Item(each, "text") for each in reversed(alike)]).unchanged == len(alike)
    assert wrong(store, name) == {}


def test_a_place_whose_file_name_is_no_text_is_no_obstacle(store, name):
    make(store, name)
    place = Place("bad\udcff\x00name.md", 3)
    report = bridge.run(loader(store, name).run([Row(Item("a", "x"), place), Row(Item("a", "y"), place)]))
    assert report.added == 1
    assert "stands already" in report.flaws[0].message


@pytest.mark.slow
def test_a_file_that_is_wrong_in_every_row_does_not_fill_the_memory(store, name):
    make(store, name)
    flaws = (Flaw(Place("bad.jsonl", line), "broken") for line in range(FLAWS_KEPT + 500))
    report = bridge.run(loader(store, name).run(itertools.chain(flaws, rows([Item("good", "text")]))))
    assert (report.flawed, len(report.flaws), report.added) == (FLAWS_KEPT + 500, FLAWS_KEPT, 1)


# -- texts beyond what a tsvector holds --------------------------------------------------------------------------------

WORDS = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=4)]


@pytest.mark.slow
def test_a_long_text_of_few_words_keeps_them_all_and_is_flagged_as_counted_short(store, name):
    make(store, name, chunks={}, language="simple")
    ingest(store, name, [Item("long", " ".join(WORDS[:500] * 300) + " last")])
    assert query(store, fresh(store, name), "SELECT cut FROM {lexemes}") == [(CAPPED,)]
    assert found_by_words(store, name, "last") == ["long"]
    assert wrong(store, name) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "cut"),
    [
        (["again"] * 200, 0),
        (["again"] * 300, CAPPED),
        (WORDS[:16_000], 0),
        (WORDS[:17_000], CAPPED),
    ],
)
def test_a_text_whose_words_a_tsvector_cannot_all_count_is_flagged(store, name, words, cut):
    make(store, name, chunks={}, language="simple")
    ingest(store, name, [Item("plain", "words"), Item("counted", " ".join(words))])
    ((found, length),) = query(store, fresh(store, name), "SELECT cut, length FROM {lexemes} WHERE id = 'counted'")
    assert found == cut
    assert cut or length == len(words)
    assert query(store, fresh(store, name), "SELECT cut FROM {lexemes} WHERE id = 'plain'") == [(0,)]


@pytest.mark.slow
def test_a_word_longer_than_a_lexeme_may_be_is_left_out(store, name):
    make(store, name)
    ingest(store, name, [Item("a", f"short {'x' * 3000} words")])
    assert found_by_words(store, name, "words") == ["a"]
    assert wrong(store, name) == {}
