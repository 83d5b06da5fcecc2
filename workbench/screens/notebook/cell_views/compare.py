"""The output of a compare cell: the verdict, every query's difference, kinds, and the queries that decide."""

from __future__ import annotations

from typing import Any

import streamlit as st

from evals.display import el
from evals.presentation.types import Chart, Text
from workbench.components import blocks, comparison, table, theme
from workbench.components.comparison import ComparisonSelection
from workbench.components.leaderboard import groups_of
from workbench.components.table import Action
from workbench.screens.notebook.cell_views import base
from workbench.screens.notebook.cell_views.base import CellView

ANY = ("bm25",)  # where both runs are other engines', and cannot be asked


def draw(view: CellView) -> None:
    """All of it. Outputs of older versions are drawn block by block."""
    if "moved" not in view.output.values:
        blocks.draw_all(view.output.blocks, view.key("block"))
        return
    look = look_of(view)

    def picked(what: Action) -> None:
        follow(view, look, what)

    blocks.draw(Text(text=view.output.headline, tone="headline"), view.key("headline"))
    blocks.html_of(_outcomes(look))
    _charts(view, look)
    kinds = comparison.kinds(look)
    if kinds is not None:
        blocks.heading(kinds.label)
        table.draw(view.key("kinds"), kinds, on_action=picked)
    blocks.heading(f"Queries, by {look.values['metric']}")
    order = base.choose_kind_and_order(view, comparison.groups(look), comparison.ORDERS)
    table.draw(view.key("queries"), comparison.table(look, order), on_action=picked)
    if look.chosen is not None:
        blocks.heading(f"How documents moved: {look.chosen['text'] or look.chosen['id']}")
        table.draw(view.key("moves"), comparison.moves(look, look.chosen["id"]), on_action=picked)
        st.button(
            "Search for it",
            key=view.key("search"),
            icon=":material/search:",
            on_click=follow,
            args=(view, look, {"query": look.chosen["id"]}),
        )
    for at, note in enumerate(look.values["notes"]):
        blocks.draw(Text(text=note, tone="note"), view.key(f"note.{at}"))


def look_of(view: CellView) -> ComparisonSelection:
    values, query = view.output.values, view.selected.query
    known = {each["id"] for each in values["queries"]}
    group = base.group(view, groups_of(values["queries"]))
    styles = theme.styles([values["system"], values["baseline"]])
    return ComparisonSelection(values, styles, query if query in known else "", group)


def _outcomes(look: ComparisonSelection) -> Any:
    """Queries won, equal and lost, as a strip in the colours of the two, and in words."""
    finding = look.values["finding"]
    gain, loss = look.sides
    parts = [
        (finding["wins"], f" for {look.system}", gain),
        (finding["ties"], " equal", ""),
        (finding["losses"], f" for {look.baseline}", loss),
    ]
    strip = [
        el("i", style=f"flex:{count};--key:var(--{colour or 'even'})", title=f"{count}{words}")
        for count, words, colour in parts
        if count
    ]
    told = [el("li", el("b", str(count)), words) for count, words, _ in parts]
    return el("div", el("div", *strip, class_="strip", aria_hidden="true"), el("ul", *told), class_="rb-outcomes")


def _charts(view: CellView, look: ComparisonSelection) -> None:
    """Both charts; a click on a query selects it. Their keys change with the selection, so that no old one is left."""
    figures = [block for block in view.output.blocks if isinstance(block, Chart)][:2]
    for at, (place, block) in enumerate(zip(st.columns(len(figures)), figures, strict=True)):
        key = view.key(f"chart.{at}.{look.query}")

        def heard(key: str = key) -> None:
            points = st.session_state[key]["selection"]["points"]
            if points:
                view.select(query=look.queries[points[0]["point_index"]]["id"])

        with place:
            blocks.figure(comparison.coloured(look, block), key, on_select=heard, selection_mode="points")


def follow(view: CellView, look: ComparisonSelection, what: Action) -> None:
    """Do what a pressed button stands for. A callback."""
    if "query" in what:
        variants = view.output.values["searchable"] or ANY
        view.add("search", base.source(view.spec, what["query"], variants))
    elif "moves" in what:
        view.select(query=what["moves"])
    elif "group" in what:
        view.select(kind="" if what["group"] == look.group else what["group"])
