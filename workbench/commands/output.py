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
    from evals.evaluation.board import Board, ScoreCell
    from evals.runs.exchange import ForeignRun
    from evals.statistics.verdicts import Finding
    from workbench.notebooks.output import Output

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
    from evals.statistics.verdicts import MARKS, legend

    subject, first = board.runs[0].subject, board.metrics[0]
    failed = any(run.failures for run in board.runs)
    several = len(board.names) > 1
    judged, times = f"judged\n{first}", "p50 /\np95 ms"
    costs = (times, *(("failed",) if failed else ()))
    columns = ("variant", *board.metrics, f"against\n{board.baseline}", judged, *costs)

    def score(metric: str, name: str) -> str:
        cell, finding = board.cells(metric).get(name), board.finding(metric, name)
        if cell is None:
            return "-"
        marks = ("*" if several and name in board.best(metric) else "") + (MARKS[finding.verdict] if finding else "")
        mean, *interval = figure(cell).split(" ", 1)
        return "\n".join([f"{mean} {marks} {cell.badge}".strip(), *interval])

    rows = []
    for name in board.names:
        run, cell, finding = board.run(name), board.cells(first).get(name), board.finding(first, name)
        row = [name, *(score(metric, name) for metric in board.metrics)]
        row.append(verdict(finding).replace(" ", "\n") if finding else "-")
        row.append("-" if cell is None or cell.judged is None else f"{cell.judged:.0%}")
        row.append(f"{run.latency.p50:.1f} /\n{run.latency.p95:.1f}" if run.latency else "-")
        rows.append([*row, str(len(run.failures))] if failed else row)
    title = f"{subject.collection}, {len(board.queries(first))} queries of {subject.split}"
    table(title, columns, rows, right=costs, spare=(judged, times, *board.metrics[:0:-1]), on=on)
    if several:
        notice(legend(board.baseline))
    if not all(run.latency for run in board.runs if run.variant):
        notice("A time that is missing was not taken: --time-live, or time_live in a suite, asks queries alone.")
    for warning in board.warnings:
        notice(f"Note: {warning.message}")


def verdict(finding: Finding) -> str:
    mean = finding.difference.mean
    return str(finding.verdict) if mean is None else f"{finding.verdict} {mean:+.3f}"


def figure(cell: ScoreCell) -> str:
    interval = "" if cell.low is None or cell.high is None else f" [{cell.low:.2f}, {cell.high:.2f}]"
    return f"{cell.mean:.3f}{interval}"


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

    def finding(metric: str, name: str) -> dict[str, Any] | None:
        verdict_of = board.finding(metric, name)
        if verdict_of is None:
            return None
        return {
            "verdict": str(verdict_of.verdict),
            "sentence": verdict_of.sentence,
            "difference": verdict_of.difference,
        }

    subject = board.runs[0].subject
    return {
        "collection": subject.collection,
        "query_set": subject.query_set,
        "split": subject.split,
        "queries": len(board.split.queries),
        "baseline": board.baseline,
        "best": {metric: board.best(metric) for metric in board.metrics},
        "runs": [
            {
                "name": name,
                "id": run.id,
                "variant": run.variant.id if run.variant else None,
                "metrics": {metric: board.cells(metric).get(name) for metric in board.metrics},
                "findings": {metric: finding(metric, name) for metric in board.metrics},
                "latency": run.latency,
                "failed": len(run.failures),
            }
            for name, run in zip(board.names, map(board.run, board.names), strict=True)
        ],
        "warnings": board.warnings,
    }


# -- cells of notebooks ------------------------------------------------------------------------------------------------


def show_cell(number: int, title: str, problem: str, output: Output | None) -> None:
    """What came of one cell, on standard output: it is a result, and not a notice."""
    from workbench.notebooks.export_jupyter import tables_of
    from workbench.notebooks.output import Code, Figure, Hits, Said, Table

    line(f"\n{number}. {title}")
    if problem:
        error(problem)
    for block in output.blocks if output else ():
        match block:
            case Said():
                line(block.text)
            case Figure():
                line(f"({block.says})")
            case Code():
                line(f"{block.title}:\n{block.text}")
            case Table() | Hits():
                for each in tables_of(block):
                    rows = [[getattr(cell, "plain", cell) for cell in row] for row in each.rows]
                    table(each.title, each.columns, rows, right=each.right)
                    for note in each.notes:
                        line(note)
