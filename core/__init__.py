"""Retrieval on PostgreSQL. Knows nothing of labels, metrics or screens.

The public names below are loaded when they are first used, so `import core` stays cheap. The function `explain` and the
registry `legs` bear their packages' names: `from core.explain import explain`, `from core.legs import legs`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Each public name's module; after a colon, the name that it has there where that is another.
_HOME = {
    "AttachedTable": "core.store.attached",
    "Chunk": "core.types",
    "Chunker": "core.chunking",
    "CollectionView": "core.store.collections",
    "DEFAULT_MODEL": "core.embedding",
    "Embedder": "core.embedding",
    "EvidenceChunk": "core.types",
    "Expansion": "core.expansion",
    "Explanation": "core.explain",
    "ExportedSql": "core.sql_export",
    "Fusion": "core.fusion",
    "Hit": "core.types",
    "Ingest": "core.store.ingest",
    "Item": "core.types",
    "LateChunking": "core.variant",
    "Leg": "core.legs",
    "LegScore": "core.types",
    "Query": "core.types",
    "RankbookError": "core.errors",
    "RequestContext": "core.context",
    "Reranker": "core.rerank",
    "Resources": "core.context",
    "RetrievalResult": "core.pipeline.retriever",
    "Rollup": "core.variant",
    "Store": "core.store.engine",
    "Trace": "core.types",
    "Variant": "core.variant",
    "attach_table": "core.store.attached",
    "chunkers": "core.chunking",
    "create_collection": "core.store.collections:create",
    "drop_collection": "core.store.collections:drop",
    "embedder": "core.embedding",
    "estimate_calls": "core.pipeline.cost_estimate",
    "expansions": "core.expansion",
    "export_sql": "core.sql_export",
    "find_collection": "core.store.collections:find",
    "fusions": "core.fusion",
    "get_collection": "core.store.collections:get",
    "list_collections": "core.store.collections:listed",
    "preset": "core.presets",
    "preset_names": "core.presets:names",
    "rerankers": "core.rerank",
    "run_sync": "core.bridge:run",
    "search": "core.pipeline.retriever",
}
__all__ = [
    "DEFAULT_MODEL",
    "AttachedTable",
    "Chunk",
    "Chunker",
    "CollectionView",
    "Embedder",
    "EvidenceChunk",
    "Expansion",
    "Explanation",
    "ExportedSql",
    "Fusion",
    "Hit",
    "Ingest",
    "Item",
    "LateChunking",
    "Leg",
    "LegScore",
    "Query",
    "RankbookError",
    "RequestContext",
    "Reranker",
    "Resources",
    "RetrievalResult",
    "Rollup",
    "Store",
    "Trace",
    "Variant",
    "attach_table",
    "chunkers",
    "create_collection",
    "drop_collection",
    "embedder",
    "estimate_calls",
    "expansions",
    "export_sql",
    "find_collection",
    "fusions",
    "get_collection",
    "list_collections",
    "preset",
    "preset_names",
    "rerankers",
    "run_sync",
    "search",
]

if TYPE_CHECKING:
    from core.bridge import run as run_sync
    from core.chunking import Chunker, chunkers
    from core.context import RequestContext, Resources
    from core.embedding import DEFAULT_MODEL, Embedder, embedder
    from core.errors import RankbookError
    from core.expansion import Expansion, expansions
    from core.explain import Explanation
    from core.fusion import Fusion, fusions
    from core.legs import Leg
    from core.pipeline.cost_estimate import estimate_calls
    from core.pipeline.retriever import RetrievalResult, search
    from core.presets import names as preset_names
    from core.presets import preset
    from core.rerank import Reranker, rerankers
    from core.sql_export import ExportedSql, export_sql
    from core.store.attached import AttachedTable, attach_table
    from core.store.collections import CollectionView
    from core.store.collections import create as create_collection
    from core.store.collections import drop as drop_collection
    from core.store.collections import find as find_collection
    from core.store.collections import get as get_collection
    from core.store.collections import listed as list_collections
    from core.store.engine import Store
    from core.store.ingest import Ingest
    from core.types import Chunk, EvidenceChunk, Hit, Item, LegScore, Query, Trace
    from core.variant import LateChunking, Rollup, Variant
else:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, original = _HOME[name].partition(":")
        return getattr(import_module(module), original or name)
