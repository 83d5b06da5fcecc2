"""A gate: what must hold of a board, or a build fails. Owns the rules and what is said of each; it ends no process.

A pinned baseline made over other data is never compared in silence: the check fails and says what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.errors import SpecError
from evals.board import Board
from evals.metrics import Metric
from evals.runs import Run, unlike
from evals.statistics.verdicts import Verdict


class Gate(BaseModel):
    """Least values, and the largest drops against a baseline."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    variants: tuple[str, ...] = Field((), description="Which variants must hold; by default all but the baseline.")
    minimum: dict[str, float] = Field({}, description="The least mean of a metric: { 'ndcg@10' = 0.6 }.")
    largest_drop: dict[str, float] = Field({}, description="How far below the baseline a metric may be.")
    against: str | None = Field(
        None, description="A pinned baseline's name, or a variant of this suite; by default the suite's baseline."
    )
    significant: bool = Field(False, description="Whether only a drop counts that is more than chance, corrected.")
    slowest: float | None = Field(None, gt=0, description="The largest p95 in milliseconds.")
    failures: int = Field(0, ge=0, description="How many queries may fail.")

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        for metric in (*self.minimum, *self.largest_drop):
            Metric.parse(metric)
        for metric, drop in self.largest_drop.items():
            if drop < 0:
                raise SpecError(f"The largest drop of {metric} is {drop}. Give 0 for none, or a number above it.")
        return self

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(str(Metric.parse(each)) for each in (*self.minimum, *self.largest_drop)))


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `outcome` is "error" where it could not be told, which fails the gate as well."""

    collection: str
    variant: str
    what: str
    found: str
    wanted: str
    outcome: Literal["passed", "failed", "error"]
    says: str = ""


def checks(gate: Gate, board: Board, pinned: Run | None = None) -> list[Check]:
    """Everything that the gate asks of this board. `pinned` is the run that `against` names, where it is a pin."""
    against = _baseline(gate, board, pinned)
    chosen = gate.variants or tuple(name for name in board.names if name != against or len(board.names) == 1)
    unknown = [name for name in chosen if name not in board.names]
    if unknown:
        raise SpecError(f"The gate guards {unknown[0]!r}, which is not among: {', '.join(board.names)}.")
    made = []
    for name in chosen:
        made += [_minimum(board, name, metric, least) for metric, least in gate.minimum.items()]
        made += _drops(gate, board, name, against, pinned)
        made += [_failures(gate, board, name)]
        made += [_slowest(gate.slowest, board, name)] if gate.slowest is not None else []
    return made


def passed(found: list[Check]) -> bool:
    return all(check.outcome == "passed" for check in found)


def _baseline(gate: Gate, board: Board, pinned: Run | None) -> str | None:
    """The name in the board of what drops are measured against; None of a pinned run that could not join it."""
    if pinned is None:
        return gate.against or board.baseline
    return next((run.name for run in reversed(board.runs) if run.id == pinned.id), None)


def _minimum(board: Board, name: str, metric: str, least: float) -> Check:
    found = board.cells(str(Metric.parse(metric)))[name].mean
    good = found >= least
    return _check(board, name, f"{metric} at least", f"{found:.4f}", f"{least:g}", good, f"{found - least:+.4f}")


def _drops(gate: Gate, board: Board, name: str, against: str | None, pinned: Run | None) -> list[Check]:
    if not gate.largest_drop or name == against:
        return []
    if against is None or against not in board.names:
        told = against or gate.against
        why = _unlike(board, pinned) if pinned is not None else f"There is no run called {told!r} to compare with."
        return [
            Check(board.runs[0].subject.collection, name, f"{metric} against {told}", "-", f"{drop:g}", "error", why)
            for metric, drop in gate.largest_drop.items()
        ]
    return [_drop(gate, board, name, against, metric, drop) for metric, drop in gate.largest_drop.items()]


def _drop(gate: Gate, board: Board, name: str, against: str, metric: str, most: float) -> Check:
    metric = str(Metric.parse(metric))
    cells = board.cells(metric)
    drop = cells[against].mean - cells[name].mean
    finding = board.pairs(metric).of(name, against)
    too_far = drop > most + 1e-12
    chance = gate.significant and finding.verdict != Verdict.WORSE
    says = f"{finding.sentence}{' Not counted: it may be chance.' if too_far and chance else ''}"
    return _check(
        board,
        name,
        f"{metric} against {against}",
        f"{round(-drop, 4) + 0.0:+.4f}",
        f"{0.0 - most:g} or more",
        not too_far or chance,
        says,
    )


def _failures(gate: Gate, board: Board, name: str) -> Check:
    failed = board.run(name).failures
    says = f"The first: {next(iter(failed.values()))}" if failed else ""
    return _check(
        board,
        name,
        "queries that failed",
        str(len(failed)),
        f"{gate.failures} or fewer",
        len(failed) <= gate.failures,
        says,
    )


def _slowest(most: float, board: Board, name: str) -> Check:
    latency = board.run(name).latency
    if latency is None:
        subject = board.runs[0].subject.collection
        return Check(subject, name, "p95, ms", "-", f"{most:g}", "error", "Nobody timed it.")
    says = "" if latency.live else "Estimated from queries under way together; set time_live to time them one by one."
    return _check(board, name, "p95, ms", f"{latency.p95:.1f}", f"{most:g} or less", latency.p95 <= most, says)


def _check(board: Board, name: str, what: str, found: str, wanted: str, good: bool, says: str) -> Check:
    outcome: Literal["passed", "failed"] = "passed" if good else "failed"
    return Check(board.runs[0].subject.collection, name, what, found, wanted, outcome, says)


def _unlike(board: Board, pinned: Run) -> str:
    """A pinned run that could not join the board."""
    told = unlike(pinned.subject, board.runs[0].subject) or "other data"
    return (
        f"The baseline was made over other data, so nothing can be compared: {told}. Evaluate it anew and pin that run."
    )
