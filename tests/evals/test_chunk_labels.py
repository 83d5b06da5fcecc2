"""Metrics at the level of chunks: labels from answer spans, set by set, beside the metrics of items."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

from dataclasses import replace

import pytest

from core import bridge
from core.context import RequestContext, Resources
from core.errors import InputError, SpecError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.types import Item, Query
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext
from evals.evaluation.evaluate import evaluate
from evals.measures import Metric, cut_off
from evals.metrics.run_scores import chunk_labels
from evals.metrics.scoring import score_rankings
from evals.runs.plan import EvalOptions
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.types import Label, LabelledQueries, QuerySplit, Span
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, documents, fresh, ingest, make, some_name

WORDS = [f"w{at:02d}" for at in range(24)]  # chunks of eight words: w00 to w07, w08 to w15, w16 to w23
ITEM = Item("counted", " ".join(WORDS))


def place(word: str) -> int:
    return ITEM.text.index(word)


def span(query: str, first: str, last: str, grade: int = 1) -> Span:
    start, end = place(first), place(last) + len(last)
    return Span(query, "counted", start, end, ITEM.text[start:end], grade=grade)


SPANS = (span("q1", "w09", "w11", 2), span("q1", "w17", "w17"), span("q2", "w00", "w01"))
LABELLED = LabelledQueries(
    (Query("q1", "w09 w02"), Query("q2", "w20"), Query("q3", "unique3")),
    (Label("q1", "counted", 1), Label("q2", "counted", 1), Label("q3", "d00003", 1)),
    SPANS,
)
SPLIT = QuerySplit.of(LABELLED)


@pytest.fixture(scope="module")
def view(store):
    name = some_name()
    make(store, name, [], {"small": FIXED, "large": FIXED | {"max_tokens": 16}, "family": FAMILY})
    ingest(store, name, [ITEM, *documents(5)])
    return fresh(store, name)


@pytest.fixture
def ground(store, view):
    embedder = HashingEmbedder()
    return EvalContext(RequestContext(store, view, Resources(embedder=lambda _: embedder, environment={})), LABELLED)


def variant(chunks="small", **options) -> Variant:
    return Variant(name=options.pop("name", chunks), legs=(Bm25Leg(),), chunks=chunks, **options)


def run(chunks="small", **options) -> Run:
    return Run("run", RunSubject("c", 1, "default", b"", "test"), {}, variant(chunks, **options))


def labels(store, view, *runs):
    return bridge.run(chunk_labels(store, view, runs, SPLIT))


def board(ground, *variants, metrics=("chunk_ndcg@10",)) -> Board:
    return bridge.run(evaluate(ground, variants, SPLIT, EvalOptions(tuple(metrics)))).board


# -- labels ------------------------------------------------------------------------------------------------------------


def test_chunks_are_labelled_by_the_answers_in_them_in_each_chunk_set_by_itself(store, view):
    small, large = run(), run("large")
    found = labels(store, view, small, large)
    assert found[small.variant.id] == {"q1": {"counted#0001": 2, "counted#0002": 1}, "q2": {"counted#0000": 1}}
    assert found[large.variant.id] == {"q1": {"counted#0000": 2, "counted#0001": 1}, "q2": {"counted#0000": 1}}


@pytest.mark.slow
def test_of_parents_and_children_those_are_labelled_that_a_variant_can_return(store, view):
    children, parents = run("family"), run("family", parents="replace")
    found = labels(store, view, children, parents)
    mine, theirs = found[children.variant.id]["q2"], found[parents.variant.id]["q2"]
    assert mine
    assert theirs
    assert not mine.keys() & theirs.keys()


def test_what_ranks_no_chunks_of_ours_has_no_labels(store, view):
    assert labels(store, view, run("items"), replace(run(), variant=None)) == {}


# -- scores ------------------------------------------------------------------------------------------------------------


def test_a_chunk_metric_scores_chunks_where_the_items_metric_scores_their_items(ground):
    made = board(ground, variant(), metrics=("recall@1", "chunk_recall@1", "chunk_recall@10", "chunk_mrr"))
    assert made.queries("chunk_recall@1") == ("q1", "q2")
    assert made.queries("recall@1") == ("q1", "q2", "q3")
    assert made.of("small", "recall@1") == {"q1": 1.0, "q2": 1.0, "q3": 1.0}
    ranked = made.run("small").rankings
    assert set(ranked["q1"].ids) == {"counted#0001", "counted#0000"}
    assert ranked["q2"].ids == ("counted#0002",)
    assert made.of("small", "chunk_recall@10") == {"q1": 0.5, "q2": 0.0}, "the chunk with w17 has no word of q1"
    first = ranked["q1"].ids.index("counted#0001") + 1
    assert made.of("small", "chunk_mrr") == {"q1": 1 / first, "q2": 0.0}
    assert made.cells("chunk_mrr")["small"].judged is None


def test_chunk_sets_are_compared_over_the_same_queries_each_by_its_own_labels(ground):
    made = board(ground, variant(), variant("large"), metrics=("chunk_hits@5",))
    assert made.of("small", "chunk_hits@5") == {"q1": 1.0, "q2": 0.0}
    assert made.of("large", "chunk_hits@5") == {"q1": 1.0, "q2": 0.0}


def test_a_query_that_no_chunk_of_a_set_answers_scores_zero_and_stays(ground):
    split = replace(SPLIT, spans={"q1": SPANS[:2], "q2": (Span("q2", "gone", 0, 5, "gone!"),)})
    only = run()
    found = bridge.run(chunk_labels(ground.store, ground.view, [only], split))
    assert set(found[only.variant.id]) == {"q1"}
    ranked = {"q1": Ranking(("counted#0001",), (1.0,), ("counted",))}
    made = Board(split, [replace(only, rankings=ranked)], ["chunk_mrr"], chunk_labels=found)
    assert made.of("run", "chunk_mrr") == {"q1": 1.0, "q2": 0.0}


def test_whole_items_and_splits_without_spans_are_refused_with_the_way_out(ground):
    with pytest.raises(InputError, match="leave out 'chunk_'"):
        board(ground, variant("items"))
    bare = replace(SPLIT, spans={})
    with pytest.raises(InputError, match="has an answer span: chunk_mrr"):
        bridge.run(evaluate(ground, [variant()], bare, EvalOptions(("chunk_mrr",))))


# -- the spelling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["chunk_ndcg@10", "chunk_rbp.80@20", "chunk_recall@100:min2", "chunk_map"])
def test_a_chunk_metric_is_written_as_it_is_read_and_explains_itself(text):
    metric = Metric.parse(text)
    assert (str(metric), metric.level) == (text, "units")
    assert "at least half" in metric.explanation
    assert "chunks" not in Metric.parse(text.removeprefix("chunk_")).explanation


def test_slips_in_a_chunk_metric_are_told():
    with pytest.raises(UnknownName, match="Did you mean 'chunk_ndcg'"):
        Metric.parse("chunk_ndgc@10")
    with pytest.raises(SpecError, match="chunk_ndcg@10:min2"):
        Metric.parse("chunk_ndcg@@")
    with pytest.raises(SpecError, match="leave out 'chunk_'"):
        Metric.parse("chunk_span_recall")


def test_labels_of_items_and_weight_surfaces_know_no_chunk_metric():
    with pytest.raises(SpecError, match="needs labels of chunks"):
        score_rankings({"q": {"a": 1}}, {}, ["chunk_mrr"])
    with pytest.raises(UnknownName, match="weight surface"):
        cut_off("chunk_ndcg@10")
