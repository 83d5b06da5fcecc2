"""A report as Markdown: the tables, what can be concluded, what to know before. Every stranger's text stays text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from evals.report.model import Line, Report, Section, Value, Weights
from evals.report.texts import code, line, number, span
from evals.report.weight_charts import shares
from evals.statistics.verdicts import MARKS, legend

OUTCOMES = {"passed": "holds", "failed": "FAILS", "error": "CANNOT BE TOLD"}
_SPECIAL = re.compile(r"([\\`*_\[\]|~$#!{}])")
_START = re.compile(r"^(\s*)([-+=]|\d+[.)])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = re.compile(r"`{3,}")


def escaped(text: str) -> str:
    """A text that shows as it stands, in a line, a list or a cell of a table."""
    plain = re.sub("[&<>]", lambda found: _ENTITIES[found[0]], line(text, 2000))
    plain = _SPECIAL.sub(r"\\\1", plain)
    return _START.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", plain)


def render_markdown(report: Report) -> str:
    parts: list[str] = [f"# {escaped(report.title)}"]
    parts += [escaped(report.description)] if report.description else []
    for section in report.sections:
        parts += _section(section)
    parts += _gate(report)
    parts += _repeat(report)
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> Iterable[str]:
    yield f"## {escaped(section.title)}"
    yield escaped(section.headline)
    yield _list(f"{name}: {value}" for name, value in section.facts)
    doubts = [*(warned.message for warned in section.warnings), *section.notes]
    if doubts:
        yield "**Before these scores are believed**"
        yield _list(doubts)
    heads = ["Variant", *(column.metric for column in section.columns), "p50 ms", "p95 ms", "Index MB", "Failed"]
    yield table(heads, [_row(section, each) for each in section.lines], "l" + "r" * (len(heads) - 1))
    yield f"{legend(escaped(section.baseline), 'Bold:')} {escaped(section.rules)}"
    yield _list(f"{column.metric}: {column.explanation}" for column in section.columns)
    for column in section.columns:
        found = section.findings[column.metric]
        if found:
            yield f"### {escaped(column.metric)} against {escaped(section.baseline)}"
            yield _list(finding.sentence for _, finding in found)
    for weights in section.weights:
        yield from _weights(weights)


def _row(section: Section, each: Line) -> list[str]:
    base = " (baseline)" if each.baseline else ""
    return [
        f"{escaped(each.name)}{base}",
        *(_cell(each.values[column.metric], top=each.name in column.top) for column in section.columns),
        number(each.p50, ".1f"),
        number(each.p95, ".1f"),
        number(each.megabytes, ",.1f"),
        str(each.failed),
    ]


def _cell(value: Value, *, top: bool) -> str:
    mean = f"**{number(value.mean)}**" if top else number(value.mean)
    interval = span(value.low, value.high)
    mark = MARKS[value.finding.verdict] if value.finding else ""
    parts = [mean, f"({interval})" if interval else "", mark, value.badge]
    judged = "" if value.judged is None else f"judged {value.judged:.0%}"
    return " ".join(filter(None, (*parts, judged)))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str) -> str:
    """A table of GitHub's kind. Cells are Markdown by now, headings are not."""
    ends = {"l": ":--", "r": "--:"}
    lines = [[escaped(head) for head in heads], [ends[each] for each in aligned], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _weights(weights: Weights) -> Iterable[str]:
    best = weights.fusions[weights.chosen]
    yield f"### Weights of {escaped(weights.name)}"
    yield escaped(weights.verdict)
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
        [OUTCOMES[check.outcome], *map(escaped, (check.collection, check.variant, check.what)),
         *map(escaped, (check.found, check.wanted, check.says))]
        for check in report.checks
    ]  # fmt: skip
    yield table(heads, rows, "llllrrl")


def _repeat(report: Report) -> Iterable[str]:
    yield "## How to repeat it"
    if report.command:
        yield _fenced(report.command, "sh")
    for name, content in report.files.items():
        yield f"{escaped(name)}:"
        yield _fenced(content, "toml")
    seen: set[str] = set()
    for each in (each for section in report.sections for each in section.lines):
        if each.name not in seen:
            seen.add(each.name)
            yield f"{escaped(each.name)}:" if each.toml else f"{escaped(each.name)} is a run of another engine."
            yield _fenced(each.toml, "toml") if each.toml else ""


def _fenced(content: str, language: str) -> str:
    """Behind a fence that is longer than any in it."""
    longest = max((len(found) for found in _FENCE.findall(content)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{code(content).rstrip()}\n{fence}"


def _list(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {escaped(sentence)}" for sentence in sentences)
