"""A report as one HTML file that opens offline; strangers' texts stay texts."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

from evals.display import el, written
from evals.presentation import charts, html, palette
from evals.presentation.text import line
from evals.presentation.types import Chart
from evals.presentation.weight_charts import weight_chart
from evals.reports.html_tables import (
    finding_table,
    gate_table,
    main_table,
    named,
    repeat,
    warnings_box,
    weights_summary,
)
from evals.reports.model import Report, Section
from evals.suites.gate import passed

FIRST_RUNS = 4  # runs side by side at first
ORDERS = (
    ("spread", "where variants differ most"),
    ("loss", "where the best loses to the baseline"),
    ("low", "where all do badly"),
    ("id", "by id"),
)


def render_html(report: Report) -> str:
    page = _ReportPage()
    body = written(page.body(report))
    return html.page(report.title, body, page.charts, sections=[_section_values(each) for each in report.sections])


class _ReportPage:
    """The body, and the charts in the order of their places in it."""

    def __init__(self) -> None:
        self.charts: list[dict[str, Any]] = []

    def body(self, report: Report) -> Element:
        held = passed(list(report.checks))
        gate = gate_table(report) if report.checks else None
        gate_words = "The gate holds" if held else "The gate does not hold"
        gate_link = el("a", gate_words, href="#gate", class_=f"state {'held' if held else 'broken'}")
        links = [el("a", section.board.title, href=f"#s{at}") for at, section in enumerate(report.sections)]
        return el(
            "body",
            el("a", "To the tables", class_="skip", href="#s0"),
            el(
                "header",
                el("p", "Rankbook report", class_="kicker"),
                el("h1", report.title),
                el("p", report.description, class_="lead") if report.description else None,
                el("p", gate_link) if report.checks else None,
                el("nav", *links, aria_label="Collections") if len(links) > 1 else None,
            ),
            el(
                "main",
                None if held else gate,  # a gate that fails is what there is to know first
                *(self._section(at, section) for at, section in enumerate(report.sections)),
                gate if held else None,
                repeat(report),
            ),
            el("footer", el("p", "Made by Rankbook. This page needs no network, and asks for none.")),
        )

    def _section(self, at: int, section: Section) -> Element:
        board = section.board
        facts = [el("div", el("dt", name), el("dd", value)) for name, value in section.facts]
        formulas = [el("div", el("dt", metric.name), el("dd", metric.formula)) for metric in board.metrics]
        means = [
            el("div", el("h4", metric.name), self._chart(charts.intervals(board, metric)), class_="card")
            for metric in board.metrics
        ]
        return el(
            "section",
            el("h2", board.title, id=f"h{at}"),
            el("p", board.headline, class_="headline"),
            el("dl", *facts, class_="facts", aria_label="What was measured"),
            warnings_box(section),
            main_table(board, at),
            el("details", el("summary", "What the metrics are"), el("dl", *formulas, class_="metrics")),
            el("div", el("h3", "Every metric with its interval"), el("div", *means, class_="grid"), class_="block"),
            self._by_metric(section, at),
            *(
                el(
                    "div",
                    el("h3", f"Weights of {each.name}"),
                    el(
                        "div",
                        el("div", self._chart(weight_chart(each)), class_="card"),
                        weights_summary(each),
                        class_="grid weights",
                    ),
                    class_="block",
                )
                for each in section.weights
            ),
            _query_picker(section, at),
            class_="collection",
            id=f"s{at}",
            aria_labelledby=f"h{at}",
        )

    def _by_metric(self, section: Section, at: int) -> Element:
        """Charts and tables of one metric at a time."""
        board = section.board
        options = [el("option", metric.name, value=metric.name) for metric in board.metrics]
        select = el("select", *options, id=f"m{at}", class_="metric")
        chooser = el("p", el("label", "Charts and tables below show ", for_=f"m{at}"), select, class_="choose-metric")
        tables = [
            finding_table(board, metric, rows) for metric in board.metrics if (rows := board.findings(metric.name))
        ]
        blocks: list[Element] = []
        for title, makers, below in (
            (f"Against {board.baseline}", (charts.differences, charts.outcomes), tables),
            ("Quality against latency", (charts.latency,), []),
            ("By kind of query, and by tag", (charts.groups,), []),
        ):
            cards = []
            for maker in makers:
                drawn = [
                    (chart, metric.name) for metric in board.metrics if (chart := maker(board, metric)) is not None
                ]
                cards += [el("div", *(self._chart(*each) for each in drawn), class_="card")] if drawn else []
            if cards:
                grid = el("div", *cards, class_="grid wide")
                blocks.append(el("div", el("h3", title), grid, *below, class_="block"))
        return el("div", chooser, *blocks, class_="by-metric")

    def _chart(self, chart: Chart, metric: str | None = None) -> Element:
        self.charts.append(chart.figure)
        return html.chart_place(chart, len(self.charts) - 1, metric)


def _section_values(section: Section) -> dict[str, Any]:
    """What the page's script needs to show queries one by one."""
    board = section.board
    return {
        "names": [line(row.name, 1000) for row in board.rows],
        "styles": [f"key {palette.colour(row.style)} {palette.shape(row.style)}" for row in board.rows],
        "baseline": [row.name for row in board.rows].index(board.baseline),
        "metrics": [metric.name for metric in board.metrics],
        "warnings": [warned.message for warned in section.warnings],
        "queries": section.queries.rows,
        "items": section.queries.items,
        "passages": section.queries.passages,
    }


def _query_picker(section: Section, at: int) -> Element:
    """A list of queries, and which runs are shown side by side: at first the baseline and the best."""
    orders = [el("option", words, value=name) for name, words in ORDERS]
    rows = section.board.rows
    first = [number for number, row in enumerate(rows) if row.is_baseline]
    first += [number for number, row in enumerate(rows) if not row.is_baseline][: FIRST_RUNS - 1]
    boxes = [
        el("label", el("input", type="checkbox", value=number, checked=number in first), named(row))
        for number, row in enumerate(rows)
    ]
    find = el("input", type="search", class_="find", placeholder="words, id, kind, tag")
    controls = el(
        "div",
        el("label", "Find", find, class_="field"),
        el("label", "Order", el("select", *orders, class_="order"), class_="field"),
        el("select", size="13", class_="list", aria_label=f"Queries of {section.board.title}"),
        el("p", class_="shown muted", role="status"),
        el("details", el("summary", "Variants side by side"), el("div", *boxes, class_="boxes"), class_="variants"),
        class_="controls",
    )
    detail = el("div", class_="detail", aria_live="polite")
    return el(
        "div",
        el("h3", "Query by query"),
        el("div", controls, detail, class_="drill", data_section=at),
        class_="block",
    )
