"""Spans: characters of answers in chunks, and labels of chunks made from them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, SpecError
from evals.metrics import scoring, spans
from evals.metrics.spans import ReturnedPassage
from evals.runs.rankings import Ranking
from evals.types import Span
from tests.effort import examples

places = st.tuples(st.integers(0, 20), st.integers(1, 8)).map(lambda pair: (pair[0], pair[0] + pair[1]))
located = st.lists(st.tuples(st.sampled_from("ab"), places), max_size=5)


def answer(item: str, start: int, end: int, grade: int = 1) -> Span:
    return Span("q", item, start, end, "", grade=grade)


def ranking(*passages: ReturnedPassage) -> Ranking:
    return Ranking(
        tuple(passage.id for passage in passages),
        tuple(range(len(passages), 0, -1)),
        tuple(passage.item_id for passage in passages),
        tuple((passage.start, passage.end) for passage in passages),
    )


@examples(60)
@given(located, located)
def test_what_is_held_is_what_counting_single_characters_gives(answers, chunks):
    wanted = {(item, at) for item, place in answers for at in range(*place)}
    returned = [(item, at) for item, place in chunks for at in range(*place)]
    found = spans.held(
        [answer(item, *place) for item, place in answers],
        [ReturnedPassage(str(n), item, *place) for n, (item, place) in enumerate(chunks)],
    )
    both = len(wanted & set(returned))
    assert (found.answers, found.matched, found.returned) == (len(wanted), both, len(returned))
    assert found.recall == (both / len(wanted) if wanted else 0)
    assert found.precision == (both / len(returned) if returned else 0)
    assert found.iou == (both / (len(wanted) + len(returned) - both) if wanted or returned else 0)


def test_overlapping_chunks_count_once_in_recall_and_each_time_in_precision_and_iou():
    ranked = {"q": ranking(ReturnedPassage("one", "a", 0, 10), ReturnedPassage("two", "a", 5, 15))}
    found = spans.score_spans({"q": [answer("a", 5, 10)]}, ranked, ["span_recall", "span_precision", "span_iou"])
    assert found.means() == {"span_recall": 1.0, "span_precision": 5 / 20, "span_iou": 5 / 20}


def test_a_cut_off_counts_chunks_each_once():
    first, second = ReturnedPassage("one", "a", 0, 4), ReturnedPassage("two", "a", 4, 8)
    found = spans.score_spans(
        {"q": [answer("a", 0, 8)]}, {"q": ranking(first, first, second)}, ["span_recall@1", "span_recall@2"]
    )
    assert found.means() == {"span_recall@1": 0.5, "span_recall@2": 1.0}


def test_a_least_grade_takes_the_better_answers_alone():
    answers = {"q": [answer("a", 0, 4), answer("a", 10, 14, grade=2)], "none": [answer("a", 0, 4)]}
    found = spans.score_spans(
        answers, {"q": ranking(ReturnedPassage("x", "a", 0, 5))}, ["span_recall", "span_recall:min2"]
    )
    assert found.of("span_recall") == {"none": 0.0, "q": 0.5}
    assert found.of("span_recall:min2") == {"none": 0.0, "q": 0.0}


def test_queries_without_hits_score_0_and_those_without_answers_are_passed_over():
    answers = {"missing": [answer("a", 0, 1)], "empty": [answer("a", 0, 1)], "worthless": [answer("a", 0, 1, grade=0)]}
    found = spans.score_spans(answers, {"empty": Ranking()}, ["span_recall", "span_precision", "span_iou"])
    assert found.queries == ("empty", "missing")
    assert not found.values.any()


def test_a_ranking_of_whole_items_is_refused():
    with pytest.raises(InputError, match="rank the chunks of a chunk set"):
        spans.score_spans({"q": [answer("a", 0, 1)]}, {"q": Ranking(("a",), (1.0,))}, ["span_recall"])


def test_a_metric_over_items_is_sent_where_items_are():
    with pytest.raises(
        SpecError, match=r"evals\.metrics\.scoring\.score_rankings.*span_recall, span_precision, span_iou"
    ):
        spans.score_spans({}, {}, ["ndcg@10"])


CHUNKS = [
    ReturnedPassage("a1", "a", 0, 10),
    ReturnedPassage("a2", "a", 10, 20),
    ReturnedPassage("a3", "a", 20, 100),
    ReturnedPassage("b1", "b", 0, 10),
]


@pytest.mark.parametrize(
    ("start", "end", "share", "relevant"),
    [
        (8, 12, 0.5, {"a1", "a2"}),  # half of the answer in each
        (7, 11, 0.5, {"a1"}),
        (7, 11, 0.25, {"a1", "a2"}),
        (0, 40, 0.5, {"a1", "a2", "a3"}),  # long: the chunks within it
        (0, 40, 0.51, {"a1", "a2"}),
        (30, 31, 1.0, {"a3"}),
    ],
)
def test_a_chunk_is_relevant_where_it_shares_enough_of_the_shorter_of_chunk_and_answer(start, end, share, relevant):
    assert spans.chunk_grades({"q": [answer("a", start, end)]}, CHUNKS, share) == {"q": dict.fromkeys(relevant, 1)}


def test_a_chunk_has_the_grade_of_its_best_answer():
    answers = {"q": [answer("a", 0, 4), answer("a", 5, 8, grade=3), answer("b", 0, 5, grade=2)]}
    assert spans.chunk_grades(answers, CHUNKS) == {"q": {"a1": 3, "b1": 2}}


def test_labels_of_chunks_score_by_the_metrics_of_items_and_count_chunks_that_were_not_returned():
    grades = spans.chunk_grades({"q": [answer("a", 8, 12)]}, CHUNKS)
    found = scoring.score_rankings(grades, {"q": ranking(CHUNKS[3], CHUNKS[0])}, ["recall", "mrr"], level="units")
    assert found.means() == {"recall": 0.5, "mrr": 0.5}


def test_an_answer_that_no_chunk_meets_leaves_no_label():
    assert spans.chunk_grades({"q": [answer("c", 0, 5)], "worthless": [answer("a", 0, 5, grade=0)]}, CHUNKS) == {}


@pytest.mark.parametrize("share", [0, -1, 1.5])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(SpecError, match="above 0 and at most 1"):
        spans.chunk_grades({}, [], share)
