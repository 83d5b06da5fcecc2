"""The view model of search results, made of what the retriever returns, with each column's legs and stages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from core.expansion.base import content_words
from core.legs import legs
from core.pipeline.retriever import RetrievalResult
from core.snippets import pieces
from core.types import Hit
from evals.presentation.types import LegShare, ResultColumn, ResultHit, SearchResults

SNIPPET = 240  # characters


def search_results(
    query: str,
    results: Sequence[RetrievalResult],
    *,
    query_id: str | None = None,
    grades: Mapping[str, int] | None = None,
) -> SearchResults:
    """A column for each variant; `grades` are those that the labels give to items for this query."""
    words, grades = content_words(query), grades or {}
    first = _ranks(results[0].hits) if results else {}
    columns = []
    for at, result in enumerate(results):
        best = _ranks(result.hits)
        hits = tuple(
            ResultHit(
                rank=hit.rank,
                id=hit.id,
                item_id=hit.item_id,
                title=hit.title,
                place=place_of(hit),
                score=hit.score,
                snippet=tuple(pieces(passage_of(hit), words, SNIPPET)),
                legs=tuple(
                    LegShare(leg=leg.leg, rank=leg.rank, raw=leg.raw, contribution=leg.contribution) for leg in hit.legs
                ),
                grade=grades.get(hit.item_id),
                previous_rank=first.get(hit.item_id) if at else None,
                repeats_item=best[hit.item_id] < hit.rank,
            )
            for hit in result.hits
        )
        columns.append(
            ResultColumn(
                name=result.variant.name,
                milliseconds=result.trace.milliseconds,
                hits=hits,
                notes=result.trace.notes,
            )
        )
    return SearchResults(query=query, query_id=query_id, columns=tuple(columns))


def _ranks(hits: Sequence[Hit]) -> dict[str, int]:
    """Each document's rank, by its best passage."""
    return {hit.item_id: hit.rank for hit in reversed(hits)}


def place_of(hit: Hit) -> str:
    """The headings above the passage, and its page."""
    headings = " > ".join(hit.heading_path)
    return f"{headings} (p. {hit.page_first})".strip() if hit.page_first else headings


def passage_of(hit: Hit) -> str:
    """The passage without its first line where that repeats one of the headings above it."""
    first, _, rest = hit.text.lstrip().partition("\n")
    repeated = first.startswith("#") and first.lstrip("#").strip() in hit.heading_path
    return rest if repeated and rest.strip() else hit.text


def column_values(result: RetrievalResult) -> dict[str, Any]:
    """What a search cell stores of a column: its legs, what each stage kept and dropped, each hit's rank in each."""
    stages = {stage.name: stage for stage in result.trace.stages}  # of a stage that was done again, the last
    variant = result.variant
    ways: dict[str, list[list[Any]]] = {hit.id: [] for hit in result.hits}
    for stage in stages.values():
        for rank, (unit, score) in enumerate(stage.ranking, start=1):
            if unit in ways and not stage.name.startswith("leg "):
                ways[unit].append([stage.name, rank, score])
    return {
        "variant": variant.name,
        "legs": [
            {"name": name, "kind": legs.name_of(type(leg)), "weight": leg.weight}
            for name, leg in zip(variant.leg_names, variant.legs, strict=True)
        ],
        "stages": [
            {
                "name": stage.name,
                "milliseconds": stage.milliseconds,
                "kept": len(stage.ranking),
                "dropped": [
                    {"reason": reason, "code": code, "limit": limit, "count": count}
                    for (reason, code, limit), count in Counter(
                        (each.reason, each.code, each.limit) for each in stage.dropped
                    ).items()
                ],
            }
            for stage in stages.values()
        ],
        "ways": ways,
    }
