"""Packed contexts: gain and span recall for the tokens they take."""

from __future__ import annotations

import pytest

from core.errors import InputError
from core.packing import Citation, ContextPack, PackedChunk, PackTrace, Role
from evals.evaluation.packed_contexts import ContextPoint, curve, mean_curve, score_pack, within
from evals.types import Span


def chunk(name: str, item: str, role: Role = "primary", tokens: int = 10) -> PackedChunk:
    return PackedChunk(name, item, role, "", tokens, 1.0, name, Citation(name, item))


def pack(*chunks: PackedChunk, tokens: int = 0) -> ContextPack:
    return ContextPack("", chunks, tuple(each.citation for each in chunks), PackTrace(tokens=tokens), "")


HITS = (chunk("a1", "a"), chunk("pa", "a", "parent", 40), chunk("b1", "b"), chunk("b2", "b", "sibling"))
PLACES = {"a1": (0, 50), "pa": (0, 200), "b1": (0, 50), "b2": (50, 100)}
GRADES = {"a": 2, "b": 1, "missing": 1, "junk": 0}
ANSWERS = (Span("q", "b", 40, 60, ""), Span("q", "a", 150, 170, ""))


def test_a_pack_is_scored_by_the_relevant_items_it_holds_each_once():
    found = score_pack(pack(*HITS, tokens=64), 100, GRADES)
    assert found == ContextPoint(100, 64, gain=3, gain_share=0.75)


def test_a_pack_is_scored_by_the_answers_it_holds():
    found = score_pack(pack(*HITS, tokens=64), 100, GRADES, ANSWERS, PLACES)
    assert (found.span_recall, found.span_precision) == (1.0, 40 / 350)


def test_an_empty_pack_brings_nothing():
    assert score_pack(pack(), 100, GRADES, ANSWERS) == ContextPoint(100, 0, 0, 0.0, 0.0, 0.0)


def test_without_labels_there_is_no_share():
    assert score_pack(pack(*HITS), 100, {}) == ContextPoint(100, 0, 0, 0.0)


@pytest.mark.parametrize(
    ("budget", "kept"),
    [(70, ["a1", "pa", "b1", "b2"]), (69, ["a1", "pa", "b1"]), (59, ["a1", "b1"]), (19, ["a1"]), (9, [])],
)
def test_a_smaller_budget_drops_in_the_packers_order(budget, kept):
    assert [each.id for each in within(pack(*HITS), budget)] == kept


def test_a_curve_goes_up_with_the_budget():
    found = curve(pack(*HITS), [1000, 20, 10, 60, 20], GRADES, ANSWERS, PLACES)
    assert [(point.budget, point.tokens, point.gain, point.span_recall) for point in found] == [
        (10, 10, 2, 0.0),
        (20, 20, 3, 0.25),
        (60, 60, 3, 0.75),
        (1000, 70, 3, 1.0),
    ]


def test_a_chunk_whose_place_is_not_known_is_named():
    with pytest.raises(InputError, match="'a1'"):
        score_pack(pack(*HITS), 100, GRADES, ANSWERS)


def test_the_mean_curve_weighs_queries_and_takes_spans_over_those_with_answers():
    budgets = [10, 60]
    curves = {
        "with": curve(pack(*HITS), budgets, GRADES, ANSWERS, PLACES),
        "without": curve(pack(*HITS), budgets, {"a": 1}),
        "failed": curve(pack(), budgets, GRADES),
    }
    found = mean_curve(curves, {"with": 2.0})
    assert [point.gain for point in found] == [(2 * 2 + 1 + 0) / 4, (2 * 3 + 1 + 0) / 4]
    assert [point.span_recall for point in found] == [0.0, 0.75]
    assert mean_curve({"without": curves["without"]})[0].span_recall is None


def test_curves_over_different_budgets_have_no_mean():
    with pytest.raises(InputError, match="different budgets"):
        mean_curve({"a": curve(pack(), [1], {}), "b": curve(pack(), [2], {})})


def test_no_curves_have_no_points():
    assert mean_curve({}) == ()
