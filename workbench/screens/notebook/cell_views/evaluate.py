"""The output of an evaluate cell: the table, its chart, kinds of queries, and the queries behind any of it."""

from __future__ import annotations

from dataclasses import replace

from evals.presentation.types import Text
from workbench.components import blocks, leaderboard, table, theme
from workbench.components.leaderboard import LeaderboardSelection
from workbench.components.table import Action
from workbench.screens.notebook.cell_views import base
from workbench.screens.notebook.cell_views.base import CellView

INVITATION = "Choose a variant, a kind of query, or a number between them to see the queries behind it."


def draw(view: CellView) -> None:
    """All of it. Outputs of older versions are drawn block by block."""
    if "metrics" not in view.output.values:
        blocks.draw_all(view.output.blocks, view.key("block"))
        return
    look = look_of(view)
    blocks.draw(Text(text=view.output.headline, tone="headline"), view.key("headline"))

    def picked(what: Action) -> None:
        follow(view, look, what)

    table.draw(view.key("scores"), leaderboard.scores(look), on_action=picked)
    if len(look.lines) > 1:
        blocks.figure(leaderboard.intervals(look), view.key("intervals"))
    kinds = leaderboard.heatmap(look)
    if kinds is not None:
        blocks.heading(kinds.label)
        table.draw(view.key("kinds"), kinds, on_action=picked)
    if not look.variant:
        blocks.draw(Text(text=INVITATION, tone="note"), view.key("invitation"))
        return
    blocks.heading(f"Queries, by {look.metric}")
    order = base.choose_kind_and_order(view, leaderboard.groups(look), leaderboard.orders(look))
    table.draw(view.key("queries"), leaderboard.table(look, order), on_action=picked)


def look_of(view: CellView) -> LeaderboardSelection:
    values, selected = view.output.values, view.selected
    names = [line["name"] for line in values["lines"]]
    metric = selected.metric if selected.metric in values["metrics"] else values["metrics"][0]
    variant = selected.variant if selected.variant in names else ""
    look = LeaderboardSelection(values, theme.styles(names), metric, variant)
    return replace(look, group=base.group(view, leaderboard.groups(look)))


def follow(view: CellView, look: LeaderboardSelection, what: Action) -> None:
    """Do what a pressed button stands for. A callback."""
    if "baseline" in what:
        if what["baseline"] != look.baseline:
            view.change({"baseline": what["baseline"]})
    elif "query" in what:
        variants = view.spec.references
        names = list(view.output.values["names"])[: len(variants)]
        chosen = base.first_columns(names, [leaderboard.focus(look), look.baseline, *look.names])
        view.add("search", base.source(view.spec, what["query"], [variants[at] for at in chosen]))
    elif "metric" in what:
        view.select(metric=what["metric"])
    else:
        variant = what.get("variant", "")
        group = what.get("group", "")
        again = (variant or look.variant, group) == (look.variant, look.group)
        view.select(variant="" if again else variant or leaderboard.focus(look), kind="" if again else group)
