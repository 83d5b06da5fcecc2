"""A report's tables for a paper. Compiles with booktabs alone, in any LaTeX; every stranger's text stays text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from evals.report.model import Line, Report, Section, Value
from evals.report.texts import DASH, line, number
from evals.statistics.verdicts import MEANINGS, TOP, Verdict

# Brackets and stars mean something behind the end of a row; some are other signs in old fonts.
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": "{`}",
    '"': r"{\char34}",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "…": r"\ldots{}",
    DASH: r"\textendash{}",
    "\N{EM DASH}": r"\textemdash{}",
    "\N{NO-BREAK SPACE}": "~",
}
_DOUBLED = re.compile(r"([-'])(?=\1)")  # two of them would become one sign
_MARKS = {  # the marks of every other table, as any LaTeX has them
    Verdict.BETTER: r"\bigtriangleup",
    Verdict.WORSE: r"\bigtriangledown",
    Verdict.TIED: "=",
    Verdict.TOO_FEW: "?",
}
_LEGEND = f"Brackets hold intervals. Bold: {TOP}. " + ", ".join(
    f"$^{{{mark}}}$ {MEANINGS[verdict]}" for verdict, mark in _MARKS.items()
)


def escaped(text: str) -> str:
    """A text that is set as it stands; a character that pdfLaTeX may not have is named by its number."""
    return _DOUBLED.sub(r"\1{}", "".join(map(_character, line(text, 2000))))


def _character(each: str) -> str:
    if each in _SPECIAL:
        return _SPECIAL[each]
    western = "\xc0" <= each <= "\xff" and each.isalpha()
    return each if each.isascii() or western else rf"\texttt{{U+{ord(each):04X}}}"


def render_latex(report: Report) -> str:
    """A table for each collection."""
    head = [f"% {line(report.title, 200)}", "% Needs \\usepackage{booktabs}."]
    return "\n".join([*head, *("\n".join(["", *_table(section)]) for section in report.sections)]) + "\n"


def _table(section: Section) -> Iterable[str]:
    facts = dict(section.facts)
    told = "; ".join(
        f"{name}: {facts[name]}" for name in ("Collection", "Query set", "Split", "Queries", "Labels") if name in facts
    )
    heads = ["Variant", *(column.metric for column in section.columns), "p50 ms", "p95 ms"]
    yield r"\begin{table}[tb]"
    yield r"\centering"
    yield rf"\caption{{{escaped(told)}. {_LEGEND}, against {escaped(section.baseline)}. {escaped(section.rules)}}}"
    yield rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    yield r"\toprule"
    yield f"{' & '.join(map(escaped, heads))} \\\\"
    yield r"\midrule"
    for each in section.lines:
        yield f"{' & '.join(_row(section, each))} \\\\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield r"\end{table}"
    for warned in section.warnings:
        yield f"% {line(warned.message, 1000)}"


def _row(section: Section, each: Line) -> Iterable[str]:
    yield escaped(each.name)
    for column in section.columns:
        yield _cell(each.values[column.metric], top=each.name in column.top)
    for time in (each.p50, each.p95):
        yield "--" if time is None else number(time, ".1f")


def _cell(value: Value, *, top: bool) -> str:
    if value.mean is None:
        return "--"
    mean = rf"\textbf{{{value.mean:.3f}}}" if top else f"{value.mean:.3f}"
    mark = f"$^{{{_MARKS[value.finding.verdict]}}}$" if value.finding else ""
    interval = (
        "" if value.low is None or value.high is None else rf" {{\scriptsize [{value.low:.3f}, {value.high:.3f}]}}"
    )
    badge = rf" {{\scriptsize {value.badge}}}" if value.badge else ""
    return f"{mean}{mark}{interval}{badge}"
