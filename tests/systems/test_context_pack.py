"""SYSTEMS.md, section 2: what the system adds to packing, whose own lines are in tests/store/test_packing.py."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import gc
import re
from dataclasses import replace
from typing import Any

import pytest

from core import bridge
from core.context import Resources
from core.embedding.openai_backend import OpenAIEmbedder
from core.errors import Cancelled, EmbeddingError, SpecError
from core.llm import Session, using
from core.systems.context_pack import ContextPack, ContextPackConfig, ContextPackRetriever, _Batched
from core.types import Item
from tests.fakes import HashingEmbedder, words
from tests.store.making import fresh, ingest, make
from tests.systems.asking import QUERY, candidates, collection, context, marking, resources
from tests.unit.misbehaving import Pauses, Reply, completion, serving

PAGES = ["Hold the reset button. Wait for the lamp.", "The lamp blinks. It turns green.", "Press reset again. Done."]
BOOK = Item("book", "\f".join(PAGES), title="Book", metadata={"type": "guide"})
LEAF = Item("leaf", "A reset button lies here.\fA leaf falls.", title="Leaf", metadata={"type": "poem"})
CHUNKS = {"parents": {"kind": "parent_child", "parents": "pages", "parent_tokens": 60, "child_tokens": 6}}
NAMED = {"RANKBOOK_LLM_URL": "http://127.0.0.1:9/v1", "RANKBOOK_LLM_MODEL": "small"}
MARKS = {"Hold": 100, "Press": 70, "lies": 40}


@pytest.fixture(scope="module")
def view(store):
    with collection(store, [BOOK, LEAF], CHUNKS) as made:
        yield made


@pytest.fixture
def ask(store, view):
    def work(query=QUERY, *, answer=None, filters=None, session=None, environment=None, count_tokens=None, **options):
        answers = [marking(MARKS, grounds=True)] if answer is None else answer
        with serving(*answers) as endpoint, using(session or Session()):
            ctx = context(store, view, endpoint, count_tokens=count_tokens)
            ctx = replace(
                ctx, resources=replace(ctx.resources, environment={**ctx.resources.environment, **(environment or {})})
            )
            config = ContextPackConfig(**options) if options else None
            found = bridge.run(ContextPackRetriever(ctx).retrieve(query, filters, config))
        return found, endpoint

    return work


def roles(found, role):
    return [chunk.id for chunk in found.selected_chunks if chunk.role == role]


# -- retrieval -------------------------------------------------------------------------------------------------------


def test_retrieve_gives_a_pack_with_query_chunks_citations_trace_and_context(ask):
    found, _ = ask()
    assert isinstance(found, ContextPack)
    assert found.query == QUERY
    assert len(found.citations) == len(found.selected_chunks)
    assert "Hold the reset button." in found.context_pack
    assert found.citations[0] == "Doc: book | Page: 1"


@pytest.mark.slow
def test_the_query_is_embedded_through_an_openai_style_provider(store, name):
    """The provider is a local server; what it is asked, and that its vectors are searched with, is seen."""
    plain = HashingEmbedder(256)

    def embeddings(body):
        rows = [{"index": n, "embedding": plain._vector(each).tolist()} for n, each in enumerate(body["input"])]
        return Reply({"data": rows})

    with serving(embeddings) as provider, serving(marking(MARKS, grounds=True)) as model, using(Session()):
        remote = OpenAIEmbedder("theirs", base_url=provider.url)
        bridge.run(remote.embed(["to know its dimension"]))
        make(store, name, [remote], CHUNKS)
        ingest(store, name, [BOOK, LEAF], [remote])
        ctx = context(store, fresh(store, name), model)
        ctx = replace(ctx, resources=replace(ctx.resources, embedder=lambda _: remote))
        asked = len(provider.asked)
        found = bridge.run(ContextPackRetriever(ctx).retrieve(QUERY))
    assert provider.paths[-1].endswith("/embeddings")
    assert [body["input"] for body in provider.asked[asked:]] == [[QUERY]]
    assert found.selected_chunks[0].text == "Hold the reset button."


@pytest.mark.slow
def test_query_embeddings_are_batched(store, view):
    class Counting(HashingEmbedder):
        asked: list[list[str]]

        async def embed(self, texts, purpose="document"):
            self.asked.append(list(texts))
            return await super().embed(texts, purpose)

    embedder = Counting(256)
    embedder.asked = []
    queries = [QUERY, "the lamp", "a leaf"]
    with serving(marking(MARKS, grounds=True)) as endpoint, using(Session()):
        ctx = context(store, view, resources=replace(resources(endpoint), embedder=lambda _: embedder))
        packs = bridge.run(ContextPackRetriever(ctx).retrieve_all(queries))
    assert embedder.asked == [queries]
    assert [pack.query for pack in packs] == queries


@pytest.mark.slow
@pytest.mark.parametrize("stopped_by", ["task", "token"])
def test_the_batch_ends_with_the_searches_that_wait_for_it_and_nobody_logs_its_error(store, view, stopped_by):
    began: list[list[str]] = []
    ended: list[bool] = []
    logged: list[object] = []
    stops: list[Any] = []

    class Endless(HashingEmbedder):
        async def embed(self, texts, purpose="document"):
            began.append(list(texts))
            asyncio.get_running_loop().call_soon(stops[0])
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(True)
                raise EmbeddingError("It was stopped.")

    async def work():
        loop, token, embedder = asyncio.get_running_loop(), asyncio.Event(), Endless(256)
        ctx = context(store, view, resources=replace(Resources(environment=NAMED), embedder=lambda _: embedder))
        searching = ContextPackRetriever(replace(ctx, cancellation=token)).retrieve_all([QUERY, "the lamp"])
        task = asyncio.create_task(searching)
        stops.append(token.set if stopped_by == "token" else task.cancel)
        loop.set_exception_handler(lambda _, about: logged.append(about))
        with pytest.raises((asyncio.CancelledError, Cancelled)):
            await task
        gc.collect()
        loop.set_exception_handler(None)

    bridge.run(work())
    assert began == [[QUERY, "the lamp"]]
    assert ended == [True]
    assert logged == []


def test_a_search_that_is_given_up_leaves_the_batch_to_the_others():
    async def work():
        embedder = HashingEmbedder(256)
        let = asyncio.Event()

        class Slow(HashingEmbedder):
            async def embed(self, texts, purpose="document"):
                await let.wait()
                return await embedder.embed(texts, purpose)

        batched = _Batched(Slow(256), ["a", "b"])
        first, second = (asyncio.create_task(batched.embed([each], "query")) for each in "ab")
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait({first})
        let.set()
        assert (await second == (await embedder.embed(["b"]))).all()
        assert embedder.texts[:2] == ["a", "b"]

    bridge.run(work())


@pytest.mark.slow
def test_a_query_of_what_no_model_reads_does_not_cost_the_others_their_batch(store, view):
    embedder = HashingEmbedder(256)
    with serving(marking(MARKS, grounds=True)) as endpoint, using(Session()):
        ctx = context(store, view, resources=replace(resources(endpoint), embedder=lambda _: embedder))
        bridge.run(ContextPackRetriever(ctx).retrieve_all([QUERY, "a\x00 leaf\udcff"]))
    assert embedder.texts == [QUERY, "a leaf\N{REPLACEMENT CHARACTER}"]


@pytest.mark.slow
def test_several_queries_give_what_each_gives_alone(store, view, ask):
    with serving(marking(MARKS, grounds=True)) as endpoint, using(Session()):
        packs = bridge.run(ContextPackRetriever(context(store, view, endpoint)).retrieve_all([QUERY, "a leaf"]))
    assert [pack.context_pack for pack in packs] == [ask(query)[0].context_pack for query in (QUERY, "a leaf")]


def test_dense_candidates_are_as_many_as_top_k_dense(ask):
    few, endpoint = ask(top_k_dense=2)
    assert len(few.trace.dense_candidates) == 2
    assert len(candidates(endpoint.asked[0])) == 2
    assert len(ask(top_k_dense=4)[0].trace.dense_candidates) == 4


def test_filters_leave_documents_out(ask):
    found, _ = ask(filters={"field": "type", "eq": "poem"})
    assert {chunk.item_id for chunk in found.selected_chunks} == {"leaf"}


@pytest.mark.parametrize("filters", [{"doc_id": "leaf"}, {"doc_id": ["leaf", "nowhere"]}, {"type": "poem"}])
def test_filters_are_fields_with_their_values_and_a_documents_own_id_is_one(ask, filters):
    found, _ = ask(filters=filters)
    assert {chunk.item_id for chunk in found.selected_chunks} == {"leaf"}


def test_the_trace_has_its_counts_under_their_published_names(ask):
    found, _ = ask()
    assert found.trace.final_token_count == found.trace.tokens > 0
    assert found.trace.expansion_counts == found.trace.expansions


def test_answerability_may_be_a_json_boolean(ask):
    def boolean(body):
        answer = marking(MARKS, grounds=True)
        assert callable(answer)
        answered = answer(body)
        message = answered.body["choices"][0]["message"]
        message["content"] = message["content"].replace('"yes"', "true").replace('"no"', "false")
        return answered

    said, words = (ask(answer=answer)[0].trace.marks for answer in ([boolean], None))
    assert said == words
    assert {mark.answerable for mark in said} <= {True, False}


# -- the language model ----------------------------------------------------------------------------------------------


def test_one_prompt_holds_the_query_and_all_candidates(ask):
    _, endpoint = ask()
    assert len(endpoint.asked) == 1
    assert QUERY in endpoint.asked[0]["messages"][1]["content"]
    assert "100: answers the query directly" in endpoint.asked[0]["messages"][0]["content"]


def test_primaries_are_sorted_by_mark(ask):
    found, _ = ask(return_top_n=3)
    assert [chunk.mark for chunk in found.selected_chunks if chunk.role == "primary"] == [1.0, 0.7, 0.4]


def test_marks_tell_chunk_relevance_answerability_and_evidence(ask):
    found, _ = ask(return_top_n=3)
    best = found.trace.marks[0]
    assert (best.chunk_id, best.relevance_score, best.answerable, best.key_evidence) == ("book#0001", 100, True, "so")
    marks = [mark.relevance_score for mark in found.trace.marks]
    assert marks == sorted(marks, reverse=True)


def test_only_so_many_candidates_are_marked(ask):
    _, endpoint = ask(max_candidates_to_rerank=3)
    assert len(candidates(endpoint.asked[0])) == 3
    assert ContextPackConfig().max_candidates_to_rerank == 50


def test_only_so_many_of_the_marked_are_packed(ask):
    assert len(roles(ask(return_top_n=1)[0], "primary")) == 1
    assert len(roles(ask(return_top_n=3)[0], "primary")) == 3
    assert ContextPackConfig().return_top_n == 15


@pytest.mark.slow
def test_each_text_is_cut_for_the_model(ask):
    _, endpoint = ask(max_text_chars_per_candidate=4)
    assert max(len(each["text"]) for each in candidates(endpoint.asked[0])) == 4
    assert ContextPackConfig().max_text_chars_per_candidate == 1200


def test_the_models_name_is_configurable(ask):
    assert ask(model_name="large")[1].asked[0]["model"] == "large"
    assert ask()[1].asked[0]["model"] == "small"


def test_strict_json_is_on_and_takes_nothing_else_while_off_it_looks_for_json_in_the_text(ask):
    def chatty(body):
        answer = marking(MARKS, grounds=True)
        assert callable(answer)
        good = answer(body).body["choices"][0]["message"]["content"]
        return completion(f"Here you are: {good}")

    strict, _ = ask(answer=[chatty])
    loose, _ = ask(answer=[chatty], strict_json_output=False)
    assert not strict.trace.marks
    assert any("passed through" in note for note in strict.trace.notes)
    assert loose.trace.marks[0].relevance_score == 100


def test_it_is_asked_again_with_growing_pauses(store, view):
    pauses = Pauses()
    with serving(Reply(status=503), completion("no"), marking(MARKS, grounds=True)) as endpoint, using(Session()):
        ctx = context(store, view, endpoint)
        ctx = replace(ctx, resources=replace(ctx.resources, pause=pauses))
        found = bridge.run(ContextPackRetriever(ctx).retrieve(QUERY))
    assert found.trace.marks
    assert len(endpoint.asked) == 3
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2


def test_rerank_results_are_cached_by_query_and_candidates(store, view):
    with serving(marking(MARKS, grounds=True)) as endpoint, using(Session()):
        retriever = ContextPackRetriever(context(store, view, endpoint))
        packs = [bridge.run(retriever.retrieve(query)) for query in (QUERY, QUERY, "another query")]
    assert packs[0].context_pack == packs[1].context_pack
    assert len(endpoint.asked) == 2


# -- assembly, budget, trace -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "off", "role"),
    [
        ("include_parents", False, "parent"),
        ("neighbor_same_page", 0, "sibling"),
        ("neighbor_cross_page", 0, "neighbour"),
    ],
)
def test_each_kind_of_expansion_is_on_and_can_be_turned_off(ask, option, off, role):
    on = ask(return_top_n=1)[0]
    assert on.trace.expansions[role] == len(roles(on, role)) > 0
    without = ask(return_top_n=1, **{option: off})[0]
    assert without.trace.expansions[role] == 0


def test_defaults_of_assembly_and_budget():
    config = ContextPackConfig()
    assert (config.include_parents, config.neighbor_same_page, config.neighbor_cross_page) == (True, 1, 2)
    assert (config.final_max_tokens, config.min_primary_hits_to_keep) == (12_000, 3)


def test_the_budget_drops_all_but_the_first_primaries(ask):
    tight = ask(final_max_tokens=1)[0]
    assert [chunk.role for chunk in tight.selected_chunks] == ["primary"] * 3
    assert len(ask(final_max_tokens=1, min_primary_hits_to_keep=1)[0].selected_chunks) == 1


def test_tokens_are_counted_by_the_embedding_models_tokenizer_and_the_counter_is_exchangeable(ask):
    found = ask()[0]
    assert found.trace.tokens == len(words(found.context_pack))
    assert ask(count_tokens=len)[0].trace.tokens == len(found.context_pack)


def test_the_trace_tells_all_dense_candidates_rerank_results_tokens_and_expansions(ask):
    trace = ask(return_top_n=2)[0].trace
    assert len(trace.dense_candidates) > 2
    assert [score for _, score in trace.rerank_results] == [1.0, 0.7]
    assert trace.tokens > 0
    assert set(trace.expansions) == {"parent", "sibling", "neighbour"}


# -- configuration ---------------------------------------------------------------------------------------------------


def test_configuration_comes_from_the_environment_too(ask):
    found, endpoint = ask(environment={"RANKBOOK_PACK_TOP_K_DENSE": "3", "RANKBOOK_PACK_INCLUDE_PARENTS": "false"})
    assert len(candidates(endpoint.asked[0])) == 3
    assert not roles(found, "parent")


@pytest.mark.parametrize("option", sorted(ContextPackConfig.model_fields))
def test_every_option_is_read_from_the_environment_unless_code_gives_it(option):
    values = {"chunks": "a", "embedding_model": "b", "model_name": "c", "include_parents": "false"}
    values["strict_json_output"] = "false"
    named = {f"RANKBOOK_PACK_{option.upper()}": values.get(option, "7")}
    assert getattr(ContextPackConfig.from_environment(named), option) != getattr(ContextPackConfig(), option)
    own = getattr(ContextPackConfig(), option)
    assert getattr(ContextPackConfig.from_environment(named, **{option: own}), option) == own


def test_a_wrong_variable_is_named():
    with pytest.raises(SpecError, match=re.escape("RANKBOOK_PACK_TOP_K_DENSE")):
        ContextPackConfig.from_environment({"RANKBOOK_PACK_TOP_K_DENSE": "many"})
