"""How far long work is, on stderr: bars in a terminal; elsewhere, in Jupyter or a log, a sentence now and then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from core.store.progress import Listener, Progress, Step, nobody, spaced
from evals.lab_tables import printable

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def watched(*, quiet: bool = False) -> Iterator[Listener]:
    """A listener for the time of the work."""
    from rich.console import Console

    console = Console(stderr=True, force_jupyter=False)
    if quiet:
        yield nobody
    elif console.is_terminal:
        with _bars(console) as listener:
            yield listener
    else:
        yield told(lambda text: console.print(text, soft_wrap=True, markup=False, highlight=False))


def told(tell: Progress) -> Listener:
    """Steps as sentences, some seconds apart."""
    say = spaced(tell)
    return lambda step: say(_sentence(step))


def _sentence(step: Step) -> str:
    of = "" if step.total is None else f" of {step.total:,}"
    return f"{printable(step.name)}: {step.done:,}{of} {step.unit}"


@contextmanager
def _bars(console: Console) -> Iterator[Listener]:
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        tasks: dict[str, TaskID] = {}

        def listen(step: Step) -> None:
            if step.name not in tasks:
                tasks[step.name] = bars.add_task(escape(printable(step.name)), total=step.total)
            bars.update(tasks[step.name], completed=step.done, total=step.total)

        yield listen
