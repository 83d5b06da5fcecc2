"""The parts of the page that need no script: warnings, tables, how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree.ElementTree import Element

from evals.display import el
from evals.presentation import palette
from evals.presentation.leaderboard import Leaderboard, LeaderboardRow, MetricInfo
from evals.presentation.text import DASH, counted, number
from evals.presentation.weight_surface import WeightSurface, weights_text
from evals.reports.model import Report, Section
from evals.statistics.verdicts import MARKS, MEANINGS, TOP, Finding
from evals.tuning.surface import BAND

OUTCOMES = {"passed": "holds", "failed": "fails", "error": "cannot be told"}
QUERIES_NAMED = 10  # of a warning


def named(row: LeaderboardRow) -> Element:
    """A run's name behind its mark."""
    mark = el("i", class_=f"key {palette.colour(row.style)} {palette.shape(row.style)}", aria_hidden="true")
    base = el("small", "baseline", class_="tag") if row.is_baseline else None
    return el("span", mark, el("bdi", row.name), base, class_="named")


def warnings_box(section: Section) -> Element | None:
    """What to know before the scores are believed, right above them."""
    if not section.warnings and not section.notes:
        return None
    points = []
    for warned in section.warnings:
        rest = len(warned.queries) - QUERIES_NAMED
        more = f" and {rest:,} more" if rest > 0 else ""
        queries = f" Queries: {', '.join(warned.queries[:QUERIES_NAMED])}{more}."
        points.append(el("li", warned.message, el("small", queries) if warned.queries else None))
    points += [el("li", note) for note in section.notes]
    return el("aside", el("strong", "Before these scores are believed"), el("ul", *points), class_="doubts")


# -- scores ------------------------------------------------------------------------------------------------------------


def main_table(board: Leaderboard, at: int) -> Element:
    """Runs by metrics, and what they cost. A click on a heading sorts by it."""
    heads = [_head("Variant", "Sort by name", text=True)]
    heads += [_head(each.name, each.formula, falling=each == board.metrics[0]) for each in board.metrics]
    heads += [
        _head("p50 ms", "Median time of a query that is asked alone."),
        _head("p95 ms", "The time that 95 of 100 queries stay below."),
        _head("Index MB", "Size of the indexes that serve the legs and the filter of the variant."),
        _head("Failed", "Queries that failed. They score 0."),
    ]
    rows = []
    for row in board.rows:
        p50, p95 = (row.latency.p50, row.latency.p95) if row.latency else (None, None)
        cells = [
            *(_score_cell(metric, row) for metric in board.metrics),
            _number_cell(p50, number(p50, ".1f")),
            _number_cell(p95, number(p95, ".1f")),
            _number_cell(row.megabytes, number(row.megabytes, ",.1f")),
            el("td", str(row.failed), class_="number bad" if row.failed else "number", data_value=row.failed),
        ]
        rows.append(el("tr", el("th", named(row), scope="row"), *cells, class_="baseline" if row.is_baseline else None))
    marks = [el("span", el("b", mark), f" {MEANINGS[verdict]}") for verdict, mark in MARKS.items()]
    legend = el(
        "span",
        el("span", el("b", "0.000", class_="top"), f" {TOP}"),
        el("span", "Against ", el("bdi", board.baseline), ":"),
        *marks,
        el("span", el("b", "⚠", class_="doubt"), " point at it for a doubt"),
        class_="legend",
    )
    caption = el("caption", el("span", board.rules), legend)
    table = el("table", caption, el("thead", el("tr", *heads)), el("tbody", *rows), class_="sortable main", id=f"t{at}")
    return el("div", table, class_="scrolled table", tabindex="0", role="region", aria_label="Scores of every variant")


def _head(name: str, hint: str, *, text: bool = False, falling: bool = False) -> Element:
    button = el("button", name, el("span", class_="arrow", aria_hidden="true"), type="button", title=hint)
    return el("th", button, scope="col", aria_sort="descending" if falling else None, data_text=text, class_=""
              if text else "number")  # fmt: skip


def _number_cell(value: float | None, text: str) -> Element:
    return el("td", text, class_="number", data_value="" if value is None else repr(value))


def _score_cell(metric: MetricInfo, row: LeaderboardRow) -> Element:
    score, finding = row.scores.get(metric.name), row.findings.get(metric.name)
    top = "top" if row.name in metric.top else ""
    best = "best" if metric.top[:1] == (row.name,) else ""
    doubts = " ".join(row.doubts.get(metric.name, ()))
    doubt = el("span", "⚠", class_="doubt", title=doubts, role="img", aria_label=doubts) if doubts else None
    mean = el("span", score.text if score else DASH, class_="mean")
    return el(
        "td",
        el("span", doubt, mean, _verdict(finding) if finding else el("span", class_="verdict")),
        el("small", score.interval.replace(" to ", DASH) if score else "", class_="interval"),
        el("small", score.badge, class_="judged") if score and score.badge else None,
        el("small", f"{score.judged:.0%} judged", class_="judged") if score and score.judged is not None else None,
        class_=" ".join(filter(None, ("number score", top, best))),
        data_value=repr(score.mean) if score else "",
    )


def _verdict(finding: Finding) -> Element:
    mark, words = MARKS[finding.verdict], f"{MEANINGS[finding.verdict]}, against the baseline"
    name = finding.verdict.value.replace(" ", "-")
    return el("span", mark, class_=f"verdict {name}", title=finding.sentence, role="img", aria_label=words)


def finding_table(
    board: Leaderboard, metric: MetricInfo, findings: Sequence[tuple[LeaderboardRow, Finding]]
) -> Element:
    """Every number of each comparison with the baseline, and the verdict as a sentence."""
    heads = [
        _head("Variant", "Sort by name", text=True),
        _head("Difference", f"Mean of {metric.name} minus that of {board.baseline}."),
        _head("p", "All candidates looked at together, against the baseline."),
        _head("Effect", "The mean difference over its standard deviation (Cohen's d of paired values)."),
        _head("Won", "Queries with the higher score."),
        _head("Equal", "Queries of equal score."),
        _head("Lost", "Queries with the lower score."),
        _head("Seen from", "The smallest true difference that so many queries would show."),
        el("th", "Verdict", scope="col"),
    ]
    rows = []
    for row, finding in findings:
        known = finding.difference
        low, high = known.low, known.high
        interval = "" if low is None or high is None else f"{low:+.3f} to {high:+.3f}"
        difference = _number_cell(known.mean, "")
        difference.extend([el("span", number(known.mean, "+.3f")), el("small", interval, class_="interval")])
        rows.append(el(
            "tr",
            el("th", named(row), scope="row"),
            difference,
            _number_cell(known.p, "< 0.001" if known.p < 0.001 else f"{known.p:.3f}"),
            _number_cell(known.effect, number(known.effect, "+.2f")),
            _number_cell(known.wins, str(known.wins)),
            _number_cell(known.ties, str(known.ties)),
            _number_cell(known.losses, str(known.losses)),
            _number_cell(known.detectable, number(known.detectable)),
            el("td", _verdict(finding), " ", finding.sentence, class_="sentence"),
        ))  # fmt: skip
    table = el("table", el("thead", el("tr", *heads)), el("tbody", *rows), class_="sortable")
    return el("div", table, class_="scrolled table", data_metric=metric.name, tabindex="0", role="region",
              aria_label=f"Comparisons by {metric.name}")  # fmt: skip


# -- weights, the gate, how to repeat it -------------------------------------------------------------------------------


def weights_summary(surface: WeightSurface) -> Element:
    """What the surface says, in words and numbers."""
    best = surface.best
    headroom = surface.oracle - surface.in_sample
    oracle = f"with each query at its own best weights: {headroom:.4f} more, which no tuner can know beforehand."
    point = weights_text(surface.weights_at(best.best))
    pairs = [
        ("Best over these queries", f"{surface.in_sample:.4f} at {point} ({best.name})"),
        ("Equal weights", f"{surface.equal_weights:.4f}"),
        ("Tied with the best", f"{sum(surface.tied):,} of {len(best.grid):,} points, {BAND}."),
        ("Oracle", f"{surface.oracle:.4f} {oracle}"),
    ]
    if surface.cross_fitted is not None:
        gap = surface.in_sample - surface.cross_fitted
        fitted = f"{surface.cross_fitted:.4f}, each query scored by weights chosen without it; "
        pairs.insert(1, ("To expect of new queries", f"{fitted}the best over these flatters by {gap:.4f}."))
    untuned = "Only swept, not tuned: how the best of these would do on new queries is not known."
    count = counted(surface.queries, "query", "queries")
    return el(
        "div",
        el("p", surface.verdict or untuned, class_="headline"),
        el("dl", *(el("div", el("dt", name), el("dd", text)) for name, text in pairs), class_="metrics"),
        _fusion_table(surface) if len(surface.fusions) > 1 else None,
        el("p", f"{surface.metric} of {count}, weights in steps of 1/{surface.steps}.", class_="muted"),
        class_="words",
    )


def _fusion_table(surface: WeightSurface) -> Element:
    heads = [el("th", name, scope="col", class_="number" if name != "Fusion" else None)
             for name in ("Fusion", "Best", "Folds")]  # fmt: skip
    rows = [
        el("tr", el("th", each.name, scope="row"), el("td", f"{each.means[each.best]:.4f}", class_="number"),
           el("td", DASH if each.votes is None else str(each.votes), class_="number"))
        for each in surface.fusions
    ]  # fmt: skip
    return el("table", el("thead", el("tr", *heads)), el("tbody", *rows))


def gate_table(report: Report) -> Element:
    names = ("Outcome", "Collection", "Variant", "What", "Found", "Wanted", "")
    rows = [
        el("tr", el("td", el("span", OUTCOMES[check.outcome], class_=f"outcome {check.outcome}")),
           *(el("td", text) for text in (check.collection, check.variant, check.what)),
           *(el("td", text) for text in (check.found, check.wanted, check.says)))
        for check in report.checks
    ]  # fmt: skip
    head = el("thead", el("tr", *(el("th", name, scope="col") for name in names)))
    table = el("table", head, el("tbody", *rows))
    return el("section", el("h2", "The gate"), el("div", table, class_="scrolled table"), id="gate")


def repeat(report: Report) -> Element:
    """The command, its files, and every variant as it ran."""
    parts: list[Element] = [el("h2", "How to repeat it")]
    if report.command:
        parts.append(el("pre", el("code", report.command), tabindex="0"))
    parts += [_folded(name, content, "file") for name, content in report.files.items()]
    foreign = "# A run of another engine: its file is all that is known of it."
    for row in report.distinct_rows():
        parts.append(_folded(row.name, row.toml or foreign, "variant", row.notes))
    if report.cut:
        sentences = el("ul", *(el("li", sentence) for sentence in report.cut), class_="cut")
        parts += [el("h3", "What is not in this page"), sentences]
    return el("section", *parts, class_="repeat")


def _folded(name: str, content: str, kind: str, notes: Sequence[str] = ()) -> Element:
    remarks = [el("p", note, class_="muted") for note in notes]
    return el("details", el("summary", el("bdi", name), el("small", kind, class_="tag")), *remarks,
              el("pre", el("code", content), tabindex="0"))  # fmt: skip
