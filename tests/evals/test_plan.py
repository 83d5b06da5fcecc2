"""The planner: which leg runs variants share, how deep they go, and what is searched query by query."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.expansion import SynonymExpansion
from core.filters import filter_from
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.fuzzy import FuzzyLeg
from core.legs.trigram import TrigramLeg
from core.legs.vector import VectorLeg
from core.packing import Packing
from core.rerank import OverlapReranker
from core.routing import Routing
from core.types import Query
from core.variant import LateChunking, Rollup, Variant
from evals.runs.plan import (
    DEEPEST,
    EvalOptions,
    PlanInputs,
    PlannedRun,
    RunPlan,
    deepened,
    is_fused,
    leg_digest,
    queries_digest,
)
from evals.types import QuerySplit

STATE = PlanInputs("books", "state", "queries", {"default": "small", "items": "small"})
LEGS = (VectorLeg(), VectorLeg(exact=True), FulltextLeg(), TrigramLeg(), Bm25Leg())


def variant(*legs, **options) -> Variant:
    return Variant(legs=legs or (Bm25Leg(), VectorLeg()), **options)


def plan(variants, *, kept=()) -> RunPlan:
    """Runs are told apart as the runner does it, but for what it adds of the collection and the queries."""
    runs = tuple(PlannedRun(each, each, each.id) for each in (*variants, *kept))
    split = QuerySplit("test", {})
    return RunPlan(None, split, None, STATE, EvalOptions(), runs).with_kept({each.id: None for each in kept})


def test_many_fusions_share_the_few_legs_that_they_have():
    fusions = [RrfFusion(k=k) for k in (1, 10, 60)] + [LinearFusion(normalize=how) for how in ("minmax", "zscore")]
    variants = [
        variant(
            *(leg.model_copy(update={"label": f"l{at}", "weight": share}) for at, leg in enumerate(LEGS)), fusion=each
        )
        for each in fusions
        for share in (0.1, 0.5, 2.0)
    ]
    made = plan(variants)
    assert len(made.legs) == 5
    assert [each.variant for each in made.fused] == variants
    assert made.describe() == "15 variants -> 5 leg runs"


def test_a_plan_tells_what_is_searched_and_what_is_kept():
    made = plan([variant(), variant(rerank=OverlapReranker()), variant(pack=Packing())], kept=[variant(top_k=3)])
    assert made.describe() == "4 variants -> 2 leg runs, 2 searched query by query, 1 kept from before"
    assert plan([], kept=[variant()]).describe() == "1 variant -> 1 kept from before"
    assert plan([variant(rerank=OverlapReranker())]).describe() == "1 variant -> 1 searched query by query"
    assert plan([variant(Bm25Leg())]).describe() == "1 variant -> 1 leg run"
    assert plan([]).describe() == "0 variants -> nothing to do"
    assert plan([variant()] * 3).describe() == "3 variants (2 alike) -> 2 leg runs"


@pytest.mark.parametrize(
    "options",
    [
        {"expand": SynonymExpansion(lines=("a, b",))},
        {"route": Routing()},
        {"rerank": OverlapReranker()},
        {"late": LateChunking(), "chunks": "items"},
        {"parents": "replace"},
        {"per_item_cap": 2},
        {"pack": Packing()},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_needs_a_stage_a_query_is_searched(options):
    assert not is_fused(variant(**options))
    made = plan([variant(**options)])
    assert (len(made.legs), len(made.searched)) == (0, 1)


@pytest.mark.parametrize(
    "options",
    [
        {"parents": "annotate"},
        {"rollup": Rollup(method="sum")},
        {"fused_depth": 5},
        {"min_score": 0.5},
        {"filter": filter_from({"field": "year", "gt": 2000})},
        {"model": "other"},
        {"top_k": 1, "overfetch": 1},
    ],
    ids=str,
)
def test_what_is_legs_fused_and_cut_is_computed(options):
    assert is_fused(variant(**options))


# -- depth -----------------------------------------------------------------------------------------------------------


def depths(made) -> dict[str, list[int]]:
    found = {}
    for task in made.legs:
        found.setdefault(type(task.leg).__name__, []).append(task.depth)
    return found


@pytest.mark.parametrize(
    ("leg", "deepens"),
    [
        (VectorLeg(), False),
        (VectorLeg(exact=True), True),
        (VectorLeg(distance="l2"), False),
        (FulltextLeg(), True),
        (FulltextLeg(pool=100), False),
        (FulltextLeg(pool=100, mode="web"), True),
        (FulltextLeg(min_rank=0.01), True),
        (TrigramLeg(), True),
        (FuzzyLeg(), True),
        (Bm25Leg(), True),
    ],
    ids=repr,
)
def test_one_run_at_the_greatest_depth_serves_all_where_depth_changes_no_order(leg, deepens):
    made = plan([variant(leg, top_k=each) for each in (5, 20, 10)])
    assert leg.deepens is deepens
    assert sorted(task.depth for task in made.legs) == ([60] if deepens else [15, 30, 60])
    assert [share.depth for each in made.fused for share in each.uses] == [15, 60, 30]
    assert all(share.task.depth == share.depth or deepens for each in made.fused for share in each.uses)


def test_a_variant_is_asked_as_deep_as_the_deepest_metric_needs():
    shipped = variant(Bm25Leg(), VectorLeg(depth=200), top_k=10, chunks="items")
    deep = deepened(shipped, 100)
    assert (deep.top_k, [leg.depth for leg in deep.legs]) == (100, [100, 200])
    assert [leg.depth for leg in deepened(shipped, 5).legs] == [30, 200]
    assert deepened(shipped, 5).top_k == 10
    assert deepened(shipped, 10**9).top_k == DEEPEST


def test_rankings_of_chunks_go_deeper_since_several_may_be_of_one_item():
    assert deepened(variant(), 100).top_k == 300
    assert deepened(variant(rollup=Rollup()), 100).top_k == 100


def test_what_a_query_may_not_find_makes_other_leg_runs():
    split = QuerySplit("test", {"a": Query("a", "x"), "b": Query("b", "y")})
    shut, elsewhere = ({query: frozenset("12")} for query in "ac")
    assert queries_digest(replace(split, excluded=shut)) != queries_digest(split)
    assert queries_digest(replace(split, excluded=elsewhere)) == queries_digest(split)


@given(st.integers(1, 300), st.integers(1, 20), st.integers(1, 300))
def test_deepening_never_asks_for_less_and_twice_is_once(top_k, overfetch, k):
    shipped = variant(top_k=top_k, overfetch=overfetch)
    deep = deepened(shipped, k)
    assert deep.top_k >= max(top_k, k)
    assert all(
        deep.depth_of(leg) >= max(deep.top_k, shipped.depth_of(own))
        for leg, own in zip(deep.legs, shipped.legs, strict=True)
    )
    assert deepened(deep, k) == deep


# -- what tells leg runs apart ---------------------------------------------------------------------------------------


def digest(leg, state=STATE, **options) -> str:
    return leg_digest(variant(leg, **options), leg, state)


def test_weight_label_depth_and_all_that_follows_the_legs_make_no_other_leg_run():
    same = {
        digest(Bm25Leg()),
        digest(Bm25Leg(weight=9, label="x", depth=7)),
        digest(Bm25Leg(), top_k=3, rollup=Rollup(), fusion=LinearFusion(), name="other", min_score=0.5),
    }
    assert len(same) == 1


@pytest.mark.parametrize(
    "other",
    [
        digest(Bm25Leg(k1=2)),
        digest(FuzzyLeg()),
        digest(Bm25Leg(), chunks="items"),
        digest(Bm25Leg(), filter=filter_from({"field": "year", "gt": 2000})),
        digest(Bm25Leg(), PlanInputs("films", "state", "queries", STATE.models)),
        digest(Bm25Leg(), PlanInputs("books", "changed", "queries", STATE.models)),
        digest(Bm25Leg(), PlanInputs("books", "state", "others", STATE.models)),
    ],
)
def test_whatever_decides_what_is_found_makes_another_leg_run(other):
    assert other != digest(Bm25Leg())


def test_the_model_counts_for_legs_that_use_it_and_for_no_others():
    assert digest(Bm25Leg(), model="large") == digest(Bm25Leg())
    assert digest(VectorLeg(), model="large") != digest(VectorLeg())
    assert digest(VectorLeg(), model="small") == digest(VectorLeg())


def test_labels_make_no_other_queries_and_texts_do():
    split = QuerySplit("test", {"a": Query("a", "x")}, {"a": {"d": 1}}, digest=b"1")
    relabelled = QuerySplit("test", {"a": Query("a", "x", "kind", ("tag",), 2.0)}, {"a": {"d": 2}}, digest=b"2")
    assert queries_digest(split) == queries_digest(relabelled)
    assert queries_digest(split) != queries_digest(QuerySplit("test", {"a": Query("a", "X")}))
    assert queries_digest(split) != queries_digest(QuerySplit("test", {"b": Query("b", "x")}))


def test_what_vectors_hang_on_beside_is_no_matter_of_legs_of_words():
    marked = replace(STATE, marks={"small": "pgvector 0.9"})
    asked = variant(Bm25Leg(), VectorLeg(), chunks="default")
    words, vectors = asked.legs
    assert leg_digest(asked, words, marked) == leg_digest(asked, words, STATE)
    assert leg_digest(asked, vectors, marked) != leg_digest(asked, vectors, STATE)
