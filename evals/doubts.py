"""What casts doubt on the scores of a board: failures, holes in the labels, what import found wrong with its queries.

Owns the rules and the sentences; the numbers are the board's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evals.metric_names import Metric
from evals.running.plan import DEEPEST

if TYPE_CHECKING:
    from evals.board import Board

WELL_JUDGED = 0.95  # below this share of judged hits, a difference may be one of labels
NAMED = 4  # runs that a note names
OFTEN = 0.05  # of the queries without a result, where it is a reason for a low score
LEAST_FLATTERED = 0.001
DEEPEST_JUDGED = 20  # cut-off to which labels are expected


@dataclass(frozen=True, slots=True)
class Warned:
    """Something to know before the scores are believed."""

    message: str
    queries: tuple[str, ...] = ()


def doubts(board: Board) -> list[Warned]:
    rules = (_failed, _empty, _noted, _deep, _beyond, _shallow, _unjudged, _imported, _chosen, _together)
    return [warned for rule in rules for warned in rule(board)]


def _failed(board: Board) -> list[Warned]:
    return [
        Warned(
            f"{run.name}: {len(run.failures)} of {len(board.split.queries)} queries failed and score 0; the first: "
            f"{next(iter(run.failures.values()))}",
            tuple(run.failures),
        )
        for run in board.runs
        if run.failures
    ]


def _noted(board: Board) -> list[Warned]:
    """What runs themselves say, a leg that they went on without for one: each note once, with all that it is of."""
    names: dict[str, list[str]] = {}
    for run in board.runs:
        for note in run.notes:
            names.setdefault(note, []).append(run.name)
    return [Warned(f"{_listed(of)}: {note}") for note, of in names.items()]


def _listed(names: Sequence[str]) -> str:
    more = len(names) - NAMED
    return ", ".join(names[:NAMED]) + (f" and {more} more" if more > 0 else "")


def _deep(board: Board) -> list[Warned]:
    """Runs that are not of what ships beside runs that are."""
    deep = [run for run in board.runs if run.depth]
    if not deep or all(run.depth for run in board.runs if run.variant):
        return []
    message = (
        f"Deep runs, asked for more than ships: {_listed([run.name for run in deep])}. Their first results may be "
        "others than those that ship, so they are not compared with the rest. Evaluate them anew."
    )
    return [Warned(message)]


def _beyond(board: Board) -> list[Warned]:
    """Metrics that count more than a variant ships."""
    warned = []
    for metric in board.metrics:
        cutoff, beyond = Metric.parse(metric).cutoff, [run for run in board.runs if run.looks_beyond(metric)]
        deep = all(board.told_of(run, metric).depth for run in beyond)
        if beyond:
            whose = _listed([run.name for run in beyond])
            seen = "a deep run of its own" if deep else "the candidates behind what ships"
            message = f"{metric} counts {cutoff} hits, more than ship of {whose}: of {seen}, and it decides nothing."
            warned.append(Warned(message))
    return warned


def _shallow(board: Board) -> list[Warned]:
    """Metrics that look deeper than a deep run was asked for."""
    warned = []
    for metric in board.metrics:
        cutoff = Metric.parse(metric).cutoff or 0
        less = [run.name for run in board.runs if 0 < min(board.told_of(run, metric).depth, DEEPEST) < cutoff]
        if less:
            message = f"{metric} counts {cutoff} hits, and fewer were asked for of: {', '.join(less)}."
            warned.append(Warned(message))
    return warned


def _unjudged(board: Board) -> list[Warned]:
    """The metric with the fewest labels where it counts; of the first hundred hits nobody labels all."""
    if _one_answer_each(board):
        return []
    worst, run, least = "", "", WELL_JUDGED
    for metric in board.metrics:
        if (Metric.parse(metric).cutoff or math.inf) > DEEPEST_JUDGED:
            continue
        for name, cell in board.cells(metric).items():
            judged = None if cell.judged is None or cell.empty == 1 else cell.judged / (1 - cell.empty)
            if judged is not None and judged < least:
                worst, run, least = metric, name, judged
    if not worst:
        return []
    message = (
        f"Of the hits that {worst} counts, {100 * least:.0f}% are judged for {run}; the others count as not "
        "relevant. Judge the pool before small differences are believed."
    )
    return [Warned(message)]


def _one_answer_each(board: Board) -> bool:
    """Whether each query has its one right answer and no other label: there is nothing left to judge."""
    return all(len(given) == 1 for given in map(board.split.grades.get, board.split.queries) if given)


def _empty(board: Board) -> list[Warned]:
    """Variants that find nothing for many queries: they score 0 there, whatever the labels."""
    found = {name: cell.empty for name, cell in board.cells(board.metrics[0]).items() if cell.empty >= OFTEN}
    told = ", ".join(f"{name} for {share:.0%}" for name, share in list(found.items())[:NAMED])
    return [Warned(f"Nothing is found by {told} of the queries, which score 0.")] if found else []


def _chosen(board: Board) -> list[Warned]:
    """By how much the best of many is flattered by the queries that make it the best."""
    metric = board.metrics[0]
    unseen = board.chosen_unseen(metric)
    if unseen is None:
        return []
    cells = {name: board.cells(metric)[name].mean for name in board.compared(metric)}
    best = max(cells, key=lambda name: cells[name])
    flattered = cells[best] - unseen
    if flattered < LEAST_FLATTERED:
        return []
    message = (
        f"{best} is the best of {len(cells)} by {metric}, {cells[best]:.3f} over the queries that chose it: some "
        f"{flattered:.3f} of it is luck. Chosen without the queries that it is scored by, the best gives {unseen:.3f}."
    )
    return [Warned(message)]


def _together(board: Board) -> list[Warned]:
    """What verdicts are made with in view that is not in the table, and what was set aside."""
    place, metric = board.place, board.metrics[0]
    others = [each.name for each in place.candidates if each.has(metric)]
    told = []
    if others and len(board.compared(metric)) > 1:
        count = f"{len(others)} more {'set-up' if len(others) == 1 else 'set-ups'}"
        told.append(f"Verdicts hold together with {count} that were scored over the same queries: {_listed(others)}.")
    if gone := place.aside + place.deleted:
        seen = "none" if not place.seen else "all" if place.seen == gone else str(place.seen)
        deleted = f"{place.deleted} by deleting their runs, " if place.deleted else ""
        told.append(f"Set aside: {gone}, {deleted}{seen} of them after their scores were seen.")
    return [Warned(" ".join(told))] if told else []


def _imported(board: Board) -> list[Warned]:
    """Flaws of queries that are scored here; those of documents, once in all."""
    about = [flaw for flaw in board.flaws if flaw.get("subject") in board.split.queries]
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for flaw in about:
        by_kind.setdefault(str(flaw.get("of", "input")), []).append(flaw)
    return [_warned(kind, found) for kind, found in by_kind.items()]


def _warned(kind: str, found: Sequence[Mapping[str, Any]]) -> Warned:
    queries = tuple(dict.fromkeys(str(flaw["subject"]) for flaw in found))
    said = (
        f"Import warned of {len(queries)} of these queries ({kind}). The first, {queries[0]!r}: {found[0]['message']}"
    )
    return Warned(said, queries)
