"""Tables as a notebook and a terminal show them. Text from a collection is text there, whatever it holds.

Owns the two renderings and the mixin by which results have them. No colours: what is set is the same on light and dark.
"""

from __future__ import annotations

import io
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from evals.statistics.verdicts import MARKS, legend

if TYPE_CHECKING:
    from rich.console import Console

    from evals.board import Board

LONGEST = 300  # characters of a cell
NARROWEST = 100  # columns of a terminal: narrower, a table is folded beyond reading

# What a notebook's cell is given: MathJax must not take a price for a formula.
_FRAME = '<div class="tex2jax_ignore mathjax_ignore" style="overflow-x:auto;margin:.4em 0">{}</div>'
_TABLE = '<table style="color:inherit;border-collapse:collapse;font-variant-numeric:tabular-nums">{}</table>'
_CELL = "padding:.25em .7em;vertical-align:top;border:0;border-bottom:1px solid rgba(128,128,128,.35);text-align:"


@dataclass(frozen=True, slots=True)
class Cell:
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
    rows: tuple[Sequence[Cell | object], ...] = ()
    right: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Shown(ABC):
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


def _html_cell(cell: Cell, side: str) -> str:
    hint = f' title="{escape(printable(cell.hint))}"' if cell.hint else ""
    text = escape(beginning(cell.text))
    shown = f"<b>{text}</b>&nbsp;*" if cell.strong else text
    beside = f' <span style="opacity:.7;font-size:85%">{escape(beginning(cell.beside))}</span>' if cell.beside else ""
    return f'<td style="{_CELL}{side}"{hint}>{shown}{beside}</td>'


def _cell(value: Cell | object) -> Cell:
    return value if isinstance(value, Cell) else Cell("" if value is None else str(value))


# -- a board -----------------------------------------------------------------------------------------------------------


def board_table(board: Board) -> Table:
    """Variants by metrics with intervals and verdicts, what it cost, and what to know before it is believed."""
    subject, first = board.runs[0].subject, board.metrics[0]
    costs: dict[str, list[Cell]] = {"p50 ms": [_milliseconds(board, name) for name in board.names]}
    if any(run.failures for run in board.runs):
        costs["failed"] = [Cell(str(len(run.failures))) for run in board.runs]
    rows = tuple(
        (name, *(_score(board, metric, name) for metric in board.metrics), _judged(board, first, name), *spent)
        for name, *spent in zip(board.names, *costs.values(), strict=True)
    )
    return Table(
        f"{subject.collection}, {len(board.queries(first))} queries of {subject.split}",
        ("variant", *board.metrics, f"judged {first}", *costs),
        rows,
        (f"judged {first}", *costs),
        tuple(_notes(board)),
    )


def _notes(board: Board) -> Iterator[str]:
    level = f"{board.rules.level:.0%} intervals in brackets."
    yield f"{legend(board.baseline)} {level}" if len(board.names) > 1 else level
    for warned in board.warnings:
        yield f"Note: {warned.message}"


def _score(board: Board, metric: str, name: str) -> Cell:
    cell = board.cells(metric).get(name)
    if cell is None:
        return Cell("-")
    finding = board.finding(metric, name)
    interval = "" if cell.low is None or cell.high is None else f"[{cell.low:.2f}, {cell.high:.2f}]"
    mark = " ".join(filter(None, (MARKS[finding.verdict] if finding else "", cell.badge)))
    strong = len(board.names) > 1 and name in board.best(metric)
    hint = finding.sentence if finding else "what the others are compared with" if len(board.names) > 1 else ""
    return Cell(f"{cell.mean:.3f}", f"{interval} {mark}".strip(), strong, hint)


def _judged(board: Board, metric: str, name: str) -> str:
    cell = board.cells(metric).get(name)
    return "-" if cell is None or cell.judged is None else f"{cell.judged:.0%}"


def _milliseconds(board: Board, name: str) -> Cell:
    latency = board.run(name).latency
    if latency is None:
        return Cell("-")
    return Cell(f"{latency.p50:.1f}", hint=f"p95 {latency.p95:.1f} ms; {latency.queries} queries, asked alone")
