"""A run's scores over a split, each metric by what it is of: labels of items, labels of chunks, answer spans.

Owns which labels count and the refusal of what has none; the metrics are `evals.metrics`' and `evals.spans`'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.errors import InputError
from evals import metrics, spans
from evals.metric_names import MEASURES, Metric
from evals.metrics import Scores
from evals.rankings import Rankings
from evals.runs import Run
from evals.splits import Grades, Split


def grades_of(split: Split) -> Grades:
    """The labels of the split's own queries, which may be fewer than have labels."""
    return {query: split.grades[query] for query in split.queries if query in split.grades}


def scored(
    split: Split, run: Run, wanted: Sequence[str], chunk_labels: Mapping[str, Grades], labels: metrics.Labels
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
    split: Split,
    run: Run,
    rankings: Rankings,
    wanted: Sequence[str],
    chunk_labels: Mapping[str, Grades],
    labels: metrics.Labels,
) -> dict[str, Scores]:
    parsed = [Metric.parse(each) for each in wanted]
    over_spans = [str(each) for each in parsed if not MEASURES[each.measure].function]
    over_chunks = [str(each) for each in parsed if each.level == "units"]
    over_labels = [each for each in wanted if each not in over_spans and each not in over_chunks]
    answers = {query: split.spans[query] for query in split.queries if query in split.spans}
    found: dict[str, Scores] = {}
    if over_labels:
        scores = metrics.evaluate(labels, rankings, over_labels)
        if not scores.queries:
            raise InputError(f"No query of the split {split.name!r} has a relevant item, so nothing can be scored.")
        found |= dict.fromkeys(over_labels, scores)
    for names in filter(None, (over_spans, over_chunks)):
        if not any(span.grade > 0 for spans_of in answers.values() for span in spans_of):
            raise InputError(f"No query of the split {split.name!r} has an answer span: {names[0]} needs them.")
    if over_spans:
        found |= dict.fromkeys(over_spans, spans.evaluate(answers, rankings, over_spans))
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
    return metrics.evaluate(labels, rankings, wanted, level="units").over(
        sorted(query for query, given in answers.items() if any(span.grade > 0 for span in given))
    )
