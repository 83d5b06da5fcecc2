"""Hits packed into a context: drafts assembled, fitted to the budget of tokens, rendered with citations."""

from __future__ import annotations

import asyncio
import hashlib
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final

from core.embedding import Embedder
from core.packing.types import (
    Citation,
    ContextPack,
    DroppedChunk,
    PackedChunk,
    Packing,
    PackTrace,
    Ranking,
    Role,
    ranges_of,
)
from core.store import passages
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import Around, StoredChunk
from core.store.schema import ChunkSet
from core.types import Hit, TokenCounter

BETWEEN = "\n\n"


def token_counter(embedder: Embedder) -> TokenCounter:
    """Counts by the model's own tokenizer. Special tokens are empty, and no part of a text."""
    return lambda text: sum(end > start for start, end in embedder.tokenize(text))


def mark_for(query: str, drafts: Sequence[ContextDraft]) -> str:
    """Twelve digits that no passage holds; the same for the same query and passages."""
    everything = json.dumps([query, *((draft.id, draft.text) for draft in drafts)])
    marks = (hashlib.sha256(f"{attempt} {everything}".encode()).hexdigest()[:12] for attempt in count())
    return next(mark for mark in marks if not any(mark in draft.text for draft in drafts))


def rendered(drafts: Sequence[ContextDraft], mark: str) -> str:
    return BETWEEN.join(passage(draft, number, mark) for number, draft in enumerate(drafts, start=1))


def passage(draft: ContextDraft, number: int, mark: str) -> str:
    return f"<passage {mark} {number}>\n{draft.citation}\n{draft.text}\n</passage {mark} {number}>"


@dataclass(frozen=True, slots=True)
class ContextDraft:
    """A chunk that may become part of the context, and the hit that it came with."""

    id: str
    item_id: str
    role: Role
    text: str
    hit: Hit
    citation: Citation


def mark_of(hit: Hit) -> float:
    return hit.score if hit.rerank_score is None else hit.rerank_score


def by_mark(hits: Sequence[Hit]) -> list[Hit]:
    """Reranked hits by their mark, then those beyond the reranker's depth; ties keep their rank, then go by id.

    Where nothing was reranked the rank decides: it is the order of the scores, ties settled.
    """
    return sorted(hits, key=lambda hit: (hit.rerank_score is None, -(hit.rerank_score or 0.0), hit.rank, hit.id))


def assembled(hits: Sequence[Hit], around: Around, packing: Packing) -> tuple[list[ContextDraft], list[ContextDraft]]:
    """The chunks in order, each once; and the hits that were in already.

    Hits come first, each followed by its parent; then the siblings of all, then the neighbours of all.
    """
    hits_once: dict[str, ContextDraft] = {}
    repeated: list[ContextDraft] = []
    for hit in by_mark(hits):
        # A hit as it came in; what is stored of it adds the rows and items, which a hit does not carry.
        stored = around.chunks.get(hit.id)
        pages, ranges = _pages(hit.page_first, hit.page_last), ranges_of(stored.metadata) if stored else {}
        citation = Citation(hit.id, hit.item_id, pages, hit.heading_path, ranges.get("rows"), ranges.get("items"))
        draft = ContextDraft(hit.id, hit.item_id, "primary", hit.text, hit, citation)
        if hit.id in hits_once:
            repeated.append(draft)
        hits_once.setdefault(hit.id, draft)
    primaries, drafts = list(hits_once.values()), dict(hits_once)
    added: dict[str, list[ContextDraft]] = {}
    for primary in primaries:
        parent = around.parents.get(primary.id)
        if packing.include_parents and parent is not None and parent.id not in drafts:
            drafts[parent.id] = _added(parent, "parent", primary.hit)
            added[primary.id] = [drafts[parent.id]]
    in_order = [draft for primary in primaries for draft in (primary, *added.get(primary.id, ()))]
    nearby: dict[Role, Mapping[str, tuple[StoredChunk, ...]]] = {
        "sibling": around.siblings,
        "neighbour": around.neighbours,
    }
    for role, chunks in nearby.items():
        for primary in primaries:
            for chunk in chunks.get(primary.id, ()):
                if chunk.id not in drafts:
                    drafts[chunk.id] = _added(chunk, role, primary.hit)
                    in_order.append(drafts[chunk.id])
    return in_order, repeated


def _added(chunk: StoredChunk, role: Role, hit: Hit) -> ContextDraft:
    pages, ranges = _pages(chunk.page_first, chunk.page_last), ranges_of(chunk.metadata)
    citation = Citation(chunk.id, chunk.item_id, pages, chunk.heading_path, ranges.get("rows"), ranges.get("items"))
    return ContextDraft(chunk.id, chunk.item_id, role, chunk.text, hit, citation)


def _pages(first: int | None, last: int | None) -> tuple[int, int] | None:
    return None if first is None else (first, first if last is None else last)


ORDER_OF_GOING: Final[tuple[Role, ...]] = ("neighbour", "sibling", "parent", "primary")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What stays and what goes, the first to go first; the text of what stays, and its tokens."""

    kept: tuple[ContextDraft, ...]
    gone: tuple[ContextDraft, ...]
    context: str
    tokens: int


def fitted(drafts: Sequence[ContextDraft], packing: Packing, mark: str, count_tokens: TokenCounter) -> Fitted:
    """As few go as must. Found by halving, since leaving out more never takes more: few texts need to be counted."""
    primaries = [draft for draft in drafts if draft.role == "primary"]
    staying = {draft.id for draft in primaries[: packing.min_primary_hits_to_keep]}
    going = [
        draft for role in ORDER_OF_GOING for draft in reversed(drafts) if draft.role == role and draft.id not in staying
    ]

    def left_by(number: int) -> tuple[ContextDraft, ...]:
        gone = {draft.id for draft in going[:number]}
        return tuple(draft for draft in drafts if draft.id not in gone)

    def fits(number: int) -> bool:
        return count_tokens(rendered(left_by(number), mark)) <= packing.final_max_tokens

    number = bisect_left(range(len(going)), True, key=fits)
    context = rendered(left_by(number), mark)
    return Fitted(left_by(number), tuple(going[:number]), context, count_tokens(context))


DENSE_LEG = "vector"


async def pack(
    store: Store,
    view: CollectionView,
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
    the vector leg's ranking, for the trace; without it, that is gathered from what the hits say of that leg.
    """
    around = await passages.around(
        store,
        view,
        chunk_set,
        [hit.id for hit in hits],
        siblings_on_page=packing.neighbor_same_page,
        on_adjacent_pages=packing.neighbor_cross_page,
    )
    # Tokenizing is work for a processor: on the loop it would hold up whatever else is searched.
    return await asyncio.to_thread(_packed, query, hits, around, packing, count_tokens, dense)


def _packed(
    query: str,
    hits: Sequence[Hit],
    around: Around,
    packing: Packing,
    count_tokens: TokenCounter,
    dense: Ranking | None,
) -> ContextPack:
    drafts, repeated = assembled(hits, around, packing)
    mark, budget = mark_for(query, drafts), packing.final_max_tokens
    fit = fitted(drafts, packing, mark, count_tokens)
    chunks = []
    for number, draft in enumerate(fit.kept, start=1):
        tokens, hit = count_tokens(passage(draft, number, mark)), draft.hit
        chunks.append(
            PackedChunk(draft.id, draft.item_id, draft.role, draft.text, tokens, mark_of(hit), hit.id, draft.citation)
        )
    if dense is None:
        by_rank = sorted((leg.rank, hit.id, leg.raw) for hit in hits for leg in hit.legs if leg.leg == DENSE_LEG)
        dense = tuple(dict.fromkeys((chunk_id, raw) for _, chunk_id, raw in by_rank))
    roles = Counter(draft.role for draft in fit.kept)
    note = (
        f"The context takes {fit.tokens:,} tokens, over the budget of {budget:,}: its {len(fit.kept)} hits take that "
        f"alone, and min_primary_hits_to_keep, {packing.min_primary_hits_to_keep}, keeps them."
    )
    trace = PackTrace(
        dense_candidates=dense,
        rerank_results=tuple((hit.id, mark_of(hit)) for hit in by_mark(hits) if hit.rerank_score is not None),
        tokens=fit.tokens,
        expansions={"parent": roles["parent"], "sibling": roles["sibling"], "neighbour": roles["neighbour"]},
        dropped=(
            *(DroppedChunk(draft.id, draft.role, "the ranking holds it twice") for draft in repeated),
            *(DroppedChunk(draft.id, draft.role, f"it does not fit into {budget:,} tokens") for draft in fit.gone),
        ),
        notes=(note,) if fit.tokens > budget else (),
    )
    return ContextPack(query, tuple(chunks), tuple(chunk.citation for chunk in chunks), trace, fit.context)
