"""Tables, progress and HTML elements that terminals, Jupyter and reports draw.

Knows no board and no run: who has results makes tables of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from core.progress import Listener, Progress, Step, nobody, spaced

if TYPE_CHECKING:
    from rich.console import Console

LONGEST = 300  # characters of a cell
NARROWEST = 100  # columns of a terminal: narrower, a table is folded beyond reading

# What a notebook's cell is given: MathJax must not take a price for a formula.
_FRAME = '<div class="tex2jax_ignore mathjax_ignore" style="overflow-x:auto;margin:.4em 0">{}</div>'
_TABLE = '<table style="color:inherit;border-collapse:collapse;font-variant-numeric:tabular-nums">{}</table>'
_CELL = "padding:.25em .7em;vertical-align:top;border:0;border-bottom:1px solid rgba(128,128,128,.35);text-align:"


@dataclass(frozen=True, slots=True)
class TableCell:
    """`beside` is said faintly after the text, `hint` only when the pointer rests on it."""

    text: str
    beside: str = ""
    strong: bool = False
    hint: str = ""

    @property
    def plain(self) -> str:
        return " ".join(part for part in (self.text, self.beside, "*" if self.strong else "") if part)


@dataclass(frozen=True, slots=True)
class Table:
    """Columns named in `right` hold numbers. Without rows it is its title and notes."""

    title: str
    columns: tuple[str, ...] = ()
    rows: tuple[Sequence[TableCell | object], ...] = ()
    right: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Displayable(ABC):
    """What shows itself as tables: rich in a notebook, plain in a terminal."""

    __slots__ = ()

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """What there is to see."""

    def __repr__(self) -> str:
        return as_text(self.tables())

    def _repr_html_(self) -> str:
        return as_html(self.tables())


def printable(text: object) -> str:
    """On one line, without characters that steer a terminal or turn the reading direction."""
    line = " ".join(str(text).split())
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)


def beginning(text: object, most: int = LONGEST) -> str:
    line = printable(text)
    return line if len(line) <= most else f"{line[: most - 1]}…"


# -- plain -------------------------------------------------------------------------------------------------------------


def as_text(tables: Sequence[Table]) -> str:
    from rich.console import Console

    width = max(NARROWEST, shutil.get_terminal_size((NARROWEST, 24)).columns)
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    for table in tables:
        _print(console, table)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip()


def _print(console: Console, table: Table) -> None:
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    if table.title:
        console.print(Text(printable(table.title)))
    if table.rows:
        headed = any(map(str.strip, table.columns))
        drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_header=headed)
        for column in table.columns:
            right = column in table.right
            drawn.add_column(Text(printable(column)), justify="right" if right else "left", overflow="fold")
        for row in table.rows:
            drawn.add_row(*(Text(beginning(_cell(each).plain)) for each in row))
        console.print(drawn)
    for note in table.notes:
        console.print(Text(printable(note)))


# -- rich --------------------------------------------------------------------------------------------------------------


def as_html(tables: Sequence[Table]) -> str:
    return _FRAME.format("".join(part for table in tables for part in _html(table)))


def _html(table: Table) -> Iterator[str]:
    if table.title:
        yield f'<div style="font-weight:600;margin:.3em 0">{escape(printable(table.title))}</div>'
    if table.rows:
        sides = ["right" if column in table.right else "left" for column in table.columns]
        head = "".join(
            f'<th style="{_CELL}{side}">{escape(printable(column))}</th>'
            for column, side in zip(table.columns, sides, strict=True)
        )
        body = "".join(
            f"<tr>{''.join(_html_cell(_cell(each), side) for each, side in zip(row, sides, strict=True))}</tr>"
            for row in table.rows
        )
        headed = any(map(str.strip, table.columns))
        yield _TABLE.format(f"{f'<thead><tr>{head}</tr></thead>' if headed else ''}<tbody>{body}</tbody>")
    for note in table.notes:
        yield f'<div style="opacity:.75;font-size:90%">{escape(printable(note))}</div>'


def _html_cell(cell: TableCell, side: str) -> str:
    hint = f' title="{escape(printable(cell.hint))}"' if cell.hint else ""
    text = escape(beginning(cell.text))
    shown = f"<b>{text}</b>&nbsp;*" if cell.strong else text
    beside = f' <span style="opacity:.7;font-size:85%">{escape(beginning(cell.beside))}</span>' if cell.beside else ""
    return f'<td style="{_CELL}{side}"{hint}>{shown}{beside}</td>'


def _cell(value: TableCell | object) -> TableCell:
    return value if isinstance(value, TableCell) else TableCell("" if value is None else str(value))


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


Child = ET.Element | str | None
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


def el(name: str, *children: Child, **attributes: Any) -> ET.Element:
    """An element. `class_` is class, `data_value` data-value; an attribute that is None or False is left out."""
    given = {
        key.rstrip("_").replace("_", "-"): "" if value is True else str(value)
        for key, value in attributes.items()
        if value is not None and value is not False
    }
    made = ET.Element(name, given)
    for child in children:
        _append(made, child)
    return made


def _append(parent: ET.Element, child: Child) -> None:
    if isinstance(child, ET.Element):
        parent.append(child)
    elif child and len(parent):
        parent[-1].tail = (parent[-1].tail or "") + child
    elif child:
        parent.text = (parent.text or "") + child


def written(element: ET.Element) -> str:
    """As HTML. What no HTML may hold is replaced, and what would turn the words around it back to front."""
    return _REFUSED.sub("\N{REPLACEMENT CHARACTER}", ET.tostring(element, encoding="unicode", method="html"))


def embedded(value: Any) -> str:
    """JSON that may stand in a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def plotly_script() -> str:
    """plotly.js, all of it."""
    from plotly import offline

    return str(offline.get_plotlyjs())  # type: ignore[attr-defined, no-untyped-call]


def script_hash(script: str) -> str:
    """What a content security policy calls a script."""
    return f"'sha256-{b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
