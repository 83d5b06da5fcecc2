"""A report made of boards, tuning results and gates: sections, tables and surfaces as data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from typing import Any

from core.errors import InputError
from evals.evaluation.board import Board, BoardWarning
from evals.presentation import palette
from evals.presentation.leaderboard import leaderboard
from evals.presentation.text import line
from evals.presentation.weight_surface import weight_surface
from evals.reports.model import Limits, Part, Report, Section
from evals.reports.query_details import query_details
from evals.suites.gate import Check

DEFAULT_LIMITS = Limits()


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
    """Everything there is to say of these boards, one section each. The same input gives the same bytes."""
    whole = [Part(part) if isinstance(part, Board) else part for part in parts]
    if not whole:
        raise InputError("There is nothing to report on. Evaluate a variant first.")
    styles = palette.styles(name for part in whole for name in part.board.names)
    share = limits.model_copy(
        update={"rankings": max(1, limits.rankings // len(whole)), "texts": limits.texts // len(whole)}
    )
    cut: list[str] = []
    sections = []
    for part in whole:
        board = leaderboard(part.board, styles, most_groups=limits.groups)
        if board.group_count > limits.groups:
            cut.append(f"{board.title}: of {board.group_count:,} kinds and tags, the first {limits.groups} are shown.")
        sections.append(
            Section(
                board=board,
                facts=tuple((name, line(value, 400)) for name, value in _facts(part) if value.strip()),
                warnings=tuple(BoardWarning(line(each.message, 1000), each.queries) for each in board.warnings),
                notes=tuple(line(note, 1000) for note in part.notes),
                queries=query_details(part, [row.name for row in board.rows], share, board.title, cut),
                weights=tuple(weight_surface(name, each) for name, each in part.tunings.items()),
            )
        )
    return Report(title, description, tuple(sections), tuple(checks), command, dict(files or {}), tuple(cut))


def _facts(part: Part) -> Iterator[tuple[str, str]]:
    """What was measured, and on what."""
    board, subject = part.board, part.board.runs[0].subject
    labels = [board.split.grades.get(query, {}) for query in board.split.queries]
    relevant = sum(grade > 0 for grades in labels for grade in grades.values())
    yield "Collection", f"{subject.collection}, version {subject.version}"
    yield "Content", subject.content[:12]
    yield "Query set", f"{subject.query_set}, {subject.digest.hex()[:12]}"
    yield "Split", subject.split
    yield "Queries", f"{len(board.split.queries):,}"
    yield "Labels", f"{sum(map(len, labels)):,}, {relevant:,} of them relevant"
    yield "Variants", str(len(board.runs))
    yield "Plan", part.plan
    yield "Code", _distinct(run.environment.get("code", "") for run in board.runs)
    machines = []
    for run in board.runs:
        machine: Mapping[str, Any] = run.environment.get("machine", {})
        cores = f"{machine['cores']} cores" if machine.get("cores") else ""
        machines.append(", ".join(filter(None, (machine.get("processor"), cores, machine.get("system")))))
    yield "Machine", _distinct(machines)
    yield "PostgreSQL", _distinct(run.environment.get("server", {}).get("version", "") for run in board.runs)
    times = sorted(run.made_at.astimezone(UTC) for run in board.runs if run.made_at is not None)
    yield "Made", " to ".join(dict.fromkeys(f"{each:%Y-%m-%d %H:%M} UTC" for each in (*times[:1], *times[-1:])))


def _distinct(values: Iterable[Any]) -> str:
    return "; ".join(dict.fromkeys(str(value) for value in values if value))
