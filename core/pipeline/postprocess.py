"""What happens to fused hits: the cap per item, cuts, and parents in place of their chunks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from core.store import passages
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import StoredChunk
from core.store.schema import ChunkSet
from core.types import Dropped, Hit

if TYPE_CHECKING:
    from core.variant import Variant


def out_of_reach(hits: Sequence[Hit], least: float) -> list[str]:
    """Why a threshold left nothing. Said of what came: an endpoint's scores, or raw ones, may be above 1."""
    if not hits:
        return []
    best = max(hit.score for hit in hits)
    if best <= 1 < least:
        return [f"min_score is {least:g}, and relative scores end at 1: no hit can reach it. Lower it."]
    return [f"No hit reaches min_score {least:g}: the best of {len(hits)} scores {best:.4g}. Lower it."]


def never_reached(variant: Variant) -> list[str]:
    """That a threshold drops nothing, where no result of these legs can score so little."""
    least = variant.least_score
    if least is None or not 0 < variant.min_score <= least:
        return []
    said = f"min_score is {variant.min_score:g} and drops nothing: no result of these legs scores below {least:.3f}."
    return [f"{said} Set it above that, or set a threshold on a leg's own similarity."]


def capped(hits: Sequence[Hit], most: int) -> tuple[list[Hit], list[Hit]]:
    """The first hits of each item in the order they stand, numbered anew; and those beyond the most of one item."""
    seen: Counter[str] = Counter()
    kept: list[Hit] = []
    gone: list[Hit] = []
    for hit in hits:
        seen[hit.item_id] += 1
        (kept if seen[hit.item_id] <= most else gone).append(hit)
    return numbered(kept), gone


def numbered(hits: Sequence[Hit]) -> list[Hit]:
    """The hits with ranks from 1 in the order they stand."""
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1)]


SECTION_CHARACTERS: Final = 200

Parents = Literal["none", "replace", "annotate"]
Fetched = Mapping[str, StoredChunk]  # the parent of each child, by the child's id


@dataclass(frozen=True, slots=True)
class ResolvedParents:
    """Hits in the order they came in, numbered anew. `dropped` are children whose parent stands there already.

    `stands_for` tells, by the id of a parent that replaced a child, whose score and place it has.
    """

    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    stands_for: Mapping[str, str] = field(default_factory=dict)


async def with_parents(
    store: Store, view: CollectionView, chunk_set: ChunkSet | None, hits: Sequence[Hit], how: Parents
) -> ResolvedParents:
    """Fetch the parents of these hits and apply them. Any failure passes results through unchanged, and says so."""
    if how == "none" or not hits:
        return ResolvedParents(tuple(hits))
    try:
        fetched = await passages.parents(store, view, chunk_set, [hit.id for hit in hits])
        return RULES[how](hits, fetched)
    except Exception as error:  # any at all: parents improve a result and must not cost it
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        note = f"Parents could not be read, so results passed through unchanged: {type(error).__name__}: {reason}"
        return ResolvedParents(tuple(hits), notes=(note,))


def replaced(hits: Sequence[Hit], parents: Fetched) -> ResolvedParents:
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
    return ResolvedParents(tuple(kept.values()), tuple(dropped), _orphans(hits, parents), stands_for)


def annotated(hits: Sequence[Hit], parents: Fetched) -> ResolvedParents:
    """A child with a parent gets the parent's first 200 characters as its section; other hits stay as they are."""
    shown = (
        replace(hit, section=parents[hit.id].text[:SECTION_CHARACTERS]) if hit.id in parents else hit for hit in hits
    )
    numbered = tuple(replace(hit, rank=rank) for rank, hit in enumerate(shown, start=1))
    return ResolvedParents(numbered, notes=_orphans(hits, parents))


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


RULES: Final[Mapping[str, Callable[[Sequence[Hit], Fetched], ResolvedParents]]] = {
    "replace": replaced,
    "annotate": annotated,
}
