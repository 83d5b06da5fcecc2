"""SYSTEMS.md, section 3, line by line."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from core import bridge
from core.context import Resources
from core.errors import Cancelled, DeadlineExceeded, SpecError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.rerank import ApiReranker
from core.systems.rag_module import RagModule, RagModuleConfig, Rerank
from core.types import Item
from tests.systems.asking import EMBEDDER, QUERY, collection
from tests.unit.misbehaving import Pauses, Reply, serving


@pytest.fixture(scope="module")
def view(store):
    with collection(store) as made:
        yield made


@pytest.fixture
def module(store):
    return RagModule(store, Bm25Leg(), EMBEDDER, resources=Resources(pause=Pauses(), environment={}))


@pytest.fixture
def search(module, view):
    return lambda query=QUERY, **options: bridge.run(module.search(view.name, query, RagModuleConfig(**options)))


@pytest.fixture
def retrieve(module, view):
    return lambda query=QUERY, **options: bridge.run(module.retrieve(view.name, query, RagModuleConfig(**options)))


def depths(found):
    return [len(found.trace[f"leg {leg}"].ranking) for leg in found.variant.leg_names]


# -- configuration ---------------------------------------------------------------------------------------------------


def test_defaults():
    config = RagModuleConfig()
    assert (config.top_k, config.mode, config.fusion, config.rerank) == (10, "hybrid", "rrf", None)
    assert (config.semantic_weight, config.keyword_weight, config.include_parent_context) == (0.7, 0.3, True)
    assert (Rerank().enabled, Rerank().top_k, Rerank().provider) == (True, 20, "local")


def test_a_collection_is_named_and_an_unknown_one_refused(module, view):
    assert bridge.run(module.retrieve(view.name, QUERY))
    with pytest.raises(UnknownName, match="No collection is called"):
        bridge.run(module.retrieve("nowhere", QUERY))


@pytest.mark.parametrize("top_k", [1, 2, 10])
def test_top_k_cuts_and_is_the_depth_of_each_leg(search, top_k):
    found = search(top_k=top_k)
    assert len(found.hits) == min(top_k, len(found.trace["fuse"].ranking))
    assert max(depths(found)) == top_k


def test_modes_ask_one_search_or_both(retrieve):
    semantic, keyword, hybrid = retrieve(mode="semantic"), retrieve(mode="keyword"), retrieve()
    assert all(each.semantic_score is not None and each.keyword_score is None for each in semantic)
    assert all(each.keyword_score is not None and each.semantic_score is None for each in keyword)
    assert any(each.keyword_score is not None and each.semantic_score is not None for each in hybrid)
    assert [each.score for each in semantic] == [each.semantic_score for each in semantic]
    assert [each.score for each in keyword] == [each.keyword_score for each in keyword]


def test_any_keyword_index_will_do(store, view, retrieve):
    other = bridge.run(
        RagModule(store, FulltextLeg(), EMBEDDER).retrieve(view.name, QUERY, RagModuleConfig(mode="keyword"))
    )
    assert {each.document_id for each in other} == {each.document_id for each in retrieve(mode="keyword")}
    assert [each.score for each in other] != [each.score for each in retrieve(mode="keyword")]


# -- fusion ----------------------------------------------------------------------------------------------------------


def test_rrf_ignores_the_weights(search):
    one, other = search(), search(semantic_weight=0.1, keyword_weight=5.0)
    assert [(hit.id, hit.score) for hit in one.hits] == [(hit.id, hit.score) for hit in other.hits]
    for hit in one.hits:
        assert hit.raw_score == pytest.approx(sum(1 / (60 + (leg.rank - 1) + 1) for leg in hit.legs))


def test_weighted_is_the_sum_of_raw_score_times_weight_and_an_absent_leg_adds_nothing(retrieve):
    found = retrieve(fusion="weighted", top_k=8)
    for each in found:
        assert each.score == pytest.approx(0.7 * (each.semantic_score or 0) + 0.3 * (each.keyword_score or 0))
    assert any(each.keyword_score is None for each in found)


@pytest.mark.parametrize("options", [{"semantic_weight": 5.0}, {"keyword_weight": 5.0}])
def test_weights_change_the_weighted_fusion(retrieve, options):
    plain, other = retrieve(fusion="weighted"), retrieve(fusion="weighted", **options)
    assert [each.score for each in plain] != [each.score for each in other]


def test_every_result_carries_its_breakdown(retrieve):
    for each in retrieve(rerank=Rerank()):
        assert each.rerank_score is not None
        assert each.semantic_score is not None or each.keyword_score is not None
    assert all(each.rerank_score is None for each in retrieve())


# -- reranking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_rerank_top_k_is_also_the_depth_of_each_leg_and_of_the_fusion_and_top_k_the_final_cut(search, enabled):
    found = search(top_k=2, rerank=Rerank(top_k=5, enabled=enabled))
    assert max(depths(found)) == 5
    assert len(found.trace["fuse"].ranking) == 5
    assert len(found.hits) == 2
    assert max(depths(search(top_k=2, rerank=Rerank(top_k=4)))) == 4


@pytest.mark.slow
def test_local_rerank_orders_by_the_share_of_query_words_and_leaves_scores_as_they_were(store, module):
    texts = {"near": "alpha.", "full": "Beta, ALPHA; one two three four five six seven.", "tie": "alpha zero zero zero"}
    with collection(store, [Item(each, text) for each, text in texts.items()]) as made:
        config = RagModuleConfig(mode="semantic", chunks="default", rerank=Rerank(enabled=False))
        plain, found = (
            bridge.run(module.retrieve(made.name, "Alpha beta gamma", each))
            for each in (config, config.model_copy(update={"rerank": Rerank()}))
        )
    assert [each.document_id for each in plain] == ["near", "full", "tie"]
    assert [each.document_id for each in found] == ["full", "near", "tie"]  # of the two with one word, as they came
    assert [each.rerank_score for each in found] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert {each.document_id: each.score for each in found} == {each.document_id: each.score for each in plain}


def scoring(body):
    """An endpoint that likes the museum."""
    scores = [0.9 if "museum" in text else 0.1 for text in body["documents"]]
    rows = [{"index": index, "relevance_score": score} for index, score in enumerate(scores)]
    return Reply({"results": rows[: body["top_n"]]})


def test_api_rerank_posts_model_query_documents_and_top_n_and_its_scores_become_the_scores(store, view):
    with serving(scoring) as endpoint:
        given = {"RANKBOOK_RERANK_URL": endpoint.url, "RANKBOOK_RERANK_KEY": "secret"}
        module = RagModule(store, Bm25Leg(), EMBEDDER, resources=Resources(pause=Pauses(), environment=given))
        rerank = Rerank(provider="api", base_url=endpoint.url, model="judge")
        found = bridge.run(module.retrieve(view.name, QUERY, RagModuleConfig(rerank=rerank)))
    assert endpoint.paths == ["/v1/rerank"]
    assert set(endpoint.asked[0]) == {"model", "query", "documents", "top_n"}
    assert (endpoint.asked[0]["model"], endpoint.asked[0]["query"]) == ("judge", QUERY)
    assert endpoint.headers[0]["Authorization"] == "Bearer secret"
    assert (found[0].document_id, found[0].score, found[0].rerank_score) == ("news", 0.9, 0.9)
    assert {each.score for each in found} == {0.9, 0.1}


def test_the_bearer_key_is_optional(search):
    with serving(scoring) as endpoint:
        search(rerank=Rerank(provider="api", base_url=endpoint.url, model="judge"))
    assert "Authorization" not in endpoint.headers[0]


def test_the_endpoints_key_and_time_out_can_be_given_in_code(store, view):
    with serving(scoring) as endpoint:
        plain = Resources(pause=Pauses(), environment={})
        made = RagModule(store, Bm25Leg(), EMBEDDER, resources=plain, rerank_key="of our own")
        rerank = Rerank(provider="api", base_url=endpoint.url, model="judge", timeout=7)
        bridge.run(made.retrieve(view.name, QUERY, RagModuleConfig(rerank=rerank)))
    assert endpoint.headers[0]["Authorization"] == "Bearer of our own"
    variant = made.variant(RagModuleConfig(rerank=rerank))
    assert isinstance(variant.rerank, ApiReranker)
    assert variant.rerank.timeout == 7
    assert "of our own" not in variant.to_toml()


class Backwards:
    """Turns results round, the more so the longer they wait."""

    def __init__(self, waits: float = 0.0) -> None:
        self.waits = waits
        self.seen: list[tuple[str, list[str], int]] = []

    async def rerank(self, ctx, query, results, top_k):
        self.seen.append((query, [each.chunk_id for each in results], top_k))
        await asyncio.sleep(self.waits)
        return [replace(each, score=place / 100) for place, each in enumerate(results, start=1)]


def test_a_reranker_of_ones_own_takes_the_providers_place(store, view):
    reranker = Backwards()
    module = RagModule(store, Bm25Leg(), EMBEDDER, resources=Resources(environment={}), reranker=reranker)

    def retrieve(**options):
        return bridge.run(module.retrieve(view.name, QUERY, RagModuleConfig(top_k=2, **options)))

    plain = retrieve(rerank=Rerank(enabled=False, top_k=4))
    assert not reranker.seen
    turned = retrieve(rerank=Rerank(top_k=4))
    ((query, candidates, top_k),) = reranker.seen
    assert (query, len(candidates), top_k) == (QUERY, 4, 2)
    assert candidates[:2] == [each.chunk_id for each in plain]
    assert [each.chunk_id for each in turned] == candidates[:1:-1]
    assert [(each.score, each.rerank_score) for each in turned] == [(0.04, 0.04), (0.03, 0.03)]
    assert len(retrieve()) == 2
    assert len(reranker.seen[1][1]) == 2
    assert bridge.run(module.retrieve(view.name, "", RagModuleConfig(mode="keyword"))) == []
    assert len(reranker.seen) == 2


def test_a_reranker_of_ones_own_is_stopped_by_the_deadline(store, view):
    module = RagModule(store, Bm25Leg(), EMBEDDER, resources=Resources(environment={}), reranker=Backwards(600))
    with pytest.raises(DeadlineExceeded):
        bridge.run(module.retrieve(view.name, QUERY, deadline=0.5))


def test_a_retrieval_is_stopped_by_its_token_and_by_its_deadline(module, view):
    token = asyncio.Event()
    token.set()
    with pytest.raises(Cancelled):
        bridge.run(module.retrieve(view.name, QUERY, cancellation=token))
    with pytest.raises(DeadlineExceeded):
        bridge.run(module.retrieve(view.name, QUERY, deadline=1e-9))


def test_no_results_in_none_out_and_no_call(search):
    with serving(scoring) as endpoint:
        rerank = Rerank(provider="api", base_url=endpoint.url, model="judge")
        assert not search("zzz", mode="keyword", rerank=rerank).hits
    assert not endpoint.asked


def test_a_failing_endpoint_passes_results_through_with_a_note(search):
    with serving(Reply(status=400)) as endpoint:
        found = search(rerank=Rerank(provider="api", base_url=endpoint.url, model="judge"))
    assert [hit.id for hit in found.hits] == [hit.id for hit in search(rerank=Rerank(enabled=False)).hits]
    assert any("passed through" in note for note in found.trace.notes)


# -- parents and filters ---------------------------------------------------------------------------------------------


def test_a_child_says_how_its_parent_begins_in_two_hundred_characters_after_reranking(search):
    found = search(rerank=Rerank())
    names = [stage.name for stage in found.trace.stages]
    assert names.index("parents") > names.index("rerank")
    best = found.hits[0]
    assert best.level == "child"
    assert best.section is not None
    assert best.section.startswith("# ")
    assert best.text in best.section
    assert all(len(hit.section or "") <= 200 for hit in found.hits)


def test_chunks_without_a_parent_stay_as_they_are_and_parent_context_can_be_left_out(retrieve):
    assert all(each.section is None for each in retrieve(chunks="default"))
    assert all(each.section is None for each in retrieve(include_parent_context=False))
    assert any(each.section for each in retrieve())


@pytest.mark.parametrize(
    ("given", "documents"),
    [
        ({"field": "type", "eq": "recipe"}, {"bread"}),
        ({"field": "type", "ne": "documentation"}, {"bread", "news", "show"}),
        ({"field": "date", "gt": "2024-06-01"}, {"tram"}),
        ({"field": "date", "gte": "2024-06-01"}, {"tram", "news"}),
        ({"field": "date", "lt": "2024-01-01"}, {"lock"}),
        ({"field": "date", "lte": "2024-05-01"}, {"lock", "hub"}),
        ({"field": "type", "in": ["recipe", "documentation"]}, {"bread", "hub", "lock", "tram"}),
        ({"field": "source", "contains": "manual"}, {"hub"}),
        ({"field": "date", "exists": False}, {"bread", "show"}),
        ({"or": [{"field": "type", "eq": "recipe"}, {"field": "kind", "eq": "guide"}]}, {"bread", "hub"}),
        ({"not": {"field": "type", "eq": "documentation"}}, {"bread", "news", "show"}),
        ({"and": [{"field": "type", "eq": "documentation"}, {"field": "date", "gt": "2024-01-01"}]}, {"hub", "tram"}),
    ],
)
def test_filters_are_conditions_on_metadata_joined_by_and_or_not(retrieve, given, documents):
    found = retrieve("hold the ten minutes", top_k=50, filter=given)
    assert {each.document_id for each in found} == documents


# -- building --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left_out", "named"), [("store", "a store"), ("keyword_index", "a keyword index"), ("embedder", "an embedder")]
)
def test_building_without_a_part_is_refused_in_a_sentence_that_names_it(store, left_out, named):
    parts = {"store": store, "keyword_index": Bm25Leg(), "embedder": EMBEDDER} | {left_out: None}
    with pytest.raises(SpecError, match=f"cannot be built without {named}") as refused:
        RagModule(**parts)
    assert str(refused.value).count("without") == 1


def test_building_from_nothing_names_all_that_is_missing():
    with pytest.raises(SpecError, match=r"a store .* a keyword index .* an embedder"):
        RagModule()
