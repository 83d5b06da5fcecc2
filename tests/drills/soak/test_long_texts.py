"""Texts of hundreds of thousands of words: whatever PostgreSQL holds no more of, nothing else is lost with it."""

# mypy: disable-error-code="no-untyped-call, no-any-return, union-attr, arg-type"

from __future__ import annotations

import itertools
import string

import pytest

from core.types import Item
from tests.store.making import fresh, ingest, make, query, wrong
from tests.store.recalling import found_by_words

WORDS = ["".join(letters) for letters in itertools.product(string.ascii_lowercase, repeat=4)]


def test_a_text_of_more_distinct_words_than_a_tsvector_holds_is_flagged_and_nothing_fails(store, name):
    make(store, name, chunks={}, language="simple")
    endless = " ".join(WORDS[:300_000])
    assert len(endless) > 2**20
    report = ingest(store, name, [Item("before", "plain"), Item("huge", endless, "Heading"), Item("after", "plain")])
    assert report.added == 3
    flagged = dict(query(store, fresh(store, name), "SELECT id, cut FROM {lexemes}"))
    assert flagged == {"before": 0, "huge": 1, "after": 0}
    assert found_by_words(store, name, WORDS[0]) == ["huge"]
    assert found_by_words(store, name, WORDS[40_000]) == ["huge"]
    assert found_by_words(store, name, WORDS[299_999]) == []
    assert found_by_words(store, name, "heading") == ["huge"]
    assert found_by_words(store, name, "plain") == ["after", "before"]
    assert wrong(store, name) == {}


TREBLED = {
    "hyphens": " ".join(f"{a}-{b}" for a, b in zip(WORDS[:60_000:2], WORDS[1:60_000:2], strict=True)),
    "addresses": " ".join(f"{a}.co/{b}" for a, b in zip(WORDS[:50_000:2], WORDS[1:50_000:2], strict=True)),
    "one endless compound": "-".join(WORDS[:60_000]),
    "ideographs": " ".join(f"{chr(0x4E00 + at)}-{chr(0x20000 + at)}" for at in range(20_000)),
}


@pytest.mark.parametrize("kind", TREBLED)
@pytest.mark.parametrize("size", [249_000, 260_000, 395_000])
def test_texts_whose_lexemes_take_more_room_than_themselves_fail_nothing(store, name, kind, size):
    make(store, name, chunks={})
    text = (TREBLED[kind] * 3).encode()[:size].decode(errors="ignore")
    ingest(store, name, [Item("a", text), Item("b", "plain")])
    assert found_by_words(store, name, "plain") == ["b"]
    assert wrong(store, name) == {}


def test_an_endless_title_fails_nothing_either(store, name):
    make(store, name, language="simple")
    title = " ".join(WORDS[:250_000])
    report = ingest(store, name, [Item("a", "some text", title), Item("b", "plain")])
    assert report.added == 2
    assert query(store, fresh(store, name), "SELECT cut FROM {lexemes} WHERE id = 'a'") == [(1,)]
    assert found_by_words(store, name, WORDS[0]) == ["a"]
    assert wrong(store, name) == {}
