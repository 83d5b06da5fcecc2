"""Contexts packed over a split, on the real server: what they bring for each budget, and what comes of failures."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from core import bridge
from core.context import RequestContext, Resources
from core.errors import Cancelled, EmbeddingError, InputError, SpecError
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.packing import Packing
from core.types import Item, Query
from core.variant import Variant
from evals.evaluation.packed_contexts import NOTHING, context_run, score_pack
from evals.types import QuerySplit, Span
from tests.fakes import HashingEmbedder
from tests.store.making import FIXED, documents, fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder(64)
BUDGETS = (30, 60, 120, 400)
# The question's words stand in one chunk of eight words, what answers it in the next.
PLANTED = Item(
    "planted", "The zebra was asked about its stripes. Seventeen and a half is what it said. It left the room."
)
ANSWER = PLANTED.text[39:75]
TITLES = Item("whole", "A walrus in one chunk.")


@pytest.fixture(scope="module")
def name(store):
    made = some_name()
    make(store, made, [EMBEDDER], {"small": FIXED})
    ingest(store, made, [PLANTED, TITLES, *documents(12)], [EMBEDDER])
    return made


@pytest.fixture
def context(store, name):
    return RequestContext(store, fresh(store, name), Resources(embedder=lambda _: EMBEDDER, environment={}))


BM25 = (Bm25Leg(),)


def variant(*, chunks="small", legs=BM25, top_k=3, **packing) -> Variant:
    usual = {"neighbor_same_page": 2, "neighbor_cross_page": 0, "min_primary_hits_to_keep": 0}
    return Variant(name="packed", chunks=chunks, legs=legs, top_k=top_k, pack=Packing(**(usual | packing)))


SPLIT = QuerySplit(
    "test",
    {
        "answered": Query("answered", "zebra stripes"),
        "labelled": Query("labelled", "unique3 common", weight=3.0),
        "nothing": Query("nothing", "walrus"),
    },
    {"labelled": {"d00003": 2, "d00004": 1}, "nothing": {"whole": 0}},
    {"answered": (Span("answered", "planted", 39, 75, ANSWER),)},
)


def run(context, asked=None, split=SPLIT, budgets=BUDGETS, **options):
    return bridge.run(context_run(context, asked or variant(), split, budgets, **options))


def test_a_bigger_budget_never_holds_less(context):
    found = run(context, variant(top_k=6, legs=(Bm25Leg(), VectorLeg())))
    for points in found.curves.values():
        for measure in ("tokens", "gain", "span_recall"):
            values = [getattr(point, measure) or 0.0 for point in points]
            assert values == sorted(values), measure
        assert all(point.tokens <= point.budget for point in points)
    assert found.curve[0].gain < found.curve[-1].gain


def test_each_budget_is_packed_for_as_a_search_with_that_budget_packs(context):
    from core.pipeline.retriever import search

    found = run(context, variant(top_k=5))
    for at, budget in enumerate(BUDGETS):
        asked = variant(top_k=5, final_max_tokens=budget)
        packed = bridge.run(search(context, "unique3 common", asked)).pack
        assert found.curves["labelled"][at] == score_pack(packed, budget, SPLIT.grades["labelled"])


@pytest.mark.slow
def test_a_neighbour_that_answers_raises_what_the_context_holds_of_the_answer(context):
    alone = run(context, variant(neighbor_same_page=0)).curves["answered"][-1]
    beside = run(context, variant(neighbor_same_page=2)).curves["answered"][-1]
    assert alone.span_recall < 0.5
    assert beside.span_recall == pytest.approx(35 / 36), "all but the blank between two chunks"
    assert 0 < beside.span_precision < 1


def test_what_is_found_with_an_answer_alone_is_a_relevant_item_and_unlabelled_queries_take_no_part(context):
    found = run(context)
    assert set(found.curves) == {"answered", "labelled"}
    assert found.curves["answered"][-1].gain_share == 1.0
    assert found.curves["labelled"][-1].span_recall is None


def test_a_whole_item_stands_at_its_own_beginning(context):
    found = run(context, variant(chunks="items", top_k=1)).curves["answered"][-1]
    assert (found.span_recall, found.span_precision) == (1.0, pytest.approx(36 / len(PLANTED.text)))


def test_means_and_intervals_weigh_queries_and_count_contexts_beyond_their_budget(context):
    found = run(context, variant(min_primary_hits_to_keep=3), budgets=(400, 1, 400))
    assert found.budgets == (1, 400)
    tight, roomy = found.rows(samples=200)
    assert (tight.over, roomy.over) == (2, 0)
    gains = {query: points[-1].gain for query, points in found.curves.items()}
    expected = (gains["answered"] + 3 * gains["labelled"]) / 4
    assert roomy.estimates["gain"].mean == pytest.approx(expected)
    assert roomy.estimates["gain"].low <= expected <= roomy.estimates["gain"].high
    assert roomy.estimates["span_recall"].low is None, "one query has no interval"
    without = run(context, split=replace(SPLIT, spans={}))
    assert "span_recall" not in without.rows(samples=200)[0].estimates


def test_an_excluded_item_is_not_packed_and_is_made_up_for(context):
    shut = replace(SPLIT, excluded={"answered": frozenset({"planted"})})
    assert run(context).curves["answered"][-1].gain == 1
    assert run(context, split=shut).curves["answered"][-1].gain == 0
    both = replace(shut, queries={"answered": Query("answered", "zebra unique3")}, grades={"answered": {"d00003": 1}})
    assert run(context, variant(top_k=1), both).curves["answered"][-1].gain == 1


class FailingEmbedder(HashingEmbedder):
    async def embed(self, texts, purpose="document"):
        if any("zebra" in text for text in texts):
            raise EmbeddingError("The endpoint broke.")
        return await super().embed(texts, purpose)


def test_a_query_that_fails_counts_as_an_empty_context_with_its_reason(context):
    failing = FailingEmbedder(64)
    broken = replace(context, resources=Resources(embedder=lambda _: failing, environment={}))
    found = run(broken, variant(legs=(VectorLeg(),)))
    assert found.failures == {"answered": "The endpoint broke."}
    assert found.curves["answered"][-1] == score_pack(NOTHING, 400, {"planted": 1}, SPLIT.spans["answered"])
    assert found.curve[-1].tokens == pytest.approx(3 * found.curves["labelled"][-1].tokens / 4)


def test_progress_is_told_and_the_token_stops_it(context):
    steps = []
    run(context, progress=steps.append)
    assert [(step.done, step.total) for step in steps] == [(1, 2), (2, 2)]
    stopped = replace(context, cancellation=asyncio.Event())
    stopped.cancellation.set()
    with pytest.raises(Cancelled):
        run(stopped)


@pytest.mark.parametrize(
    ("asked", "budgets", "said"),
    [
        (variant().but(pack=None), BUDGETS, "packs no context"),
        (variant(), (0, 10), "must be 1 or more"),
        (variant(), (), "No budget is named"),
    ],
)
def test_what_cannot_be_packed_is_refused(context, asked, budgets, said):
    with pytest.raises(SpecError, match=said):
        run(context, asked, budgets=budgets)


@pytest.mark.slow
def test_a_split_with_nothing_to_find_is_refused(context):
    with pytest.raises(InputError, match="no context can be scored"):
        run(context, split=replace(SPLIT, grades={}, spans={}))
