"""Random variants: statement and pipeline agree to the last bit; two queries fused in Python are one statement."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bridge
from core.fusion import LegRanking
from core.legs import PreparedQuery
from core.sql_export.parameters import laid_out
from core.store.resolve_target import search_target
from core.types import Item
from tests.effort import examples
from tests.store.exporting import EMBEDDER, by_pipeline, by_sql, variant, vector_of
from tests.store.making import FAMILY, fresh, ingest, make, some_name

WORDS = ["hub", "reset", "late", "fee", "invoice", "battery", "screen", "the", "of", "hubs", "fees", "lamp"]
SOME = examples(40)


def corpus():
    draw = random.Random(3)
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 14))) for _ in range(70)]
    return [
        Item(f"d{number:02d}", text, metadata={"n": number % 7, "kind": draw.choice(["a", "b'"])})
        for number, text in enumerate([*texts, *texts[:20]])
    ]


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"family": FAMILY})
    ingest(store, name, corpus(), [EMBEDDER])
    return fresh(store, name)


WEIGHTS = st.sampled_from([0.0, 0.1, 0.3, 1.0, 1.5]) | st.floats(0.001, 10)
DEPTHS = st.none() | st.integers(1, 60)
LEGS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["vector", "fulltext", "web", "trigram", "bm25", "fuzzy"]),
        "weight": WEIGHTS,
        "depth": DEPTHS,
    }
)
RRF = st.fixed_dictionaries(
    {
        "method": st.just("rrf"),
        "k": st.sampled_from([0.5, 1.0, 60.0]),
        "origin": st.sampled_from([0, 1]),
        "weighted": st.booleans(),
        "absent": st.sampled_from(["zero", "bottom_rank", "drop"]),
    }
)
LINEAR = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["linear", "combsum"]),
        "normalize": st.sampled_from(["minmax", "none", "sum", "rank"]),
        "absent": st.sampled_from(["zero", "least", "drop"]),
    }
)
FILTERS = st.sampled_from(
    [{"field": "n", "lt": 4}, {"field": "kind", "eq": "b'"}, {"not": {"field": "n", "in": [1, 2]}}, {"and": []}]
)
OPTIONS = st.fixed_dictionaries(
    {"top_k": st.integers(1, 40), "overfetch": st.integers(1, 3), "chunks": st.sampled_from(["items", "family"])},
    optional={"filter": FILTERS, "min_score": st.floats(0, 1), "fused_depth": st.integers(1, 30)},
)
QUERIES = st.lists(st.sampled_from([*WORDS, "hbu", "batery", "it's"]), min_size=1, max_size=6).map(" ".join)


KINDS: dict[str, dict[str, Any]] = {"vector": {"exact": True}, "web": {"mode": "web"}}


def leg_of(drawn, at):
    kind = drawn["kind"]
    extra = KINDS.get(kind, {})
    given_depth = {} if drawn["depth"] is None else {"depth": drawn["depth"]}
    kind = "fulltext" if kind == "web" else kind
    return {"kind": kind, "label": f"leg {at}", "weight": drawn["weight"], **given_depth, **extra}


@pytest.mark.slow
@SOME
@given(legs=st.lists(LEGS, min_size=1, max_size=4), fusion=RRF | LINEAR, options=OPTIONS, query=QUERIES)
def test_a_random_variant_gives_the_same_ranking_to_the_last_bit(store, collection, legs, fusion, options, query):
    chosen = variant(*(leg_of(leg, at) for at, leg in enumerate(legs)), fusion=fusion, **options)
    assert by_sql(store, collection, chosen, query) == by_pipeline(store, collection, chosen, query)


@pytest.mark.slow
@SOME
@given(legs=st.lists(LEGS, min_size=1, max_size=3), options=OPTIONS, most=st.integers(1, 4), query=QUERIES)
def test_a_cap_per_item_keeps_the_same_chunks_in_the_statement(store, collection, legs, options, most, query):
    capped = {**options, "chunks": "family", "per_item_cap": most}
    chosen = variant(*(leg_of(leg, at) for at, leg in enumerate(legs)), **capped)
    assert by_sql(store, collection, chosen, query) == by_pipeline(store, collection, chosen, query)


@pytest.mark.slow
@SOME
@given(
    mode=st.sampled_from(["web", "plain", "any"]),
    fusion=st.sampled_from([{"method": "rrf", "weighted": False}, {"method": "linear"}]),
    depth=st.integers(1, 50),
    query=QUERIES,
)
def test_two_queries_over_items_fused_in_python_are_the_one_statement(store, collection, mode, fusion, depth, query):
    text = {"kind": "fulltext", "mode": mode, "rank": "ts_rank_cd", "weight": 0.35}
    chosen = variant(
        text, {"kind": "vector", "exact": True, "weight": 0.65}, chunks="items", top_k=depth, overfetch=1, fusion=fusion
    )

    async def embed(*_):
        return vector

    async def recalled(leg):
        async with store.begin(collection.namespace, read_only=True) as connection:
            return await leg.recall(
                connection, search_target(store, collection, "items"), PreparedQuery(query, embed), depth
            )

    vector = vector_of(query)
    found = [bridge.run(recalled(leg)).candidates for leg in chosen.legs]
    rankings = [
        LegRanking(name, leg.weight, ranking, leg.bounds)
        for name, leg, ranking in zip(chosen.leg_names, chosen.legs, found, strict=True)
    ]
    fused = chosen.fusion.fuse(rankings)[:depth]
    assert by_sql(store, collection, chosen, query) == [(each.id, each.relative, each.score) for each in fused]


@given(st.lists(st.sampled_from(["(", ")", "a", ",", " ", '"x\n y"', "'p\n (q'", "b" * 40, "\n"]), max_size=60))
def test_laying_out_changes_blanks_outside_quotes_and_nothing_else(parts):
    text = "".join(parts)
    quoted = [part for part in parts if part[0] in "'\""]
    out = laid_out(text)
    assert "".join(out.split()) == "".join(text.split())
    assert all(part in out for part in quoted)
