"""A report as one HTML file that opens without a network: plotly.js, styles, script and all values are in it.

The page's policy lets nothing run but its two scripts, by their digests, and nothing be fetched.
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import Any
from xml.etree.ElementTree import Element

from evals.report import charts, comparison_charts, palette, weight_charts
from evals.report.elements import el, embedded, plotly_script, script_hash, written
from evals.report.figures import Chart
from evals.report.html_parts import (
    doubts,
    facts,
    finding_table,
    gate,
    main_table,
    metric_list,
    repeat,
    weights_text,
)
from evals.report.html_queries import picker
from evals.report.model import Report, Section, Weights
from evals.report.texts import line
from evals.suites.gate import passed


def render_html(report: Report) -> str:
    page = _Page(report)
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


class _Page:
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
                (comparison_charts.differences, comparison_charts.outcomes),
                tables,
            ),
            self._block(section, "Quality against latency", (charts.latency,), []),
            self._block(section, "By kind of query, and by tag", (comparison_charts.groups,), []),
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
