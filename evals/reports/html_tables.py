"""The parts of the page that stand without a script: facts, warnings, tables, how to repeat it. Elements out."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evals.display import el
from evals.reports import palette
from evals.reports.model import DASH, Report, ReportColumn, ReportLine, Section, Value, Weights, counted, number, span
from evals.reports.weight_charts import shares
from evals.statistics.verdicts import MARKS, MEANINGS, TOP, Finding
from evals.tuning.surface import BAND

OUTCOMES = {"passed": "holds", "failed": "fails", "error": "cannot be told"}


def key(line: ReportLine) -> Element:
    """The mark of a run's colour and shape."""
    return el("i", class_=f"key {palette.colour(line.style)} {palette.shape(line.style)}", aria_hidden="true")


def named(line: ReportLine) -> Element:
    base = el("small", "baseline", class_="tag") if line.baseline else None
    return el("span", key(line), el("bdi", line.name), base, class_="named")


def facts(section: Section) -> Element:
    pairs = [el("div", el("dt", name), el("dd", value)) for name, value in section.facts]
    return el("dl", *pairs, class_="facts", aria_label="What was measured")


def doubts(section: Section) -> Element | None:
    """What to know before the scores are believed, right above them."""
    if not section.warnings and not section.notes:
        return None
    told = [el("li", warned.message, _queries(warned.queries)) for warned in section.warnings]
    told += [el("li", note) for note in section.notes]
    return el("aside", el("strong", "Before these scores are believed"), el("ul", *told), class_="doubts")


def _queries(queries: Sequence[str], most: int = 10) -> Element | None:
    if not queries:
        return None
    more = f" and {len(queries) - most:,} more" if len(queries) > most else ""
    return el("small", f" Queries: {', '.join(queries[:most])}{more}.")


# -- the table ---------------------------------------------------------------------------------------------------------


def main_table(section: Section, at: int) -> Element:
    """Runs by metrics, and what they cost. A click on a heading sorts by it."""
    first = section.columns[0].metric
    heads = [_head("Variant", "Sort by name", text=True)]
    heads += [_head(each.metric, each.explanation, falling=each.metric == first) for each in section.columns]
    heads += [
        _head("p50 ms", "Median time of a query that is asked alone."),
        _head("p95 ms", "The time that 95 of 100 queries stay below."),
        _head("Index MB", "Size of the indexes that serve the legs and the filter of the variant."),
        _head("Failed", "Queries that failed. They score 0."),
    ]
    rows = [_row(section, each) for each in section.lines]
    caption = el("caption", el("span", section.rules), legend(section.baseline))
    table = el("table", caption, el("thead", el("tr", *heads)), el("tbody", *rows), class_="sortable main", id=f"t{at}")
    return el("div", table, class_="scrolled table", tabindex="0", role="region", aria_label="Scores of every variant")


def legend(baseline: str) -> Element:
    top = el("span", el("b", "0.000", class_="top"), f" {TOP}")
    told = [el("span", el("b", mark), f" {MEANINGS[verdict]}") for verdict, mark in MARKS.items()]
    against = el("span", "Against ", el("bdi", baseline), ":")
    doubt = el("span", el("b", "⚠", class_="doubt"), " point at it for a doubt")
    return el("span", top, against, *told, doubt, class_="legend")


def _head(name: str, says: str, *, text: bool = False, falling: bool = False) -> Element:
    button = el("button", name, el("span", class_="arrow", aria_hidden="true"), type="button", title=says)
    return el("th", button, scope="col", aria_sort="descending" if falling else None, data_text=text, class_=""
              if text else "number")  # fmt: skip


def _row(section: Section, line: ReportLine) -> Element:
    cells = [_cell(column, line, line.values[column.metric]) for column in section.columns]
    cells += [
        _plain(line.p50, number(line.p50, ".1f")),
        _plain(line.p95, number(line.p95, ".1f")),
        _plain(line.megabytes, number(line.megabytes, ",.1f")),
        el("td", str(line.failed), class_="number bad" if line.failed else "number", data_value=line.failed),
    ]
    return el("tr", el("th", named(line), scope="row"), *cells, class_="baseline" if line.baseline else None)


def _plain(value: float | None, told: str) -> Element:
    return el("td", told, class_="number", data_value="" if value is None else repr(value))


def _cell(column: ReportColumn, line: ReportLine, value: Value) -> Element:
    top = line.name in column.top
    classes = " ".join(
        filter(None, ("number score", "top" if top else "", "best" if column.top[:1] == (line.name,) else ""))
    )
    mark = _mark(value.finding) if value.finding else el("span", class_="verdict")
    doubt = el("span", "⚠", class_="doubt", title=" ".join(value.doubts), role="img",
               aria_label=" ".join(value.doubts)) if value.doubts else None  # fmt: skip
    judged = None if value.judged is None else el("small", f"{value.judged:.0%} judged", class_="judged")
    interval = span(value.low, value.high).replace(" to ", DASH)
    return el(
        "td",
        el("span", doubt, el("span", number(value.mean), class_="mean"), mark),
        el("small", interval, class_="interval"),
        el("small", value.badge, class_="judged") if value.badge else None,
        judged,
        class_=classes,
        data_value="" if value.mean is None else repr(value.mean),
    )


def _mark(finding: Finding) -> Element:
    mark, words = MARKS[finding.verdict], f"{MEANINGS[finding.verdict]}, against the baseline"
    name = finding.verdict.value.replace(" ", "-")
    return el("span", mark, class_=f"verdict {name}", title=finding.sentence, role="img", aria_label=words)


def metric_list(section: Section) -> Element:
    pairs = [el("div", el("dt", column.metric), el("dd", column.explanation)) for column in section.columns]
    return el("details", el("summary", "What the metrics are"), el("dl", *pairs, class_="metrics"))


# -- comparisons -------------------------------------------------------------------------------------------------------


def finding_table(section: Section, column: ReportColumn, found: Sequence[tuple[ReportLine, Finding]]) -> Element:
    """Every number of each comparison with the baseline, and the verdict as a sentence."""
    heads = [
        _head("Variant", "Sort by name", text=True),
        _head("Difference", f"Mean of {column.metric} minus that of {section.baseline}."),
        _head("p", "All candidates looked at together, against the baseline."),
        _head("Effect", "The mean difference over its standard deviation (Cohen's d of paired values)."),
        _head("Won", "Queries with the higher score."),
        _head("Equal", "Queries of equal score."),
        _head("Lost", "Queries with the lower score."),
        _head("Seen from", "The smallest true difference that so many queries would show."),
        el("th", "Verdict", scope="col"),
    ]
    rows = [_finding_row(line, finding) for line, finding in found]
    table = el("table", el("thead", el("tr", *heads)), el("tbody", *rows), class_="sortable")
    return el("div", table, class_="scrolled table", data_metric=column.metric, tabindex="0", role="region",
              aria_label=f"Comparisons by {column.metric}")  # fmt: skip


def _finding_row(line: ReportLine, finding: Finding) -> Element:
    known = finding.difference
    low, high = known.low, known.high
    interval = "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
    return el(
        "tr",
        el("th", named(line), scope="row"),
        el("td", el("span", number(known.mean, "+.3f")), el("small", interval, class_="interval"), class_="number",
           data_value="" if known.mean is None else repr(known.mean)),
        _plain(known.p, "< 0.001" if known.p < 0.001 else f"{known.p:.3f}"),
        _plain(known.effect, number(known.effect, "+.2f")),
        _plain(known.wins, str(known.wins)),
        _plain(known.ties, str(known.ties)),
        _plain(known.losses, str(known.losses)),
        _plain(known.detectable, number(known.detectable)),
        el("td", _mark(finding), " ", finding.sentence, class_="sentence"),
    )  # fmt: skip


# -- the rest ----------------------------------------------------------------------------------------------------------


def weights_text(weights: Weights) -> Element:
    """What the surface says, in words and numbers."""
    best = weights.fusions[weights.chosen]
    tied = sum(best.tied)
    headroom = weights.oracle - weights.in_sample
    oracle = f"with each query at its own best weights: {headroom:.4f} more, which no tuner can know beforehand."
    pairs = [
        ("Best over these queries", f"{weights.in_sample:.4f} at {shares(weights, best.best)} ({best.fusion})"),
        ("Equal weights", f"{weights.untuned:.4f}"),
        ("Tied with the best", f"{tied:,} of {len(best.grid):,} points, {BAND}."),
        ("Oracle", f"{weights.oracle:.4f} {oracle}"),
    ]
    if weights.cross_fitted is not None:
        gap = weights.in_sample - weights.cross_fitted
        fitted = f"{weights.cross_fitted:.4f}, each query scored by weights chosen without it; "
        pairs.insert(1, ("To expect of new queries", f"{fitted}the best over these flatters by {gap:.4f}."))
    rows = [el("div", el("dt", name), el("dd", told)) for name, told in pairs]
    fusions = _fusions(weights) if len(weights.fusions) > 1 else None
    verdict = el("p", weights.verdict, class_="headline") if weights.verdict else el(
        "p", "Only swept, not tuned: how the best of these would do on new queries is not known.", class_="headline"
    )  # fmt: skip
    about = (
        f"{weights.metric} of {counted(weights.queries, 'query', 'queries')}, weights in steps of 1/{weights.steps}."
    )
    return el(
        "div", verdict, el("dl", *rows, class_="metrics"), fusions, el("p", about, class_="muted"), class_="words"
    )


def _fusions(weights: Weights) -> Element:
    heads = [el("th", name, scope="col", class_="number" if name != "Fusion" else None)
             for name in ("Fusion", "Best", "Folds")]  # fmt: skip
    rows = [
        el("tr", el("th", each.fusion, scope="row"), el("td", f"{each.means[each.best]:.4f}", class_="number"),
           el("td", DASH if each.votes is None else str(each.votes), class_="number"))
        for each in weights.fusions
    ]  # fmt: skip
    return el("table", el("thead", el("tr", *heads)), el("tbody", *rows))


def gate(report: Report) -> Element:
    heads = [
        el("th", name, scope="col") for name in ("Outcome", "Collection", "Variant", "What", "Found", "Wanted", "")
    ]
    rows = [
        el("tr", el("td", el("span", OUTCOMES[check.outcome], class_=f"outcome {check.outcome}")),
           *(el("td", told) for told in (check.collection, check.variant, check.what)),
           *(el("td", told) for told in (check.found, check.wanted, check.says)))
        for check in report.checks
    ]  # fmt: skip
    table = el("table", el("thead", el("tr", *heads)), el("tbody", *rows))
    return el("section", el("h2", "The gate"), el("div", table, class_="scrolled table"), id="gate")


def repeat(report: Report) -> Element:
    """The command, its files, and every variant as it ran."""
    parts: list[Element] = [el("h2", "How to repeat it")]
    if report.command:
        parts.append(el("pre", el("code", report.command), tabindex="0"))
    for name, content in report.files.items():
        parts.append(_folded(name, content, "file"))
    seen = set()
    for section in report.sections:
        for line in section.lines:
            if line.name not in seen:
                seen.add(line.name)
                foreign = "# A run of another engine: its file is all that is known of it."
                parts.append(_folded(line.name, line.toml or foreign, "variant", line.notes))
    if report.cut:
        parts += [
            el("h3", "What is not in this page"),
            el("ul", *(el("li", told) for told in report.cut), class_="cut"),
        ]
    return el("section", *parts, class_="repeat")


def _folded(name: str, content: str, what: str, notes: Sequence[str] = ()) -> Element:
    told = [el("p", note, class_="muted") for note in notes]
    return el("details", el("summary", el("bdi", name), el("small", what, class_="tag")), *told,
              el("pre", el("code", content), tabindex="0"))  # fmt: skip
