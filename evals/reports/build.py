"""A report made of boards, tuning results and gates: sections, tables and surfaces as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC
from typing import Any

import numpy as np

from core.errors import InputError
from core.fusion import Fusion, fusions
from evals.evaluation.board import WELL_JUDGED, Board, BoardWarning
from evals.measures import Metric
from evals.reports import palette
from evals.reports.model import (
    FusionWeights,
    Group,
    Limits,
    Part,
    Report,
    ReportColumn,
    ReportLine,
    Section,
    Value,
    Weights,
    counted,
    line,
    number,
    span,
)
from evals.reports.query_details import looked_at
from evals.runs.types import Run
from evals.suites.gate import Check
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningResult, mean

DEFAULT_LIMITS = Limits()
SHALLOW = 20  # nobody labels deeper than this for every run


def report(
    parts: Iterable[Part | Board],
    *,
    checks: Sequence[Check] = (),
    title: str = "Retrieval report",
    description: str = "",
    command: str = "",
    files: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> Report:
    """Everything there is to say of these boards, one section each. Made alike, it is alike to the last byte."""
    given = [Part(part) if isinstance(part, Board) else part for part in parts]
    if not given:
        raise InputError("There is nothing to report on. Evaluate a variant first.")
    styles = palette.styles(name for part in given for name in part.board.names)
    share = limits.model_copy(
        update={"rankings": max(1, limits.rankings // len(given)), "texts": limits.texts // len(given)}
    )
    cut: list[str] = []
    sections = tuple(_Builder(part, styles, share, cut).section() for part in given)
    return Report(title, description, sections, tuple(checks), command, dict(files or {}), tuple(cut))


class _Builder:
    """One section, in steps."""

    def __init__(self, part: Part, styles: Mapping[str, int], limits: Limits, cut: list[str]) -> None:
        self.part, self.board, self.styles, self.limits, self.cut = part, part.board, styles, limits, cut
        subject = self.board.runs[0].subject
        self.title = line(f"{subject.collection}, {subject.split}", limits.name)

    def section(self) -> Section:
        columns = tuple(self._column(metric) for metric in self.board.metrics)
        lines = self._lines()
        return Section(
            title=self.title,
            headline=_headline(self.board, columns[0], lines),
            facts=tuple(self._facts()),
            rules=_rules(self.board),
            warnings=tuple(BoardWarning(line(each.message, 1000), each.queries) for each in self.board.warnings),
            notes=tuple(line(note, 1000) for note in self.part.notes),
            columns=columns,
            lines=lines,
            baseline=self.board.baseline,
            tie=self.board.rules.tie,
            groups=self._groups(),
            queries=looked_at(self.part, [each.name for each in lines], self.limits, self.title, self.cut),
            weights=tuple(weights_of(name, each) for name, each in self.part.tunings.items()),
        )

    def _column(self, metric: str) -> ReportColumn:
        if not self.board.cells(metric):
            return ReportColumn(metric, Metric.parse(metric).explanation, (), ())
        return ReportColumn(metric, Metric.parse(metric).explanation, self.board.best(metric), self.board.front(metric))

    def _lines(self) -> tuple[ReportLine, ...]:
        """By falling mean of the first metric, then as they came."""
        means = {name: cell.mean for name, cell in self.board.cells(self.board.metrics[0]).items()}
        ordered = sorted(self.board.runs, key=lambda run: -means.get(run.name, 0.0))
        return tuple(self._line(run) for run in ordered)

    def _line(self, run: Run) -> ReportLine:
        latency = run.latency
        return ReportLine(
            name=run.name,
            style=self.styles[run.name],
            baseline=run.name == self.board.baseline,
            values={metric: self._value(run, metric) for metric in self.board.metrics},
            p50=latency.p50 if latency else None,
            p95=latency.p95 if latency else None,
            megabytes=run.index_bytes / 1e6 if run.index_bytes else None,
            failed=len(run.failures),
            toml=run.variant.to_toml() if run.variant else "",
            notes=tuple(run.notes),
        )

    def _value(self, run: Run, metric: str) -> Value:
        cell = self.board.cells(metric).get(run.name)
        if cell is None:
            return Value(None)
        finding = self.board.finding(metric, run.name)
        doubts = tuple(self._doubts(run, metric, cell.judged))
        return Value(cell.mean, cell.low, cell.high, cell.judged, finding, doubts, cell.badge)

    def _doubts(self, run: Run, metric: str, judged: float | None) -> Iterable[str]:
        """What the board warns of, at the very scores that it is about."""
        cutoff, of = Metric.parse(metric).cutoff, self.board.scored_run(run, metric)
        if run.variant and run.looks_beyond(metric):
            seen = f"a deep run, asked for {of.depth} hits" if of.depth else "the candidates behind them"
            yield f"It ships {run.variant.top_k} hits, and the metric counts {cutoff}: this is of {seen}."
        elif of.depth:
            yield f"It is of a deep run, asked for {of.depth} hits."
        if run.failures:
            yield f"{counted(len(run.failures), 'query', 'queries')} failed and score 0."
        if judged is not None and judged < WELL_JUDGED and cutoff is not None and cutoff <= SHALLOW:
            low, high = self.board.bounds(run.name, metric)
            yield f"Only {judged:.0%} of the hits are judged: the score lies between {low:.3f} and {high:.3f}."

    # -- what was measured -------------------------------------------------------------------------------------------

    def _facts(self) -> Iterable[tuple[str, str]]:
        board = self.board
        subject = board.runs[0].subject
        kept = [board.split.grades.get(query, {}) for query in board.split.queries]
        relevant = sum(grade > 0 for given in kept for grade in given.values())
        told = [
            ("Collection", f"{subject.collection}, version {subject.version}"),
            ("Content", subject.content[:12]),
            ("Query set", f"{subject.query_set}, {subject.digest.hex()[:12]}"),
            ("Split", subject.split),
            ("Queries", f"{len(board.split.queries):,}"),
            ("Labels", f"{sum(map(len, kept)):,}, {relevant:,} of them relevant"),
            ("Variants", str(len(board.runs))),
            ("Plan", self.part.plan),
            ("Code", _several(run.environment.get("code", "") for run in board.runs)),
            ("Machine", _several(_machine(run.environment) for run in board.runs)),
            ("PostgreSQL", _several(run.environment.get("server", {}).get("version", "") for run in board.runs)),
            ("Made", _dates(board.runs)),
        ]
        return [(name, line(value, 400)) for name, value in told if value.strip()]

    # -- groups ------------------------------------------------------------------------------------------------------

    def _groups(self) -> tuple[Group, ...]:
        """Kinds, then tags, largest first; a lone kind is everything again, and left out."""
        found = []
        for by, groups in self.board.groups.items():
            made = [self._group(by, name, ids) for name, ids in groups.items()]
            made = [group for group in made if group.means]
            found += sorted(made, key=lambda group: (-group.queries, group.name)) if _worth_it(by, made) else []
        if len(found) > self.limits.groups:
            self.cut.append(
                f"{self.title}: of {len(found):,} kinds and tags, the first {self.limits.groups} are shown."
            )
        return tuple(found[: self.limits.groups])

    def _group(self, by: str, name: str, ids: Sequence[str]) -> Group:
        means = {metric: self._means(metric, set(ids)) for metric in self.board.metrics}
        size = len(set(ids) & set(self.board.queries(self.board.metrics[0])))
        return Group(
            by, name, size, size < self.board.rules.fewest, {metric: each for metric, each in means.items() if each}
        )

    def _means(self, metric: str, ids: set[str]) -> dict[str, float]:
        chosen = np.array([query in ids for query in self.board.queries(metric)], dtype=bool)
        weights = self.board.weights(metric)[chosen]
        if not weights.sum() > 0:
            return {}
        means = np.average(self.board.values(metric)[:, chosen], axis=1, weights=weights)
        return dict(zip(self.board.names, means.tolist(), strict=True))


def _worth_it(by: str, made: Sequence[Group]) -> bool:
    return len(made) > 1 or (by == "tag" and bool(made))


def _headline(board: Board, column: ReportColumn, lines: Sequence[ReportLine]) -> str:
    """What a reader in a hurry should take along."""
    if not column.top:
        beyond = any(run.looks_beyond(column.metric) for run in board.runs)
        why = f"{column.metric} counts more hits than ship" if beyond else "All queries weigh nothing"
        return f"{why}, so nothing can be said of which is better."
    best, *others = column.top
    value = next(each for each in lines if each.name == best).values[column.metric]
    interval = f", {board.rules.level:.0%} interval {span(value.low, value.high)}" if value.low is not None else ""
    start = f"{best} has the highest {column.metric}: {number(value.mean)}{interval}."
    if len(lines) == 1:
        return start
    finding = value.finding
    against = "" if finding is None or best == board.baseline else f" {finding.sentence}"
    told = f" Too close to it to tell: {_named(others)}." if others else " It is better than every other."
    return f"{start}{told}{against}"


def _named(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{'; '.join(names[:most])}{more}"


def _rules(board: Board) -> str:
    rules = board.rules
    return (
        f"Intervals are {rules.level:.0%}. Verdicts are against {board.baseline}, all candidates looked at together: "
        "better or worse where the interval of the difference leaves 0 out, by draws of signs of which the largest "
        f"difference counts ({rules.samples:,} draws); tied where all of it lies within {rules.tie:g}. "
        f"Seed {rules.seed}."
    )


def _several(values: Iterable[Any]) -> str:
    return "; ".join(dict.fromkeys(str(value) for value in values if value))


def _machine(environment: Mapping[str, Any]) -> str:
    machine: Mapping[str, Any] = environment.get("machine", {})
    cores = f"{machine['cores']} cores" if machine.get("cores") else ""
    return ", ".join(filter(None, (str(machine.get("processor", "")), cores, str(machine.get("system", "")))))


def _dates(runs: Sequence[Run]) -> str:
    """When the runs were made: from the first to the last, never the time of writing."""
    made = sorted(run.made_at.astimezone(UTC) for run in runs if run.made_at is not None)
    told = dict.fromkeys(f"{each:%Y-%m-%d %H:%M} UTC" for each in (*made[:1], *made[-1:]))
    return " to ".join(told)


def weights_of(name: str, given: Surface | TuningResult) -> Weights:
    if isinstance(given, Surface):
        return _swept(name, (given,), 0)
    swept = _swept(name, given.surfaces, given.chosen.surface)
    votes = given.votes
    return Weights(
        name=name,
        metric=swept.metric,
        legs=swept.legs,
        steps=swept.steps,
        queries=swept.queries,
        fusions=tuple(_fusion(each, votes.get(at, 0)) for at, each in enumerate(given.surfaces)),
        chosen=given.chosen.surface,
        untuned=swept.untuned,
        in_sample=given.in_sample,
        oracle=swept.oracle,
        cross_fitted=given.cross_fitted,
        gain=(given.gain.value, given.gain.low, given.gain.high) if given.gain else None,
        folds=tuple(fold.point for fold in given.folds if fold.surface == given.chosen.surface),
        verdict=given.verdict,
    )


def _swept(name: str, surfaces: Sequence[Surface], chosen: int) -> Weights:
    first, best = surfaces[0], surfaces[chosen]
    return Weights(
        name=name,
        metric=first.metric,
        legs=first.legs,
        steps=first.steps,
        queries=len(first.queries),
        fusions=tuple(_fusion(each, None) for each in surfaces),
        chosen=chosen,
        untuned=mean(first.untuned, first),
        in_sample=float(best.means[best.best]),
        oracle=best.oracle().mean,
    )


def _fusion(surface: Surface, votes: int | None) -> FusionWeights:
    return FusionWeights(
        fusion=called(surface.fusion),
        grid=tuple(tuple(point) for point in surface.grid.tolist()),
        means=tuple(surface.means.tolist()),
        tied=tuple(surface.tied().tolist()),
        best=surface.best,
        votes=votes,
    )


def called(fusion: Fusion) -> str:
    """The method, with the options that are not as usual: rrf, k 10."""
    told = [
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in fusion.model_dump(exclude_defaults=True).items()
    ]
    return ", ".join([fusions.name_of(type(fusion)), *told])
