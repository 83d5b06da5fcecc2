"""The gate of a suite: checks against a baseline and minima, and their results as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self
from xml.etree import ElementTree

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core import atomic_files
from core.errors import SpecError
from evals.evaluation.board import Board
from evals.measures import Metric
from evals.runs.types import Run, unlike
from evals.statistics.comparison import findings
from evals.statistics.verdicts import Finding, Verdict

ANEW = "Evaluate the baseline anew and pin that run."
AGAIN = "Mend that and run the suite again."


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
    failures: int = Field(0, ge=0, description="How many queries may fail, of a variant and of its baseline.")

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
    """One thing that was checked. `outcome` is "error" where it could not be decided, which fails the gate as well."""

    collection: str
    variant: str
    what: str
    found: str
    wanted: str
    outcome: Literal["passed", "failed", "error"]
    says: str = ""


def checks(gate: Gate, board: Board, pinned: Run | None = None) -> list[Check]:
    """Everything that the gate asks of this board. `pinned` is the run that `against` names, where it is a pin."""
    against: str | None = gate.against or board.baseline
    if pinned is not None:  # None where it could not join the board
        against = next((run.name for run in reversed(board.runs) if run.id == pinned.id), None)
    left_out = None if _found_again(against, pinned) else against
    chosen = gate.variants or tuple(name for name in board.names if name != left_out or len(board.names) == 1)
    unknown = [name for name in chosen if name not in board.names]
    if unknown:
        raise SpecError(f"The gate guards {unknown[0]!r}, which is not among: {', '.join(board.names)}.")
    made = _baseline_flaws(gate, board, against, ANEW if pinned is not None else AGAIN)
    for name in chosen:
        for metric, least in gate.minimum.items():
            mean = board.cells(str(Metric.parse(metric)))[name].mean
            what, good = f"{_marked(board, metric, name)} at least", mean >= least
            made.append(_check(board, name, what, f"{mean:.4f}", f"{least:g}", good, f"{mean - least:+.4f}"))
        made += _drops(gate, board, name, against, pinned, chosen)
        failed, most = board.run(name).failures, gate.failures
        first = f"The first: {next(iter(failed.values()))}" if failed else ""
        good = len(failed) <= most
        made.append(_check(board, name, "queries that failed", str(len(failed)), f"{most} or fewer", good, first))
        made += _lacking(board, name, "legs", AGAIN)
        latency, most_time = board.run(name).latency, gate.slowest
        if most_time is not None and latency is None:
            says = "Nobody timed it alone: set time_live to how many queries are timed so."
            collection = board.runs[0].subject.collection
            made.append(Check(collection, name, "p95, ms", "-", f"{most_time:g}", "error", says))
        elif most_time is not None and latency is not None:
            good, wanted = latency.p95 <= most_time, f"{most_time:g} or less"
            made.append(_check(board, name, "p95, ms", f"{latency.p95:.1f}", wanted, good, ""))
    return made


def passed(found: list[Check]) -> bool:
    return all(check.outcome == "passed" for check in found)


def _found_again(against: str | None, pinned: Run | None) -> bool:
    """Whether the pinned run is one of the variants, nothing having changed since, and has no row of its own."""
    return pinned is not None and against is not None and not against.startswith(pinned.name)


def _marked(board: Board, metric: str, name: str) -> str:
    """The metric, and that it counts more than the variant ships."""
    cell = board.cells(str(Metric.parse(metric))).get(name)
    mark = "" if cell is None else " (deep)" if cell.deep else " (beyond what ships)" if cell.beyond else ""
    return f"{metric}{mark}"


def _drops(
    gate: Gate, board: Board, name: str, against: str | None, pinned: Run | None, chosen: Sequence[str]
) -> list[Check]:
    drops = [(str(Metric.parse(metric)), most) for metric, most in gate.largest_drop.items()]
    if name == against:  # a variant of which nothing changed since its run was pinned
        same = "It is the very run that is pinned."
        return [
            _check(board, name, f"{metric} against {pinned.name}", "+0.0000", f"{0.0 - most:g} or more", True, same)
            for metric, most in drops
            if pinned is not None
        ]
    if against is None or against not in board.names:
        why = f"There is no run called {against!r} to compare with. Pin one: rankbook runs pin RUN {against}"
        if pinned is not None:
            differs = unlike(pinned.subject, board.runs[0].subject) or "other data"
            why = f"The baseline was made over other data, so nothing can be compared: {differs}. {ANEW}"
        return [_undecided(board, name, metric, against or gate.against, most, why) for metric, most in drops]
    shown = pinned.name if pinned is not None and _found_again(against, pinned) else against
    together = [each for each in chosen if each != against]
    made = []
    for metric, most in drops:
        run, baseline = (board.scored_run(board.run(each), metric) for each in (name, against))
        if run.variant is not None and baseline.variant is not None and run.depth != baseline.depth:
            kinds = ["a deep run" if each.depth else "of what ships" for each in (baseline, run)]
            why = f"The baseline is {kinds[0]}, and {name} is {kinds[1]}. {ANEW}"
            made.append(_undecided(board, name, metric, shown, most, why))
            continue
        found, left_out = _over_answered(board, metric, [each for each, _ in drops], against, together)
        if found is None:
            why = f"The baseline failed at every query that counts here. {ANEW}"
            made.append(_undecided(board, name, metric, shown, most, why))
            continue
        finding, what = found[name], f"{_marked(board, metric, name)} against {shown}"
        drop = -(finding.difference.mean or 0.0)
        too_far = drop > most + 1e-12
        chance = gate.significant and finding.verdict != Verdict.WORSE
        says = f"{finding.sentence}{' Not counted: it may be chance.' if too_far and chance else ''}"
        what = f"{what}, without the {left_out} queries that it failed at" if left_out else what
        measured, wanted = f"{round(-drop, 4) + 0.0:+.4f}", f"{0.0 - most:g} or more"
        made.append(_check(board, name, what, measured, wanted, not too_far or chance, says))
    return made


def _undecided(board: Board, name: str, metric: str, against: str | None, most: float, why: str) -> Check:
    """There is nothing to compare with."""
    what, wanted = f"{metric} against {against}", f"{0.0 - most:g} or more"
    return Check(board.runs[0].subject.collection, name, what, "-", wanted, "error", why)


def _over_answered(
    board: Board, metric: str, guarded: Sequence[str], against: str, names: Sequence[str]
) -> tuple[Mapping[str, Finding] | None, int]:
    """These against the baseline over the queries that it answered, and how many others there are.

    What is guarded is one family: all its variants, by all its metrics over the same queries.
    """
    failed, queries = board.run(against).failures, board.queries(metric)
    answered = [at for at, query in enumerate(queries) if query not in failed]
    weights = board.weights(metric)[answered]
    left_out = len(queries) - len(answered)
    if not weights.sum() > 0:
        return None, left_out
    alike = [each for each in guarded if board.queries(each) == queries]
    rows = []
    for each in alike:
        values = dict(zip(board.names, board.values(each)[:, answered], strict=True))
        rows += [values[name] - values[against] for name in names]
    judged = findings([(name, against) for _ in alike for name in names], rows, weights, rules=board.rules)
    begin = alike.index(metric) * len(names)
    return dict(zip(names, judged[begin : begin + len(names)], strict=True)), left_out


def _baseline_flaws(gate: Gate, board: Board, against: str | None, way_out: str) -> list[Check]:
    """What is wrong with the run that drops are measured against; nothing where it is whole, or there is none."""
    if not gate.largest_drop or against not in board.names:
        return []
    run, collection = board.run(str(against)), board.runs[0].subject.collection
    found = []
    if run.failures:
        allowed = len(run.failures) <= gate.failures
        says = f"The first: {next(iter(run.failures.values())).rstrip('.')}. {way_out}"
        outcome: Literal["passed", "error"] = "passed" if allowed else "error"
        wanted = f"{gate.failures} or fewer"
        found.append(Check(collection, run.name, "baseline's failures", str(len(run.failures)), wanted, outcome, says))
    return [*found, *_lacking(board, run.name, "baseline's legs", way_out)]


def _lacking(board: Board, name: str, what: str, way_out: str) -> list[Check]:
    """That a run went on without some of its legs; nothing where it had them all."""
    run = board.run(name)
    if not run.without:
        return []
    legs, why = ", ".join(run.without), next(iter(run.without.values()))
    says = f"{why.rstrip('.')}. {way_out}"
    return [Check(board.runs[0].subject.collection, name, what, f"no {legs}", "all", "error", says)]


def _check(board: Board, name: str, what: str, found: str, wanted: str, good: bool, says: str) -> Check:
    outcome: Literal["passed", "failed"] = "passed" if good else "failed"
    return Check(board.runs[0].subject.collection, name, what, found, wanted, outcome, says)


# XML 1.0, section 2.2: all that a document may not hold, escaped or not.
FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(name: str, checks: Sequence[Check]) -> str:
    """The whole document."""
    collections = list(dict.fromkeys(check.collection for check in checks))
    root = ElementTree.Element("testsuites", _counts(name, checks))
    for collection in collections:
        own = [check for check in checks if check.collection == collection]
        suite = ElementTree.SubElement(root, "testsuite", _counts(f"{name}: {collection}", own))
        for check in own:
            of = {"classname": _clean(f"{check.collection}.{check.variant}"), "name": _clean(check.what), "time": "0"}
            case = ElementTree.SubElement(suite, "testcase", of)
            first = f"found {check.found}, wanted {check.wanted}"
            text = _clean(f"{check.variant}: {check.what}: {first}. {check.says}".strip())
            if check.outcome == "passed":
                ElementTree.SubElement(case, "system-out").text = text
                continue
            kind = "failure" if check.outcome == "failed" else "error"
            ElementTree.SubElement(case, kind, {"message": _clean(first), "type": "gate"}).text = text
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def broken(name: str, sentence: str) -> str:
    """A suite that could not be run: one case, with the sentence as its error."""
    return junit(name, [Check(name, name, "the suite runs", "-", "-", "error", sentence)])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_files.write_whole(path, text)


def _counts(name: str, checks: Sequence[Check]) -> dict[str, str]:
    outcomes = [check.outcome for check in checks]
    return {
        "name": _clean(name),
        "tests": str(len(checks)),
        "failures": str(outcomes.count("failed")),
        "errors": str(outcomes.count("error")),
        "skipped": "0",
        "time": "0",
    }


def _clean(text: str) -> str:
    return FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)
