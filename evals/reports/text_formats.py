"""A report as Markdown and as LaTeX; strangers' texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evals.reports.model import DASH, Report, ReportLine, Section, Value, Weights, code, line, number, span
from evals.reports.weight_charts import shares
from evals.statistics.verdicts import MARKS, MEANINGS, TOP, Verdict, legend

OUTCOMES = {"passed": "holds", "failed": "FAILS", "error": "CANNOT BE TOLD"}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]|~$#!{}])")
_START = re.compile(r"^(\s*)([-+=]|\d+[.)])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = re.compile(r"`{3,}")


def escape_markdown(text: str) -> str:
    """A text that shows as it stands, in a line, a list or a cell of a table."""
    plain = re.sub("[&<>]", lambda found: _ENTITIES[found[0]], line(text, 2000))
    plain = _MARKDOWN_SPECIAL.sub(r"\\\1", plain)
    return _START.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", plain)


def render_markdown(report: Report) -> str:
    parts: list[str] = [f"# {escape_markdown(report.title)}"]
    parts += [escape_markdown(report.description)] if report.description else []
    for section in report.sections:
        parts += _section(section)
    parts += _gate(report)
    parts += _repeat(report)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> Iterable[str]:
    yield f"## {escape_markdown(section.title)}"
    yield escape_markdown(section.headline)
    yield _list(f"{name}: {value}" for name, value in section.facts)
    doubts = [*(warned.message for warned in section.warnings), *section.notes]
    if doubts:
        yield "**Before these scores are believed**"
        yield _list(doubts)
    heads = ["Variant", *(column.metric for column in section.columns), "p50 ms", "p95 ms", "Index MB", "Failed"]
    yield table(heads, [_markdown_row(section, each) for each in section.lines], "l" + "r" * (len(heads) - 1))
    yield f"{legend(escape_markdown(section.baseline), 'Bold:')} {escape_markdown(section.rules)}"
    yield _list(f"{column.metric}: {column.explanation}" for column in section.columns)
    for column in section.columns:
        found = section.findings[column.metric]
        if found:
            yield f"### {escape_markdown(column.metric)} against {escape_markdown(section.baseline)}"
            yield _list(finding.sentence for _, finding in found)
    for weights in section.weights:
        yield from _weights(weights)


def _markdown_row(section: Section, each: ReportLine) -> list[str]:
    base = " (baseline)" if each.baseline else ""
    return [
        f"{escape_markdown(each.name)}{base}",
        *(_markdown_cell(each.values[column.metric], top=each.name in column.top) for column in section.columns),
        number(each.p50, ".1f"),
        number(each.p95, ".1f"),
        number(each.megabytes, ",.1f"),
        str(each.failed),
    ]


def _markdown_cell(value: Value, *, top: bool) -> str:
    mean = f"**{number(value.mean)}**" if top else number(value.mean)
    interval = span(value.low, value.high)
    mark = MARKS[value.finding.verdict] if value.finding else ""
    parts = [mean, f"({interval})" if interval else "", mark, value.badge]
    judged = "" if value.judged is None else f"judged {value.judged:.0%}"
    return " ".join(filter(None, (*parts, judged)))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str) -> str:
    """A table of GitHub's kind. Cells are Markdown by now, headings are not."""
    ends = {"l": ":--", "r": "--:"}
    lines = [[escape_markdown(head) for head in heads], [ends[each] for each in aligned], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _weights(weights: Weights) -> Iterable[str]:
    best = weights.fusions[weights.chosen]
    yield f"### Weights of {escape_markdown(weights.name)}"
    yield escape_markdown(weights.verdict)
    told = [f"In-sample best: {weights.in_sample:.4f} at {shares(weights, best.best)} ({best.fusion})"]
    if weights.cross_fitted is not None:
        told.append(f"Cross-fitted, to expect of new queries: {weights.cross_fitted:.4f}")
    told += [
        f"Equal weights: {weights.untuned:.4f}",
        f"Too close to the best to tell: {sum(best.tied)} of {len(best.grid)} points",
        f"Oracle, the best weights for each query: {weights.oracle:.4f}",
    ]
    yield _list(told)


def _gate(report: Report) -> Iterable[str]:
    if not report.checks:
        return
    yield "## The gate"
    heads = ("Outcome", "Collection", "Variant", "What", "Found", "Wanted", "Remark")
    rows = [
        [OUTCOMES[check.outcome], *map(escape_markdown, (check.collection, check.variant, check.what)),
         *map(escape_markdown, (check.found, check.wanted, check.says))]
        for check in report.checks
    ]  # fmt: skip
    yield table(heads, rows, "llllrrl")


def _repeat(report: Report) -> Iterable[str]:
    yield "## How to repeat it"
    if report.command:
        yield _fenced(report.command, "sh")
    for name, content in report.files.items():
        yield f"{escape_markdown(name)}:"
        yield _fenced(content, "toml")
    seen: set[str] = set()
    for each in (each for section in report.sections for each in section.lines):
        if each.name not in seen:
            seen.add(each.name)
            yield (
                f"{escape_markdown(each.name)}:"
                if each.toml
                else f"{escape_markdown(each.name)} is a run of another engine."
            )
            yield _fenced(each.toml, "toml") if each.toml else ""


def _fenced(content: str, language: str) -> str:
    """Behind a fence that is longer than any in it."""
    longest = max((len(found) for found in _FENCE.findall(content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code(content).rstrip()}\n{fence}"


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escape_markdown(sentence)}" for sentence in sentences)


# Brackets and stars mean something behind the end of a row; some are other signs in old fonts.
_LATEX_SPECIAL = {
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


def escape_latex(text: str) -> str:
    """A text that is set as it stands; a character that pdfLaTeX may not have is named by its number."""
    return _DOUBLED.sub(r"\1{}", "".join(map(_character, line(text, 2000))))


def _character(each: str) -> str:
    if each in _LATEX_SPECIAL:
        return _LATEX_SPECIAL[each]
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
    yield (
        rf"\caption{{{escape_latex(told)}. {_LEGEND}, against {escape_latex(section.baseline)}. "
        rf"{escape_latex(section.rules)}}}"
    )
    yield rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    yield r"\toprule"
    yield f"{' & '.join(map(escape_latex, heads))} \\\\"
    yield r"\midrule"
    for each in section.lines:
        yield f"{' & '.join(_latex_row(section, each))} \\\\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield r"\end{table}"
    for warned in section.warnings:
        yield f"% {line(warned.message, 1000)}"


def _latex_row(section: Section, each: ReportLine) -> Iterable[str]:
    yield escape_latex(each.name)
    for column in section.columns:
        yield _latex_cell(each.values[column.metric], top=each.name in column.top)
    for time in (each.p50, each.p95):
        yield "--" if time is None else number(time, ".1f")


def _latex_cell(value: Value, *, top: bool) -> str:
    if value.mean is None:
        return "--"
    mean = rf"\textbf{{{value.mean:.3f}}}" if top else f"{value.mean:.3f}"
    mark = f"$^{{{_MARKS[value.finding.verdict]}}}$" if value.finding else ""
    interval = (
        "" if value.low is None or value.high is None else rf" {{\scriptsize [{value.low:.3f}, {value.high:.3f}]}}"
    )
    badge = rf" {{\scriptsize {value.badge}}}" if value.badge else ""
    return f"{mean}{mark}{interval}{badge}"
