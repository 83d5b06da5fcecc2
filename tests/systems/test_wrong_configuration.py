"""Of every system: a wrong configuration is one of the project's own errors, in a sentence that names what is wrong."""

# mypy: disable-error-code="call-arg, arg-type, list-item, no-untyped-def"

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.errors import SpecError
from core.legs.bm25 import Bm25Leg
from core.presets import preset
from core.systems import context_pack, hybrid_retriever, late_chunking, local_rag, rag_module

ENVIRONMENT = {"RANKBOOK_PACK_TOP_K_DENSE": "many", "RANKBOOK_PACK_FINAL_MAX_TOKENS": "9000"}
WRONG: list[tuple[Callable[[], object], str]] = [
    (lambda: hybrid_retriever.HybridRetrieverConfig(keyword_weight=2), "keyword_weight: must be 1 or less"),
    (lambda: hybrid_retriever.HybridRetrieverConfig(reranker={"method": "llmm"}), "Did you mean 'llm'"),
    (lambda: hybrid_retriever.HybridRetrieverConfig(keyword_wait=0.2), "keyword_wait: is not known here"),
    (lambda: hybrid_retriever.HybridRetriever(base=preset("context-pack")), "has the legs vector"),
    (lambda: hybrid_retriever.HybridRetriever().variant(0), "top_k: must be 1 or more"),
    (lambda: context_pack.ContextPackConfig(top_k_dense=0), "top_k_dense: must be 1 or more"),
    (
        lambda: context_pack.ContextPackConfig.from_environment(ENVIRONMENT),
        "RANKBOOK_PACK_TOP_K_DENSE.*top_k_dense: must be a",
    ),
    (lambda: context_pack.ContextPackConfig(return_top_n=0).variant(), "return_top_n: must be 1 or more"),
    (lambda: rag_module.RagModuleConfig(mode="both"), "mode: must be one of 'semantic', 'keyword' or 'hybrid'"),
    (lambda: rag_module.RagModuleConfig(rerank={"top_k": 0}), "top_k: must be 1 or more"),
    (lambda: rag_module.RagModuleConfig(filter={"field": "type"}), "is compared with nothing"),
    (lambda: rag_module.RagModule(object(), "bm25", object()), "The keyword index of a rag module is a leg"),
    (lambda: rag_module.RagModule(None, Bm25Leg(), None), "without a store .* and without an embedder"),
    (lambda: local_rag.LocalRagConfig(similarityThreshold=3), "similarityThreshold: must be 1 or less"),
    (lambda: local_rag.LocalRagConfig(weights={"poem": {"vector": 1}}).variant(), "No query kind"),
    (lambda: late_chunking.RetrievalPrefs(query_text="x", scoring={"blend": "sum"}), "blend: must be one of"),
    (lambda: late_chunking.RetrievalPrefs(query_text="x", snippet={"max_chars": -1}), "snippet.max_chars"),
    (lambda: late_chunking.ChunkingPrefs(overlap_tokens=-1), "overlap_tokens: must be 0 or more"),
    (late_chunking.RetrievalPrefs, "query_text: is missing"),
]


@pytest.mark.parametrize(("given", "said"), WRONG)
def test_a_wrong_configuration_is_an_error_of_ours_in_a_sentence(given, said):
    with pytest.raises(SpecError, match=said) as refused:
        given()
    assert "\n" not in str(refused.value)
