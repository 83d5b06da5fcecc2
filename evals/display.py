"""Tables and their plain and HTML text, progress, HTML elements: what terminals, Jupyter, pages and reports share.

It must not know runs, scores or any other result: who has them makes tables of them.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, Annotated, Any, Literal
from xml.etree import ElementTree as ET

from pydantic import BaseModel, ConfigDict, Field

from core.progress import Listener, Progress, Step, nobody, spaced

if TYPE_CHECKING:
    from rich.console import Console

LONGEST = 300  # characters of a cell
NARROWEST = 100  # columns of a terminal: narrower, a table is folded beyond reading

# In a Jupyter cell: MathJax must not take a price for a formula.
_FRAME = '<div class="tex2jax_ignore mathjax_ignore" style="overflow-x:auto;margin:.4em 0">{}</div>'
_TABLE = '<table style="color:inherit;border-collapse:collapse;font-variant-numeric:tabular-nums">{}</table>'
_CELL = "padding:.25em .7em;vertical-align:top;border:0;border-bottom:1px solid rgba(128,128,128,.35);text-align:"


class DisplayModel(BaseModel):
    """Frozen values that are read back equal from their JSON. A renamed field keeps the key that is stored."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )


class TableCell(DisplayModel):
    """`aside` follows the text in a fainter tone; `hint` appears when the pointer rests on the cell."""

    text: str
    aside: Annotated[str, Field(alias="beside")] = ""
    strong: bool = False
    hint: str = ""

    @classmethod
    def of(cls, value: object) -> TableCell:
        return value if isinstance(value, TableCell) else cls(text="" if value is None else str(value))

    @property
    def plain(self) -> str:
        return " ".join(part for part in (self.text, self.aside, "*" if self.strong else "") if part)


class Table(DisplayModel):
    """Columns named in `numeric` are aligned to the right. Without rows it is its title and notes."""

    type: Literal["table"] = "table"
    title: str = ""
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[TableCell, ...], ...] = ()
    numeric: Annotated[tuple[str, ...], Field(alias="right")] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        title: str,
        columns: Iterable[str] = (),
        rows: Iterable[Iterable[object]] = (),
        numeric: Iterable[str] = (),
        notes: Iterable[str] = (),
    ) -> Table:
        """The cells of a row are `TableCell`s, or values that become the text of one."""
        cells = tuple(tuple(map(TableCell.of, row)) for row in rows)
        return cls(title=title, columns=tuple(columns), rows=cells, numeric=tuple(numeric), notes=tuple(notes))


class Displayable(ABC):
    """A result that Jupyter shows as HTML tables, and a terminal as plain ones."""

    __slots__ = ()

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The tables, in the order in which they are shown."""

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
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    width = max(NARROWEST, shutil.get_terminal_size((NARROWEST, 24)).columns)
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False, force_jupyter=False)
    for table in tables:
        if table.title:
            console.print(Text(printable(table.title)))
        if table.rows:
            headed = any(map(str.strip, table.columns))
            drawn = Drawn(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1), show_header=headed)
            for column in table.columns:
                justify: Literal["left", "right"] = "right" if column in table.numeric else "left"
                drawn.add_column(Text(printable(column)), justify=justify, overflow="fold")
            for row in table.rows:
                drawn.add_row(*(Text(beginning(cell.plain)) for cell in row))
            console.print(drawn)
        for note in table.notes:
            console.print(Text(printable(note)))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()).rstrip()


# -- rich --------------------------------------------------------------------------------------------------------------


def as_html(tables: Sequence[Table]) -> str:
    parts = []
    for table in tables:
        if table.title:
            parts.append(f'<div style="font-weight:600;margin:.3em 0">{escape(printable(table.title))}</div>')
        if table.rows:
            sides = ["right" if column in table.numeric else "left" for column in table.columns]
            heads = (
                f'<th style="{_CELL}{side}">{escape(printable(column))}</th>'
                for column, side in zip(table.columns, sides, strict=True)
            )
            head = f"<thead><tr>{''.join(heads)}</tr></thead>" if any(map(str.strip, table.columns)) else ""
            rows = (
                f"<tr>{''.join(_html_cell(cell, side) for cell, side in zip(row, sides, strict=True))}</tr>"
                for row in table.rows
            )
            parts.append(_TABLE.format(f"{head}<tbody>{''.join(rows)}</tbody>"))
        notes = (escape(printable(note)) for note in table.notes)
        parts += [f'<div style="opacity:.75;font-size:90%">{note}</div>' for note in notes]
    return _FRAME.format("".join(parts))


def _html_cell(cell: TableCell, side: str) -> str:
    hint = f' title="{escape(printable(cell.hint))}"' if cell.hint else ""
    text = escape(beginning(cell.text))
    marked = f"<b>{text}</b>&nbsp;*" if cell.strong else text
    aside = f' <span style="opacity:.7;font-size:85%">{escape(beginning(cell.aside))}</span>' if cell.aside else ""
    return f'<td style="{_CELL}{side}"{hint}>{marked}{aside}</td>'


# -- progress ----------------------------------------------------------------------------------------------------------


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
        yield step_sentences(lambda text: shown.print(text, soft_wrap=True, markup=False, highlight=False))


def sentences(*, quiet: bool = False) -> Progress:
    """Each on a line of its own."""
    from rich.console import Console

    shown = Console(stderr=True, force_jupyter=False)
    return (lambda _: None) if quiet else lambda text: shown.print(text, soft_wrap=True, markup=False, highlight=False)


def step_sentences(tell: Progress) -> Listener:
    """Steps as sentences, some seconds apart."""
    say = spaced(tell)

    def listen(step: Step) -> None:
        of = "" if step.total is None else f" of {step.total:,}"
        say(f"{_title(step)}: {step.done:,}{of} {step.unit}")

    return listen


def _title(step: Step) -> str:
    """Each index is a step of its own; on screen they are one."""
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
    element = ET.Element(name, given)
    for child in children:
        if isinstance(child, ET.Element):
            element.append(child)
        elif child and len(element):
            element[-1].tail = (element[-1].tail or "") + child
        elif child:
            element.text = (element.text or "") + child
    return element


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
