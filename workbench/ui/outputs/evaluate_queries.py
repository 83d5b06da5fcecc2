"""The queries of an evaluate cell with every variant's score, in the order that was asked for. Knows no Streamlit."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.ui.outputs import choosing
from workbench.ui.outputs.evaluate_look import Look
from workbench.ui.outputs.grid import Cell, Grid, signed

MOST = 200  # rows
ORDERS = ("worst", "behind", "ahead", "divided")


def focus(look: Look) -> str:
    """The variant that the queries are ordered by: the selected one, else the best."""
    return look.variant or look.names[0]


def orders(look: Look) -> dict[str, str]:
    """Ways to order the queries, and what they are called."""
    name = focus(look)
    named = {
        "worst": f"Worst of {name} first",
        "behind": f"{name} most behind {look.baseline}",
        "ahead": f"{name} most ahead of {look.baseline}",
        "divided": "Variants most divided",
    }
    if name == look.baseline:
        named = {each: named[each] for each in ("worst", "divided")}
    return {"worst": named["worst"]} if len(look.lines) == 1 else named


def groups(look: Look) -> list[str]:
    """Every kind and tag that the scored queries have."""
    return choosing.groups_of(look.values["queries"].get(query, {}) for query in look.of(focus(look)))


def ordered(look: Look, order: str) -> list[str]:
    """The ids of the chosen kind's queries; equal ones by id."""
    mine, base = look.of(focus(look)), look.of(look.baseline)
    every = [look.of(name) for name in look.names]
    keys = {
        "worst": lambda query: mine[query],
        "behind": lambda query: mine[query] - base[query],
        "ahead": lambda query: base[query] - mine[query],
        "divided": lambda query: min(each[query] for each in every) - max(each[query] for each in every),
    }
    kept = [query for query in mine if choosing.is_in(look.values["queries"].get(query, {}), look.group)]
    return sorted(kept, key=lambda query: (keys[order](query), query))


def table(look: Look, order: str) -> Grid:
    """The queries, each of which leads to a cell that searches for it."""
    found = ordered(look, order)
    compared = focus(look) != look.baseline
    heads = [
        Cell("query", hint="Choose one to search for it, variants side by side."),
        *(_head(look, name) for name in look.names),
        *([Cell("difference", hint=f"{focus(look)} minus {look.baseline}")] if compared else []),
    ]
    many = f"The first {MOST} of {len(found):,} queries." if len(found) > MOST else ""
    return Grid(
        f"Queries and their {look.metric}",
        heads,
        [_row(look, query, compared=compared) for query in found[:MOST]],
        right=range(1, len(heads)),
        notes=[many] if many else [],
        tall=True,
        reveal=f"{look.variant}\n{look.group}",
        empty="No query of this kind was scored.",
    )


def _head(look: Look, name: str) -> Cell:
    return Cell(
        name, style=look.styles[name], pick={"variant": name}, on=name == focus(look), said=f"Order by {name}'s queries"
    )


def _row(look: Look, query: str, *, compared: bool) -> Sequence[Cell]:
    given = look.values["queries"].get(query, {})
    text = given.get("text") or query
    top = max(1.0, *(look.of(name)[query] for name in look.names))
    cells = [
        Cell(
            text,
            under=choosing.about(query, given),
            hint=text,
            pick={"query": query},
            said=f"Search for {text}, side by side",
        ),
        *(Cell(f"{look.of(name)[query]:.3f}", heat=round(look.of(name)[query] / top, 3)) for name in look.names),
    ]
    if compared:
        cells.append(signed(look.of(focus(look))[query] - look.of(look.baseline)[query]))
    return cells
