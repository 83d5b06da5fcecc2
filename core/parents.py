"""What a child chunk's parent does to a ranking: nothing, stand in the child's place, or say what section it is of.

Owns those two rules (hybrid-retriever's and rag-module's) as plain functions over hits and the parents fetched for
them, and one call that fetches. It keeps the order and the scores; it never fails a search.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from core.store import passages
from core.store.collections import View
from core.store.engine import Store
from core.store.passages import StoredChunk
from core.store.schema import ChunkSet
from core.trace import Dropped
from core.types import Hit

SECTION_CHARACTERS: Final = 200

Parents = Literal["none", "replace", "annotate"]
Fetched = Mapping[str, StoredChunk]  # the parent of each child, by the child's id


@dataclass(frozen=True, slots=True)
class Resolved:
    """Hits in the order they came in, numbered anew. `dropped` are children whose parent stands there already.

    `stands_for` tells, by the id of a parent that replaced a child, whose score and place it has.
    """

    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    stands_for: Mapping[str, str] = field(default_factory=dict)


async def with_parents(
    store: Store, view: View, chunk_set: ChunkSet | None, hits: Sequence[Hit], how: Parents
) -> Resolved:
    """Fetch the parents of these hits and apply them. Any failure passes results through unchanged, and says so."""
    if how == "none" or not hits:
        return Resolved(tuple(hits))
    try:
        fetched = await passages.parents(store, view, chunk_set, [hit.id for hit in hits])
        return RULES[how](hits, fetched)
    except Exception as error:  # any at all: parents improve a result and must not cost it
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        note = f"Parents could not be read, so results passed through unchanged: {type(error).__name__}: {reason}"
        return Resolved(tuple(hits), notes=(note,))


def replaced(hits: Sequence[Hit], parents: Fetched) -> Resolved:
    """A child's place is taken by its parent's content, with the child's score, legs and title.

    The hit then goes by the parent's id, offsets and pages, since that is what it shows. Of several children of one
    parent the best one stands, which is the first: hits come in best first. A child without a parent passes through.
    """
    kept: dict[str, Hit] = {}
    dropped: list[Dropped] = []
    stands_for: dict[str, str] = {}
    for hit in hits:
        parent = parents.get(hit.id)
        shown = hit if parent is None else _in_place_of(hit, parent)
        if shown.id in kept:
            better = stands_for.get(shown.id, shown.id)
            dropped.append(Dropped(hit.id, f"merged into its parent {shown.id}, which stands there for {better}"))
            continue
        kept[shown.id] = replace(shown, rank=len(kept) + 1)
        if parent is not None:
            stands_for[shown.id] = hit.id
    return Resolved(tuple(kept.values()), tuple(dropped), _orphans(hits, parents), stands_for)


def annotated(hits: Sequence[Hit], parents: Fetched) -> Resolved:
    """A child with a parent gets the parent's first 200 characters as its section; other hits stay as they are."""
    shown = (
        replace(hit, section=parents[hit.id].text[:SECTION_CHARACTERS]) if hit.id in parents else hit for hit in hits
    )
    numbered = tuple(replace(hit, rank=rank) for rank, hit in enumerate(shown, start=1))
    return Resolved(numbered, notes=_orphans(hits, parents))


RULES: Final[Mapping[str, Callable[[Sequence[Hit], Fetched], Resolved]]] = {
    "replace": replaced,
    "annotate": annotated,
}


def _in_place_of(child: Hit, parent: StoredChunk) -> Hit:
    return replace(
        child,
        id=parent.id,
        text=parent.text,
        level=parent.level,
        parent_id=parent.parent_id,
        heading_path=parent.heading_path,
        page_first=parent.page_first,
        page_last=parent.page_last,
        start=parent.start,
        end=parent.end,
    )


def _orphans(hits: Sequence[Hit], parents: Fetched) -> tuple[str, ...]:
    """Children ought to have parents: where some have none, the reader is told."""
    count = sum(hit.level == "child" and hit.id not in parents for hit in hits)
    return (f"{count} of {len(hits)} hits are children without a parent, and stand as they are.",) if count else ()
