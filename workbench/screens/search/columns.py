"""Legs side by side: columns that keep their place whatever is in them. An explanation, a wait, cards, or a reason."""

from __future__ import annotations

import html
from collections.abc import Sequence

import streamlit as st

from workbench.components import cards, feedback
from workbench.screens.search import state
from workbench.services import search as services_search
from workbench.services.legs import LEGS
from workbench.services.search import Column, Found, LegSearch, QueryLabels

IN_WORDS = {3: "three", 4: "four", 5: "five"}
BEAT = 0.25  # seconds between two looks at a search under way
SKELETON = '<div class="rb-skeleton" role="status" aria-label="Searching"><i></i><i></i><i></i></div>'
COUNTED = "Time to recall the candidates while the other columns were asked too, the query&#39;s embedding included"


class Columns:
    """A line of summary, and a column for each leg."""

    def __init__(self, kinds: Sequence[str], judged: QueryLabels, fields: Sequence[str]) -> None:
        self.judged, self.fields = judged, fields
        self.summary = st.empty()
        columns = st.columns(len(kinds), gap="medium")
        self.slots = {kind: (column.empty(), column.empty()) for kind, column in zip(kinds, columns, strict=True)}

    def explain(self) -> None:
        """What each leg is good at, until there is a query."""
        self._say("Type a query, or choose one of the examples above.")
        for kind, (_, body) in self.slots.items():
            self._head(kind)
            body.html(f'<div class="rb-nothing">{LEGS[kind].strength}</div>')

    def wait(self, search: LegSearch, found: Found) -> None:
        """Show that work goes on, and what is there. Each line drawn also lets a newer query end this run."""
        for kind, (_, body) in self.slots.items():
            self._head(kind)
            body.html(SKELETON)
        waited, drawn = 0.0, set[str]()
        while not search.wait(BEAT):
            waited += BEAT
            what = "Loading the embedding model, once after each start" if search.loading_model else "Searching"
            self._say(f"{what}: {waited:.0f} s")
            found = search.found(found.key)
            for kind in found.columns.keys() - drawn:
                self._fill(kind, found, "early")
                drawn.add(kind)

    def draw(self, found: Found) -> None:
        """All there is to show."""
        self._say(_overlap(found) + _labels(self.judged))
        for kind in self.slots:
            self._fill(kind, found, "cards")

    def _say(self, line: str) -> None:
        self.summary.html(f'<p class="rb-summary" role="status">{line}</p>')

    def _head(self, kind: str, column: Column | None = None) -> None:
        number, under = "", LEGS[kind].finds
        if column is not None and column.problem is None:
            number, under = f"{column.milliseconds:,.0f} ms", _recall(column, self.judged) or under
        self.slots[kind][0].html(
            f'<div class="rb-leg rb-leg-{kind}"><h3>{LEGS[kind].label}</h3>'
            f'<span class="rb-number" title="{COUNTED}">{number}</span><p>{html.escape(under)}</p></div>'
        )

    def _fill(self, kind: str, found: Found, stage: str) -> None:
        column = found.columns[kind]
        self._head(kind, column)
        with self.slots[kind][1].container():
            if column.problem is not None:
                feedback.draw_error(column.problem)
            elif not column.hits:
                st.html(f'<div class="rb-nothing">{LEGS[kind].nothing}</div>')
            else:
                shown = cards.cards_of(found, kind, self.judged, self.fields)
                cards.draw_cards(f"{stage}.{kind}", f"Results of {LEGS[kind].label}", shown, _open)


def _open(unit: str) -> None:
    state.go(opened=unit)


def _recall(column: Column, judged: QueryLabels) -> str:
    """For a labelled query, how much of what is relevant the leg brought up."""
    if not judged.relevant:
        return ""
    up = sum(hit.item_id in judged.relevant for hit in column.hits)
    return f"{up} of {len(judged.relevant)} relevant documents in the first {services_search.SHOWN}."


def _overlap(found: Found) -> str:
    working = sum(column.problem is None for column in found.columns.values())
    if working < 2:
        return ""
    shared = found.shared()
    names = {
        2: "by two",
        working: "by both" if working == 2 else f"by all {IN_WORDS.get(working, working)}",
        1: "by one alone",
    }
    parts = [f"<b>{shared.get(n, 0)}</b> {names.get(n, f'by {n}')}" for n in range(working, 0, -1)]
    return f"Documents found {', '.join(parts)}."


def _labels(judged: QueryLabels) -> str:
    if not judged.grades:
        return ""
    kind = f" ({html.escape(judged.kind)})" if judged.kind else ""
    count = len(judged.relevant)
    return f" Labelled query{kind} with <b>{count}</b> known relevant document{'s' * (count != 1)}."
