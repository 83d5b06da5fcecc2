"""Where single queries are looked at: the controls. What is chosen is shown by `page.js`, which sets texts as texts."""

from __future__ import annotations

from xml.etree.ElementTree import Element

from evals.report.elements import el
from evals.report.html_parts import named
from evals.report.model import Section

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
