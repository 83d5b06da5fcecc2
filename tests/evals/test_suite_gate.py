"""What a gate lets through."""

# mypy: disable-error-code="no-untyped-call, union-attr, arg-type, unused-ignore"

from __future__ import annotations

from dataclasses import replace

import pytest
from pydantic import ValidationError

from core.errors import SpecError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.variant import Variant
from evals.evaluation.board import Board
from evals.runs.rankings import Ranking
from evals.runs.types import Run
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


def test_variants_that_are_not_guarded_do_not_make_the_gate_more_lenient():
    gate = Gate(variants=("poor",), largest_drop={"mrr@10": 0}, significant=True)
    alone = checks(gate, board("good", "poor", baseline="good"))
    among = checks(gate, board("good", "poor", "bare", baseline="good"))
    assert [(each.outcome, each.says) for each in among] == [(each.outcome, each.says) for each in alone]


def test_guards_on_all_metrics_are_one_family_and_what_is_beyond_what_ships_is_marked():
    gate = Gate(variants=("poor",), largest_drop={"mrr@10": 0, "ndcg@10": 0}, minimum={"recall@3": 0}, significant=True)
    found = {check.what: check for check in checks(gate, _short("good", "poor"))}
    assert "95% interval of 2 seen together" in found["mrr@10 (beyond what ships) against good"].says
    assert "recall@3 (beyond what ships) at least" in found
    assert found["recall@3 (beyond what ships) at least"].outcome == "passed"
    (alone,) = (
        each for each in checks(Gate(largest_drop={"mrr@10": 0}), board("good", "poor")) if "against" in each.what
    )
    assert "seen together" not in alone.says


def _short(*names: str) -> Board:
    """Runs of variants that ship two hits."""
    ships = Variant(name="short", legs=(Bm25Leg(),), top_k=2)
    return Board(SPLIT, [replace(run(name), variant=ships) for name in names], ["mrr@10", "ndcg@10", "recall@3"])


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


def test_a_variant_that_is_still_the_pinned_run_is_held_to_everything_else():
    """As a suite joins the two: nothing changed, so they are one run, under the variant's own name."""
    made = board("bare", "poor")
    pinned = replace(made.run("poor"), name="main (pinned)")
    found = outcomes(Gate(minimum={"mrr@10": 0.6}, largest_drop={"mrr@10": 0.1}, against="main"), made, pinned)
    assert found["poor", "mrr@10 at least"] == "failed"
    assert found["poor", "mrr@10 against main (pinned)"] == "passed"
    assert found["bare", "mrr@10 against main (pinned)"] == "passed"


def test_a_variant_that_went_on_without_a_leg_is_not_the_one_that_is_guarded():
    made = Board(SPLIT, [run("good", without={"vector": "No pgvector."})], ["mrr@10"])
    (flaw,) = (each for each in checks(Gate(minimum={"mrr@10": 0.5}), made) if each.outcome != "passed")
    assert (flaw.what, flaw.found, flaw.outcome) == ("legs", "no vector", "error")
    assert "No pgvector. Mend that and run the suite again." in flaw.says


def test_failed_queries_and_slow_ones_count():
    slow = run("good", failures={"q00": "busy"}, milliseconds=dict.fromkeys(QUERIES, 120.0), timed=tuple(QUERIES))
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


def test_a_baseline_that_was_asked_deeper_than_it_ships_is_not_compared_with_what_ships():
    ships = Variant.from_data({"leg": [{"kind": "bm25"}]})
    pinned = replace(run("good", id="pinned"), name="main", variant=ships, depth=100)
    made = Board(SPLIT, [replace(run("good"), variant=ships), pinned], ["mrr@10"])
    gate = Gate(largest_drop={"mrr@10": 0.1}, against="main")
    (check,) = [each for each in checks(gate, made, pinned) if each.what == "mrr@10 against main"]
    assert check.outcome == "error"
    assert check.says == (
        "The baseline is a deep run, and good is of what ships. Evaluate the baseline anew and pin that run."
    )


def failing(name: str, queries: int, order: str = "poor", **options) -> Run:
    """A run that failed at the first so many queries, with nothing found for them."""
    made = run(order, **options)
    failed = dict.fromkeys(QUERIES[:queries], "the server was busy")
    return replace(made, name=name, rankings={**made.rankings, **dict.fromkeys(failed, Ranking())}, failures=failed)


def test_queries_that_the_baseline_failed_at_do_not_lower_the_bar():
    """Poor everywhere, the variant is as good as a baseline that failed at half of the queries looks."""
    pinned = failing("main", 20, "good", id="pinned")
    made = Board(SPLIT, [run("poor"), pinned], ["mrr@10"])
    assert made.cells("mrr@10")["poor"].mean == made.cells("mrr@10")["main"].mean == 0.5
    gate = Gate(largest_drop={"mrr@10": 0.1}, against="main", failures=20)
    found = {check.what: check for check in checks(gate, made, pinned)}
    drop = found["mrr@10 against main, without the 20 queries that it failed at"]
    assert (drop.outcome, drop.found) == ("failed", "-0.5000")
    assert (found["baseline's failures"].outcome, found["baseline's failures"].found) == ("passed", "20")


def test_a_baseline_that_failed_more_often_than_is_allowed_fails_the_gate_and_says_so():
    made = Board(SPLIT, [run("good"), failing("main", 3, id="pinned")], ["mrr@10"])
    gate = Gate(largest_drop={"mrr@10": 0.1}, failures=2)
    (flaw,) = (each for each in checks(gate, made, made.run("main")) if each.outcome != "passed")
    assert (flaw.variant, flaw.what, flaw.found, flaw.wanted, flaw.outcome) == (
        "main",
        "baseline's failures",
        "3",
        "2 or fewer",
        "error",
    )
    assert "the server was busy. Evaluate the baseline anew" in flaw.says
    assert passed(checks(Gate(minimum={"mrr@10": 0.5}), made, made.run("main")))


def test_a_baseline_that_failed_at_everything_is_nothing_to_compare_with():
    made = Board(SPLIT, [run("good"), failing("main", 40, id="pinned")], ["mrr@10"])
    found = outcomes(Gate(largest_drop={"mrr@10": 0.1}, failures=40), made, made.run("main"))
    assert found["good", "mrr@10 against main"] == "error"


def test_a_baseline_that_went_on_without_a_leg_is_no_bar():
    made = Board(SPLIT, [run("good"), run("poor", id="pinned", without={"vector": "No pgvector."})], ["mrr@10"])
    (flaw,) = (
        each for each in checks(Gate(largest_drop={"mrr@10": 0.1}), made, made.run("poor")) if each.outcome != "passed"
    )
    assert (flaw.variant, flaw.found, flaw.outcome) == ("poor", "no vector", "error")
