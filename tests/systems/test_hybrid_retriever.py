"""SYSTEMS.md, section 1, line by line."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from sqlalchemy import text

from core import bridge
from core.errors import BudgetError, SpecError
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.llm import Session, using
from core.llm.endpoint import MAX_TOKENS, MODEL, URL
from core.presets import preset
from core.rerank import LanguageModelReranker, ScoreReranker
from core.store import attached, collections
from core.store.attached import AttachedTable
from core.systems.hybrid_retriever import HybridRetriever, HybridRetrieverConfig, Result, Retriever
from tests.systems.asking import CHUNKS, EMBEDDER, ITEMS, QUERY, candidates, collection, context, guide, marking
from tests.unit.misbehaving import Reply, serving


@pytest.fixture(scope="module")
def view(store):
    with collection(store) as made:
        yield made


@pytest.fixture
def ask(store, view):
    """The bundle, for what a result does not say."""

    def work(query=QUERY, top_k=3, endpoint=None, **options):
        with using(Session()):
            retriever = HybridRetriever(HybridRetrieverConfig(**options))
            return bridge.run(retriever.search(context(store, view, endpoint), query, top_k))

    return work


# -- protocol and results --------------------------------------------------------------------------------------------


class Canned:
    async def retrieve(self, ctx, query, top_k):
        return [Result(query, 1.0, "c", "d", "t", "s")][:top_k]


@pytest.mark.parametrize("retriever", [HybridRetriever(), Canned()])
def test_anything_that_needs_results_depends_on_the_protocol_only(store, view, retriever):
    async def titles(given: Retriever):
        return [result.document_title for result in await given.retrieve(context(store, view), QUERY, 1)]

    assert bridge.run(titles(retriever)) in (["Hub"], ["t"])


def test_a_result_has_content_score_chunk_document_title_and_source(store, view):
    best, *others = bridge.run(HybridRetriever().retrieve(context(store, view), QUERY, 3))
    assert best.content.startswith("# Hub 1\n\nHold the reset button")
    assert (best.chunk_id, best.document_id, best.document_title) == ("hub#0000", "hub", "Hub")
    assert best.document_source == "manual.pdf"
    assert {each.document_source for each in others} == {view.name}  # their metadata names none
    assert [each.score for each in (best, *others)] == sorted((each.score for each in (best, *others)), reverse=True)
    assert all(0 <= each.score <= 1 for each in (best, *others))


def test_steps_come_in_their_order(ask):
    with serving(marking({}, 5)) as endpoint:
        found = ask(endpoint=endpoint, reranker={"method": "llm"})
    names = [stage.name for stage in found.trace.stages]
    assert names == ["leg vector", "leg fulltext", "fuse", "parents", "rerank", "cut"]


def test_the_vector_search_is_by_cosine():
    (vector, _) = HybridRetriever().variant(5).legs
    assert isinstance(vector, VectorLeg)
    assert vector.distance == "cosine"


# -- legs and fusion -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "depth"), [({}, 6), ({"overfetch": 1}, 2), ({"overfetch": 2}, 4)])
def test_each_leg_is_asked_for_top_k_times_overfetch_which_is_three(ask, options, depth):
    found = ask(top_k=2, **options)
    assert len(found.trace["leg vector"].ranking) == depth
    assert len(found.trace["leg fulltext"].ranking) <= depth
    assert len(found.hits) == (1 if depth == 2 else 2)  # both of a leg's best are children of one parent


@pytest.mark.slow
def test_scores_are_weight_by_k_plus_rank_plus_one_with_ranks_from_zero_and_k_sixty(ask):
    for hit in ask(top_k=4).hits:
        weights = {"vector": 0.7, "fulltext": 0.3}
        assert hit.raw_score == pytest.approx(sum(weights[leg.leg] / (60 + (leg.rank - 1) + 1) for leg in hit.legs))
        assert hit.score == pytest.approx(hit.raw_score * 61)


def test_the_keyword_weight_decides_and_the_vector_has_the_rest(ask):
    by_vector, by_keyword = ask(keyword_weight=0.0), ask(keyword_weight=1.0)
    assert [leg.weight for leg in by_vector.variant.legs] == [1, 0]
    assert [leg.weight for leg in ask().variant.legs] == [0.7, 0.3]
    assert [leg.weight for leg in ask(keyword_weight=0.6).variant.legs] == [0.4, 0.6]
    first = [child for child, _ in by_keyword.trace["leg fulltext"].ranking[:1]]
    assert [child for child, _ in by_keyword.trace["fuse"].ranking[:1]] == first
    assert by_vector.trace["fuse"].ranking != by_keyword.trace["fuse"].ranking


def test_without_keyword_capability_vectors_alone_count_without_error_or_configuration(store, name):
    """A table of somebody's without postings: BM25 has nothing to read."""
    table = f"their_{uuid.uuid4().hex[:12]}"

    async def run(statement, values=None):
        async with store.begin() as connection:
            await connection.execute(text(statement), values or {})

    try:
        bridge.run(run(f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text, emb vector(256))"))
        for number, words in enumerate(["hold the reset button", "bake bread", "a tram leaves"], start=1):
            row = {"n": number, "t": words, "e": str(list(map(float, bridge.run(EMBEDDER.embed([words]))[0])))}
            bridge.run(run(f"INSERT INTO public.{table} VALUES (:n, :t, CAST(:e AS vector))", row))
        mapping = AttachedTable(table=table, id="id", text="body", embedding="emb", model=EMBEDDER.model)
        theirs = bridge.run(attached.attach_table(store, name, mapping))
        base = preset("hybrid-retriever")
        retriever = HybridRetriever(base=base.but(legs=(base.legs[0], Bm25Leg(weight=0.3))))
        found = bridge.run(retriever.search(context(store, theirs), QUERY, 2))
        assert found.hits[0].id == "1"
        assert found.hits[0].score == 1  # the best there is, with the legs there are
        assert any("bm25 is not available" in note for note in found.trace.notes)
        bridge.run(collections.drop(store, name))
    finally:
        bridge.run(run(f"DROP TABLE IF EXISTS public.{table}"))


# -- parents ---------------------------------------------------------------------------------------------------------


def test_a_child_is_replaced_by_its_parents_content_and_keeps_its_score(ask):
    found = ask()
    fused = dict(found.trace["fuse"].ranking)
    for hit in found.hits:
        assert hit.level == "parent"
        assert hit.score in fused.values()
        assert hit.id not in fused  # parents are never searched for


def test_of_several_children_of_one_parent_the_best_one_stands(ask):
    found = ask(top_k=5)
    assert len({hit.id for hit in found.hits}) == len(found.hits)
    assert found.hits[0].score == found.trace["fuse"].ranking[0][1]
    assert any("merged into its parent hub#0000" in gone.reason for gone in found.trace["parents"].dropped)


def test_a_chunk_without_a_parent_passes_through(ask):
    found = ask(chunks="default")
    assert [hit.level for hit in found.hits] == ["passage"] * 3
    assert found.hits[0].id == found.trace["fuse"].ranking[0][0]


@pytest.mark.slow
def test_a_failure_of_parents_passes_results_through_and_shows_in_the_trace(store):
    """The chunk set is gone by the time parents are asked for: its own vectors and lexemes are still there."""
    with collection(store, ITEMS[:2], CHUNKS) as made:
        chunk_set = made.chunk_set("parents")

        async def work():
            retriever = HybridRetriever()
            before = await retriever.search(context(store, made), QUERY, 3)
            async with store.begin(made.namespace) as connection:
                table = f'"{made.namespace}".chunks_{chunk_set.key}'
                await connection.execute(text(f"ALTER TABLE {table} RENAME COLUMN metadata TO elsewhere"))
            return before, await retriever.search(context(store, made), QUERY, 3)

        before, after = bridge.run(work())
    assert before.hits[0].level == "parent"
    assert [hit.level for hit in after.hits] == ["child"] * len(after.hits)
    assert [hit.id for hit in after.hits] == [each for each, _ in after.trace["fuse"].ranking[:3]]
    assert any("passed through unchanged" in note for note in after.trace["parents"].notes)


# -- reranking and the score filter ----------------------------------------------------------------------------------


def test_there_is_no_reranker_by_default(ask):
    assert ask().variant.rerank is None


def test_the_score_reranker_drops_below_a_minimum_and_asks_nobody(ask):
    plain = ask(top_k=5)
    least = plain.hits[1].score
    kept = ask(top_k=5, reranker=ScoreReranker(min_score=least))
    assert [hit.id for hit in kept.hits] == [hit.id for hit in plain.hits if hit.score >= least]
    assert len(kept.hits) < len(plain.hits)
    assert kept.trace["rerank"].dropped


def test_the_language_model_marks_from_zero_to_ten_normalised_sorted_and_cut_to_top_k(ask):
    with serving(marking({"museum": 9, "needle": 6}, 1)) as endpoint:
        found = ask(top_k=2, endpoint=endpoint, reranker={"method": "llm"})
    assert [(hit.item_id, hit.score) for hit in found.hits] == [("news", 0.9), ("lock", 0.6)]
    assert "from 0 (unrelated) to 10" in endpoint.asked[0]["messages"][0]["content"]


@pytest.mark.slow
def test_the_language_model_returns_as_many_as_are_asked_for_even_above_its_own_default(store):
    items = [guide(f"d{number:02}", f"Topic{number}", f"Reset number{number} is here.") for number in range(30)]
    with collection(store, items) as many, serving(marking({}, 5)) as endpoint, using(Session()):
        retriever = HybridRetriever(HybridRetrieverConfig(reranker=LanguageModelReranker()))
        found = bridge.run(retriever.search(context(store, many, endpoint), "reset", 25))
    assert len(found.hits) == 25


def test_more_results_than_the_reranker_can_look_at_are_refused():
    with pytest.raises(SpecError, match="asked for 300 results"):
        HybridRetriever(HybridRetrieverConfig(reranker=LanguageModelReranker())).variant(300)


def test_the_language_models_failure_passes_results_through(ask):
    plain = ask()
    with serving(Reply(status=400)) as endpoint:
        found = ask(endpoint=endpoint, reranker={"method": "llm", "attempts": 1})
    assert [(hit.id, hit.score) for hit in found.hits] == [(hit.id, hit.score) for hit in plain.hits]
    assert any("results passed through" in note for note in found.trace.notes)


SPENT = {URL: "http://127.0.0.1:9/v1", MODEL: "m", MAX_TOKENS: "1"}


@pytest.mark.parametrize("environment", [{}, SPENT], ids=["missing", "spent"])
def test_a_missing_language_model_and_a_spent_budget_pass_results_through_with_a_note(store, view, ask, environment):
    ctx = context(store, view)
    ctx = replace(ctx, resources=replace(ctx.resources, environment=environment))
    config = HybridRetrieverConfig(reranker={"method": "llm"})
    with using(Session()):
        found = bridge.run(HybridRetriever(config).search(ctx, QUERY, 3))
    assert [hit.id for hit in found.hits] == [hit.id for hit in ask().hits]
    assert any("results passed through" in note for note in found.trace["rerank"].notes)
    strict = HybridRetriever(HybridRetrieverConfig(reranker={"method": "llm", "on_failure": "pass"}))
    with using(Session()), pytest.raises((SpecError, BudgetError)):
        bridge.run(strict.search(ctx, QUERY, 3))


class Backwards:
    """The last comes first; what it was given is seen."""

    def __init__(self, failing=False):
        self.failing, self.given = failing, []

    async def rerank(self, ctx, query, results, top_k):
        self.given.append((query, list(results), top_k))
        if self.failing:
            raise OSError("no route")
        return [replace(each, score=at / len(results)) for at, each in enumerate(results)]


def test_a_reranker_is_any_object_that_orders_results(store, view, ask):
    ours = Backwards()
    made = HybridRetriever(HybridRetrieverConfig(min_score=0.3), reranker=ours)
    found = bridge.run(made.retrieve(context(store, view), QUERY, 2))
    ((query, given, top_k),) = ours.given
    assert (query, top_k) == (QUERY, 2)
    assert len(given) > 2, "all candidates, and not the first two"
    assert [each.chunk_id for each in found] == [each.chunk_id for each in given[::-1][:2]]
    assert all(each.score >= 0.3 for each in found)
    with pytest.raises(SpecError, match="Two rerankers"):
        HybridRetriever(HybridRetrieverConfig(reranker={"method": "score"}), reranker=ours)


def test_a_reranker_of_ones_own_that_fails_passes_results_through_with_a_note(store, view, ask):
    found = bridge.run(HybridRetriever(reranker=Backwards(failing=True)).search(context(store, view), QUERY, 3))
    assert [hit.id for hit in found.hits] == [hit.id for hit in ask().hits]
    assert found.trace["rerank"].notes == ("The reranker failed: results passed through. OSError: no route",)


def test_the_reranker_sees_parents(ask):
    with serving(marking({}, 5)) as endpoint:
        ask(endpoint=endpoint, reranker={"method": "llm"})
    assert any("Release the reset button" in each["text"] for each in candidates(endpoint.asked[0]))


@pytest.mark.parametrize(("least", "some"), [(0.05, True), (0.999, False)])
def test_a_minimum_is_compared_with_scores_divided_by_the_most_there_is(ask, least, some):
    plain = ask(top_k=10)
    found = ask(top_k=10, min_score=least)
    assert all(hit.raw_score <= 1 / 61 for hit in plain.hits)
    assert [hit.id for hit in found.hits] == [hit.id for hit in plain.hits if hit.score >= least]
    assert bool(found.hits[1:]) is some


def test_the_minimum_score_is_zero_by_default():
    assert HybridRetriever().variant(5).min_score == 0


def test_a_minimum_that_no_hit_can_reach_is_warned_about(ask):
    found = ask(min_score=1.5)
    assert not found.hits
    assert any("no hit can reach it" in note for note in found.trace.notes)
