"""The weight surface: every point as a search would score it, and what can be read off it."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, SpecError, UnknownName
from core.fusion import BordaFusion, CombSumFusion, Fusion, LinearFusion, RbcFusion, RrfFusion
from core.legs.vector import VectorLeg
from core.types import Query
from core.variant import Rollup
from evals.metrics import scoring
from evals.runs.batch_fusion import ResultCut, fuse_all
from evals.runs.rankings import LegRankings, Ranking
from evals.tuning import surface as tuning_surface
from evals.tuning.surface import Surface
from evals.tuning.sweep import QUERIES, surface_ranks, sweep
from evals.types import QuerySplit
from tests.effort import examples

METRICS = ("ndcg@3", "ndcg_exp@3", "mrr@3", "recall@3", "precision@3", "map@5", "hit_rate@2", "ndcg", "ndcg@3:min2")
LEG = VectorLeg(distance="cosine")


# The simplex


@pytest.mark.parametrize(("legs", "steps"), [(2, 1), (2, 20), (3, 7), (3, 20), (4, 6)])
def test_the_simplex_holds_every_way_to_share_out_the_steps_once(legs, steps):
    grid = tuning_surface.points(legs, steps)
    wanted = [point for point in itertools.product(range(steps + 1), repeat=legs) if sum(point) == steps]
    assert list(map(tuple, grid.tolist())) == wanted


def test_three_legs_in_twentieths_are_231_points():
    assert tuning_surface.points(3, 20).shape == (231, 3)


@pytest.mark.parametrize(("legs", "steps"), [(1, 20), (5, 20), (3, 0), (4, 200)])
def test_simplexes_that_make_no_sense_are_refused(legs, steps):
    with pytest.raises(SpecError):
        tuning_surface.points(legs, steps)


# Every point as a search would score it


@st.composite
def collections(draw: st.DrawFn, *, chunked: bool) -> tuple[list[LegRankings], QuerySplit]:
    """Few units and few scores: ties abound."""
    scores = st.sampled_from([-1.0, 0.0, 0.25, 0.5, 1.0])
    units = [f"{item}{number}" if chunked else item for item in "abcdefg" for number in range(2 if chunked else 1)]
    legs = []
    for number in range(draw(st.integers(2, 3))):
        rankings = {}
        for query in "pqr":
            ids = tuple(draw(st.lists(st.sampled_from(units), unique=True, max_size=9)))
            given_scores = sorted((draw(scores) for _ in ids), reverse=True)
            items = tuple(unit[0] for unit in ids) if chunked else ()
            rankings[query] = Ranking(ids, tuple(given_scores), items)
        legs.append(LegRankings(f"leg {number}", LEG, 9, rankings))
    grades = {query: draw(st.dictionaries(st.sampled_from("abcdefgz"), st.integers(0, 3))) for query in "pqr"}
    grades["p"]["a"] = 2
    return legs, QuerySplit("test", {query: Query(query, query) for query in "pqr"}, grades)


fusion = st.sampled_from(
    [
        RrfFusion(),
        RrfFusion(k=0, absent="bottom_rank"),
        RrfFusion(absent="drop"),
        RbcFusion(),
        LinearFusion(),
        LinearFusion(normalize="zscore", absent="least"),
        LinearFusion(normalize="dbsf"),
        LinearFusion(normalize="bounds"),
        LinearFusion(normalize="none", absent="drop"),
    ]
)
cuts = st.builds(
    ResultCut,
    depth=st.sampled_from([None, 2, 4]),
    fused_depth=st.sampled_from([None, 3]),
    rollup=st.sampled_from([None, Rollup()]),
    min_score=st.sampled_from([-math.inf, 0.0, 0.4]),
)


def _held_against_search(
    legs: list[LegRankings], split: QuerySplit, fusion: Fusion, cut: ResultCut, steps: int = 4
) -> None:
    places = surface_ranks(legs, split, fusion, steps=steps, cut=cut)
    surfaces = {metric: places.surface(metric) for metric in METRICS}
    grid = surfaces["ndcg"].grid
    weights = [*(grid / steps).tolist(), [1.0] * len(legs)]
    for point, given_weights in enumerate(weights):
        rankings = fuse_all(legs, fusion, given_weights, cut)
        wanted = scoring.score_rankings(split.grades, rankings, METRICS)
        for metric, surface in surfaces.items():
            values = surface.values[point] if point < len(grid) else surface.untuned
            assert surface.queries == wanted.queries
            assert values == pytest.approx(wanted.row(metric), abs=1e-9)


@pytest.mark.slow
@examples(25)
@given(given_collection=collections(chunked=False), fusion=fusion, cut=cuts)
def test_every_point_scores_as_a_search_with_its_weights_does(given_collection, fusion, cut):
    legs, split = given_collection
    _held_against_search(legs, split, fusion, replace(cut, rollup=None))


@pytest.mark.slow
@examples(25)
@given(given_collection=collections(chunked=True), fusion=fusion, cut=cuts)
def test_chunks_are_scored_by_their_items(given_collection, fusion, cut):
    legs, split = given_collection
    _held_against_search(legs, split, fusion, cut)


def planted(queries: int = 60, items: int = 300, depth: int = 100, noise: tuple[float, ...] = (0.5, 1.0, 2.0)):
    """Legs that see an item's worth through more and more noise."""
    random = np.random.default_rng(0)
    ids = [f"q{number:03}" for number in range(queries)]
    grades = {q: {f"d{item}": 1 for item in random.choice(items, 4, replace=False)} for q in ids}
    rankings: list[dict[str, Ranking]] = [{} for _ in noise]
    for query in ids:
        worth = np.array([2.0 if f"d{item}" in grades[query] else 0.0 for item in range(items)])
        for leg, amount in enumerate(noise):
            scores = worth + amount * random.normal(size=items)
            best = np.argsort(-scores, kind="stable")[:depth]
            rankings[leg][query] = Ranking(tuple(f"d{item}" for item in best), tuple(scores[best].tolist()))
    legs = [LegRankings(f"leg {leg}", LEG, depth, found) for leg, found in enumerate(rankings)]
    return legs, QuerySplit("test", {query: Query(query, query) for query in ids}, grades)


@pytest.mark.parametrize("fusion", [RrfFusion(), LinearFusion()])
def test_candidates_by_the_hundred_and_points_in_blocks_change_nothing(fusion):
    legs, split = planted(queries=6, items=600, depth=200)
    whole = sweep(legs, split, fusion, steps=6)
    assert (surface_ranks(legs, split, fusion, steps=6, cells=1500).surface("ndcg@10").values == whole.values).all()
    for point in (0, 5, 13, 27):
        ranked = fuse_all(legs, fusion, list(whole.leg_weights(point).values()))
        wanted = scoring.score_rankings(split.grades, ranked, ["ndcg@10"]).of("ndcg@10")
        assert whole.values[point] == pytest.approx([wanted[query] for query in whole.queries], abs=1e-12)


def test_queries_are_taken_in_parts_and_it_changes_nothing():
    legs, split = planted(queries=QUERIES + 3, items=40, depth=10)
    whole, last = sweep(legs, split, LinearFusion(), steps=3), set(list(split.queries)[-5:])
    part = [replace(leg, rankings={query: leg.rankings[query] for query in last}) for leg in legs]
    few = sweep(part, split.only(last), LinearFusion(), steps=3)
    assert few.queries == whole.queries[-5:]
    assert (few.values == whole.values[:, -5:]).all()
    assert (few.untuned == whole.untuned[-5:]).all()
    assert few.values.any()


def test_a_query_that_a_leg_failed_to_answer_scores_nothing_anywhere():
    legs, split = planted(queries=4)
    gone = dict(legs[0].rankings)
    del gone["q002"]
    legs[0] = LegRankings("leg 0", LEG, 100, gone, failures={"q002": "the endpoint is down"})
    surface = sweep(legs, split, RrfFusion(), steps=3)
    assert surface.queries == ("q000", "q001", "q002", "q003")
    assert not surface.of_query("q002").any()
    assert surface.of_query("q001").any()


def test_a_labelled_query_that_was_not_run_is_no_failure_but_a_mistake():
    legs, split = planted(queries=4)
    part = [LegRankings(legs[0].name, LEG, 100, dict(list(legs[0].rankings.items())[:3])), *legs[1:]]
    with pytest.raises(InputError, match="1 of 4 labelled queries were not run, 'q003'"):
        sweep(part, split, RrfFusion(), steps=3)
    assert sweep(part, split.only({"q000", "q001"}), RrfFusion(), steps=3).queries == ("q000", "q001")


@pytest.mark.parametrize(
    ("fusion", "metric", "cut", "words"),
    [
        (BordaFusion(), "ndcg@10", ResultCut(), "linear, rbc, rrf"),
        (CombSumFusion(), "ndcg@10", ResultCut(), "linear, rbc, rrf"),
        (RrfFusion(weighted=False), "ndcg@10", ResultCut(), "told to ignore weights"),
        (RrfFusion(), "bpref", ResultCut(), "metric of a weight surface"),
        (RrfFusion(), "precision", ResultCut(), "needs a cut-off"),
        (RrfFusion(), "ndcg@10", ResultCut(rollup=Rollup(method="sum")), "by their best one"),
    ],
)
def test_what_has_no_surface_is_refused_in_words(fusion, metric, cut, words):
    legs, split = planted(queries=2)
    with pytest.raises(SpecError, match=words):
        sweep(legs, split, fusion, metric=metric, cut=cut)


def test_a_metric_that_looks_deeper_than_the_sweep_went_is_refused():
    legs, split = planted(queries=2)
    with pytest.raises(SpecError, match="Sweep deeper"):
        surface_ranks(legs, split, RrfFusion(), steps=2, deepest=10).surface("ndcg@20")


def test_a_split_without_a_relevant_item_is_refused():
    legs, split = planted(queries=2)
    unlabelled = QuerySplit("test", split.queries, {"q000": {"d1": 0}})
    with pytest.raises(InputError, match="no ranking can score"):
        sweep(legs, unlabelled, RrfFusion())


# Reading a surface


def surface_of(values: list[list[float]], weights: list[float] | None = None, steps: int = 2) -> Surface:
    grid = tuning_surface.points(2, steps)
    queries = len(values[0])
    names = tuple(f"q{number}" for number in range(queries))
    given_weights = np.array(weights or [1.0] * queries)
    scores = np.array(values)
    kinds = ("",) * queries
    return Surface(
        ("one", "two"), RrfFusion(), steps, grid, names, given_weights, kinds, "mrr@1", scores, scores[len(scores) // 2]
    )


def test_the_best_point_is_that_of_the_highest_weighted_mean():
    assert surface_of([[1, 0], [0, 0], [0, 0.9]]).best == 0
    assert surface_of([[1, 0], [0, 0], [0, 0.9]], [1, 3]).best == 2
    assert surface_of([[1, 0], [0, 0], [0, 0.9]], [1, 3]).means == pytest.approx([0.25, 0, 0.675])


def test_of_equal_points_the_nearest_to_the_centre_is_the_best_then_the_first():
    assert surface_of([[1, 0], [0.5, 0.5], [0, 1]]).best == 1
    assert surface_of([[1, 0], [0, 0], [0, 1]]).best == 0
    thirds = [[1 / 3, 1 / 3, 1 / 3], [0.1 + 0.2, 0.3, 0.4], [0.4, 0.3, 0.3]]  # equal but for rounding
    assert surface_of(thirds).best == 1


def test_a_points_weights_are_shares_of_the_steps():
    assert surface_of([[0]] * 21, steps=20).leg_weights(13) == {"one": 0.65, "two": 0.35}


def test_the_oracle_takes_each_query_at_its_best():
    oracle = surface_of([[1, 0], [0, 0], [0, 0.9]], [1, 3]).oracle()
    assert oracle.points.tolist() == [0, 2]
    assert oracle.mean == pytest.approx((1 + 3 * 0.9) / 4)
    assert oracle.headroom == pytest.approx(oracle.mean - 0.675)


def test_one_querys_view_is_its_column():
    assert surface_of([[1, 0], [0, 0], [0, 0.9]]).of_query("q1").tolist() == [0, 0, 0.9]
    with pytest.raises(UnknownName):
        surface_of([[1], [0], [0]]).of_query("q7")


def test_points_that_differ_by_luck_are_tied_and_those_far_off_are_not():
    random = np.random.default_rng(0)
    base = random.random(100)
    lucky = base + random.normal(0, 0.1, 100) - 0.005
    surface = surface_of([(base - 0.2).tolist(), base.tolist(), lucky.tolist()])
    assert surface.tied().tolist() == [False, True, True]
    assert (surface.tied(seed=1) == surface.tied(seed=1)).all()


def test_a_surface_knows_its_queries_texts():
    legs, split = planted(queries=3)
    assert sweep(legs, split, RrfFusion(), steps=2).texts == ("q000", "q001", "q002")
