"""Reports that commands leave behind: the options that ask for them, and the one call of `evals.report`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.store.engine import Store
    from evals.board import Board
    from evals.report import Part
    from evals.suites.gate import Check
    from evals.weights.tuned import Tuned

Html = Annotated[Path | None, typer.Option("--html", help="Write a report to this .html file; it opens offline.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write the tables to this .md file.")]
Latex = Annotated[Path | None, typer.Option("--latex", help="Write the table for a paper to this .tex file.")]


@dataclass(frozen=True, slots=True)
class Told:
    """What there is to report of one collection."""

    board: Board
    tunings: Mapping[str, Tuned] = field(default_factory=dict)
    notes: Sequence[str] = ()
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above: `files` are those that it takes to do it again, by name."""

    title: str
    description: str = ""
    checks: Sequence[Check] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def check_endings(*paths: Path | None) -> None:
    """Before the work is done, and not after it."""
    from core.errors import InputError

    for path, ending in zip(paths, (".html", ".md", ".tex"), strict=False):
        if path is not None and path.suffix.lower() != ending:
            raise InputError(f"This report's file should end in {ending}.", path=path)
    check_folders(*paths)


def check_folders(*paths: Path | None) -> None:
    from core.errors import InputError

    for path in paths:
        if path is not None and not path.expanduser().absolute().parent.is_dir():
            raise InputError("The folder that this file should go into is not there.", path=path)


def write(store: Store, told: Sequence[Told], heading: Heading, *paths: Path | None) -> None:
    """The reports that were asked for, in the form that each file's ending says."""
    wanted = [path for path in paths if path is not None]
    if not wanted:
        return
    from evals.report import report
    from evals.report import write as written

    made = report(
        [_part(store, each) for each in told],
        checks=heading.checks,
        title=heading.title,
        description=heading.description,
        command=shlex.join(["rankbook", *sys.argv[1:]]),
        files=heading.files,
    )
    for path in wanted:
        telling.say(f"Written: {written(made, path.expanduser())}")


def _part(store: Store, told: Told) -> Part:
    from core import bridge
    from core.store import collections
    from evals.report import Part, documents

    view = bridge.run(collections.get(store, told.board.runs[0].subject.collection))
    texts = bridge.run(documents(store, view, told.board))
    return Part(told.board, told.tunings, texts, told.notes, told.plan)
