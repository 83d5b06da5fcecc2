"""The output of an evaluate cell: the table, its chart, kinds of queries, and the queries behind any of it."""

from __future__ import annotations

from dataclasses import replace

from workbench.components import blocks, grid, leaderboard, theme
from workbench.components.grid import Action
from workbench.components.leaderboard import Look
from workbench.notebooks.output import Said
from workbench.screens.notebook.cell_views import base
from workbench.screens.notebook.cell_views.base import CellView

INVITATION = "Choose a variant, a kind of query, or a number between them to see the queries behind it."


def draw(shown: CellView) -> None:
    """All of it. An output that an older version kept has its blocks alone."""
    if "metrics" not in shown.output.values:
        blocks.draw_all(shown.output.blocks, shown.key("block"))
        return
    look = look_of(shown)
    blocks.draw(Said(text=shown.output.headline, tone="headline"), shown.key("headline"))

    def picked(what: Action) -> None:
        follow(shown, look, what)

    grid.draw(shown.key("scores"), leaderboard.scores(look), picked)
    if len(look.lines) > 1:
        blocks.figure(leaderboard.intervals(look), shown.key("intervals"))
    kinds = leaderboard.heatmap(look)
    if kinds is not None:
        blocks.heading(kinds.label)
        grid.draw(shown.key("kinds"), kinds, picked)
    if not look.variant:
        blocks.draw(Said(text=INVITATION, tone="note"), shown.key("invitation"))
        return
    blocks.heading(f"Queries, by {look.metric}")
    order = base.which(shown, leaderboard.groups(look), leaderboard.orders(look))
    grid.draw(shown.key("queries"), leaderboard.table(look, order), picked)


def look_of(shown: CellView) -> Look:
    values, selected = shown.output.values, shown.selected
    names = [line["name"] for line in values["lines"]]
    metric = selected.metric if selected.metric in values["metrics"] else values["metrics"][0]
    variant = selected.variant if selected.variant in names else ""
    look = Look(values, theme.styles(names), metric, variant)
    return replace(look, group=base.group(shown, leaderboard.groups(look)))


def follow(shown: CellView, look: Look, what: Action) -> None:
    """What a pressed button stands for. In a callback."""
    if "baseline" in what:
        if what["baseline"] != look.baseline:
            shown.change({"baseline": what["baseline"]})
    elif "query" in what:
        shown.add("search", _search(shown, look, what["query"]))
    elif "metric" in what:
        shown.select(metric=what["metric"])
    else:
        _see(shown, look, what.get("variant", ""), what.get("group", ""))


def _see(shown: CellView, look: Look, variant: str, group: str) -> None:
    """The queries of a variant, of a kind, or of both; none of them when they are chosen once more."""
    again = (variant or look.variant, group) == (look.variant, look.group)
    shown.select(variant="" if again else variant or leaderboard.focus(look), kind="" if again else group)


def _search(shown: CellView, look: Look, query: str) -> str:
    """A search for it by the variants of the cell: runs of other engines cannot be asked."""
    variants = shown.spec.references
    names = list(shown.output.values["names"])[: len(variants)]
    chosen = base.few(names, [leaderboard.focus(look), look.baseline, *look.names])
    return base.source(shown.spec, query, [variants[at] for at in chosen])
