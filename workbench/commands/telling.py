"""How commands speak: tables and progress for people, JSON for machines, one sentence for an error."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from core.store.progress import Listener, Step
    from core.types import Flaw

console = Console()
notices = Console(stderr=True)
FLAWS_SHOWN = 20


def as_json(value: Any) -> None:
    """The value as JSON on standard output, and nothing else there."""
    sys.stdout.write(json.dumps(value, default=_plain, ensure_ascii=False, indent=2) + "\n")


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """A table whose cells are text, whatever they hold."""
    made = Table(title=escape(title), title_justify="left", header_style="bold")
    for column in columns:
        made.add_column(escape(column), justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(escape(printable(str(cell))) for cell in row))
    console.print(made)


def say(text: str) -> None:
    notices.print(escape(printable(text)), soft_wrap=True)


def complain(sentence: str) -> None:
    notices.print(escape(f"Error: {printable(sentence)}"), style="red", soft_wrap=True)


def printable(text: str) -> str:
    """Without the control characters by which a document could take over the terminal."""
    return "".join(
        letter if letter in "\n\t" or letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text
    )


def flaws(found: Sequence[Flaw], total: int) -> None:
    """What was wrong with the input, the first of it row by row."""
    if not found:
        return
    rows = [(str(flaw.place), flaw.subject, flaw.outcome, flaw.message) for flaw in found[:FLAWS_SHOWN]]
    table("What to know about the input", ("where", "id", "outcome", "what"), rows)
    if total > len(rows):
        say(f"... and {total - len(rows):,} more. See them all with --json.")


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Listener]:
    """A bar for each step of long work, with rate and time left where the end is known."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    if quiet:
        yield lambda _: None
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=notices, transient=False) as bars:
        tasks: dict[str, TaskID] = {}

        def listen(step: Step) -> None:
            name = "Building indexes" if step.unit == "indexes" else step.name
            if name not in tasks:
                tasks[name] = bars.add_task(escape(name), total=step.total, rate="")
            bars.update(tasks[name], completed=step.done, total=step.total)
            speed = bars.tasks[tasks[name]].speed
            bars.update(tasks[name], rate=f"{speed:,.0f} {step.unit}/s" if speed else "")

        yield listen
