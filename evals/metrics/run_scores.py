"""A run's scores: each metric by the labels of items or of chunks, and which chunk carries which label."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.schema import ItemRow, any_id, chunk_table
from evals.measures import MEASURES, Metric
from evals.metrics import scoring, spans
from evals.metrics.scoring import Scores
from evals.metrics.spans import ReturnedPassage, chunk_grades
from evals.runs.types import Run
from evals.types import Grades, QuerySplit


async def chunk_labels(store: Store, view: CollectionView, runs: Sequence[Run], split: QuerySplit) -> dict[str, Grades]:
    """The labels of each run's chunks, by the id of its variant; a run without chunks of ours has none.

    What a variant cannot return has no label: of parents and children, the parents where they take their children's
    place, else the children. Recall counts every labelled chunk.
    """
    answers = {query: split.spans[query] for query in split.queries if query in split.spans}
    items = sorted({span.item_id for spans in answers.values() for span in spans})
    variants = {run.variant.id: run.variant for run in runs if run.variant is not None}
    by_set: dict[tuple[str, str], Grades] = {}
    labels: dict[str, Grades] = {}
    for identity, variant in variants.items():
        if view.row.attached is not None or variant.chunks == ITEMS:
            continue
        never = "child" if variant.parents == "replace" else "parent"  # the level that is never returned
        key = (variant.chunks, never)
        if key not in by_set:
            chunks = chunk_table(view.chunk_set(variant.chunks).key)
            query = (
                select(chunks.c.id, ItemRow.id.label("item_id"), chunks.c.start_at, chunks.c.end_at)
                .join_from(chunks, ItemRow, ItemRow.key == chunks.c.item_key)
                .where(ItemRow.id == any_id(items), chunks.c.level != never)
                .order_by(chunks.c.id)
            )
            async with store.begin(view.namespace, read_only=True) as connection:
                passages = [
                    ReturnedPassage(row.id, row.item_id, row.start_at, row.end_at)
                    for row in await connection.execute(query)
                ]
            by_set[key] = await asyncio.to_thread(chunk_grades, answers, passages)
        labels[identity] = by_set[key]
    return labels


def grades_of(split: QuerySplit) -> Grades:
    """The labels of the split's own queries, which may be fewer than have labels."""
    return {query: split.grades[query] for query in split.queries if query in split.grades}


def scored(
    split: QuerySplit, run: Run, wanted: Sequence[str], chunk_labels: Mapping[str, Grades], labels: scoring.Labels
) -> dict[str, Scores]:
    """The run's scores by metric: over labels of items, over labels of chunks, or over spans.

    `labels` are the split's own, made once for all runs. Metrics that look beyond what ships see what is behind it too.
    """
    answers = {query: split.spans[query] for query in split.queries if query in split.spans}
    answered = sorted(query for query, spans in answers.items() if any(span.grade > 0 for span in spans))
    scores: dict[str, Scores] = {}
    for beyond in (False, True):
        metrics = [metric for metric in map(Metric.parse, wanted) if run.looks_beyond(metric) is beyond]
        if not metrics:
            continue
        rankings = run.seen_by(metrics[0])
        over_spans = [str(metric) for metric in metrics if MEASURES[metric.measure].of_spans]
        over_chunks = [str(metric) for metric in metrics if metric.level == "units"]
        over_items = [str(metric) for metric in metrics if str(metric) not in (*over_spans, *over_chunks)]
        if over_items:
            of_items = scoring.score_rankings(labels, rankings, over_items)
            if not of_items.queries:
                raise InputError(f"No query of the split {split.name!r} has a relevant item, so nothing can be scored.")
            scores |= dict.fromkeys(over_items, of_items)
        if not answered and (over_spans or over_chunks):
            first = (*over_spans, *over_chunks)[0]
            raise InputError(f"No query of the split {split.name!r} has an answer span: {first} needs them.")
        if over_spans:
            scores |= dict.fromkeys(over_spans, spans.score_spans(answers, rankings, over_spans))
        if over_chunks:
            of_chunks = chunk_labels.get(run.variant.id) if run.variant else None
            if of_chunks is None:
                raise InputError(
                    f"{over_chunks[0]} scores chunks, and {run.name!r} ranks none of a chunk set here. Rank the chunks "
                    "of a chunk set, or score items: leave out 'chunk_'."
                )
            found = scoring.score_rankings(of_chunks, rankings, over_chunks, level="units")
            # over every query with an answer, so that chunk sets can be compared: one that no chunk answers scores 0
            scores |= dict.fromkeys(over_chunks, found.over(answered))
    return scores
