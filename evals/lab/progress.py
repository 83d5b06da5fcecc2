"""How far long work is, on stderr: bars in a terminal; elsewhere, in Jupyter or a log, a sentence now and then.

The one place that draws it, for the lab and the command line alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.store.progress import Listener, Progress, Step, nobody, spaced
from evals.lab.tables import printable

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def watched(console: Console | None = None, *, quiet: bool = False, transient: bool = True) -> Iterator[Listener]:
    """A listener for the time of the work; `transient` bars are gone after it."""
    from rich.console import Console

    shown = console or Console(stderr=True, force_jupyter=False)
    if quiet:
        yield nobody
    elif shown.is_terminal:
        with _bars(shown, transient) as listener:
            yield listener
    else:
        yield told(lambda text: shown.print(text, soft_wrap=True, markup=False, highlight=False))


def sentences(*, quiet: bool = False) -> Progress:
    """Each on a line of its own."""
    from rich.console import Console

    shown = Console(stderr=True, force_jupyter=False)
    return (lambda _: None) if quiet else lambda text: shown.print(text, soft_wrap=True, markup=False, highlight=False)


def told(tell: Progress) -> Listener:
    """Steps as sentences, some seconds apart."""
    say = spaced(tell)
    return lambda step: say(_sentence(step))


def _sentence(step: Step) -> str:
    of = "" if step.total is None else f" of {step.total:,}"
    return f"{_title(step)}: {step.done:,}{of} {step.unit}"


def _title(step: Step) -> str:
    """Each index is a step of its own; they are one to whoever waits."""
    return "Building indexes" if step.unit == "indexes" else printable(step.name)


@contextmanager
def _bars(console: Console, transient: bool) -> Iterator[Listener]:
    """A bar for each step, with rate and time left where the end is known."""
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bars(*columns, console=console, transient=transient) as bars:
        tasks: dict[str, TaskID] = {}

        def listen(step: Step) -> None:
            title = _title(step)
            if title not in tasks:
                tasks[title] = bars.add_task(escape(title), total=step.total, rate="")
            bars.update(tasks[title], completed=step.done, total=step.total)
            speed = bars.tasks[tasks[title]].speed
            bars.update(tasks[title], rate=f"{speed:,.0f} {step.unit}/s" if speed else "")

        yield listen
