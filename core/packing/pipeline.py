"""Packing from end to end: read what stands around the hits, put it in order, fit it to the budget, tell how."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from core.packing.assembling import Draft, assembled, by_mark, mark_of
from core.packing.budget import Fitted, fitted
from core.packing.context import ContextPack, DroppedChunk, PackedChunk, PackTrace, Ranking
from core.packing.rendering import TokenCounter, mark_for, passage
from core.packing.spec import Packing
from core.store import passages
from core.store.collections import View
from core.store.engine import Store
from core.store.schema import ChunkSet
from core.types import Hit

DENSE_LEG = "vector"


async def pack(
    store: Store,
    view: View,
    chunk_set: ChunkSet | None,
    query: str,
    hits: Sequence[Hit],
    packing: Packing,
    count_tokens: TokenCounter,
    *,
    dense: Ranking | None = None,
) -> ContextPack:
    """The context for a query from its reranked hits.

    Hits that are whole items, or rows of an attached table, have nothing around them and are packed alone. `dense` is
    what the vector leg brought up, for the trace; without it, that is gathered from what the hits say of that leg.
    """
    around = await passages.around(
        store,
        view,
        chunk_set,
        [hit.id for hit in hits],
        siblings_on_page=packing.neighbor_same_page,
        on_adjacent_pages=packing.neighbor_cross_page,
    )
    drafts, repeated = assembled(hits, around, packing)
    # Tokenizing is work for a processor: on the loop it would hold up whatever else is searched.
    return await asyncio.to_thread(_packed, query, hits, packing, count_tokens, drafts, repeated, dense)


def _packed(
    query: str,
    hits: Sequence[Hit],
    packing: Packing,
    count_tokens: TokenCounter,
    drafts: Sequence[Draft],
    repeated: Sequence[Draft],
    dense: Ranking | None,
) -> ContextPack:
    mark = mark_for(query, drafts)
    fit = fitted(drafts, packing, mark, count_tokens)
    chunks = tuple(
        _chunk(draft, count_tokens(passage(draft, number, mark))) for number, draft in enumerate(fit.kept, start=1)
    )
    trace = PackTrace(
        dense_candidates=_dense(hits) if dense is None else dense,
        rerank_results=tuple((hit.id, mark_of(hit)) for hit in by_mark(hits) if hit.rerank_score is not None),
        tokens=fit.tokens,
        expansions=_expansions(fit),
        dropped=(*_repeated(repeated), *_over_budget(fit, packing)),
        notes=_notes(fit, packing),
    )
    return ContextPack(query, chunks, tuple(chunk.citation for chunk in chunks), trace, fit.context)


def _chunk(draft: Draft, tokens: int) -> PackedChunk:
    return PackedChunk(
        draft.id, draft.item_id, draft.role, draft.text, tokens, mark_of(draft.hit), draft.hit.id, draft.citation
    )


def _dense(hits: Sequence[Hit]) -> Ranking:
    found = sorted((leg.rank, hit.id, leg.raw) for hit in hits for leg in hit.legs if leg.leg == DENSE_LEG)
    return tuple(dict.fromkeys((chunk_id, raw) for _, chunk_id, raw in found))


def _expansions(fit: Fitted) -> dict[str, int]:
    tally = Counter(draft.role for draft in fit.kept)
    return {"parent": tally["parent"], "sibling": tally["sibling"], "neighbour": tally["neighbour"]}


def _repeated(repeated: Sequence[Draft]) -> list[DroppedChunk]:
    return [DroppedChunk(draft.id, draft.role, "the ranking holds it twice") for draft in repeated]


def _over_budget(fit: Fitted, packing: Packing) -> list[DroppedChunk]:
    reason = f"it does not fit into {packing.final_max_tokens:,} tokens"
    return [DroppedChunk(draft.id, draft.role, reason) for draft in fit.gone]


def _notes(fit: Fitted, packing: Packing) -> tuple[str, ...]:
    if fit.tokens <= packing.final_max_tokens:
        return ()
    note = (
        f"The context takes {fit.tokens:,} tokens, over the budget of {packing.final_max_tokens:,}: its "
        f"{len(fit.kept)} hits take that alone, and min_primary_hits_to_keep, {packing.min_primary_hits_to_keep}, "
        "keeps them."
    )
    return (note,)
