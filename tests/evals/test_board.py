"""The table of runs and metrics."""

# mypy: disable-error-code="no-untyped-call, union-attr, arg-type, unused-ignore"

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.errors import InputError, SpecError, UnknownName
from core.variant import Variant
from evals.evaluation.board import Board
from evals.runs.rankings import Ranking, cut_off
from evals.runs.types import Run
from evals.statistics.verdicts import Verdict
from tests.evals.boards import QUERIES, SPLIT, SUBJECT, board, run

VARIANT = Variant.from_data({"top_k": 5, "leg": [{"kind": "bm25"}]})


def test_each_run_has_its_mean_interval_and_share_of_judged_hits():
    cells = board().cells("mrr@10")
    assert {name: cell.mean for name, cell in cells.items()} == {"good": 1.0, "poor": 0.5, "bare": 0.5}
    assert cells["good"].low == pytest.approx(0.912, abs=1e-3), "40 of 40 prove no more"
    assert cells["good"].high == 1.0
    assert {name: cell.judged for name, cell in cells.items()} == {"good": 1.0, "poor": 1.0, "bare": 0.5}


def test_verdicts_are_against_the_baseline_and_the_best_group_is_told():
    made = board(baseline="poor")
    assert made.finding("mrr@10", "poor") is None
    verdicts = {name: finding.verdict for name in ("good", "bare") if (finding := made.finding("mrr@10", name))}
    assert verdicts == {"good": Verdict.BETTER, "bare": Verdict.TIED}
    assert made.best("mrr@10") == ("good",)


def test_a_query_counts_as_often_as_its_weight_says():
    heavy = {each: replace(query, weight=3.0 if query.kind == "odd" else 1.0) for each, query in SPLIT.queries.items()}
    mixed = replace(
        run("good"), rankings={**run("poor").rankings, **{q: run("good").rankings[q] for q in QUERIES[1::2]}}
    )
    made = Board(replace(SPLIT, queries=heavy), [mixed], ["mrr"])
    assert made.cells("mrr")["good"].mean == pytest.approx((3 * 1.0 + 0.5) / 4)


def test_it_is_broken_down_by_kind_and_tag():
    made = board("good", "poor")
    assert set(made.by("mrr@10")) == {"even", "odd"}
    assert made.by("mrr@10", "tag")["all"]["poor"].mean == 0.5


def test_span_metrics_stand_beside_the_others():
    made = board("good", "bare", wanted=("span_recall@1", "ndcg@10"))
    assert made.queries("span_recall@1") == tuple(QUERIES[:4])
    cells = made.cells("span_recall@1")
    assert (cells["good"].mean, cells["bare"].mean, cells["good"].judged) == (0.8, 0.0, None)


def test_the_front_leaves_out_what_is_slower_and_no_better():
    assert Board(SPLIT, _timed(live="all"), ["mrr"]).front("mrr") == ("poor", "good")


def test_estimates_made_under_load_are_in_no_front():
    assert Board(SPLIT, _timed(live="good"), ["mrr"]).front("mrr") == ("good",)
    assert Board(SPLIT, _timed(live="none"), ["mrr"]).front("mrr") == ()


def _timed(live):
    """Runs of which those named have live times, the others estimates."""
    times = {"poor": 5.0, "good": 50.0, "bare": 50.0}
    return [
        run(name, milliseconds=dict.fromkeys(QUERIES, each), timed=tuple(QUERIES) if live in {name, "all"} else ())
        for name, each in times.items()
    ]


def test_bounds_and_condensed_scores_tell_what_labels_are_missing():
    made = board()
    assert made.bounds("good", "mrr@10") == (1.0, 1.0)
    assert made.bounds("bare", "mrr@10") == (0.5, 1.0)
    assert made.condensed("mrr@10")["bare"] == 1.0


def test_every_figure_is_of_the_splits_own_queries_by_their_weights():
    """Labels of other queries may be at hand, as of a split that was narrowed."""
    few = {q: replace(SPLIT.queries[q], weight=3.0 if at else 1.0) for at, q in enumerate(QUERIES[:2])}
    mixed = replace(run("bare"), rankings={**run("bare").rankings, QUERIES[1]: run("poor").rankings[QUERIES[1]]})
    made = Board(replace(SPLIT, queries=few), [mixed], ["precision@2"])
    assert made.cells("precision@2")["bare"].mean == pytest.approx(0.5)
    assert made.cells("precision@2")["bare"].judged == pytest.approx((0.5 + 3 * 1.0) / 4)
    assert made.bounds("bare", "precision@2") == pytest.approx((0.5, (1.0 + 3 * 0.5) / 4))
    assert made.condensed("precision@2") == {"bare": pytest.approx(0.5)}


def test_a_run_shown_bare_is_short_whatever_it_holds():
    large = run("good", milliseconds=dict.fromkeys(QUERIES, 5.0), timed=tuple(QUERIES), environment={"x": "y" * 2000})
    assert repr(large).startswith("Run(name='good'")
    assert len(repr(large)) < 500


def test_runs_of_one_name_are_told_apart():
    assert Board(SPLIT, [run("good"), run("good")], ["mrr"]).names == ("good", "good (2)")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"version": 4}, "version 4 and 3"),
        ({"digest": b"other"}, "queries or labels changed"),
        ({"split": "train"}, "split train and test"),
        ({"collection": "other"}, "collection other and docs"),
        ({"content": "moved"}, "content changed"),
    ],
)
def test_runs_over_other_data_are_not_compared(change, says):
    with pytest.raises(SpecError, match=says):
        Board(SPLIT, [run("good"), run("poor", subject=replace(SUBJECT, **change))])


def test_what_is_not_there_is_named():
    with pytest.raises(InputError, match="no run"):
        Board(SPLIT, [])
    with pytest.raises(UnknownName, match="'poor'"):
        board("good", "poor", baseline="por")
    with pytest.raises(UnknownName, match="'good'"):
        board("good").run("god")
    with pytest.raises(UnknownName, match="mrr@10"):
        board("good").values("map")
    with pytest.raises(UnknownName, match="mrr@10"):
        board("good").cells("map")
    with pytest.raises(InputError, match="relevant"):
        Board(replace(SPLIT, grades={}), [run("good")])
    with pytest.raises(InputError, match="answer span"):
        Board(replace(SPLIT, spans={}), [run("good")], ["span_iou"])


def test_doubts_are_told_beside_the_scores():
    failing = run("poor", failures={"q00": "The server was busy."}, variant=VARIANT, depth=0)
    flaw = {"of": "leaks", "subject": "q03", "message": "the query stands in a document", "outcome": "noted"}
    other = {**flaw, "subject": "no query of this split"}
    made = Board(SPLIT, [run("good"), failing, run("bare")], ["ndcg@10"], flaws=[flaw, other])
    told = [warned.message for warned in made.warnings]
    assert any("poor: 1 of 40 queries failed" in each and "busy" in each for each in told)
    assert "ndcg@10 counts 10 hits, more than ship of poor: of the candidates behind what ships, and it decides " in (
        "".join(told)
    )
    assert any("50% are judged for bare" in each for each in told)
    assert any(
        "Import warned of 1 of these queries (leaks). The first, 'q03': the query stands" in each for each in told
    )
    assert [warned.queries for warned in made.warnings if "leaks" in warned.message] == [("q03",)]


SHIPS = VARIANT.but(top_k=1)


def beyond(name: str, **options: Any) -> Run:
    """A run that ships one hit, with the others behind it."""
    every = run(name)
    rankings, behind = cut_off(every.rankings, 1)
    return replace(every, rankings=rankings, beyond=behind, variant=SHIPS, **options)


def test_a_metric_sees_no_more_than_ships_unless_it_looks_deeper_and_then_it_decides_nothing():
    made = Board(SPLIT, [beyond("good"), beyond("poor")], ["mrr", "recall@1", "recall@3"])
    assert {metric: made.cells(metric)["poor"].mean for metric in made.metrics} == {
        "mrr": 0.0,
        "recall@1": 0.0,
        "recall@3": 1.0,
    }
    assert [made.cells(metric)["poor"].badge for metric in made.metrics] == ["", "", "beyond"]
    assert made.finding("recall@1", "poor") is not None
    assert made.best("recall@1") == ("good",)
    assert (made.finding("recall@3", "poor"), made.best("recall@3"), made.front("recall@3")) == (None, (), ())


def test_a_metric_that_looks_deeper_is_of_the_deep_run_where_there_is_one():
    deep = replace(run("bare"), variant=SHIPS, depth=100, id="deep")
    made = Board(SPLIT, [beyond("good"), beyond("poor")], ["recall@1", "recall@3"], deep={"id of poor": deep})
    assert made.cells("recall@1")["poor"].mean == 0.0
    assert (made.cells("recall@3")["poor"].mean, made.cells("recall@3")["poor"].badge) == (0.5, "deep")
    assert made.cells("recall@3")["good"].badge == "beyond"


@pytest.mark.slow
def test_deep_runs_are_not_compared_with_what_ships():
    deep = replace(run("good"), variant=VARIANT.but(top_k=100), depth=100)
    made = Board(SPLIT, [deep, replace(run("poor"), variant=VARIANT.but(top_k=100)), run("bare")], ["mrr@10"])
    assert made.finding("mrr@10", "poor") is None
    assert made.finding("mrr@10", "bare") is not None, "nobody knows how another engine was asked"
    assert made.best("mrr@10") == ("good",)
    assert any(each.message.startswith("Deep runs, asked for more than ships: good.") for each in made.warnings)


def test_what_finds_nothing_for_many_queries_is_said_beside_its_score_and_is_no_want_of_labels():
    rankings = {query: Ranking() if at < 10 else run("good").rankings[query] for at, query in enumerate(QUERIES)}
    made = Board(SPLIT, [replace(run("good"), rankings=rankings), run("poor")], ["ndcg@10"])
    cell = made.cells("ndcg@10")["good"]
    assert (cell.empty, cell.judged, cell.badge) == (0.25, 0.75, "nothing for 25%")
    assert [each.message for each in made.warnings] == [
        "Nothing is found by good for 25% of the queries, which score 0."
    ]
    assert "nothing for 25%" in repr(made)


def test_where_each_query_has_its_one_answer_nobody_is_sent_to_judge():
    one = replace(SPLIT, grades={query: {"right": 1} for query in QUERIES})
    assert Board(one, [run("bare")], ["ndcg@10"]).warnings == ()
    assert any("Judge the pool" in each.message for each in Board(SPLIT, [run("bare")], ["ndcg@10"]).warnings)


def test_a_metric_that_looks_deeper_than_anything_is_asked_for_is_doubted():
    deep = run("good", variant=VARIANT, depth=50_000)
    made = Board(SPLIT, [deep], ("recall@50000", "recall@10000"))
    (told,) = (each.message for each in made.warnings if "fewer were asked for" in each.message)
    assert told == "recall@50000 counts 50000 hits, and fewer were asked for of: good."


def test_nothing_is_told_where_there_is_no_doubt():
    assert board("good", "poor").warnings == ()


def test_the_frame_has_a_row_a_run():
    frame = board(baseline="poor").frame()
    assert list(frame.index) == ["good", "poor", "bare"]
    assert frame.loc["good", "mrr@10 verdict"] == "better"
    assert frame.loc["poor", "mrr@10 verdict"] == ""


def test_a_comparison_goes_down_to_queries_and_kinds():
    found = board().compare("good", "poor", "mrr@10")
    assert (found.wins, found.ties, found.losses) == (40, 0, 0)
    assert {(group.by, group.group) for group in found.groups} == {("kind", "even"), ("kind", "odd"), ("tag", "all")}


def test_what_runs_say_of_themselves_is_told_once_with_all_that_it_is_of():
    note = "vector is not available: This server has no pgvector."
    names = [f"hybrid {at}" for at in range(6)]
    runs = [run("good"), *(run("poor", id=name, notes=(note,)) for name in names)]
    made = Board(SPLIT, [replace(each, name=name) for each, name in zip(runs, ["good", *names], strict=True)], ["mrr"])
    told = [warned.message for warned in made.warnings if note in warned.message]
    assert told == [f"hybrid 0, hybrid 1, hybrid 2, hybrid 3 and 2 more: {note}"]
