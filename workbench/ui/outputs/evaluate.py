"""The output of an evaluate cell: the table, its chart, kinds of queries, and the queries behind any of it."""

from __future__ import annotations

from dataclasses import replace

from evals.presentation.types import Text
from workbench.ui import blocks
from workbench.ui.outputs import choosing, colours, evaluate_look, evaluate_queries, grid, searching
from workbench.ui.outputs.base import CellView
from workbench.ui.outputs.evaluate_look import Look
from workbench.ui.outputs.grid import Action

INVITATION = "Choose a variant, a kind of query, or a number between them to see the queries behind it."


def draw(shown: CellView) -> None:
    """All of it. An output that an older version kept has its blocks alone."""
    if "metrics" not in shown.output.values:
        blocks.draw_all(shown.output.blocks, shown.key("block"))
        return
    look = look_of(shown)
    blocks.draw(Text(text=shown.output.headline, tone="headline"), shown.key("headline"))

    def picked(what: Action) -> None:
        follow(shown, look, what)

    grid.draw(shown.key("scores"), evaluate_look.scores(look), picked)
    if len(look.lines) > 1:
        blocks.figure(evaluate_look.intervals(look), shown.key("intervals"))
    kinds = evaluate_look.heatmap(look)
    if kinds is not None:
        blocks.heading(kinds.label)
        grid.draw(shown.key("kinds"), kinds, picked)
    if not look.variant:
        blocks.draw(Text(text=INVITATION, tone="note"), shown.key("invitation"))
        return
    blocks.heading(f"Queries, by {look.metric}")
    order = choosing.which(shown, evaluate_queries.groups(look), evaluate_queries.orders(look))
    grid.draw(shown.key("queries"), evaluate_queries.table(look, order), picked)


def look_of(shown: CellView) -> Look:
    values, selected = shown.output.values, shown.selected
    names = [line["name"] for line in values["lines"]]
    metric = selected.metric if selected.metric in values["metrics"] else values["metrics"][0]
    variant = selected.variant if selected.variant in names else ""
    look = Look(values, colours.styles(names), metric, variant)
    return replace(look, group=choosing.group(shown, evaluate_queries.groups(look)))


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
    shown.select(variant="" if again else variant or evaluate_queries.focus(look), kind="" if again else group)


def _search(shown: CellView, look: Look, query: str) -> str:
    """A search for it by the variants of the cell: runs of other engines cannot be asked."""
    variants = shown.spec.references
    names = list(shown.output.values["names"])[: len(variants)]
    chosen = searching.few(names, [evaluate_queries.focus(look), look.baseline, *look.names])
    return searching.source(shown.spec, query, [variants[at] for at in chosen])
