"""What every registered measure promises: a formula in words, values within bounds, the same value either way."""

from __future__ import annotations

import numpy as np
import pytest

from core.errors import UnknownName
from core.types import Query
from evals.measures import MEASURES, Measure, Metric, Relevant, RelevantRanks, base, cut_off, register
from evals.metrics.coverage import bounds
from evals.metrics.scoring import score_rankings
from evals.types import QuerySplit

OF_LABELS = [name for name, measure in MEASURES.items() if not measure.of_spans]
OF_RANKS = [name for name, measure in MEASURES.items() if measure.of_ranks]
ITEMS = [f"i{number}" for number in range(12)]


def metric(name: str, end: str = "@5") -> Metric:
    return Metric.parse(f"{name}{'.80' if name == 'rbp' else ''}{end}")


def labelled(seed: int, queries: int = 20) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Grades of some items, and rankings of some."""
    random = np.random.default_rng(seed)
    grades, ranked = {}, {}
    for number in range(queries):
        items = random.permutation(ITEMS).tolist()
        grades[f"q{number}"] = {item: int(random.integers(0, 4)) for item in items[: random.integers(1, 8)]} | {
            items[0]: 1
        }
        ranked[f"q{number}"] = random.permutation(ITEMS).tolist()[: random.integers(0, 12)]
    return grades, ranked


@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_says_in_words_what_it_computes_and_has_one_way_to(name):
    measure = MEASURES[name]
    assert measure.formula.endswith(".")
    assert [bool(way) for way in (measure.ranx, measure.score, measure.of_spans)].count(True) == 1
    assert metric(name).explanation.startswith(measure.formula)
    assert str(metric(name)) == str(Metric.parse(str(metric(name))))


@pytest.mark.parametrize("name", OF_LABELS)
def test_values_lie_between_nothing_and_the_most_and_are_highest_for_the_best_order(name):
    grades, ranked = labelled(1)
    ideal = {query: sorted(given, key=lambda item: -given[item]) for query, given in grades.items()}
    found, best = (score_rankings(grades, each, [metric(name)]).values for each in (ranked, ideal))
    assert (found >= 0).all()
    assert (found <= best + 1e-9).all()
    assert MEASURES[name].most is None or (best <= (metric(name).most or 0) + 1e-9).all()
    assert score_rankings(grades, {}, [metric(name)]).values.max() == 0


@pytest.mark.parametrize("name", OF_LABELS)
@pytest.mark.parametrize("end", ["@3", "@10", "@5:min2"])
def test_the_unjudged_leave_room_above_the_score_and_none_below(name, end):
    grades, ranked = labelled(2)
    found = bounds(grades, ranked, [metric(name, end)])
    assert (found.low.values <= found.high.values + 1e-9).all()


@pytest.mark.parametrize("name", OF_RANKS)
def test_the_formula_over_ranks_gives_the_score(name):
    grades, ranked = labelled(3)
    split = QuerySplit("test", {query: Query(query, query) for query in grades}, grades)
    relevant = Relevant.of(split)
    places = [
        ranked[query].index(item) + 1 if item in ranked[query] else 0
        for query, begin, end in relevant.rows()
        for item in relevant.items[begin:end]
    ]
    found = RelevantRanks(relevant, np.array([places], dtype=np.int32)).values(metric(name))[0]
    scored = score_rankings(grades, ranked, [metric(name)]).of(metric(name))
    assert found == pytest.approx([scored[query] for query in relevant.queries], abs=1e-9)


def expected_reciprocal_rank(hits, grades):
    stopped, total = 1.0, 0.0
    for rank, grade in enumerate(hits, start=1):
        satisfied = (2 ** (grade or 0) - 1) / 2 ** max(grades)
        total += stopped * satisfied / rank
        stopped *= 1 - satisfied
    return total


@pytest.fixture
def err():
    """The expected reciprocal rank of Chapelle et al. (CIKM 2009), which ranx has not."""
    formula = "The expectation of 1 / the rank at which a reader stops."
    register("err", Measure(formula, score=expected_reciprocal_rank, graded=True))
    yield
    base._REGISTERED.pop("err")


@pytest.mark.usefixtures("err")
def test_a_new_measure_is_one_registration():
    grades = {"q": {"a": 2, "b": 1}, "other": {"a": 1}}
    found = score_rankings(grades, {"q": ["x", "b", "a"], "other": ["b"]}, ["err@10", "err@2"])
    assert found.of("err@10") == {"q": pytest.approx(0.25 / 2 + 0.75 * 0.75 / 3), "other": 0.0}
    assert found.of("err@2")["q"] == 0.125
    assert bounds(grades, {"q": ["x", "b"]}, ["err@10"]).high.of("err@10")["q"] > 0.5
    with pytest.raises(UnknownName, match="metric of a weight surface"):
        cut_off("err@10")
    with pytest.raises(ValueError, match="registered twice"):
        register("err", Measure("Again.", ranx="ndcg"))
