"""What a gate lets through."""

# mypy: disable-error-code="no-untyped-call, union-attr, arg-type, unused-ignore"

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from core.errors import SpecError, UnknownName
from evals.board import Board
from evals.runs import Run
from evals.suites.gate import Gate, checks, passed
from tests.evals.boards import QUERIES, SPLIT, SUBJECT, board, run


def outcomes(gate: Gate, made: Board, pinned: Run | None = None) -> dict[tuple[str, str], str]:
    return {(check.variant, check.what): check.outcome for check in checks(gate, made, pinned)}


def test_a_minimum_holds_or_fails_by_what_was_found():
    found = outcomes(Gate(minimum={"mrr@10": 0.6}), board(baseline="good"))
    assert found[("poor", "mrr@10 at least")] == "failed"
    assert ("good", "mrr@10 at least") not in found
    assert outcomes(Gate(minimum={"mrr@10": 0.6}), board("good"))[("good", "mrr@10 at least")] == "passed"


def test_a_drop_against_the_baseline_fails_unless_it_is_small_enough():
    made = board("good", "poor", baseline="good")
    assert outcomes(Gate(largest_drop={"mrr@10": 0.49}), made)[("poor", "mrr@10 against good")] == "failed"
    assert outcomes(Gate(largest_drop={"mrr@10": 0.5}), made)[("poor", "mrr@10 against good")] == "passed"


def test_no_drop_at_all_is_written_without_a_sign_that_says_otherwise():
    twins = Board(SPLIT, [run("good"), run("twin", ("right", "half", "wrong"))], ("mrr@10",))
    (check,) = [each for each in checks(Gate(largest_drop={"mrr@10": 0}), twins) if "against" in each.what]
    assert (check.found, check.wanted, check.outcome) == ("+0.0000", "0 or more", "passed")


def test_a_drop_that_may_be_chance_passes_where_only_significant_ones_count():
    one = {**run("good").rankings, "q00": run("poor").rankings["q00"]}
    made = Board(SPLIT, [run("good"), replace(run("poor"), rankings=one)], ["mrr@10"])
    strict, lenient = (Gate(largest_drop={"mrr@10": 0}, significant=each) for each in (False, True))
    assert not passed(checks(strict, made))
    assert passed(checks(lenient, made))
    assert any("chance" in check.says for check in checks(lenient, made))


@pytest.mark.parametrize("name", ["main", "good"])
def test_a_pinned_baseline_over_other_data_is_an_error_that_says_so(name):
    pinned = run(name, ("right",), subject=replace(SUBJECT, version=2, digest=b"old"), id="pinned")
    gate = Gate(largest_drop={"mrr@10": 0.1}, against="main")
    (check,) = (each for each in checks(gate, board("good"), pinned) if "against" in each.what)
    assert check.outcome == "error"
    assert "queries or labels changed" in check.says
    assert "version 2 and 3" in check.says


def test_a_pinned_baseline_is_compared_under_the_name_it_has_in_the_table():
    pinned = run("good", id="pinned")
    made = Board(SPLIT, [run("good", ("wrong", "right"), id="new"), pinned], ["mrr@10"])
    found = outcomes(Gate(largest_drop={"mrr@10": 0.1}, against="main"), made, pinned)
    assert found[("good", "mrr@10 against good (2)")] == "failed"


def test_failed_queries_and_slow_ones_count():
    slow = run("good", failures={"q00": "busy"}, milliseconds=dict.fromkeys(QUERIES, 120.0))
    made = Board(SPLIT, [slow], ["mrr"])
    found = outcomes(Gate(minimum={"mrr": 0}, slowest=100), made)
    assert found[("good", "queries that failed")] == found[("good", "p95, ms")] == "failed"
    assert outcomes(Gate(failures=1, slowest=120), made) == {
        ("good", "queries that failed"): "passed",
        ("good", "p95, ms"): "passed",
    }
    assert outcomes(Gate(slowest=100), board("good"))[("good", "p95, ms")] == "error"


def test_what_cannot_be_asked_is_refused():
    with pytest.raises(UnknownName, match="'ndcg'"):
        Gate(minimum={"ndgc@10": 0.5})
    with pytest.raises(SpecError, match="largest drop"):
        Gate(largest_drop={"mrr": -0.1})
    for limit in (float("nan"), float("inf")):  # which TOML can say, and no drop is larger than
        with pytest.raises(ValidationError, match="finite number"):
            Gate(largest_drop={"mrr": limit})
    with pytest.raises(SpecError, match="guards 'goood'"):
        checks(Gate(variants=("goood",)), board("good"))
