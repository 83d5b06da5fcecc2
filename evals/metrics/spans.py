"""Scores of chunks against the characters that answer: recall, precision and IoU of spans, and labels of chunks.

As in "Evaluating Chunking Strategies for Retrieval" (Smith and Troynikov, Chroma technical
report, 2024), with characters for its tokens: what several chunks hold counts once among the answers that were found,
and each time among what was returned, so that overlapping chunks cost precision and IoU.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.errors import InputError, SpecError
from evals.measures import MEASURES, HeldCharacters, Metric
from evals.metrics.scoring import Scores
from evals.runs.rankings import Ranking, Rankings
from evals.types import Span

Range = tuple[int, int]
Answers = Mapping[str, Sequence[Span]]  # by query, as in Split.spans


@dataclass(frozen=True, slots=True)
class ReturnedPassage:
    """Where a chunk stands: `item.text[start:end]`."""

    id: str
    item_id: str
    start: int
    end: int


def score_spans(answers: Answers, rankings: Rankings, metrics: Sequence[Metric | str]) -> Scores:
    """Span metrics for each query that has an answer; one that is not in `rankings`, or is empty, scores 0.

    A cut-off counts chunks. `:min2` takes the answers of grade 2 or more; a query without one scores 0.
    """
    wanted = [Metric.of(metric) for metric in metrics]
    formulas = {name: measure.of_spans for name, measure in MEASURES.items() if measure.of_spans is not None}
    for metric in wanted:
        if metric.measure not in formulas:
            here = ", ".join(formulas)
            raise SpecError(
                f"{metric} is no metric over spans: evals.metrics.scoring.score_rankings scores it. Here: {here}."
            )
    queries = tuple(sorted(query for query, spans in answers.items() if any(span.grade > 0 for span in spans)))
    values = np.zeros((len(wanted), len(queries)))
    for column, query in enumerate(queries):
        passages = passages_of(rankings.get(query, Ranking()))
        for row, metric in enumerate(wanted):
            relevant = [span for span in answers[query] if span.grade >= metric.least]
            values[row, column] = formulas[metric.measure](held(relevant, passages[: metric.cutoff]))
    return Scores(queries, tuple(map(str, wanted)), values)


def passages_of(ranking: Ranking) -> list[ReturnedPassage]:
    """The ranking's chunks with their places, each once."""
    if not len(ranking.ids) == len(ranking.spans) == len(ranking.items):
        raise InputError(
            "This ranking does not say where in its items its hits stand, so spans cannot be scored: "
            "rank the chunks of a chunk set, not whole items."
        )
    once: dict[str, ReturnedPassage] = {}
    for chunk, item, place in zip(ranking.ids, ranking.items, ranking.spans, strict=True):
        once.setdefault(chunk, ReturnedPassage(chunk, item, *place))
    return list(once.values())


def held(answers: Iterable[Span], passages: Sequence[ReturnedPassage]) -> HeldCharacters:
    """Answers that overlap each other are one, and so are passages where it is asked what they hold."""
    wanted, there = defaultdict[str, list[Range]](list), defaultdict[str, list[Range]](list)
    for span in answers:
        wanted[span.item_id].append((span.start, span.end))
    for passage in passages:
        there[passage.item_id].append((passage.start, passage.end))
    merged = {item: union(ranges) for item, ranges in wanted.items()}
    matched = sum(
        overlap(one, other) for item, ranges in merged.items() for other in union(there.get(item, ())) for one in ranges
    )
    length = sum(end - start for ranges in merged.values() for start, end in ranges)
    return HeldCharacters(length, matched, sum(passage.end - passage.start for passage in passages))


def union(ranges: Iterable[Range]) -> list[Range]:
    """The same characters in ranges that neither overlap nor touch, in order."""
    merged: list[Range] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def overlap(one: Range, other: Range) -> int:
    """The number of characters that are in both."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def chunk_grades(
    answers: Answers, passages: Iterable[ReturnedPassage], least_share: float = 0.5
) -> dict[str, dict[str, int]]:
    """Labels of chunks, made from answer spans: then every metric works at the level of chunks ("units").

    A chunk has the grade of the best answer with which it shares enough: at least `least_share` of the shorter of the
    two. So a short answer must be in the chunk by that share, and of a long answer each chunk within it is relevant.
    Needs the whole chunk set: recall counts relevant chunks that were not returned. A query none of whose answers is
    met by a chunk has no label and is not scored; the spans' own metrics score it.
    """
    if not 0 < least_share <= 1:
        raise SpecError(f"The least share of an answer is {least_share}; it must be above 0 and at most 1.")
    by_item = defaultdict[str, list[ReturnedPassage]](list)
    for passage in passages:
        by_item[passage.item_id].append(passage)
    grades = defaultdict[str, dict[str, int]](dict)
    for query, spans in sorted(answers.items()):
        for item in dict.fromkeys(span.item_id for span in spans):
            for passage in by_item.get(item, ()):
                met = [span.grade for span in spans if _share(passage, span) >= least_share]
                if (grade := max(met, default=0)) > 0:
                    grades[query][passage.id] = grade
    return dict(grades)


def _share(passage: ReturnedPassage, span: Span) -> float:
    """What the two have in common, of the shorter one."""
    if passage.item_id != span.item_id:
        return 0.0
    shorter = min(passage.end - passage.start, span.end - span.start)
    return overlap((passage.start, passage.end), (span.start, span.end)) / shorter if shorter else 0.0
