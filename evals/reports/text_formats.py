"""A report as Markdown and as LaTeX; strangers' texts are escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from evals.presentation.leaderboard import LeaderboardRow, MetricInfo
from evals.presentation.text import DASH, code, line, number
from evals.presentation.weight_surface import weights_text
from evals.reports.model import Report, Section
from evals.statistics.verdicts import MARKS, MEANINGS, TOP, Verdict, legend

OUTCOMES = {"passed": "holds", "failed": "FAILS", "error": "CANNOT BE TOLD"}
_MARKDOWN_SPECIAL = re.compile(r"([\\`*_\[\]|~$#!{}])")
_START = re.compile(r"^(\s*)([-+=]|\d+[.)])")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_FENCE = re.compile(r"`{3,}")


def escape_markdown(text: str) -> str:
    """The text without markup, for a line, a list or a cell of a table."""
    plain = re.sub("[&<>]", lambda found: _ENTITIES[found[0]], line(text, 2000))
    plain = _MARKDOWN_SPECIAL.sub(r"\\\1", plain)
    return _START.sub(lambda found: f"{found[1]}{found[2][:-1]}\\{found[2][-1]}", plain)


def render_markdown(report: Report) -> str:
    parts: list[str] = [f"# {escape_markdown(report.title)}"]
    parts += [escape_markdown(report.description)] if report.description else []
    for section in report.sections:
        parts += _section(section)
    if report.checks:
        heads = ("Outcome", "Collection", "Variant", "What", "Found", "Wanted", "Remark")
        rows = [
            [OUTCOMES[check.outcome], *map(escape_markdown, (check.collection, check.variant, check.what)),
             *map(escape_markdown, (check.found, check.wanted, check.says))]
            for check in report.checks
        ]  # fmt: skip
        parts += ["## The gate", table(heads, rows, "llllrrl")]
    parts.append("## How to repeat it")
    parts += [_fenced(report.command, "sh")] if report.command else []
    for name, content in report.files.items():
        parts += [f"{escape_markdown(name)}:", _fenced(content, "toml")]
    for row in report.distinct_rows():
        name = escape_markdown(row.name)
        parts += [f"{name}:", _fenced(row.toml, "toml")] if row.toml else [f"{name} is a run of another engine."]
    return "\n\n".join(part for part in parts if part) + "\n"


def _section(section: Section) -> Iterator[str]:
    board = section.board
    yield f"## {escape_markdown(board.title)}"
    yield escape_markdown(board.headline)
    yield _list(f"{name}: {value}" for name, value in section.facts)
    doubts = [*(warned.message for warned in section.warnings), *section.notes]
    if doubts:
        yield "**Before these scores are believed**"
        yield _list(doubts)
    heads = ["Variant", *(metric.name for metric in board.metrics), "p50 ms", "p95 ms", "Index MB", "Failed"]
    rows = [
        [
            f"{escape_markdown(row.name)}{' (baseline)' if row.is_baseline else ''}",
            *(_markdown_score(metric, row) for metric in board.metrics),
            number(row.latency.p50 if row.latency else None, ".1f"),
            number(row.latency.p95 if row.latency else None, ".1f"),
            number(row.megabytes, ",.1f"),
            str(row.failed),
        ]
        for row in board.rows
    ]
    yield table(heads, rows, "l" + "r" * (len(heads) - 1))
    yield f"{legend(escape_markdown(board.baseline), 'Bold:')} {escape_markdown(board.rules)}"
    yield _list(f"{metric.name}: {metric.formula}" for metric in board.metrics)
    for metric in board.metrics:
        if found := board.findings(metric.name):
            yield f"### {escape_markdown(metric.name)} against {escape_markdown(board.baseline)}"
            yield _list(finding.sentence for _, finding in found)
    for surface in section.weights:
        best = surface.best
        yield f"### Weights of {escape_markdown(surface.name)}"
        yield escape_markdown(surface.verdict)
        point = weights_text(surface.weights_at(best.best))
        sentences = [f"In-sample best: {surface.in_sample:.4f} at {point} ({best.name})"]
        if surface.cross_fitted is not None:
            sentences.append(f"Cross-fitted, to expect of new queries: {surface.cross_fitted:.4f}")
        sentences += [
            f"Equal weights: {surface.equal_weights:.4f}",
            f"Too close to the best to tell: {sum(surface.tied)} of {len(best.grid)} points",
            f"Oracle, the best weights for each query: {surface.oracle:.4f}",
        ]
        yield _list(sentences)


def _markdown_score(metric: MetricInfo, row: LeaderboardRow) -> str:
    score, finding = row.scores.get(metric.name), row.findings.get(metric.name)
    if score is None:
        return DASH
    mean = f"**{score.text}**" if row.name in metric.top else score.text
    interval = f"({score.interval})" if score.interval else ""
    judged = "" if score.judged is None else f"judged {score.judged:.0%}"
    return " ".join(filter(None, (mean, interval, MARKS[finding.verdict] if finding else "", score.badge, judged)))


def table(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str) -> str:
    """A table of GitHub's kind. Cells are Markdown by now, headings are not."""
    ends = {"l": ":--", "r": "--:"}
    lines = [[escape_markdown(head) for head in heads], [ends[each] for each in aligned], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


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
    """The text without commands; a character that pdfLaTeX may not have is named by its number."""
    parts = []
    for each in line(text, 2000):
        if each in _LATEX_SPECIAL:
            parts.append(_LATEX_SPECIAL[each])
        elif each.isascii() or ("\xc0" <= each <= "\xff" and each.isalpha()):  # what is western
            parts.append(each)
        else:
            parts.append(rf"\texttt{{U+{ord(each):04X}}}")
    return _DOUBLED.sub(r"\1{}", "".join(parts))


def render_latex(report: Report) -> str:
    """A table for each collection."""
    head = [f"% {line(report.title, 200)}", "% Needs \\usepackage{booktabs}."]
    return "\n".join([*head, *("\n".join(["", *_table(section)]) for section in report.sections)]) + "\n"


def _table(section: Section) -> Iterator[str]:
    board, facts = section.board, dict(section.facts)
    about = "; ".join(
        f"{name}: {facts[name]}" for name in ("Collection", "Query set", "Split", "Queries", "Labels") if name in facts
    )
    heads = ["Variant", *(metric.name for metric in board.metrics), "p50 ms", "p95 ms"]
    yield r"\begin{table}[tb]"
    yield r"\centering"
    yield (
        rf"\caption{{{escape_latex(about)}. {_LEGEND}, against {escape_latex(board.baseline)}. "
        rf"{escape_latex(board.rules)}}}"
    )
    yield rf"\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}"
    yield r"\toprule"
    yield f"{' & '.join(map(escape_latex, heads))} \\\\"
    yield r"\midrule"
    for row in board.rows:
        times = (row.latency.p50, row.latency.p95) if row.latency else (None, None)
        cells = [
            escape_latex(row.name),
            *(_latex_score(metric, row) for metric in board.metrics),
            *("--" if time is None else f"{time:.1f}" for time in times),
        ]
        yield f"{' & '.join(cells)} \\\\"
    yield r"\bottomrule"
    yield r"\end{tabular}"
    yield r"\end{table}"
    for warned in section.warnings:
        yield f"% {line(warned.message, 1000)}"


def _latex_score(metric: MetricInfo, row: LeaderboardRow) -> str:
    score, finding = row.scores.get(metric.name), row.findings.get(metric.name)
    if score is None:
        return "--"
    mean = rf"\textbf{{{score.text}}}" if row.name in metric.top else score.text
    mark = f"$^{{{_MARKS[finding.verdict]}}}$" if finding else ""
    known = score.low is not None and score.high is not None
    interval = rf" {{\scriptsize [{score.low:.3f}, {score.high:.3f}]}}" if known else ""
    badge = rf" {{\scriptsize {escape_latex(score.badge)}}}" if score.badge else ""
    return f"{mean}{mark}{interval}{badge}"
