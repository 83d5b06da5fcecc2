"""Which chunks come together, and in what order. Counts nothing, drops nothing for want of room.

Order: hits by mark, each followed at once by its parent; then siblings of one parent; then neighbours across pages;
both in the order of their hits and, of one hit, the nearest first. A chunk is taken once, in the first of these parts
that it has. Siblings and neighbours are the nearest in the text whatever else is there: one that is in already is not
made up for by another further off, which would say less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from core.packing.citing import Citation, ranges_of
from core.packing.context import Role
from core.packing.spec import Packing
from core.store.passages import Around, StoredChunk
from core.types import Hit


@dataclass(frozen=True, slots=True)
class Draft:
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
    """Reranked hits by their mark, those beyond the reranker's depth behind them; ties keep their rank, then go by id.

    Where nothing was reranked the rank decides: it is the order of the scores, ties settled.
    """
    return sorted(hits, key=lambda hit: (hit.rerank_score is None, -(hit.rerank_score or 0.0), hit.rank, hit.id))


def assembled(hits: Sequence[Hit], around: Around, packing: Packing) -> tuple[list[Draft], list[Draft]]:
    """The chunks in order, each once; and the hits that were in already."""
    primaries, repeated = _primaries(hits, around)
    taken = {draft.id for draft in primaries}
    drafts: list[Draft] = []
    for primary in primaries:
        drafts.append(primary)
        parent = around.parents.get(primary.id)
        if packing.include_parents and parent is not None and parent.id not in taken:
            taken.add(parent.id)
            drafts.append(_added(parent, "parent", primary.hit))
    for draft in _neighbourhood(primaries, around):
        if draft.id not in taken:
            taken.add(draft.id)
            drafts.append(draft)
    return drafts, repeated


def _neighbourhood(primaries: Sequence[Draft], around: Around) -> Iterator[Draft]:
    for primary in primaries:
        yield from (_added(each, "sibling", primary.hit) for each in around.siblings.get(primary.id, ()))
    for primary in primaries:
        yield from (_added(each, "neighbour", primary.hit) for each in around.neighbours.get(primary.id, ()))


def _primaries(hits: Sequence[Hit], around: Around) -> tuple[list[Draft], list[Draft]]:
    once: dict[str, Draft] = {}
    repeated: list[Draft] = []
    for hit in by_mark(hits):
        draft = _primary(hit, around.chunks.get(hit.id))
        if hit.id in once:
            repeated.append(draft)
        once.setdefault(hit.id, draft)
    return list(once.values()), repeated


def _primary(hit: Hit, stored: StoredChunk | None) -> Draft:
    """The hit as it came in. What is stored of it adds only rows and items: a hit does not carry those."""
    pages = _pages(hit.page_first, hit.page_last)
    ranges = ranges_of(stored.metadata) if stored else {}
    citation = Citation(hit.id, hit.item_id, pages, hit.heading_path, ranges.get("rows"), ranges.get("items"))
    return Draft(hit.id, hit.item_id, "primary", hit.text, hit, citation)


def _added(chunk: StoredChunk, role: Role, hit: Hit) -> Draft:
    pages, ranges = _pages(chunk.page_first, chunk.page_last), ranges_of(chunk.metadata)
    citation = Citation(chunk.id, chunk.item_id, pages, chunk.heading_path, ranges.get("rows"), ranges.get("items"))
    return Draft(chunk.id, chunk.item_id, role, chunk.text, hit, citation)


def _pages(first: int | None, last: int | None) -> tuple[int, int] | None:
    return None if first is None else (first, first if last is None else last)
