"""What is cut of a ranking beside its depth: chunks beyond the most of one item, and what is said of a threshold.

Pure functions of hits; the pipeline writes what they drop into the trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from core.types import Hit

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
