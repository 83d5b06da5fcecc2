"""Tuning: it finds what is there, shows nothing where nothing is, and says when it cannot tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from core.errors import InputError, SpecError
from core.fusion import LinearFusion, RrfFusion
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.routing import Routing
from core.types import Query
from core.variant import Variant
from evals.runs.rankings import LegRankings, Ranking
from evals.statistics import crossfit
from evals.tuning import surface as tuning_surface
from evals.tuning.surface import Surface
from evals.tuning.sweep import sweep
from evals.tuning.tuner import TuningProcedure, classify_queries, tune
from evals.types import QuerySplit

NAMES = ("vector", "fulltext", "bm25")
QUICK = TuningProcedure(repeats=3)
BASE = Variant(name="hybrid", legs=(VectorLeg(), FulltextLeg(), Bm25Leg()))


def surface(
    values: np.ndarray, *, steps: int, kinds: tuple[str, ...] | None = None, fusion=None, weights=None
) -> Surface:
    """A made-up surface of three legs; untuned is the point nearest to the centre."""
    grid = tuning_surface.points(3, steps)
    queries = values.shape[1]
    return Surface(
        legs=NAMES,
        fusion=fusion or RrfFusion(),
        steps=steps,
        grid=grid,
        queries=tuple(f"q{number:03}" for number in range(queries)),
        weights=np.ones(queries) if weights is None else weights,
        kinds=kinds or ("",) * queries,
        metric="ndcg@10",
        values=values,
        untuned=values[int(tuning_surface.from_centre(grid).argmin())],
    )


def hill(top: tuple[int, int, int], queries: int, *, steps: int = 10, steep: float = 0.1, seed: int = 0) -> np.ndarray:
    """Scores that fall off from a point of the simplex, with noise that every query has at every point."""
    random = np.random.default_rng(seed)
    grid = tuning_surface.points(3, steps)
    away = np.abs(grid - np.array(top)).sum(axis=1) / 2
    hardness = random.normal(0, 0.2, queries)
    made: np.ndarray = 0.5 + hardness - steep * away[:, None] + random.normal(0, 0.05, (len(grid), queries))
    return made


# Chance and truth


def shuffled(seed: int, queries: int = 80) -> Surface:
    """Real rankings, and labels that belong to other queries."""
    random = np.random.default_rng(seed)
    ids = [f"q{number:03}" for number in range(queries)]
    rankings: list[dict[str, Ranking]] = [{} for _ in NAMES]
    for found in rankings:
        for query in ids:
            items = random.permutation(60)[:30]
            found[query] = Ranking(
                tuple(f"d{item}" for item in items), tuple(np.sort(random.random(30))[::-1].tolist())
            )
    legs = [LegRankings(name, leg, 30, found) for name, leg, found in zip(NAMES, BASE.legs, rankings, strict=True)]
    grades = {query: {f"d{item}": 1 for item in random.permutation(60)[:3]} for query in ids}
    split = QuerySplit("test", {query: Query(query, query) for query in ids}, grades)
    return sweep(legs, split, LinearFusion(), steps=8)


@pytest.mark.slow
def test_shuffled_labels_show_no_cross_fitted_gain_though_the_in_sample_best_does():
    gains, promises = [], []
    for seed in range(40):
        tuned = tune(shuffled(seed), QUICK)
        untuned = float(tuned.untuned.mean())
        gains.append(tuned.cross_fitted - untuned)
        promises.append(tuned.in_sample - untuned)
    error = float(np.std(gains, ddof=1)) / len(gains) ** 0.5
    assert np.mean(gains) < 2 * error
    assert np.mean(promises) > 0.02
    assert np.mean(promises) > np.mean(gains) + 5 * error
    assert min(promises) >= 0


def test_choosing_among_many_surfaces_of_noise_is_cross_fitted_too():
    gains, promises = [], []
    for seed in range(20):
        random = np.random.default_rng(seed)
        many = [surface(random.normal(0.4, 0.2, (21, 60)), steps=5) for _ in range(6)]
        tuned = tune(many, QUICK)
        gains.append(tuned.cross_fitted - 0.4)
        promises.append(tuned.in_sample - 0.4)
    assert abs(np.mean(gains)) < 3 * np.std(gains, ddof=1) / len(gains) ** 0.5
    assert min(promises) > 0.03


def test_a_planted_best_weight_is_found_and_its_gain_with_it():
    tuned = tune(surface(hill((7, 2, 1), 100), steps=10))
    assert tuned.chosen.weights == {"vector": 0.7, "fulltext": 0.2, "bm25": 0.1}
    assert tuned.spread == {"vector": (0.7, 0.7, 0.7), "fulltext": (0.2, 0.2, 0.2), "bm25": (0.1, 0.1, 0.1)}
    gain = tuned.gain
    assert gain is not None
    assert 0 < gain.low < gain.value < gain.high
    assert tuned.verdict.startswith("Tuning is worth it beside vector alone: +")
    assert tuned.optimism == pytest.approx(0, abs=0.01)


def test_where_nothing_is_to_be_gained_the_verdict_says_so_about_as_often_as_stated():
    procedure = TuningProcedure(repeats=3, samples=400)
    verdicts = []
    for seed in range(80):
        values = 0.4 + np.random.default_rng(seed).normal(0, 0.05, (21, 100))
        verdicts.append(tune(surface(values, steps=5), procedure).verdict)
    told = [verdict for verdict in verdicts if "are too close to tell" not in verdict]
    assert len(told) <= 10  # 4 are stated; more than 10 have a chance of 0.3%


def test_a_loss_on_unseen_queries_is_called_harm():
    tuned = tune(surface(hill((7, 2, 1), 100), steps=10), QUICK)
    worse = replace(tuned, untuned=tuned.held_out + np.linspace(0.01, 0.03, 100))
    assert worse.verdict.startswith("Tuning does harm: -0.02")


def test_weights_that_are_expected_to_lose_are_made_only_if_asked_even_so():
    tuned = tune(surface(hill((7, 2, 1), 100), steps=10), QUICK)
    worse = replace(tuned, untuned=tuned.held_out + np.linspace(0.01, 0.03, 100))
    with pytest.raises(SpecError, match=r"expected to lose 0\.02.* against vector alone\. .*--even-so"):
        worse.variant(BASE)
    assert worse.variant(BASE, even_so=True).legs[0].weight == 0.7


def test_tuning_is_held_against_the_best_of_equal_weights_and_single_legs():
    """Where one leg is far ahead, tuning gains much beside equal weights, and nothing beside that leg."""
    given = surface(hill((0, 0, 10), 100), steps=10)
    tuned = tune(given, QUICK)
    assert tuned.simple.name == "bm25 alone"
    assert tuned.simple.mean == pytest.approx(given.values[simplex_place(given, (0, 0, 10))].mean())
    assert tuned.simple.mean > given.untuned.mean() + 0.3
    assert "are too close to tell" in tuned.verdict
    assert tuned.gain is not None
    assert tuned.gain.value == pytest.approx(0, abs=0.01)


def simplex_place(given: Surface, point: tuple[int, int, int]) -> int:
    return next(row for row, each in enumerate(given.grid.tolist()) if tuple(each) == point)


def test_of_several_fusions_the_best_is_chosen():
    flat = surface(np.full((66, 100), 0.3), steps=10, fusion=RrfFusion(k=10))
    good = surface(hill((5, 5, 0), 100), steps=10, fusion=LinearFusion(normalize="dbsf"))
    tuned = tune([flat, good], QUICK)
    assert (tuned.chosen.surface, tuned.chosen.fusion) == (1, LinearFusion(normalize="dbsf"))
    assert tuned.votes == {1: 15}
    assert (tuned.untuned == flat.untuned).all()


def test_the_same_seed_gives_the_same_result_and_another_deals_otherwise():
    given = surface(hill((4, 4, 2), 60, steep=0.002), steps=10)
    one, two, other = tune(given), tune(given), tune(given, TuningProcedure(seed=1))
    assert (one.held_out == two.held_out).all()
    assert (one.folds, one.gain) == (two.folds, two.gain)
    assert not (one.held_out == other.held_out).all()


def test_shown_bare_it_is_short_and_says_what_was_chosen():
    given = surface(hill((7, 2, 1), 100), steps=10, kinds=KINDS)
    tuned = tune(given, QUICK, kinds=dict(zip(given.queries, KINDS, strict=True)))
    assert "weights={'vector': 0.7" in repr(tuned)
    assert "metric='ndcg@10'" in repr(given)
    assert all(len(repr(each)) < 1000 for each in (tuned, given, given.oracle()))


def test_a_query_counts_by_its_weight():
    values = hill((10, 0, 0), 60)
    values[:, 30:] = hill((0, 0, 10), 60)[:, 30:]
    for heavy, leg in ((slice(0, 30), "vector"), (slice(30, 60), "bm25")):
        weights = np.ones(60)
        weights[heavy] = 5
        assert tune(surface(values, steps=10, weights=weights), QUICK).chosen.weights[leg] == 1.0


# Folds


def test_every_query_is_held_out_once_a_repeat_and_kinds_are_dealt_evenly():
    kinds = ("a",) * 13 + ("b",) * 7 + ("c",) * 2
    dealt = crossfit.folds(kinds, 5, 3, seed=0)
    for repeat in dealt:
        assert sorted(np.bincount(repeat, minlength=5)) == [4, 4, 4, 5, 5]
        for kind in "abc":
            counts = np.bincount(repeat[np.array(kinds) == kind], minlength=5)
            assert counts.max() - counts.min() <= 1
    assert not (dealt[0] == dealt[1]).all()


def test_a_querys_score_never_comes_from_a_choice_it_had_a_part_in():
    """One query that alone loves a point cannot get it: without it nobody chooses that point."""
    values = np.tile(np.linspace(0.5, 0.4, 66)[:, None], (1, 20))
    values[65, 3] = 100.0
    tuned = tune(surface(values, steps=10))
    assert tuned.chosen.point == 65
    assert tuned.held_out[3] == pytest.approx(0.5)


# Kinds


KINDS = tuple("question" if query % 2 else "keyword" for query in range(100))


def two_hills() -> np.ndarray:
    words, questions = hill((2, 2, 6), 100, seed=1), hill((8, 1, 1), 100, seed=2)
    return np.where(np.array(KINDS) == "question", questions, words)


def test_kinds_that_differ_get_their_own_weights_and_gain_by_them():
    given = surface(two_hills(), steps=10, kinds=KINDS)
    tuned = tune(given, QUICK, kinds=dict(zip(given.queries, KINDS, strict=True)))
    assert tuned.kinds is not None
    weights = {kind: given.leg_weights(point) for kind, point in tuned.kinds.points.items()}
    assert weights["question"]["vector"] == 0.8
    assert weights["keyword"]["bm25"] == 0.6
    assert tuned.kinds.pull < 5
    assert tuned.kinds.held_out.mean() > tuned.cross_fitted + 0.1


def test_kinds_that_differ_only_in_how_hard_they_are_keep_to_the_weights_for_all():
    harder = np.where(np.array(KINDS) == "question", -0.3, 0.0)
    given = surface(hill((7, 2, 1), 100, steep=0.02) + harder, steps=10, kinds=KINDS)
    tuned = tune(given, QUICK, kinds=dict(zip(given.queries, KINDS, strict=True)))
    assert tuned.kinds is not None
    assert tuned.kinds.pull > 20
    assert set(tuned.kinds.points.values()) == {tuned.chosen.point}
    assert tuned.kinds.held_out == pytest.approx(tuned.held_out)


def test_a_rare_kind_is_pulled_towards_the_weights_for_all_as_told():
    kinds = ("question",) * 97 + ("keyword",) * 3
    values = hill((7, 2, 1), 100)
    values[:, 97:] = hill((0, 0, 10), 100)[:, 97:]
    given = surface(values, steps=10)
    by_id = dict(zip(given.queries, kinds, strict=True))
    pulled, alone = (tune(given, TuningProcedure(repeats=1, pull=pull), kinds=by_id).kinds for pull in (1000.0, 0.0))
    assert pulled is not None
    assert alone is not None
    assert given.leg_weights(pulled.points["keyword"])["vector"] == 0.7
    assert given.leg_weights(alone.points["keyword"])["bm25"] == 1.0


def test_a_querys_score_with_weights_by_kind_never_comes_from_a_choice_it_had_a_part_in():
    values = np.tile(np.linspace(0.5, 0.4, 66)[:, None], (1, 20))
    values[65, 3] = 100.0
    given = surface(values, steps=10)
    kinds = {query: KINDS[at] for at, query in enumerate(given.queries)}
    found = tune(given, TuningProcedure(pull=0.0), kinds=kinds).kinds
    assert found is not None
    assert found.points["question"] == 65
    assert found.held_out[3] == pytest.approx(0.5)


def test_weights_by_kind_show_no_cross_fitted_gain_where_kinds_are_chance():
    gains, promises = [], []
    for seed in range(30):
        given = surface(np.random.default_rng(seed).normal(0.4, 0.2, (21, 60)), steps=5)
        kinds = {query: KINDS[at] for at, query in enumerate(given.queries)}
        found = tune(given, TuningProcedure(repeats=3, pull=0.0), kinds=kinds).kinds
        assert found is not None
        gains.append(found.held_out.mean() - 0.4)
        promises.append(found.in_sample - 0.4)
    assert abs(np.mean(gains)) < 3 * np.std(gains, ddof=1) / len(gains) ** 0.5
    assert min(promises) > 0.03


def test_the_pull_is_the_same_however_weights_are_scaled_and_passes_over_queries_that_weigh_nothing():
    values = two_hills()
    plain = crossfit.pull(values, KINDS)
    assert crossfit.pull(values, KINDS, np.full(100, 7.0)) == pytest.approx(plain)
    wild = np.concatenate([values, np.random.default_rng(5).normal(9, 3, (len(values), 20))], axis=1)
    weights = np.concatenate([np.ones(100), np.zeros(20)])
    assert crossfit.pull(wild, (*KINDS, *KINDS[:20]), weights) == pytest.approx(plain)
    assert crossfit.pull(values, KINDS, np.r_[np.ones(1), np.zeros(99)]) == np.inf


def test_the_pull_of_weighted_queries_is_what_was_planted():
    """Each option another draw: kinds that differ by 0.3, queries by 0.6, so that four queries are trusted half."""
    random = np.random.default_rng(0)
    kinds = tuple(str(query % 20) for query in range(200))
    between = random.normal(0, 0.3, (3000, 20))[:, [int(kind) for kind in kinds]]
    values = between + random.normal(0, 0.6, (3000, 200))
    for weights in (None, np.where(np.arange(200) < 60, 9.0, 1.0)):
        assert crossfit.pull(values, kinds, weights) == pytest.approx(4, rel=0.1)


def test_queries_of_one_text_are_never_on_both_sides_of_a_fold():
    texts = [f"query {at}" for at in range(30)]
    doubles = [*texts, "Query  7", "QUERY 7 ", "query\u00a08"]
    kinds = ("",) * len(doubles)
    for fold_of in crossfit.folds(kinds, 5, 20, 0, doubles):
        assert fold_of[7] == fold_of[30] == fold_of[31]
        assert fold_of[8] == fold_of[32]
        assert set(np.bincount(fold_of[:30])) == {6}
    assert (crossfit.folds(("",) * 30, 5, 3, 0, texts) == crossfit.folds(("",) * 30, 5, 3, 0)).all()


def test_a_querys_double_has_no_part_in_the_choice_that_scores_it():
    """One text asked five times over, that a single point suits: nothing but itself says so."""
    values = np.tile(np.linspace(0.5, 0.4, 66)[:, None], (1, 20))
    values[65, :5] = 100.0
    texts = ("the same",) * 5 + tuple(f"another {at}" for at in range(15))
    apart, alone = (tune(replace(surface(values, steps=10), texts=each)) for each in (texts, None))
    assert apart.held_out[:5] == pytest.approx([0.5] * 5)
    assert alone.held_out[:5].max() == pytest.approx(100)


def test_queries_that_are_all_one_leave_none_to_score_by():
    given = replace(surface(np.zeros((66, 4)), steps=10), texts=("same", "Same", " same", "same "))
    with pytest.raises(InputError, match="All 4 labelled queries have the same text"):
        tune(given)
    few = tune(replace(surface(hill((7, 2, 1), 6), steps=10), texts=("a", "a", "a", "b", "b", "c")), QUICK)
    assert len(few.folds) == 3 * QUICK.repeats


def test_queries_without_a_kind_have_the_weights_for_all():
    given = surface(hill((7, 2, 1), 60), steps=10)
    tuned = tune(given, QUICK, kinds={})
    assert tuned.kinds is not None
    assert tuned.kinds.points == {}
    assert (tuned.kinds.held_out == tuned.held_out).all()
    assert tuned.kinds.in_sample == tuned.in_sample


def test_kinds_can_be_those_that_a_search_would_see():
    split = QuerySplit("test", {"a": Query("a", "how do bees fly?"), "b": Query("b", "FL-4021")})
    assert classify_queries(split) == {"a": "question", "b": "identifier"}


# Too few labels


def test_fewer_labels_than_wanted_are_too_few_whatever_they_promise():
    tuned = tune(surface(hill((7, 2, 1), 20), steps=10))
    assert tuned.gain is None
    assert tuned.verdict.startswith("Too few labels to tune: they are worth 20 queries, and 50 are wanted.")


def test_a_few_heavy_queries_are_few_labels():
    weights = np.array([1000.0] * 5 + [1.0] * 95)
    assert "worth 5 queries" in tune(surface(hill((7, 2, 1), 100), steps=10, weights=weights)).too_few


def test_labels_that_could_only_show_a_large_gain_are_too_few():
    random = np.random.default_rng(0)
    tuned = tune(surface(random.random((66, 60)), steps=10))
    assert tuned.gain is None
    assert "only a gain above" in tuned.too_few


def test_one_query_leaves_none_to_score_by():
    with pytest.raises(InputError, match="Label at least two"):
        tune(surface(np.zeros((66, 1)), steps=10))


def test_tuning_is_held_against_equal_weights_under_every_fusion_that_is_on_offer():
    made = surface(hill((7, 2, 1), 60), steps=10)
    better = replace(made, fusion=LinearFusion(), untuned=made.values.max(axis=0) + 0.01)
    assert tune(made, QUICK).loss == ""
    tuned = tune(made, QUICK, offered=[better])
    assert tuned.simple.name == "equal weights under linear, minmax"
    equal = tuned.equal_weights(BASE, "equal")
    assert (equal.fusion, {leg.weight for leg in equal.legs}) == (LinearFusion(), {1.0})
    assert "Keep equal weights under linear, minmax." in tuned.verdict
    with pytest.raises(SpecError, match="expected to lose"):
        tuned.variant(BASE)


def test_weights_by_kind_that_are_expected_to_lose_are_refused_unless_asked_for_even_so():
    made = surface(hill((7, 2, 1), 60), steps=10, kinds=("question", "keyword") * 30)
    tuned = tune(made, QUICK, kinds=dict(zip(made.queries, made.kinds, strict=True)))
    assert tuned.kinds is not None
    worse = replace(tuned, kinds=replace(tuned.kinds, held_out=tuned.kinds.held_out - 1))
    assert (worse.refusal(), worse.variant(BASE).name) == ("", "hybrid, tuned")
    with pytest.raises(SpecError, match="weights by kind are expected to lose"):
        worse.variant(BASE, per_kind=True)
    assert worse.variant(BASE, per_kind=True, even_so=True).route is not None


def test_surfaces_of_other_queries_or_steps_are_not_chosen_among():
    with pytest.raises(SpecError, match="the same queries"):
        tune([surface(np.zeros((66, 3)), steps=10), surface(np.zeros((66, 4)), steps=10)])
    with pytest.raises(SpecError, match="the same steps"):
        tune([surface(np.zeros((66, 3)), steps=10), surface(np.zeros((21, 3)), steps=5)])


# A variant


def test_the_result_becomes_a_variant_with_its_weights_and_fusion():
    tuned = tune(surface(hill((7, 2, 1), 100), steps=10, fusion=LinearFusion(normalize="zscore")))
    made = tuned.variant(BASE.but(route=Routing(weights={"keyword": {"bm25": 3.0}})))
    assert [leg.weight for leg in made.legs] == [0.7, 0.2, 0.1]
    assert (made.name, made.fusion, made.route) == ("hybrid, tuned", LinearFusion(normalize="zscore"), None)
    assert Variant.from_toml(made.to_toml()) == made


def test_weights_by_kind_become_its_routing():
    given = surface(two_hills(), steps=10, kinds=KINDS)
    tuned = tune(given, QUICK, kinds=dict(zip(given.queries, KINDS, strict=True)))
    route = tuned.variant(BASE, per_kind=True).route
    assert route is not None
    assert route.weights["question"] == {"vector": 0.8, "fulltext": 0.1, "bm25": 0.1}
    assert set(route.weights) == {"question", "keyword"}


def test_kinds_that_no_classifier_knows_make_no_routing():
    given = surface(hill((7, 2, 1), 60), steps=10)
    tuned = tune(given, QUICK, kinds=dict.fromkeys(given.queries, "factoid"))
    with pytest.raises(SpecError, match="No classifier tells the kind 'factoid'"):
        tuned.variant(BASE, per_kind=True)
    with pytest.raises(SpecError, match="were not tuned"):
        tune(given, QUICK).variant(BASE, per_kind=True)


def test_too_few_labels_make_a_variant_only_if_asked_even_so():
    tuned = tune(surface(hill((7, 2, 1), 20), steps=10))
    with pytest.raises(SpecError, match="even_so"):
        tuned.variant(BASE)
    assert tuned.variant(BASE, even_so=True).legs[0].weight == 0.7


def test_a_variant_of_other_legs_is_refused():
    tuned = tune(surface(hill((7, 2, 1), 60), steps=10), QUICK)
    with pytest.raises(SpecError, match="weights were tuned for vector, fulltext, bm25"):
        tuned.variant(Variant(name="other", legs=(VectorLeg(), Bm25Leg())))
