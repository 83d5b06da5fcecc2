"""Fuzzy matching through the vocabulary: misspellings found, weighed by likeness and rarity, and every option."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from dataclasses import replace

import pytest

from core import bridge
from core.context import RequestContext
from core.errors import MissingCapability
from core.legs.bm25 import Bm25Leg
from core.legs.fuzzy import FuzzyLeg
from core.pipeline.retriever import search
from core.types import Item
from core.variant import Variant
from tests.store.making import FIXED, fresh, ingest, make, query, some_name
from tests.store.recalling import asked, ids, plans

ITEMS = [
    Item("exact", "Stargate Atlantis was cancelled after five seasons"),
    Item("misspelt", "Stargaet Atlantsi was canceled"),
    Item("half", "Atlantic crossings of the navy"),
    Item("both", "atlantis atlantsi harbour"),
    Item("long", "atlantis " + " ".join(f"filler{number}" for number in range(60))),
    Item("often", "atlantis atlantis atlantis " + " ".join(f"stuff{number}" for number in range(20))),
    Item("other", "gardening for beginners, ox and elk"),
]


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, chunks={"small": FIXED})
    ingest(store, name, ITEMS)
    return fresh(store, name)


@pytest.mark.parametrize("chunks", ["items", "small"])
def test_a_misspelt_word_is_found_in_the_query_and_in_the_texts(store, collection, chunks):
    for text in ("Stargaet", "stargate", "STARGATEE"):
        found = ids(asked(store, collection, FuzzyLeg(), text, chunks=chunks))
        assert {each.split("#")[0] for each in found} >= {"exact", "misspelt"}, text


def test_the_right_spelling_comes_before_the_wrong_one(store, collection):
    found = asked(store, collection, FuzzyLeg(b=0), "stargate")
    assert ids(found)[0] == "exact"
    assert found[0].score > found[1].score


def test_without_other_spellings_it_is_bm25(store, collection):
    text = "when was the stargate in atlantis cancelled"
    assert asked(store, collection, FuzzyLeg(expansions=0), text) == asked(store, collection, Bm25Leg(), text)


def test_an_inflected_word_counts_as_its_lexeme(store, collection):
    """`cancelled` is stored as `cancel`, which its trigrams alone resemble little."""
    assert ids(asked(store, collection, FuzzyLeg(threshold=1.0), "cancelled")) == ids(
        asked(store, collection, Bm25Leg(), "cancelled")
    )


@pytest.mark.usefixtures("trigrams")
def test_the_weight_is_similarity_times_idf(store, collection):
    ((lexeme,),) = query(store, collection, "SELECT lexeme FROM {terms} WHERE lexeme LIKE 'stargaet'")
    ((likeness,),) = query(store, collection, "SELECT similarity(:a, :b)", a="stargatee", b=lexeme)
    (alone,) = (each for each in asked(store, collection, Bm25Leg(), "stargaet") if each.id == "misspelt")
    (found,) = (each for each in asked(store, collection, FuzzyLeg(), "stargatee") if each.id == "misspelt")
    assert found.score == pytest.approx(likeness * alone.score, rel=1e-6)


def test_no_score_is_below_the_theoretical_least(store, collection):
    """Bruch et al. 2023 normalise from there; without it the leg could not take part."""
    theoretical = {"method": "linear", "normalize": "theoretical-minmax"}
    variant = Variant.from_data({"chunks": "items", "leg": [{"kind": "fuzzy"}], "fusion": theoretical})
    found = bridge.run(search(RequestContext(store, collection), "atlantis", variant))
    raw = [hit.legs[0].raw for hit in found.hits]
    assert len(raw) > 2
    assert [hit.score for hit in found.hits] == pytest.approx([each / raw[0] for each in raw])


def test_of_two_spellings_of_one_word_the_better_counts(store, collection):
    (exact,) = (each for each in asked(store, collection, Bm25Leg(), "atlantis") if each.id == "both")
    (found,) = (each for each in asked(store, collection, FuzzyLeg(), "atlantis") if each.id == "both")
    (wrong,) = (each for each in asked(store, collection, Bm25Leg(), "atlantsi") if each.id == "both")
    ((likeness,),) = query(store, collection, "SELECT similarity('atlantis', 'atlantsi')")
    assert found.score == pytest.approx(max(exact.score, likeness * wrong.score), rel=1e-6)


def test_a_word_that_is_said_twice_counts_twice(store, collection):
    once, twice = (asked(store, collection, FuzzyLeg(), text, 1) for text in ("stargate", "Stargate stargate"))
    assert twice[0].score == pytest.approx(2 * once[0].score)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"threshold": 0.9}, "stargaet"),
        ({"expansions": 0}, "stargaet"),
        ({"expansions": 1}, "atlanti"),
        ({"shortest": 20}, "stargaet"),
        ({"k1": 0}, "atlantis"),
        ({"b": 0}, "atlantis"),
    ],
)
def test_every_option_changes_the_result(store, collection, option, text):
    assert asked(store, collection, FuzzyLeg(**option), text) != asked(store, collection, FuzzyLeg(), text)


def test_short_words_are_looked_up_as_they_are(store, collection):
    assert ids(asked(store, collection, FuzzyLeg(), "elks ox")) == ["other"]
    assert ids(asked(store, collection, FuzzyLeg(), "oxx")) == []


@pytest.mark.slow
def test_stop_words_and_unknown_words_find_nothing(store, collection):
    assert ids(asked(store, collection, FuzzyLeg(), "the of and")) == []
    assert ids(asked(store, collection, FuzzyLeg(), "zzzzqqqq")) == []
    assert ids(asked(store, collection, FuzzyLeg(), "")) == []


def test_the_vocabulary_is_searched_by_its_trigram_index(store, collection):
    assert "terms_0_lexeme_gin" in plans(store, collection, FuzzyLeg(), "stargaet", "enable_seqscan = off")


def test_where_the_server_has_no_trigrams_it_says_why(store, collection):
    def without(where):
        columns = {name: each for name, each in where.columns.items() if name != "text"}
        return replace(where, columns=columns, missing={"text": "Fuzzy search needs pg_trgm."})

    with pytest.raises(MissingCapability, match="pg_trgm"):
        asked(store, collection, FuzzyLeg(), "stargate", change=without)
