"""Metrics: their names, their values against trec_eval, and each known difference from it and from bare ranx."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import log2
from typing import Any

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, SpecError, UnknownName
from evals.measures import MEASURES, Metric
from evals.metrics.scoring import Ranked as RankedIds
from evals.metrics.scoring import mean, score_rankings
from evals.runs.rankings import Ranking
from evals.types import Grades
from tests.effort import examples

PerQuery = dict[str, dict[str, float]]
Run = Mapping[str, Mapping[str, float]]
TREC = {
    "ndcg": "ndcg",
    "ndcg@3": "ndcg_cut_3",
    "map": "map",
    "map@3": "map_cut_3",
    "mrr": "recip_rank",
    "recall": "set_recall",
    "recall@3": "recall_3",
    "precision": "set_P",
    "precision@3": "P_3",
    "f1": "set_F",
    "hits": "num_rel_ret",
    "hit_rate@3": "success_3",
    "r-precision": "Rprec",
    "bpref": "bpref",
}
IDS = [f"d{number}" for number in range(12)]
labels = st.dictionaries(st.sampled_from(IDS), st.integers(0, 3), min_size=1, max_size=10)
labelled = labels.filter(lambda given: any(given.values()))
hits = st.dictionaries(st.sampled_from(IDS), st.integers(0, 4), min_size=1)  # few scores: ties
quick = examples(60)


def by_trec_eval(grades: Grades, run: Run, names: Sequence[str] = tuple(TREC), level: int = 1) -> PerQuery:
    asked = {TREC[name].rsplit("_", 1)[0] if "@" in name else TREC[name] for name in names}
    cut = {
        f"{measure}.3" if measure in ("ndcg_cut", "map_cut", "recall", "P", "success") else measure for measure in asked
    }
    found = pytrec_eval.RelevanceEvaluator(grades, cut, relevance_level=level).evaluate(run)
    return {query: {name: found[query][TREC[name]] for name in names} for query in found}


def as_trec_eval_orders(scored: Mapping[str, int]) -> list[str]:
    return sorted(scored, key=lambda item: (scored[item], item), reverse=True)


def ours(grades: Grades, ranked: RankedIds, names: Sequence[str] = tuple(TREC)) -> PerQuery:
    found = score_rankings(grades, ranked, names)
    return {query: {name: found.of(name)[query] for name in names} for query in found.queries}


def close(value: Any) -> Any:
    return pytest.approx(value, abs=1e-9)


# Against trec_eval


@pytest.mark.slow
@quick
@given(st.lists(st.tuples(labelled, hits), min_size=1, max_size=4))
def test_values_are_trec_evals_on_graded_partly_judged_rankings_with_ties_in_its_order(queries):
    grades = {f"q{number}": given for number, (given, _) in enumerate(queries)}
    run = {f"q{number}": found for number, (_, found) in enumerate(queries)}
    expected = by_trec_eval(grades, run)
    found = ours(grades, {query: as_trec_eval_orders(scored) for query, scored in run.items()})
    assert found == {query: close(values) for query, values in expected.items()}


@quick
@given(labelled, hits, st.integers(1, 3))
def test_a_least_grade_is_trec_evals_relevance_level_except_for_ndcg(given, scored, least):
    names = [name for name in TREC if not name.startswith("ndcg")]
    expected = by_trec_eval({"q": given}, {"q": scored}, names, least)["q"]
    found = ours({"q": given}, {"q": as_trec_eval_orders(scored)}, [f"{name}:min{least}" for name in names])["q"]
    assert list(found.values()) == close(list(expected.values()))


@quick
@given(labelled, hits)
def test_exponential_gain_is_trec_evals_ndcg_over_grades_that_are_the_gain(given, scored):
    gains = {item: 2**grade - 1 for item, grade in given.items()}
    expected = by_trec_eval({"q": gains}, {"q": scored}, ["ndcg", "ndcg@3"])["q"]
    found = score_rankings({"q": given}, {"q": as_trec_eval_orders(scored)}, ["ndcg_exp", "ndcg_exp@3"])
    assert found.values[:, 0].tolist() == close(list(expected.values()))


@pytest.mark.slow
@quick
@given(labelled, hits)
def test_a_cut_off_that_trec_eval_lacks_is_its_value_for_the_ranking_cut_there(given, scored):
    names = ["mrr", "hits", "r-precision", "bpref"]
    order = as_trec_eval_orders(scored)
    expected = by_trec_eval({"q": given}, {"q": {item: scored[item] for item in order[:3]}}, names)["q"]
    found = score_rankings({"q": given}, {"q": order}, [f"{name}@3" for name in names])
    assert found.values[:, 0].tolist() == close(list(expected.values()))


def test_difference_trec_eval_breaks_ties_by_id_descending_and_ours_keeps_the_order_given():
    grades, tied = {"q": {"a": 1}}, {"q": {"a": 1.0, "b": 1.0}}
    assert by_trec_eval(grades, tied, ["mrr"])["q"]["mrr"] == 0.5
    assert score_rankings(grades, {"q": Ranking(("a", "b"), (1.0, 1.0))}, ["mrr"]).of("mrr") == {"q": 1.0}


def test_difference_trec_eval_leaves_out_what_the_run_lacks_and_ours_scores_it_0():
    grades = {"found": {"a": 1}, "missing": {"a": 1}, "empty": {"a": 1}}
    run = {"found": {"a": 1.0}}
    assert set(by_trec_eval(grades, run)) == {"found"}
    found = ours(grades, {"found": ["a"], "empty": []})
    assert found == {
        "found": by_trec_eval(grades, run)["found"],
        **dict.fromkeys(("missing", "empty"), dict.fromkeys(TREC, 0)),
    }


def test_difference_trec_eval_scores_a_query_without_a_relevant_item_and_ours_passes_it_over():
    grades, run = {"q": {"a": 0}}, {"q": {"a": 1.0}}
    assert by_trec_eval(grades, run, ["map"])["q"]["map"] == 0.0
    assert ours(grades, {"q": ["a"]}) == {}


def test_difference_negative_grades_are_judged_not_relevant_and_trec_eval_keeps_them_out_of_bpref():
    grades, order = {"q": {"junk": -2, "a": 1, "b": 0}}, ["junk", "a"]
    run = {"q": {"junk": 2.0, "a": 1.0}}
    same = [name for name in TREC if name != "bpref"]
    assert ours(grades, {"q": order}, same)["q"] == close(by_trec_eval(grades, run, same)["q"])
    assert by_trec_eval(grades, run, ["bpref"])["q"]["bpref"] == 1.0
    assert score_rankings(grades, {"q": order}, ["bpref"]).of("bpref") == {"q": 0.0}


def test_difference_a_least_grade_takes_lower_gains_out_of_ndcg_and_trec_evals_level_does_not():
    grades, order, run = {"q": {"a": 1, "b": 2}}, ["a", "b"], {"q": {"a": 2.0, "b": 1.0}}
    assert by_trec_eval(grades, run, ["ndcg"], level=2) == by_trec_eval(grades, run, ["ndcg"], level=1)
    assert score_rankings(grades, {"q": order}, ["ndcg:min2"]).of("ndcg:min2") == {"q": close(1 / log2(3))}


# Against the definitions, where trec_eval has nothing


def test_values_that_trec_eval_has_not_follow_their_formula():
    grades, ranked = {"q": {"a": 3, "b": 1, "c": 0, "z": 2}}, {"q": ["b", "x", "a", "c"]}
    names = ["dcg", "dcg@2", "dcg_exp", "f1@2", "f1@10", "hit_rate", "rbp.80", "rbp.80@2", "rbp.50:min2"]
    assert score_rankings(grades, ranked, names).values[:, 0].tolist() == close(
        [1 + 3 / 2, 1, 1 + 7 / 2, 2 / 5, 4 / 13, 1, 0.2 * (1 + 0.8**2), 0.2, 0.5 * 0.5**2]
    )


def test_rbp_takes_relevance_for_0_or_1_where_bare_ranx_takes_the_grade():
    from numba.typed import List
    from numpy import array
    from ranx.metrics import rank_biased_precision

    rows = List([array([[0.0, 3.0]])])
    assert rank_biased_precision(rows, rows, 0.8).tolist() == close([0.6])
    assert score_rankings({"q": {"a": 3}}, {"q": ["a"]}, ["rbp.80"]).of("rbp.80") == {"q": close(0.2)}


def test_bpref_without_a_judged_item_that_is_not_relevant_is_defined_where_bare_ranx_divides_0_by_0():
    from numba.typed import List
    from numpy import array
    from ranx.metrics import bpref

    rows = List([array([[0.0, 1.0]])])
    assert math.isnan(bpref(rows, rows)[0])
    assert score_rankings({"q": {"a": 1, "b": 1}}, {"q": ["x", "a"]}, ["bpref"]).of("bpref") == {"q": 0.5}


# Alignment


def test_an_item_returned_twice_counts_once_at_its_better_place():
    found = score_rankings({"q": {"a": 1, "b": 1}}, {"q": ["a", "a", "b"]}, ["hits", "precision", "map", "recall@2"])
    assert found.means() == {"hits": 2.0, "precision": 1.0, "map": 1.0, "recall@2": 1.0}


def test_a_query_without_an_item_of_the_least_grade_scores_0():
    every = [f"{name}{'.80' if name == 'rbp' else ''}:min2" for name in MEASURES if not MEASURES[name].of_spans]
    found = score_rankings({"q": {"a": 1}, "other": {"a": 2}}, {"q": ["a"], "other": ["a"]}, every)
    assert set(found.only(["q"]).values.flat) == {0.0}
    assert all(value > 0 for value in found.only(["other"]).values.flat)


def test_a_ranking_of_chunks_is_scored_by_its_items_or_by_its_chunks():
    ranked = {"q": Ranking(("a1", "a2", "b1"), (3, 2, 1), ("a", "a", "b"), ((0, 1), (1, 2), (0, 1)))}
    assert score_rankings({"q": {"b": 1}}, ranked, ["mrr"]).of("mrr") == {"q": 0.5}
    assert score_rankings({"q": {"b1": 1}}, ranked, ["mrr"], level="units").means() == {"mrr": close(1 / 3)}


def test_nothing_labelled_gives_no_scores_and_a_mean_of_0():
    found = score_rankings({}, {"q": ["a"]}, ["ndcg@10", "map"])
    assert (found.queries, found.values.shape, found.means()) == ((), (2, 0), {"ndcg@10": 0.0, "map": 0.0})


def test_threads_may_score_at_once():
    grades, ranked = {f"q{n}": {"a": 1} for n in range(50)}, {f"q{n}": ["b", "a"] for n in range(50)}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: score_rankings(grades, ranked, ["mrr", "map@1"]).means(), range(40)))
    assert found == [{"mrr": 0.5, "map@1": 0.0}] * 40


# What comes out


def test_scores_are_an_array_of_metrics_by_queries_in_the_order_of_their_ids():
    found = score_rankings({"b": {"x": 1}, "a": {"y": 1}}, {"a": ["y"], "b": ["y"]}, ["recall", "hits@1"])
    assert (found.queries, found.metrics) == (("a", "b"), ("recall", "hits@1"))
    assert found.values.tolist() == [[1.0, 0.0], [1.0, 0.0]]
    assert found.of("hits@1") == {"a": 1.0, "b": 0.0}
    assert found.row("recall").tolist() == [1.0, 0.0]
    assert found.only(["b", "unknown"]).of("recall") == {"b": 0.0}
    with pytest.raises(UnknownName, match="Did you mean 'hits@1'"):
        found.row("hits@10")


def test_a_query_counts_as_often_as_its_weight_says_and_once_without_one():
    assert mean({"a": 1.0, "b": 0.0, "c": 0.0}, {"a": 6.0, "b": 1.0}) == 0.75
    assert score_rankings({"a": {"x": 1}, "b": {"x": 1}}, {"a": ["x"]}, ["hits"]).means({"a": 0.0}) == {"hits": 0.0}


def test_weights_that_add_up_to_0_are_refused():
    with pytest.raises(InputError, match="give at least one of them a weight above 0"):
        mean({"a": 1.0}, {"a": 0.0})


# Names


@pytest.mark.parametrize(
    "text", ["ndcg@10", "ndcg_exp", "map", "r-precision@5", "rbp.80", "rbp.875@20", "recall@100:min2"]
)
def test_a_metric_reads_back_as_it_is_written(text):
    assert str(Metric.parse(text)) == text


@given(
    st.builds(
        lambda name, cutoff, persistence, least: Metric(
            name, cutoff, persistence / 1000 if name == "rbp" else None, least
        ),
        st.sampled_from(sorted(MEASURES)),
        st.none() | st.integers(1, 10**6),
        st.integers(1, 999),
        st.integers(1, 10),
    )
)
def test_every_metric_is_what_its_text_is_parsed_to(metric):
    assert Metric.parse(str(metric)) == metric


def test_case_blanks_and_a_shorter_persistence_do_not_matter():
    assert (str(Metric.parse(" nDCG@10 ")), str(Metric.parse("rbp.8"))) == ("ndcg@10", "rbp.80")


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("ndgc@10", UnknownName, "Did you mean 'ndcg'"),
        ("", UnknownName, "There is: bpref"),
        ("ndcg@0", SpecError, "The cut-off of the metric ndcg is 0; it must be 1 or more"),
        ("ndcg@ten", SpecError, "ndcg@10"),
        ("ndcg@-1", SpecError, "ndcg@10"),
        ("recall@10-l2", SpecError, "recall@10:min2"),
        ("recall:min0", SpecError, "least grade"),
        ("map.80", SpecError, "only rbp has"),
        ("rbp", SpecError, "rbp.80"),
        ("rbp.0", SpecError, "above 0 and below 1"),
    ],
)
def test_what_is_no_metric_is_said_with_the_way_out(text, error, says):
    with pytest.raises(error, match=says):
        Metric.parse(text)


def test_a_persistence_that_could_not_be_written_is_refused():
    with pytest.raises(SpecError, match=r"rbp\.80"):
        Metric("rbp", persistence=0.12345)


def test_span_metrics_are_sent_where_spans_are():
    with pytest.raises(SpecError, match=r"evals\.metrics\.spans\.score_spans"):
        score_rankings({"q": {"a": 1}}, {}, ["span_recall@5"])


def test_an_explanation_names_the_gain_the_cut_off_and_the_least_grade():
    assert "linear" in Metric.parse("ndcg").explanation
    assert "2^grade - 1" in Metric.parse("ndcg_exp").explanation
    assert Metric.parse("recall@7:min2").explanation == (
        "Relevant hits / all relevant. Of the first 7 hits. Grades below 2 count as not relevant."
    )
