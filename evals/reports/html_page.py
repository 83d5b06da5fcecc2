"""A report as one HTML file that opens offline; strangers' texts stay texts."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

from evals.display import el, embedded, plotly_script, script_hash, written
from evals.reports import charts, palette, weight_charts
from evals.reports.charts import Chart
from evals.reports.html_tables import (
    doubts,
    facts,
    finding_table,
    gate,
    main_table,
    metric_list,
    named,
    repeat,
    weights_text,
)
from evals.reports.model import Report, Section, Weights, line
from evals.suites.gate import passed


def render_html(report: Report) -> str:
    page = _HtmlPage(report)
    body = written(page.body())
    plotly, script = plotly_script(), _read("page.js")
    return Template(_read("page.html")).substitute(
        title=written(el("title", report.title)),
        policy=f"{script_hash(plotly)} {script_hash(script)}",
        style=f":root{{{palette.variables()}}}\n{_read('page.css')}",
        body=body,
        values=embedded(page.values()),
        plotly=plotly,
        script=script,
    )


def _read(name: str) -> str:
    """A file that lies beside this one, and comes along in a wheel."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


class _HtmlPage:
    """The body, and the values that its script needs: charts in the order in which their places were made."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.charts: list[dict[str, Any]] = []

    def values(self) -> dict[str, Any]:
        return {
            "colours": palette.named(),
            "charts": self.charts,
            "sections": [_section_values(section) for section in self.report.sections],
        }

    def body(self) -> Element:
        report = self.report
        several = len(report.sections) > 1
        told = gate(report) if report.checks else None
        fails = not passed(list(report.checks))  # then it is what there is to know first
        links = [el("a", section.title, href=f"#s{at}") for at, section in enumerate(report.sections)]
        return el(
            "body",
            el("a", "To the tables", class_="skip", href="#s0"),
            el(
                "header",
                el("p", "Rankbook report", class_="kicker"),
                el("h1", report.title),
                el("p", report.description, class_="lead") if report.description else None,
                self._state(),
                el("nav", *links, aria_label="Collections") if several else None,
            ),
            el(
                "main",
                told if fails else None,
                *(self._section(at, section) for at, section in enumerate(report.sections)),
                None if fails else told,
                repeat(report),
            ),
            el("footer", el("p", "Made by Rankbook. This page needs no network, and asks for none.")),
        )

    def _state(self) -> Element | None:
        if not self.report.checks:
            return None
        held = passed(list(self.report.checks))
        words = "The gate holds" if held else "The gate does not hold"
        return el("p", el("a", words, href="#gate", class_=f"state {'held' if held else 'broken'}"))

    def _section(self, at: int, section: Section) -> Element:
        return el(
            "section",
            el("h2", section.title, id=f"h{at}"),
            el("p", section.headline, class_="headline"),
            facts(section),
            doubts(section),
            main_table(section, at),
            metric_list(section),
            self._means(section),
            self._by_metric(section, at),
            *(self._weights(each) for each in section.weights),
            picker(section, at),
            class_="collection",
            id=f"s{at}",
            aria_labelledby=f"h{at}",
        )

    def _means(self, section: Section) -> Element:
        made = [
            el("div", el("h4", column.metric), self._chart(charts.intervals(section, column)), class_="card")
            for column in section.columns
        ]
        return el("div", el("h3", "Every metric with its interval"), el("div", *made, class_="grid"), class_="block")

    def _by_metric(self, section: Section, at: int) -> Element:
        """What is shown for one metric at a time."""
        options = [el("option", column.metric, value=column.metric) for column in section.columns]
        select = el("select", *options, id=f"m{at}", class_="metric")
        chosen = el("p", el("label", "Charts and tables below show ", for_=f"m{at}"), select, class_="choose-metric")
        found = [(column, section.findings[column.metric]) for column in section.columns]
        tables = [finding_table(section, column, rows) for column, rows in found if rows]
        parts = [
            self._block(
                section,
                f"Against {section.baseline}",
                (charts.differences, charts.outcomes),
                tables,
            ),
            self._block(section, "Quality against latency", (charts.latency,), []),
            self._block(section, "By kind of query, and by tag", (charts.groups,), []),
        ]
        return el("div", chosen, *parts, class_="by-metric")

    def _block(self, section: Section, title: str, makers: Any, tables: list[Element]) -> Element | None:
        cards = []
        for maker in makers:
            made = [chart for column in section.columns if (chart := maker(section, column)) is not None]
            cards += [el("div", *map(self._chart, made), class_="card")] if made else []
        if not cards:
            return None
        return el("div", el("h3", title), el("div", *cards, class_="grid wide"), *tables, class_="block")

    def _weights(self, weights: Weights) -> Element:
        return el(
            "div",
            el("h3", f"Weights of {weights.name}"),
            el("div", el("div", self._chart(weight_charts.drawn(weights)), class_="card"), weights_text(weights),
               class_="grid weights"),
            class_="block",
        )  # fmt: skip

    def _chart(self, chart: Chart) -> Element:
        """Its place; the script draws it when it comes into view."""
        self.charts.append(chart.figure)
        height = chart.figure["layout"]["height"]
        style = f"height:{height}px" + (f";min-width:{chart.width}px" if chart.width else "")
        place = el("div", class_="chart", role="img", aria_label=chart.says, style=style,
                   data_chart=len(self.charts) - 1)  # fmt: skip
        return el(
            "div", place, class_="scrolled", data_metric=chart.metric or None, tabindex="0" if chart.width else None
        )


def _section_values(section: Section) -> dict[str, Any]:
    return {
        "names": [line(each.name, 1000) for each in section.lines],
        "styles": [_style(each.style) for each in section.lines],
        "baseline": [each.name for each in section.lines].index(section.baseline),
        "metrics": [column.metric for column in section.columns],
        "warnings": [warned.message for warned in section.warnings],
        "queries": section.queries.rows,
        "items": section.queries.items,
        "passages": section.queries.passages,
    }


def _style(style: int) -> str:
    return f"key {palette.colour(style)} {palette.shape(style)}"


SHOWN = 4  # runs side by side at first
ORDERS = (
    ("spread", "where variants differ most"),
    ("loss", "where the best loses to the baseline"),
    ("low", "where all do badly"),
    ("id", "by id"),
)


def picker(section: Section, at: int) -> Element:
    orders = [el("option", says, value=name) for name, says in ORDERS]
    controls = el(
        "div",
        el(
            "label",
            "Find",
            el("input", type="search", class_="find", placeholder="words, id, kind, tag"),
            class_="field",
        ),
        el("label", "Order", el("select", *orders, class_="order"), class_="field"),
        el("select", size="13", class_="list", aria_label=f"Queries of {section.title}"),
        el("p", class_="shown muted", role="status"),
        _choice(section),
        class_="controls",
    )
    return el(
        "div",
        el("h3", "Query by query"),
        el("div", controls, el("div", class_="detail", aria_live="polite"), class_="drill", data_section=at),
        class_="block",
    )


def _choice(section: Section) -> Element:
    """Which runs stand side by side: at first the baseline and the best."""
    first = [at for at, line in enumerate(section.lines) if line.baseline]
    first += [at for at, line in enumerate(section.lines) if not line.baseline][: SHOWN - 1]
    boxes = [
        el("label", el("input", type="checkbox", value=at, checked=at in first), named(line))
        for at, line in enumerate(section.lines)
    ]
    return el("details", el("summary", "Variants side by side"), el("div", *boxes, class_="boxes"), class_="variants")
