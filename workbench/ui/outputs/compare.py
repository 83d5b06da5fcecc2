"""The output of a compare cell: the verdict, every query's difference, kinds, and the queries that decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from evals.display import el
from evals.presentation.types import Chart, Text
from workbench.ui import blocks
from workbench.ui.outputs import choosing, colours, compare_look, grid, searching
from workbench.ui.outputs.base import CellView
from workbench.ui.outputs.compare_look import Look
from workbench.ui.outputs.grid import Action

ANY = ("bm25",)  # where both runs are other engines', and cannot be asked


def draw(shown: CellView) -> None:
    """All of it. An output that an older version kept has its blocks alone."""
    if "moved" not in shown.output.values:
        blocks.draw_all(shown.output.blocks, shown.key("block"))
        return
    look = look_of(shown)

    def picked(what: Action) -> None:
        follow(shown, look, what)

    blocks.draw(Text(text=shown.output.headline, tone="headline"), shown.key("headline"))
    blocks.html_of(_outcomes(look))
    _charts(shown, look)
    kinds = compare_look.kinds(look)
    if kinds is not None:
        blocks.heading(kinds.label)
        grid.draw(shown.key("kinds"), kinds, picked)
    blocks.heading(f"Queries, by {look.values['metric']}")
    order = choosing.which(shown, compare_look.groups(look), compare_look.ORDERS)
    grid.draw(shown.key("queries"), compare_look.table(look, order), picked)
    if look.chosen is not None:
        blocks.heading(f"How documents moved: {look.chosen['text'] or look.chosen['id']}")
        grid.draw(shown.key("moves"), compare_look.moves(look, look.chosen["id"]), picked)
        st.button(
            "Search for it",
            key=shown.key("search"),
            icon=":material/search:",
            on_click=follow,
            args=(shown, look, {"query": look.chosen["id"]}),
        )
    for at, note in enumerate(look.values["notes"]):
        blocks.draw(Text(text=note, tone="note"), shown.key(f"note.{at}"))


def look_of(shown: CellView) -> Look:
    values, query = shown.output.values, shown.selected.query
    known = {each["id"] for each in values["queries"]}
    group = choosing.group(shown, choosing.groups_of(values["queries"]))
    styles = colours.styles([values["system"], values["baseline"]])
    return Look(values, styles, query if query in known else "", group)


def _outcomes(look: Look) -> Any:
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


def _charts(shown: CellView, look: Look) -> None:
    """Both charts; a click on a query selects it. Their keys change with the selection, so that none is left over."""
    figures = [block for block in shown.output.blocks if isinstance(block, Chart)][:2]
    for at, (place, block) in enumerate(zip(st.columns(len(figures)), figures, strict=True)):
        key = shown.key(f"chart.{at}.{look.query}")

        def heard(key: str = key) -> None:
            _clicked(shown, look, st.session_state[key])

        with place:
            blocks.figure(compare_look.coloured(look, block), key, on_select=heard, selection_mode="points")


def _clicked(shown: CellView, look: Look, event: Mapping[str, Any]) -> None:
    points = event["selection"]["points"]
    if points:
        shown.select(query=look.queries[points[0]["point_index"]]["id"])


def follow(shown: CellView, look: Look, what: Action) -> None:
    """What a pressed button stands for. In a callback."""
    if "query" in what:
        variants = shown.output.values["searchable"] or ANY
        shown.add("search", searching.source(shown.spec, what["query"], variants))
    elif "moves" in what:
        shown.select(query=what["moves"])
    elif "group" in what:
        shown.select(kind="" if what["group"] == look.group else what["group"])
