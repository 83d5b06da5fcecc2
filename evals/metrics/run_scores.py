"""A run's scores: each metric by the labels of items or of chunks, and which chunk carries which label."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from sqlalchemy import Row, select

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.schema import ItemRow, any_id, chunk_table
from core.variant import Variant
from evals.measures import MEASURES, Metric
from evals.metrics import scoring, spans
from evals.metrics.scoring import Scores
from evals.metrics.spans import ReturnedPassage, chunk_grades
from evals.runs.rankings import Rankings
from evals.runs.types import Run
from evals.types import Grades, QuerySplit


async def chunk_labels(store: Store, view: CollectionView, runs: Sequence[Run], split: QuerySplit) -> dict[str, Grades]:
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


def _has_chunks(view: CollectionView, run: Run) -> bool:
    return view.row.attached is None and run.variant is not None and run.variant.chunks != ITEMS


def _units(variant: Variant) -> tuple[str, str]:
    """A chunk set, and the level in it that the variant never returns."""
    return variant.chunks, "child" if variant.parents == "replace" else "parent"


async def _passages(
    store: Store, view: CollectionView, chunk_set: str, never: str, items: Sequence[str]
) -> list[ReturnedPassage]:
    chunks = chunk_table(view.chunk_set(chunk_set).key)
    asked = (
        select(chunks.c.id, ItemRow.id.label("item_id"), chunks.c.start_at, chunks.c.end_at)
        .join_from(chunks, ItemRow, ItemRow.key == chunks.c.item_key)
        .where(ItemRow.id == any_id(items), chunks.c.level != never)
        .order_by(chunks.c.id)
    )
    async with store.begin(view.namespace, read_only=True) as connection:
        return [_passage(row) for row in await connection.execute(asked)]


def _passage(row: Row[tuple[str, str, int, int]]) -> ReturnedPassage:
    return ReturnedPassage(row.id, row.item_id, row.start_at, row.end_at)


def grades_of(split: QuerySplit) -> Grades:
    """The labels of the split's own queries, which may be fewer than have labels."""
    return {query: split.grades[query] for query in split.queries if query in split.grades}


def scored(
    split: QuerySplit, run: Run, wanted: Sequence[str], chunk_labels: Mapping[str, Grades], labels: scoring.Labels
) -> dict[str, Scores]:
    """The run's scores by metric: over labels of items, over labels of chunks, or over spans.

    `labels` are the split's own, made once for all runs. Metrics that look beyond what ships see what is behind it too.
    """
    found: dict[str, Scores] = {}
    for beyond in (False, True):
        if some := [metric for metric in wanted if run.looks_beyond(metric) is beyond]:
            found |= _scored(split, run, run.seen_by(some[0]), some, chunk_labels, labels)
    return found


def _scored(
    split: QuerySplit,
    run: Run,
    rankings: Rankings,
    wanted: Sequence[str],
    chunk_labels: Mapping[str, Grades],
    labels: scoring.Labels,
) -> dict[str, Scores]:
    parsed = [Metric.parse(each) for each in wanted]
    over_spans = [str(each) for each in parsed if MEASURES[each.measure].of_spans]
    over_chunks = [str(each) for each in parsed if each.level == "units"]
    over_labels = [each for each in wanted if each not in over_spans and each not in over_chunks]
    answers = {query: split.spans[query] for query in split.queries if query in split.spans}
    found: dict[str, Scores] = {}
    if over_labels:
        scores = scoring.score_rankings(labels, rankings, over_labels)
        if not scores.queries:
            raise InputError(f"No query of the split {split.name!r} has a relevant item, so nothing can be scored.")
        found |= dict.fromkeys(over_labels, scores)
    for names in filter(None, (over_spans, over_chunks)):
        if not any(span.grade > 0 for spans_of in answers.values() for span in spans_of):
            raise InputError(f"No query of the split {split.name!r} has an answer span: {names[0]} needs them.")
    if over_spans:
        found |= dict.fromkeys(over_spans, spans.score_spans(answers, rankings, over_spans))
    if over_chunks:
        found |= dict.fromkeys(over_chunks, _chunk_scores(answers, run, rankings, over_chunks, chunk_labels))
    return found


def _chunk_scores(
    answers: spans.Answers,
    run: Run,
    rankings: Rankings,
    wanted: Sequence[str],
    chunk_labels: Mapping[str, Grades],
) -> Scores:
    """Over every query with an answer, so that chunk sets can be compared: one that no chunk answers scores 0."""
    labels = chunk_labels.get(run.variant.id) if run.variant else None
    if labels is None:
        raise InputError(
            f"{wanted[0]} scores chunks, and {run.name!r} ranks none of a chunk set here. Rank the chunks of a chunk "
            "set, or score items: leave out 'chunk_'."
        )
    return scoring.score_rankings(labels, rankings, wanted, level="units").over(
        sorted(query for query, given in answers.items() if any(span.grade > 0 for span in given))
    )
