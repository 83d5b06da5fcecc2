"""The trigram leg: keywords, its three functions with their operators and settings, and the index that serves them."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest

from core.legs.trigram import CUT, OPERATORS, READ, TrigramLeg
from core.types import Item
from tests.store.making import documents, fresh, ingest, make, query, some_name
from tests.store.recalling import asked, ids, plans, said

ITEMS = [
    Item("series", "In the end Stargate Atlantis was cancelled, to nobody's surprise."),
    Item("words", "stargate"),
    Item("inside", "The megastargates of old."),
    Item("german", "Die Sendung wurde abgesetzt."),
]
QUESTION = "When was Stargate Atlantis cancelled?"


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name)
    ingest(store, name, [*ITEMS, *documents(100)])
    return fresh(store, name)


@pytest.mark.parametrize("function", sorted(OPERATORS))
def test_the_score_is_the_functions_own_over_the_keywords(store, collection, function):
    for each in asked(store, collection, TrigramLeg(function=function, threshold=0.05), QUESTION):
        ((expected,),) = query(
            store,
            collection,
            f"SELECT {function}('stargate atlantis cancelled', text) FROM {{items}} WHERE id = :id",
            id=each.id,
        )
        assert each.score == pytest.approx(expected)


@pytest.mark.parametrize("function", sorted(OPERATORS))
@pytest.mark.parametrize("chunks", ["items", "small"])
def test_every_function_uses_the_index(store, collection, function, chunks):
    plan = plans(store, collection, TrigramLeg(function=function), QUESTION, "enable_seqscan = off", chunks=chunks)
    assert f"{'items' if chunks == 'items' else 'chunks_1'}_text_gin" in plan


@pytest.mark.parametrize("function", sorted(OPERATORS))
def test_every_function_has_its_own_threshold(store, collection, function):
    low, high = (asked(store, collection, TrigramLeg(function=function, threshold=t), "stargate") for t in (0.05, 0.95))
    assert len(low) > len(high)
    assert all(each.score >= 0.95 for each in high)


def test_the_functions_rank_differently(store, collection):
    found = {
        function: {
            each.id: each.score
            for each in asked(store, collection, TrigramLeg(function=function, threshold=0.1), "stargate")
        }
        for function in OPERATORS
    }
    assert found["word_similarity"]["inside"] > found["strict_word_similarity"]["inside"]
    assert found["similarity"]["words"] == 1.0
    assert found["similarity"].get("series", 0) < found["word_similarity"]["series"] == 1.0


@pytest.mark.slow
def test_of_endless_keywords_the_first_are_compared_and_the_reader_is_told(store, collection):
    """Twenty thousand characters of them took 15 to 23 s on 2,000 texts."""
    first, rest = "cancelled " * (READ // 10), "stargate " * 1000
    cut = asked(store, collection, TrigramLeg(), first + rest)
    assert list(cut) == list(asked(store, collection, TrigramLeg(), first))
    assert ids(cut) == ["series"]  # and not what holds the rest alone
    assert CUT in cut.notes
    assert CUT not in asked(store, collection, TrigramLeg(), first).notes


def test_the_threshold_is_gone_after_the_transaction(store, collection):
    asked(store, collection, TrigramLeg(threshold=0.9), "stargate")
    assert query(store, collection, "SELECT current_setting('pg_trgm.word_similarity_threshold')") == [("0.6",)]


def test_a_query_of_stop_words_finds_nothing_and_says_so(store, collection):
    found = asked(store, collection, TrigramLeg(), "when was the")
    assert ids(found) == []
    assert "stop words" in said(found)


@pytest.mark.slow
def test_stop_words_are_those_of_the_collections_language(store):
    name = some_name()
    make(store, name, language="german")
    ingest(store, name, ITEMS)
    found = asked(store, fresh(store, name), TrigramLeg(threshold=0.9), "Wann wurde die Sendung abgesetzt")
    assert ids(found) == []  # `wann` is no stop word of the german list, `wurde` and `die` are
    assert ids(asked(store, fresh(store, name), TrigramLeg(threshold=0.9), "die Sendung")) == ["german"]
