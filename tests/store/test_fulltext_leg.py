"""The full-text leg: every mode and option changes what is found, and what cannot be asked is refused in a sentence."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from core.errors import InputError, MissingCapability, SpecError
from core.legs.fulltext import CUT, FulltextLeg
from core.types import Item
from tests.store.making import FIXED, documents, fresh, ingest, make, query, some_name
from tests.store.recalling import asked, ids, plans, said

ITEMS = [
    Item("quick", "The quick brown fox jumps over the lazy dog", title="Animals"),
    Item("brown", "A brown and a quick dog, no fox here but another dog and one more dog"),
    Item("fox", "Foxes hunt at night", title="Quick"),
    Item("far", "quick " + " ".join(f"filler{number}" for number in range(40)) + " fox"),
    Item("cafe", "The cafe is open"),
    Item("accent", "Le café est fermé"),
]


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, chunks={"small": FIXED})
    ingest(store, name, ITEMS)
    return fresh(store, name)


@pytest.mark.parametrize(
    ("mode", "text", "expected"),
    [
        ("any", "quick brown elephants", {"quick", "brown", "fox", "far"}),
        ("plain", "quick fox", {"quick", "brown", "fox", "far"}),
        ("phrase", "quick brown", {"quick"}),
        ("web", '"quick brown" -night', {"quick"}),
        ("web", "night or lazy", {"quick", "fox"}),
        ("strict", "fox & !night", {"quick", "brown", "far"}),
        ("strict", "fo:*", {"quick", "brown", "fox", "far"}),
    ],
)
def test_a_mode_reads_the_query_in_its_way(store, collection, mode, text, expected):
    assert set(ids(asked(store, collection, FulltextLeg(mode=mode), text))) == expected


def test_malformed_strict_input_is_refused_with_the_query(store, collection):
    with pytest.raises(InputError, match=r"'fox & \|'.*to_tsquery.*web"):
        asked(store, collection, FulltextLeg(mode="strict"), "fox & |")


def test_the_query_may_have_a_configuration_of_its_own(store, collection):
    assert ids(asked(store, collection, FulltextLeg(), "the foxes")) != []
    assert ids(asked(store, collection, FulltextLeg(config="simple"), "foxes")) == []
    assert set(ids(asked(store, collection, FulltextLeg(config="simple"), "fox"))) == {"quick", "brown", "fox", "far"}


def test_a_configuration_that_the_server_has_not_is_refused(store, collection):
    with pytest.raises(SpecError, match="no text-search configuration 'klingon'"):
        asked(store, collection, FulltextLeg(config="klingon"), "fox")


def test_the_score_is_the_servers_own(store, collection):
    leg = FulltextLeg(mode="plain", rank="ts_rank_cd", normalization=2, weights=(0.3, 0.2, 0.4, 1))
    for each in asked(store, collection, leg, "quick fox"):
        written = "SELECT ts_rank_cd(CAST(:w AS real[]), tsv, 'quick & fox', 2) FROM {lexemes} WHERE id = :id"
        ((expected,),) = query(store, collection, written, id=each.id, w="{0.3,0.2,0.4,1}")
        assert each.score == pytest.approx(expected)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ({"rank": "ts_rank_cd"}, "quick fox"),
        ({"normalization": 0}, "quick fox"),
        ({"weights": (0.1, 0.2, 0.4, 1.0)}, "quick fox"),
        ({"min_rank": 0.02}, "quick fox dog"),
        ({"pool": 1}, "quick fox dog"),
        ({"mode": "phrase"}, "quick fox"),
    ],
)
def test_every_option_changes_the_result(store, collection, option, text):
    depth = 1 if "pool" in option else 10
    changed = asked(store, collection, FulltextLeg(**option), text, depth)
    default = asked(store, collection, FulltextLeg(), text, depth)
    assert [(each.id, each.score) for each in changed] != [(each.id, each.score) for each in default]


def test_a_title_that_counts_more_brings_its_item_up(store, collection):
    heavy = FulltextLeg(weights=(0.1, 0.1, 0.1, 1.0))
    light = FulltextLeg(weights=(1.0, 1.0, 1.0, 0.0))
    assert ids(asked(store, collection, heavy, "quick"))[0] == "fox"
    assert ids(asked(store, collection, light, "quick"))[-1] == "fox"


@pytest.mark.parametrize("weights", [(0.1, 0.1, 0.1), (0, 0, 0, 1.5), (-0.1, 0, 0, 1)])
def test_weights_that_the_server_would_refuse_are_refused_before(weights):
    with pytest.raises(ValidationError):
        FulltextLeg(weights=weights)


def test_what_ranks_too_low_is_dropped_and_told(store, collection):
    found = asked(store, collection, FulltextLeg(), "quick dog")
    cut = asked(store, collection, FulltextLeg(min_rank=found[1].score), "quick dog")
    assert ids(cut) == ids(found)[:2]
    assert f"{len(found) - 2} ranked lower" in said(cut)


def test_unaccent_looks_for_the_words_without_their_accents_too(store, collection):
    assert ids(asked(store, collection, FulltextLeg(), "café")) == ["accent"]
    assert set(ids(asked(store, collection, FulltextLeg(unaccent=True), "café"))) == {"accent", "cafe"}
    for mode in ("web", "plain", "phrase", "strict"):
        assert "cafe" in ids(asked(store, collection, FulltextLeg(unaccent=True, mode=mode), "café")), mode
    assert ids(asked(store, collection, FulltextLeg(unaccent=True), "the of")) == []


def test_accents_in_the_texts_stay_where_the_collection_keeps_them(store, collection):
    assert "accent" not in ids(asked(store, collection, FulltextLeg(unaccent=True), "cafe"))


def test_without_the_extension_unaccent_says_what_to_run(store, collection):
    def without(where):
        return replace(where, missing={**where.missing, "unaccent": "Run: CREATE EXTENSION unaccent;"})

    with pytest.raises(MissingCapability, match="CREATE EXTENSION unaccent"):
        asked(store, collection, FulltextLeg(unaccent=True), "café", change=without)
    assert ids(asked(store, collection, FulltextLeg(), "café", change=without)) == ["accent"]


@pytest.mark.slow
@pytest.mark.parametrize("chunks", ["items", "small"])
def test_a_pool_that_holds_every_match_changes_nothing_but_the_note(store, chunks):
    name = some_name()
    make(store, name)
    ingest(store, name, documents(60))
    view = fresh(store, name)
    true, pooled = (
        asked(store, view, FulltextLeg(pool=pool), "word3 word10 common unique7", 20, chunks=chunks)
        for pool in (None, 1000)
    )
    assert pooled.candidates == true.candidates
    assert "1,000 units best by BM25" in said(pooled)
    assert said(true) == ""


def test_a_pool_is_left_alone_by_modes_that_want_all_words(store, collection):
    assert asked(store, collection, FulltextLeg(mode="web", pool=1), "quick fox") == asked(
        store, collection, FulltextLeg(mode="web"), "quick fox"
    )


@pytest.mark.slow
def test_a_pool_obeys_a_filter(store):
    name = some_name()
    make(store, name)
    ingest(store, name, documents(60))
    odd = {"field": "kind", "eq": "odd"}
    found = asked(store, fresh(store, name), FulltextLeg(pool=10), "word3 word10 common", 10, where=odd)
    assert len(found) == 10
    assert all(int(each.removeprefix("d")) % 2 for each in ids(found))


@pytest.mark.parametrize("mode", ["any", "web", "plain"])
def test_the_lexeme_index_is_used(store, collection, mode):
    assert "lexemes_0_tsv_gin" in plans(store, collection, FulltextLeg(mode=mode), "quick fox", "enable_seqscan = off")


# -- where many units match, only those are ranked that can be among the first --------------------------------------


@pytest.fixture(scope="module")
def many(store):
    """Enough that the postings are asked first: words repeated, units of all lengths, and a title on every fourth."""
    chance = np.random.default_rng(5)

    def drawn(words):
        return " ".join(f"w{int(each)}" for each in np.minimum(chance.zipf(1.3, words), 60))

    items = [
        Item(f"d{number:05d}", drawn(int(chance.integers(3, 40))), title="" if number % 4 else drawn(3))
        for number in range(1500)
    ]
    name = some_name()
    make(store, name, chunks={"small": FIXED})
    ingest(store, name, items)
    return fresh(store, name)


SOME_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"normalization": 0},
    {"normalization": 2 | 32},
    {"weights": (0.1, 0.2, 0.4, 1.0)},
    {"weights": (0.3, 0.0, 0.0, 0.3)},
)
OTHER_OPTIONS: tuple[dict[str, Any], ...] = (
    {"weights": (1.0, 0.0, 0.0, 0.1)},
    {"weights": (0.0, 0.0, 0.0, 1.0)},
    {"normalization": 8},
    {"rank": "ts_rank_cd"},
)


def every_match_ranked(level):
    """The level as one that has no postings, where nothing tells which units to leave out."""
    return replace(level, lexicon=None)


@pytest.mark.slow
@pytest.mark.parametrize("options", [*SOME_OPTIONS, *OTHER_OPTIONS])
@pytest.mark.parametrize("chunks", ["items", "small"])
def test_leaving_out_what_cannot_be_among_the_first_changes_nothing(store, many, options, chunks):
    leg = FulltextLeg(**options)
    for text in ("w1 w2 w3 w9", "w60 w5 w1 nowhere", "w1 w1 w4"):
        for depth in (1, 10, 100):
            quick = asked(store, many, leg, text, depth, chunks=chunks)
            true = asked(store, many, leg, text, depth, chunks=chunks, change=every_match_ranked)
            assert quick == true, (text, depth)


@pytest.mark.slow
def test_leaving_out_obeys_a_filter_and_the_querys_configuration(store, many):
    leg, some = FulltextLeg(config="simple"), {"field": "title", "exists": False}
    quick, true = (
        asked(store, many, leg, "w1 w2 w3 w9", 50, where=some, change=change)
        for change in (replace, every_match_ranked)
    )
    assert quick == true
    assert len(quick) == 50


@pytest.mark.parametrize("options", SOME_OPTIONS)
def test_the_postings_are_asked_first_where_they_can_tell(store, many, options):
    assert "postings_0" in plans(store, many, FulltextLeg(**options), "w1 w2 w3 w9")


@pytest.mark.parametrize("options", OTHER_OPTIONS)
def test_the_postings_are_left_alone_where_they_cannot_tell(store, many, options):
    assert "postings_0" not in plans(store, many, FulltextLeg(**options), "w1 w2 w3 w9")


def test_few_matches_are_ranked_at_once(store, collection):
    assert "postings_0" not in plans(store, collection, FulltextLeg(), "quick fox")


def test_titles_and_the_units_left_are_found_by_their_indexes(store, many):
    plan = plans(store, many, FulltextLeg(), "w1 w2 w3 w9", "enable_seqscan = off")
    assert "lexemes_0_titled" in plan
    assert "postings_0_term_key" in plan
    assert "lexemes_0_item_key_key" in plan


@pytest.mark.slow
def test_postings_that_lag_behind_and_titles_without_an_index_are_not_asked(store):
    name, words = some_name(), "common title " + " ".join(f"word{number}" for number in range(9))
    make(store, name, chunks={})
    ingest(store, name, documents(1500))
    view = fresh(store, name)

    def asks_postings():
        return "postings_0" in plans(store, view, FulltextLeg(), words)

    assert asks_postings()
    query(store, view, "UPDATE {chunk_sets} SET posted_to = posted_to - 1")
    assert not asks_postings()
    query(store, view, "UPDATE {chunk_sets} SET posted_to = posted_to + 1")
    query(store, view, f'DROP INDEX "{view.namespace}".lexemes_0_titled')
    assert not asks_postings()


@pytest.mark.parametrize(("rank", "greatest"), [("ts_rank", 1.0), ("ts_rank_cd", math.inf)])
def test_no_rank_is_below_0_and_that_of_cover_density_has_no_end(rank, greatest):
    assert FulltextLeg(rank=rank).bounds == (0.0, greatest)


@pytest.mark.parametrize("mode", ["any", "web", "plain"])
def test_of_a_long_query_cover_density_reads_the_beginning_in_whole_words_and_says_so(store, collection, mode):
    leg, beginning = FulltextLeg(mode=mode, rank="ts_rank_cd"), "quick fox " * 99
    long = asked(store, collection, leg, f"{beginning}quick foxtrot{' night' * 3000}")
    assert said(long) == CUT
    assert long.candidates == asked(store, collection, leg, f"{beginning}quick").candidates != ()
    assert said(asked(store, collection, leg, f"{beginning}quick fox")) == ""
    assert said(asked(store, collection, FulltextLeg(mode="any"), f"{beginning}{'night ' * 3000}")) == ""


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "between"), [("any", " "), ("web", " or ")])
def test_the_longest_query_by_cover_density_is_answered_soon(store, mode, between):
    name = some_name()
    make(store, name, chunks={})
    ingest(store, name, documents(200, words=150))
    long = between.join(f"word{number % 97}" for number in range(6000))[:19_900]
    leg = FulltextLeg(mode=mode, rank="ts_rank_cd")
    assert len(asked(store, fresh(store, name), leg, long, settings=("statement_timeout = '3s'",))) == 10
