"""What commands print: tables, notices and errors on a terminal, or JSON documents. Computes nothing."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from core.progress import Listener
    from core.types import Flaw
    from evals.evaluation.board import Board
    from evals.presentation.types import Output
    from evals.runs.exchange import ForeignRun
    from evals.statistics.verdicts import Finding

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables and sentences.")]

console = Console()
ENDLESS = 10_000
piped = Console(width=ENDLESS)  # what reads a pipe wants a row on one line
notices = Console(stderr=True)
FORMAT = 1  # of documents
FLAWS_SHOWN = 20
NAME = 24  # characters that a table has room for in its first column, on any terminal
JOINERS = "\u00ad\u200c\u200d"  # soft hyphen and the joiners of scripts and emoji: invisible, and harmless


def print_json(value: Any) -> None:
    """The value as JSON on standard output, and nothing else there. What is not printable is escaped."""

    def plain(value: Any) -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            return asdict(value)
        return value.isoformat() if isinstance(value, datetime) else str(value)

    def visible(letter: str) -> str:
        if letter == "\n" or letter.isprintable():
            return letter
        return f"\\u{ord(letter):04x}" if letter.isascii() else json.dumps(letter)[1:-1]

    text = json.dumps(value, default=plain, ensure_ascii=False, indent=2)
    sys.stdout.write("".join(map(visible, text)) + "\n")


def document(value: Mapping[str, Any]) -> None:
    """A result that scripts keep and read again, with the version of its format first.

    The version goes up where a key is dropped or changes its meaning, not where one is added. Lists of rows have no
    version: an object around them would be in the way of scripts that loop over them.
    """
    print_json({"format": FORMAT, **value})


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] | None = None,
    on: Console | None = None,
) -> None:
    """A table. Its cells are printed as text, whatever they hold.

    With `spare`, it is made to fit the terminal: first cells and headings are broken at their line ends, then the spare
    columns are left out one after the other, and a notice names them. Without, long cells fold where they must.
    """
    target = on or (console if console.is_terminal else piped)
    every = range(len(columns))  # by place, as several columns may bear one name
    forms = [(list(every), False)]  # columns to try, and whether cells are broken, widest first
    if spare is not None:
        dropped = (spare[:count] for count in range(len(spare) + 1))
        forms += [([place for place in every if columns[place] not in some], True) for some in dropped]
    for places, is_broken in forms:
        keep_line_ends = is_broken or spare is None
        heads = [columns[place] if keep_line_ends else _one_line(columns[place]) for place in places]
        cells = [
            [str(row[place]) if keep_line_ends else _one_line(str(row[place])) for place in places] for row in rows
        ]
        drawn = Table(title=escape(printable(title)), title_justify="left", header_style="bold")
        if is_broken:  # there is no room to spare for lines
            drawn.box, drawn.show_edge, drawn.pad_edge, drawn.collapse_padding = SIMPLE_HEAD, False, False, True
        for at, place in enumerate(places):
            drawn.add_column(
                escape(printable(heads[at])),
                justify="right" if columns[place] in right else "left",
                overflow="fold",
                no_wrap=at == 0 and all(len(row[0]) <= NAME for row in cells),  # a name is not broken in two
                max_width=NAME if is_broken else None,
            )
        for row in cells:
            drawn.add_row(*(escape(printable(cell)) for cell in row))
        if spare is None or target.measure(drawn, options=target.options.update(width=ENDLESS)).maximum <= target.width:
            break
    target.print(drawn)
    if is_broken:
        target.line()  # rich leaves it out where a table has no edge
    if left_out := [_one_line(columns[place]) for place in every if place not in places]:
        notice(f"No room for: {', '.join(left_out)}. A wider terminal shows them, and --json has everything.")


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def notice(text: str) -> None:
    notices.print(escape(printable(text)), soft_wrap=True)


def line(text: str) -> None:
    """A line of a result, on standard output."""
    typer.echo(printable(text))


def raw(text: str) -> None:
    """What another program reads, to the letter; on a terminal without what could take it over."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def result(value: Any, sentence: str, *, json: bool) -> None:
    """What a command did: the value for a script, the sentence for a person."""
    print_json(value) if json else notice(sentence)


def error(sentence: str) -> None:
    notices.print(escape(f"Error: {printable(sentence)}"), style="red", soft_wrap=True)


def debugging() -> bool:
    """Whether a full traceback is wanted in place of a sentence."""
    return os.environ.get("RANKBOOK_DEBUG") == "1"


def printable(text: str) -> str:
    """The text without the control characters by which a document could take over the terminal."""

    def harmless(letter: str) -> str:
        if letter in "\n\t" or letter.isprintable() or letter in JOINERS:
            return letter
        is_space = unicodedata.category(letter) == "Zs"  # no-break spaces and their like, which documents are full of
        return " " if is_space else "\N{REPLACEMENT CHARACTER}"

    return "".join(map(harmless, text))


def flaws(listed: Sequence[Flaw], total: int, *, on: Console | None = None) -> None:
    """What is wrong with the input: the first flaws row by row, and how many more there are."""
    if not listed:
        return
    rows = [(str(flaw.place), flaw.subject, flaw.outcome, flaw.message) for flaw in listed[:FLAWS_SHOWN]]
    table("What to know about the input", ("where", "id", "outcome", "what"), rows, on=on)
    if total > len(rows):
        notice(f"... and {total - len(rows):,} more. See them all with --json.")


def confirm(question: str, *, yes: bool = False) -> None:
    """Ask, and end the command if the answer is no. `yes` answers beforehand."""
    if not yes:
        typer.confirm(printable(question), abort=True, err=True)


def confirm_on_terminal(question: str) -> bool:
    """The same; False where there is no terminal to ask at."""
    if not sys.stdin.isatty():
        return False
    confirm(question)
    return True


@contextmanager
def waiting(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Prints what is waited for, where it takes longer than a moment."""
    from core.progress import unless_told

    with nullcontext() if quiet else unless_told(text, notice):
        yield


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Listener]:
    """Shows how far long work is; its last state stays on screen."""
    from evals.display import watched

    with watched(notices, quiet=quiet, transient=False) as listener:
        yield listener


# -- scores ------------------------------------------------------------------------------------------------------------


def show_board(board: Board, on: Console | None = None) -> None:
    """Runs side by side, and the warnings about their scores."""
    from evals.presentation.leaderboard import leaderboard
    from evals.statistics.verdicts import MARKS, legend

    shown = leaderboard(board, doubts=False)
    several, first = len(shown.names) > 1, shown.metrics[0].name
    failed = any(row.failed for row in shown.rows)
    judged, times = f"judged\n{first}", "p50 /\np95 ms"
    costs = (times, *(("failed",) if failed else ()))
    columns = ("variant", *board.metrics, f"against\n{shown.baseline}", judged, *costs)
    rows = []
    for row in map(shown.row, shown.names):
        cells = [row.name]
        for metric in shown.metrics:
            score, finding = row.scores.get(metric.name), row.findings.get(metric.name)
            if score is None:
                cells.append("-")
                continue
            marks = ("*" if several and row.name in metric.top else "") + (MARKS[finding.verdict] if finding else "")
            cells.append("\n".join(filter(None, (f"{score.text} {marks} {score.badge}".strip(), score.brackets))))
        score, finding = row.scores.get(first), row.findings.get(first)
        cells.append(verdict(finding).replace(" ", "\n") if finding else "-")
        cells.append("-" if score is None or score.judged is None else f"{score.judged:.0%}")
        cells.append(f"{row.latency.p50:.1f} /\n{row.latency.p95:.1f}" if row.latency else "-")
        rows.append([*cells, str(row.failed)] if failed else cells)
    title = f"{shown.collection}, {shown.scored_queries} queries of {shown.split}"
    table(title, columns, rows, right=costs, spare=(judged, times, *board.metrics[:0:-1]), on=on)
    if several:
        notice(legend(shown.baseline))
    if not all(row.latency for row in shown.rows if row.toml):
        notice("A time that is missing was not taken: --time-live, or time_live in a suite, asks queries alone.")
    for warning in shown.warnings:
        notice(f"Note: {warning.message}")


def verdict(finding: Finding) -> str:
    mean = finding.difference.mean
    return str(finding.verdict) if mean is None else f"{finding.verdict} {mean:+.3f}"


def show_foreign(runs: Sequence[ForeignRun]) -> None:
    """What is wrong with files of other engines' runs, and how their queries differ from those that are scored."""
    for each in runs:
        flaws(each.flaws, len(each.flaws))
        if each.missing:
            notice(f"{each.run.name} has nothing for {len(each.missing)} of the queries; they score 0.")
        if each.unasked:
            notice(f"{each.run.name} has {len(each.unasked)} queries that are not asked here; they do not count.")


def plain_board(board: Board) -> dict[str, Any]:
    """The same for scripts."""
    from evals.presentation.leaderboard import leaderboard

    return leaderboard(board, doubts=False).document()


# -- cells of notebooks ------------------------------------------------------------------------------------------------


def show_cell(number: int, title: str, problem: str, output: Output | None) -> None:
    """What came of one cell, on standard output: it is a result, and not a notice."""
    from evals.presentation.text import tables_of
    from evals.presentation.types import Chart, Code, Text

    line(f"\n{number}. {title}")
    if problem:
        error(problem)
    for block in output.blocks if output else ():
        match block:
            case Text():
                line(block.text)
            case Chart():
                line(f"({block.description})")
            case Code():
                line(f"{block.title}:\n{block.text}")
            case _:
                for each in tables_of(block):
                    rows = [[cell.plain for cell in row] for row in each.rows]
                    table(each.title, each.columns, rows, right=each.numeric)
                    for note in each.notes:
                        line(note)
