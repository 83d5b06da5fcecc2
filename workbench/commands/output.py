"""What commands print: tables, notices and errors on a terminal, or JSON documents."""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, is_dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    from evals.suites.run_suite import SuiteResult, TargetResult
    from evals.tuning.workflow import TunedVariant
    from workbench.notebooks.runner import CellResult

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables and sentences.")]

console = Console()
ENDLESS = 10_000
piped = Console(width=ENDLESS)  # what reads a pipe wants a row on one line
notices = Console(stderr=True)
FORMAT = 1  # of documents
FLAWS_SHOWN = 20
NAME = 24  # characters that a table has room for in its first column, on any terminal
JOINERS = "\u00ad\u200c\u200d"  # soft hyphen and the joiners of scripts and emoji: invisible, and harmless


def as_json(value: Any) -> None:
    """The value as JSON on standard output, and nothing else there. What is not printable is escaped."""
    written = json.dumps(value, default=_plain, ensure_ascii=False, indent=2)
    sys.stdout.write(
        "".join(letter if letter == "\n" or letter.isprintable() else _escaped(letter) for letter in written)
    )
    sys.stdout.write("\n")


def as_document(value: Mapping[str, Any]) -> None:
    """A result that scripts keep and read again, with the version of its form first.

    The number goes up where a key goes or comes to mean something else, not where one is added. Lists of rows have
    none: what would hold it would be in the way of whoever loops over them.
    """
    as_json({"format": FORMAT, **value})


def _escaped(letter: str) -> str:
    return json.dumps(letter)[1:-1] if not letter.isascii() else f"\\u{ord(letter):04x}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value)


def table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    spare: Sequence[str] | None = None,
    on: Console | None = None,
) -> None:
    """A table whose cells are text, whatever they hold.

    With `spare`, it is made to fit the terminal: cells and headings break where they have line ends, and where that
    does not do, these columns go, the first of them first, and it is said. Without, long cells fold where they must.
    """
    shown = on or (console if console.is_terminal else piped)
    for places, broken in _forms(columns, spare):
        names = [columns[place] for place in places]
        cells = [[str(row[place]) for place in places] for row in rows]
        if spare is not None:
            cells = [[_broken(cell, broken) for cell in row] for row in cells]
        heads = names if broken or spare is None else [_broken(name, broken) for name in names]
        sides = ["right" if name in right else "left" for name in names]
        made = _drawn(title, heads, cells, sides, broken=broken)
        if spare is None or shown.measure(made, options=shown.options.update(width=ENDLESS)).maximum <= shown.width:
            break
    shown.print(made)
    if broken:
        shown.line()  # which rich leaves out where there is no edge
    if left_out := [name for name in columns if name not in names]:
        told = ", ".join(_broken(name, False) for name in left_out)
        notice(f"No room for: {told}. A wider terminal shows them, and --json has everything.")


def _forms(columns: Sequence[str], spare: Sequence[str] | None) -> Iterator[tuple[list[int], bool]]:
    """The columns to try, by place as several may bear one name, widest first; and whether their cells are broken."""
    yield list(range(len(columns))), False
    for most in range(len(spare) + 1) if spare is not None else ():
        yield [place for place, name in enumerate(columns) if name not in (spare or ())[:most]], True


def _broken(cell: str, broken: bool) -> str:
    return cell if broken else cell.replace("\n", " ")


def _drawn(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str], *, broken: bool
) -> Table:
    made = Table(title=escape(printable(title)), title_justify="left", header_style="bold")
    if broken:  # where there is no room, none goes to lines
        made.box, made.show_edge, made.pad_edge, made.collapse_padding = SIMPLE_HEAD, False, False, True
    for at, (head, side) in enumerate(zip(heads, sides, strict=True)):
        whole = at == 0 and all(len(row[0]) <= NAME for row in rows)  # a name broken in two is none
        justify: Literal["left", "right"] = "right" if side == "right" else "left"
        made.add_column(
            escape(printable(head)),
            justify=justify,
            overflow="fold",
            no_wrap=whole,
            max_width=NAME if broken else None,
        )
    for row in rows:
        made.add_row(*(escape(printable(cell)) for cell in row))
    return made


def notice(text: str) -> None:
    notices.print(escape(printable(text)), soft_wrap=True)


def raw(text: str) -> None:
    """What another program reads, to the letter; on a terminal without what could take it over."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def done(value: Any, sentence: str, *, json: bool) -> None:
    """What a command did, for whoever asked: the value for a machine, the sentence for a person."""
    as_json(value) if json else notice(sentence)


def error(sentence: str) -> None:
    notices.print(escape(f"Error: {printable(sentence)}"), style="red", soft_wrap=True)


def debugging() -> bool:
    """Whether a full traceback is wanted in place of a sentence."""
    return os.environ.get("RANKBOOK_DEBUG") == "1"


def printable(text: str) -> str:
    """Without the control characters by which a document could take over the terminal."""
    return "".join(letter if letter in "\n\t" or letter.isprintable() else _harmless(letter) for letter in text)


def _harmless(letter: str) -> str:
    if unicodedata.category(letter) == "Zs":  # no-break spaces and their like, which documents are full of
        return " "
    return letter if letter in JOINERS else "\N{REPLACEMENT CHARACTER}"


def flaws(found: Sequence[Flaw], total: int, *, on: Console | None = None) -> None:
    """What was wrong with the input, the first of it row by row."""
    if not found:
        return
    rows = [(str(flaw.place), flaw.subject, flaw.outcome, flaw.message) for flaw in found[:FLAWS_SHOWN]]
    table("What to know about the input", ("where", "id", "outcome", "what"), rows, on=on)
    if total > len(rows):
        notice(f"... and {total - len(rows):,} more. See them all with --json.")


def confirmed(question: str) -> bool:
    """Asks whoever sits at a terminal, and ends the command where they say no. False where nobody can be asked."""
    if not sys.stdin.isatty():
        return False
    return bool(typer.confirm(printable(question), abort=True, err=True))


@contextmanager
def waiting(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Says what is waited for, where it takes longer than a moment."""
    from core.progress import unless_told

    with nullcontext() if quiet else unless_told(text, notice):
        yield


@contextmanager
def progress(*, quiet: bool = False) -> Iterator[Listener]:
    """How far long work is; what it came to stays on screen."""
    from evals.display import watched

    with watched(notices, quiet=quiet, transient=False) as listener:
        yield listener


OUTCOMES = {"passed": "ok", "failed": "FAILED", "error": "ERROR"}


# -- tables ------------------------------------------------------------------------------------------------------------


def show_board(board: Board, on: Console | None = None) -> None:
    """The table and what to know before it is believed."""
    from evals.presentation.leaderboard import leaderboard
    from evals.statistics.verdicts import MARKS, legend

    shown = leaderboard(board, doubts=False)
    several, first = len(shown.names) > 1, shown.metrics[0].name
    failed = any(row.failed for row in shown.rows)
    judged, times = f"judged\n{first}", "p50 /\np95 ms"
    costs = (times, *(("failed",) if failed else ()))
    columns = ("variant", *(metric.name for metric in shown.metrics), f"against\n{shown.baseline}", judged, *costs)
    rows = []
    for row in map(shown.row, shown.names):
        cells = []
        for metric in shown.metrics:
            score, finding = row.scores.get(metric.name), row.findings.get(metric.name)
            if score is None:
                cells.append("-")
                continue
            marks = "*" if several and row.name in metric.top else ""
            marks += MARKS[finding.verdict] if finding else ""
            cells.append("\n".join(filter(None, (f"{score.text} {marks} {score.badge}".strip(), score.brackets))))
        score, finding = row.scores.get(first), row.findings.get(first)
        rows.append((
            row.name,
            *cells,
            verdict(finding).replace(" ", "\n") if finding else "-",
            "-" if score is None or score.judged is None else f"{score.judged:.0%}",
            f"{row.latency.p50:.1f} /\n{row.latency.p95:.1f}" if row.latency else "-",
            *((str(row.failed),) if failed else ()),
        ))  # fmt: skip
    title = f"{shown.collection}, {shown.scored_queries} queries of {shown.split}"
    table(title, columns, rows, right=costs, spare=(judged, times, *columns[len(shown.metrics) : 1 : -1]), on=on)
    if several:
        notice(legend(shown.baseline))
    if not all(row.latency for row in shown.rows if row.toml):
        notice("A time that is missing was not taken: --time-live, or time_live in a suite, asks queries alone.")
    for warned in shown.warnings:
        notice(f"Note: {warned.message}")


def verdict(finding: Finding) -> str:
    mean = finding.difference.mean
    return f"{finding.verdict} {'' if mean is None else f'{mean:+.3f}'}".strip()


def show_result(result: TargetResult) -> None:
    for each in result.tuned:
        show_tuned(each)
    show_foreign(result.foreign)
    show_board(result.board)
    for note in result.notes:
        notice(f"Note: {note}")


def show_tuned(made: TunedVariant) -> None:
    from evals.tuning.tuner import called

    tuned = made.tuned
    if made.variant is not None:
        weights = ", ".join(f"{leg} {weight:g}" for leg, weight in tuned.chosen.weights.items())
        notice(f"{made.name}, tuned on {made.split}: {weights} under {called(tuned.chosen.fusion)}.")
    notice(
        f"{made.name}: in-sample {tuned.in_sample:.3f}, to be expected of new queries {tuned.cross_fitted:.3f} "
        f"(the gap of {tuned.optimism:.3f} is optimism). {tuned.verdict}"
    )


def show_foreign(found: Sequence[ForeignRun]) -> None:
    """What was wrong with files, and how they meet the queries."""
    for each in found:
        flaws(each.flaws, len(each.flaws))
        if each.missing:
            notice(f"{each.run.name} has nothing for {len(each.missing)} of the queries; they score 0.")
        if each.unasked:
            notice(f"{each.run.name} has {len(each.unasked)} queries that are not asked here; they do not count.")


def show_gate(result: SuiteResult) -> None:
    rows = [
        (OUTCOMES[check.outcome], check.collection, check.variant, check.what, check.found, check.wanted)
        for check in result.checks
    ]
    columns = ("", "collection", "variant", "what", "found", "wanted")
    table(f"Gate of {result.suite.name}", columns, rows, right=("found", "wanted"))
    wrong = [check for check in result.checks if check.outcome != "passed"]
    for check in wrong:
        if check.says:
            notice(f"{check.variant}, {check.what}: {check.says}")
    of = f"{len(result.checks)} checks"
    notice(f"The gate holds: {of} passed." if not wrong else f"The gate fails: {len(wrong)} of {of}.")


# -- plain values ------------------------------------------------------------------------------------------------------


def plain(board: Board) -> dict[str, Any]:
    """The table as JSON has it."""
    from evals.presentation.leaderboard import leaderboard

    return leaderboard(board, doubts=False).document()


def plain_result(result: TargetResult) -> dict[str, Any]:
    from core.fusion.base import spec_of

    tuned = [
        {
            "name": each.name,
            "split": each.split,
            "weights": each.tuned.chosen.weights,
            "fusion": spec_of(each.tuned.chosen.fusion),
            "in_sample": each.tuned.in_sample,
            "cross_fitted": each.tuned.cross_fitted,
            "verdict": each.tuned.verdict,
            "left_out": each.variant is None,
        }
        for each in result.tuned
    ]
    return {**plain(result.board), "tuned": tuned, "notes": result.notes, "checks": result.checks}


def show_notebook(result: CellResult) -> None:
    _tell(f"\n{result.number}. {result.title}")
    if result.problem:
        error(result.problem)
    if result.output:
        _show_output(result.output)


def _show_output(output: Output) -> None:
    from evals.presentation.text import tables_of
    from evals.presentation.types import Chart, Code, Text

    for block in output.blocks:
        match block:
            case Text():
                _tell(block.text)
            case Chart():
                _tell(f"({block.description})")
            case Code():
                _tell(f"{block.title}:\n{block.text}")
            case _:
                for shown in tables_of(block):
                    rows = [[cell.plain for cell in row] for row in shown.rows]
                    table(shown.title, shown.columns, rows, right=shown.numeric)
                    for note in shown.notes:
                        _tell(note)


def _tell(text: str) -> None:
    """To standard output, where the tables are: a result, and not a notice."""
    typer.echo(printable(text))
