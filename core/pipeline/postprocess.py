"""What happens to fused hits: roll-up, cap per item, parents and the final cut. Hits in, a `StageResult` out.

Only parents are read from the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from core.store import passages
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import StoredChunk
from core.store.schema import ChunkSet
from core.types import Dropped, Hit, StageResult

if TYPE_CHECKING:
    from core.variant import Rollup, Variant

SECTION_CHARACTERS: Final = 200


def numbered(hits: Sequence[Hit]) -> tuple[Hit, ...]:
    """The hits with ranks from 1 in the order they stand."""
    return tuple(replace(hit, rank=rank) for rank, hit in enumerate(hits, start=1))


def roll_up(hits: Sequence[Hit], rollup: Rollup, top_k: int, fused_depth: int | None) -> StageResult:
    """One hit an item. A note says so where `fused_depth` kept too few items from being found."""
    by_item: dict[str, list[Hit]] = {}
    for hit in hits:
        by_item.setdefault(hit.item_id, []).append(hit)
    kept = sorted(map(rollup.of, by_item.values()), key=lambda hit: (-hit.score, hit.rank, hit.id.encode()))
    dropped = tuple(
        Dropped(hit.id, f"{best.id} stands for its item", "rolled up")
        for best, *others in by_item.values()
        for hit in others
    )
    few = len(kept) < top_k and len(hits) == fused_depth
    note = f"The {len(hits)} chunks that fused_depth lets through are of too few items. Raise it."
    return StageResult(numbered(kept), dropped, (note,) if few else ())


def cap_per_item(hits: Sequence[Hit], most: int, top_k: int) -> StageResult:
    """The first hits of each item, in their order."""
    seen: Counter[str] = Counter()
    kept: list[Hit] = []
    dropped: list[Dropped] = []
    for hit in hits:
        seen[hit.item_id] += 1
        if seen[hit.item_id] <= most:
            kept.append(hit)
        else:
            reason = f"per_item_cap is {most}, and as many of its item stand before it"
            dropped.append(Dropped(hit.id, reason, "per_item_cap", str(most)))
    note = f"per_item_cap left {len(kept)} of the {top_k} asked for. Raise it, or overfetch."
    return StageResult(numbered(kept), tuple(dropped), (note,) if dropped and len(kept) < top_k else ())


def cut(hits: Sequence[Hit], min_score: float, top_k: int) -> tuple[StageResult, tuple[Hit, ...]]:
    """The hits that come out, and those that only `top_k` cuts off, ranked on."""
    kept = numbered([hit for hit in hits if hit.score >= min_score])
    below = [
        Dropped(hit.id, f"its score is below min_score {min_score:g}", "min_score", f"{min_score:g}")
        for hit in hits
        if hit.score < min_score
    ]
    beyond = [Dropped(hit.id, f"its place is beyond top_k {top_k}", "top_k", str(top_k)) for hit in kept[top_k:]]
    note = ""
    if hits and not kept:
        # By the scores that came: those of an endpoint, or raw ones, may be above 1.
        best = max(hit.score for hit in hits)
        note = f"No hit reaches min_score {min_score:g}: the best of {len(hits)} scores {best:.4g}. Lower it."
        if best <= 1 < min_score:
            note = f"min_score is {min_score:g}, and relative scores end at 1: no hit can reach it. Lower it."
    return StageResult(kept[:top_k], (*below, *beyond), (note,) if note else ()), kept[top_k:]


def never_reached(variant: Variant) -> list[str]:
    """That a threshold drops nothing, where no result of these legs can score so little."""
    least = variant.least_score
    if least is None or not 0 < variant.min_score <= least:
        return []
    problem = f"min_score is {variant.min_score:g} and drops nothing: no result of these legs scores below {least:.3f}."
    return [f"{problem} Set it above that, or set a threshold on a leg's own similarity."]


async def resolve_parents(
    store: Store,
    view: CollectionView,
    chunk_set: ChunkSet | None,
    hits: Sequence[Hit],
    how: Literal["replace", "annotate"],
) -> StageResult:
    """Apply the parents of these hits. Any failure passes results through unchanged, and says so."""
    if not hits:
        return StageResult()
    try:
        parents = await passages.parents(store, view, chunk_set, [hit.id for hit in hits])
    except Exception as error:  # any at all: parents improve a result and must not cost it
        reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
        note = f"Parents could not be read, so results passed through unchanged: {type(error).__name__}: {reason}"
        return StageResult.unchanged(hits, note)
    result = replace_by_parents(hits, parents) if how == "replace" else annotate(hits, parents)
    orphans = sum(hit.level == "child" and hit.id not in parents for hit in hits)
    note = f"{orphans} of {len(hits)} hits are children without a parent, and stand as they are."
    return replace(result, notes=(note,)) if orphans else result


def replace_by_parents(hits: Sequence[Hit], parents: Mapping[str, StoredChunk]) -> StageResult:
    """A child's place is taken by its parent's content, with the child's score, legs and title.

    The hit then goes by the parent's id, offsets and pages, since that is what it shows. Of several children of one
    parent the best one stands, which is the first: hits come in best first. A child without a parent passes through.
    """
    kept: dict[str, Hit] = {}
    children: dict[str, str] = {}  # the child whose place a parent has
    dropped: list[Dropped] = []
    for hit in hits:
        parent = parents.get(hit.id)
        shown = hit
        if parent is not None:
            shown = replace(
                hit,
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
        if shown.id in kept:
            better = children.get(shown.id, shown.id)
            reason = f"merged into its parent {shown.id}, which stands there for {better}"
            dropped.append(Dropped(hit.id, reason, "merged"))
            continue
        kept[shown.id] = shown
        if parent is not None:
            children[shown.id] = hit.id
    return StageResult(numbered(list(kept.values())), tuple(dropped))


def annotate(hits: Sequence[Hit], parents: Mapping[str, StoredChunk]) -> StageResult:
    """A child with a parent gets the parent's first 200 characters as its section; other hits stay as they are."""
    sections = {child: parent.text[:SECTION_CHARACTERS] for child, parent in parents.items()}
    shown = [replace(hit, section=sections[hit.id]) if hit.id in sections else hit for hit in hits]
    return StageResult(numbered(shown))
