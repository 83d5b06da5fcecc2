"""Labels of chunks for runs that are to be scored by them: where the chunks of answering items stand, set by set.

Reads offsets, one statement a chunk set, and no texts. Which chunk answers what is `evals.spans`'s to say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy import Row, select

from core.store.collections import View
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.schema import Item, any_id, chunk_table
from core.variant import Variant
from evals.runs import Run
from evals.spans import Passage, chunk_grades
from evals.splits import Grades, Split


async def chunk_labels(store: Store, view: View, runs: Sequence[Run], split: Split) -> dict[str, Grades]:
    """The labels of each run's chunks, by the id of its variant; a run without chunks of ours has none.

    What a variant cannot return has no label: of parents and children, the parents where they take their children's
    place, else the children. Recall counts every labelled chunk.
    """
    answers = {query: split.spans[query] for query in split.queries if query in split.spans}
    items = sorted({span.item_id for spans in answers.values() for span in spans})
    variants = {run.variant.id: run.variant for run in runs if run.variant is not None and _has_chunks(view, run)}
    found: dict[tuple[str, str], Grades] = {}
    for variant in variants.values():
        key = _units(variant)
        if key not in found:
            passages = await _passages(store, view, *key, items)
            found[key] = await asyncio.to_thread(chunk_grades, answers, passages)
    return {each: found[_units(variant)] for each, variant in variants.items()}


def _has_chunks(view: View, run: Run) -> bool:
    return view.row.attached is None and run.variant is not None and run.variant.chunks != ITEMS


def _units(variant: Variant) -> tuple[str, str]:
    """A chunk set, and the level in it that the variant never returns."""
    return variant.chunks, "child" if variant.parents == "replace" else "parent"


async def _passages(store: Store, view: View, chunk_set: str, never: str, items: Sequence[str]) -> list[Passage]:
    chunks = chunk_table(view.chunk_set(chunk_set).key)
    asked = (
        select(chunks.c.id, Item.id.label("item_id"), chunks.c.start_at, chunks.c.end_at)
        .join_from(chunks, Item, Item.key == chunks.c.item_key)
        .where(Item.id == any_id(items), chunks.c.level != never)
        .order_by(chunks.c.id)
    )
    async with store.begin(view.namespace, read_only=True) as connection:
        return [_passage(row) for row in await connection.execute(asked)]


def _passage(row: Row[tuple[str, str, int, int]]) -> Passage:
    return Passage(row.id, row.item_id, row.start_at, row.end_at)
