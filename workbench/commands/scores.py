"""How scores are shown: the table of a board, its warnings, a gate's checks; and the same as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from workbench.commands import telling

if TYPE_CHECKING:
    from rich.console import Console

    from evals.board import Board, Cell
    from evals.exchange import Foreign
    from evals.statistics.verdicts import Finding
    from evals.suites.suite_run import SuiteResult, TargetResult
    from evals.suites.suite_tuning import TunedVariant

OUTCOMES = {"passed": "ok", "failed": "FAILED", "error": "ERROR"}


# -- tables ------------------------------------------------------------------------------------------------------------


def show(board: Board, on: Console | None = None) -> None:
    """The table and what to know before it is believed."""
    subject, first = board.runs[0].subject, board.metrics[0]
    failed = any(run.failures for run in board.runs)
    judged, times = f"judged\n{first}", "p50 /\np95 ms"
    costs = (times, *(("failed",) if failed else ()))
    columns = ("variant", *board.metrics, f"against\n{board.baseline}", judged, *costs)
    rows = [_row(board, name, failed=failed) for name in board.names]
    title = f"{subject.collection}, {len(board.queries(first))} queries of {subject.split}"
    telling.table(title, columns, rows, right=costs, spare=(judged, times, *board.metrics[:0:-1]), on=on)
    if len(board.names) > 1:
        from evals.statistics.verdicts import legend

        telling.say(legend(board.baseline))
    if not all(run.latency for run in board.runs if run.variant):
        telling.say("A time that is missing was not taken: --time-live, or time_live in a suite, asks queries alone.")
    for warned in board.warnings:
        telling.say(f"Note: {warned.message}")


def _row(board: Board, name: str, *, failed: bool) -> list[str]:
    first = board.metrics[0]
    finding, latency = board.finding(first, name), board.run(name).latency
    judged = board.cells(first)[name].judged if name in board.cells(first) else None
    return [
        name,
        *(_cell(board, metric, name) for metric in board.metrics),
        verdict(finding).replace(" ", "\n") if finding else "-",
        "-" if judged is None else f"{judged:.0%}",
        f"{latency.p50:.1f} /\n{latency.p95:.1f}" if latency else "-",
        *((str(len(board.run(name).failures)),) if failed else ()),
    ]


def verdict(finding: Finding) -> str:
    mean = finding.difference.mean
    return f"{finding.verdict} {'' if mean is None else f'{mean:+.3f}'}".strip()


def _cell(board: Board, metric: str, name: str) -> str:
    from evals.statistics.verdicts import MARKS

    cell = board.cells(metric).get(name)
    if cell is None:
        return "-"
    marks = "*" if len(board.names) > 1 and name in board.best(metric) else ""
    finding = board.finding(metric, name)
    mean, *interval = figure(cell).split(" ", 1)
    return "\n".join([f"{mean} {marks}{MARKS[finding.verdict] if finding else ''} {cell.badge}".strip(), *interval])


def figure(cell: Cell) -> str:
    interval = "" if cell.low is None or cell.high is None else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.mean:.3f}{interval}"


def show_result(result: TargetResult) -> None:
    for each in result.tuned:
        show_tuned(each)
    show_foreign(result.foreign)
    show(result.board)
    for note in result.notes:
        telling.say(f"Note: {note}")


def show_tuned(made: TunedVariant) -> None:
    from evals.weights.tuned import called

    tuned = made.tuned
    if made.variant is not None:
        weights = ", ".join(f"{leg} {weight:g}" for leg, weight in tuned.chosen.weights.items())
        telling.say(f"{made.name}, tuned on {made.split}: {weights} under {called(tuned.chosen.fusion)}.")
    telling.say(
        f"{made.name}: in-sample {tuned.in_sample:.3f}, to be expected of new queries {tuned.cross_fitted:.3f} "
        f"(the gap of {tuned.optimism:.3f} is optimism). {tuned.verdict}"
    )


def show_foreign(found: Sequence[Foreign]) -> None:
    """What was wrong with files, and how they meet the queries."""
    for each in found:
        telling.flaws(each.flaws, len(each.flaws))
        if each.missing:
            telling.say(f"{each.run.name} has nothing for {len(each.missing)} of the queries; they score 0.")
        if each.unasked:
            telling.say(f"{each.run.name} has {len(each.unasked)} queries that are not asked here; they do not count.")


def show_gate(result: SuiteResult) -> None:
    rows = [
        (OUTCOMES[check.outcome], check.collection, check.variant, check.what, check.found, check.wanted)
        for check in result.checks
    ]
    columns = ("", "collection", "variant", "what", "found", "wanted")
    telling.table(f"Gate of {result.suite.name}", columns, rows, right=("found", "wanted"))
    wrong = [check for check in result.checks if check.outcome != "passed"]
    for check in wrong:
        if check.says:
            telling.say(f"{check.variant}, {check.what}: {check.says}")
    of = f"{len(result.checks)} checks"
    telling.say(f"The gate holds: {of} passed." if not wrong else f"The gate fails: {len(wrong)} of {of}.")


# -- plain values ------------------------------------------------------------------------------------------------------


def plain(board: Board) -> dict[str, Any]:
    """The table as JSON has it."""
    subject = board.runs[0].subject
    return {
        "collection": subject.collection,
        "query_set": subject.query_set,
        "split": subject.split,
        "queries": len(board.split.queries),
        "baseline": board.baseline,
        "best": {metric: board.best(metric) for metric in board.metrics},
        "runs": [_plain_run(board, name) for name in board.names],
        "warnings": board.warnings,
    }


def _plain_run(board: Board, name: str) -> dict[str, Any]:
    run = board.run(name)
    return {
        "name": name,
        "id": run.id,
        "variant": run.variant.id if run.variant else None,
        "metrics": {metric: board.cells(metric).get(name) for metric in board.metrics},
        "findings": {metric: _plain_finding(board.finding(metric, name)) for metric in board.metrics},
        "latency": run.latency,
        "failed": len(run.failures),
    }


def _plain_finding(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {"verdict": str(finding.verdict), "sentence": finding.sentence, "difference": finding.difference}


def plain_result(result: TargetResult) -> dict[str, Any]:
    from core.fusion.spec import spec_of

    tuned = [
        {
            "name": each.name,
            "split": each.split,
            "weights": each.tuned.chosen.weights,
            "fusion": spec_of(each.tuned.chosen.fusion),
            "in_sample": each.tuned.in_sample,
            "cross_fitted": each.tuned.cross_fitted,
            "verdict": each.tuned.verdict,
            "left_out": each.variant is None,
        }
        for each in result.tuned
    ]
    return {**plain(result.board), "tuned": tuned, "notes": result.notes, "checks": result.checks}
