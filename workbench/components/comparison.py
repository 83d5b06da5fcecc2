"""A compare cell's output as tables and charts, with what is selected in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from evals.presentation import palette
from evals.presentation.types import Chart
from workbench.components.leaderboard import about, groups_of, is_in, key_of, name_of
from workbench.components.table import VERDICTS, DataTable, RichCell, Tone, of_cells, signed

MOST = 200  # rows
DECIDING = 10
ORDERS = {"deciding": "Those that decide", "ahead": "Greatest gains", "behind": "Greatest losses"}
INFLUENCE = "How much the mean difference hangs on this query: it would change by minus so much without it."


@dataclass(frozen=True, slots=True)
class ComparisonSelection:
    """The values of a cell and what is selected. `styles` are the colours of the two."""

    values: Mapping[str, Any]
    styles: Mapping[str, int]
    query: str = ""
    group: str = ""

    @property
    def system(self) -> str:
        return str(self.values["system"])

    @property
    def baseline(self) -> str:
        return str(self.values["baseline"])

    @property
    def queries(self) -> Sequence[Mapping[str, Any]]:
        """By falling difference."""
        queries: Sequence[Mapping[str, Any]] = self.values["queries"]
        return queries

    @property
    def chosen(self) -> Mapping[str, Any] | None:
        """The selected query, else the one that decides most."""
        wanted = self.query or next(iter(self.values["deciding"]), "")
        return next((each for each in self.queries if each["id"] == wanted), None)

    @property
    def sides(self) -> tuple[str, str]:
        """The colours of gains and losses: those of the two, unless they are the same."""
        one, other = (palette.colour(self.styles[name]) for name in (self.system, self.baseline))
        return ("win", "loss") if one == other else (one, other)


# -- charts ------------------------------------------------------------------------------------------------------------


def coloured(look: ComparisonSelection, block: Chart) -> Chart:
    """A chart with a point for each query, in the colours of the two, the selected query marked."""
    gain, loss = look.sides
    names = [gain if each["difference"] > 0 else loss if each["difference"] < 0 else "even" for each in look.queries]
    widths = [2.5 if look.query and each["id"] == look.query else 0 for each in look.queries]
    figure = deepcopy(block.figure)
    for trace in figure["data"]:
        trace["marker"] |= {"color": [f"<{name}>" for name in names], "line": {"color": "<text>", "width": widths}}
        trace |= {"selected": {"marker": {"opacity": 1}}, "unselected": {"marker": {"opacity": 1}}}
        if trace["type"] == "scatter":
            trace["marker"] |= {"opacity": 0.75, "size": 9}
    figure["layout"] |= {"clickmode": "event+select", "dragmode": False, "height": 340}
    return block.model_copy(update={"figure": figure})


# -- kinds -------------------------------------------------------------------------------------------------------------


def kinds(look: ComparisonSelection) -> DataTable | None:
    """The difference for each kind of query; intervals hold for all kinds together."""
    groups = sorted(look.values["groups"], key=lambda each: (-(each["finding"]["mean"] or 0.0), each["name"]))
    if len(groups) < 2:
        return None
    heads = [
        RichCell("kind" if groups[0]["by"] == "kind" else "tag"),
        RichCell("queries"),
        RichCell("difference", hint=f"{look.system} minus {look.baseline}, {look.values['metric']}"),
        RichCell(
            "interval", hint=f"{look.values['level']:.0%} interval of the difference, all kinds looked at together"
        ),
        RichCell("won"),
        RichCell("equal"),
        RichCell("lost"),
        RichCell("verdict", hint="By the interval: all kinds looked at together"),
    ]
    return of_cells(
        f"By {groups[0]['by']}",
        heads,
        [_kind(look, each) for each in groups],
        right=range(1, 7),
        tall=len(groups) > 12,
    )


def _kind(look: ComparisonSelection, each: Mapping[str, Any]) -> Sequence[RichCell]:
    finding, key = each["finding"], key_of(each["by"], each["name"])
    sign, tone = VERDICTS[each["verdict"]]
    low, high = finding["low"], finding["high"]
    return (
        RichCell(name_of(key), action={"group": key}, on=key == look.group, says=f"Queries: {name_of(key)}"),
        RichCell(str(finding["queries"])),
        signed(finding["mean"]),
        RichCell("-" if low is None else f"{low:+.3f} to {high:+.3f}", tone="faint"),
        RichCell(str(finding["wins"])),
        RichCell(str(finding["ties"])),
        RichCell(str(finding["losses"])),
        RichCell(each["verdict"], sign=sign, tone=tone, hint=each["sentence"]),
    )


# -- queries -----------------------------------------------------------------------------------------------------------


def groups(look: ComparisonSelection) -> list[str]:
    return groups_of(look.queries)


def ordered(look: ComparisonSelection, order: str) -> list[Mapping[str, Any]]:
    """The queries of the selected kind. Without a kind, those that decide are ten."""
    kept = [each for each in look.queries if is_in(each, look.group)]
    if order == "ahead":
        return kept
    if order == "behind":
        return sorted(kept, key=lambda each: (each["difference"], each["id"]))
    ranked = sorted(kept, key=lambda each: (-abs(each["influence"]), each["id"]))
    return ranked if look.group else ranked[:DECIDING]


def table(look: ComparisonSelection, order: str) -> DataTable:
    """The queries, each with buttons to search for it and to see how its documents moved."""
    found = ordered(look, order)
    formula = look.values["formula"]
    heads = [
        RichCell("query", hint="Choose one to search for it, side by side."),
        *(RichCell(name, style=look.styles[name], hint=formula) for name in (look.system, look.baseline)),
        RichCell("difference", hint=f"{look.system} minus {look.baseline}"),
        RichCell("influence", hint=INFLUENCE),
        RichCell("documents"),
    ]
    chosen = look.chosen["id"] if look.chosen else ""
    shown = found[:MOST]
    many = f"The first {MOST} of {len(found):,} queries." if len(found) > MOST else ""
    return of_cells(
        f"Queries and their {look.values['metric']}",
        heads,
        [_row(each, chosen) for each in shown],
        right=range(1, 5),
        notes=[many] if many else [],
        selected=next((at for at, each in enumerate(shown) if each["id"] == chosen), None),
        tall=len(shown) > DECIDING,
        reveal=look.group,
        empty="No query of this kind was scored.",
    )


def _row(each: Mapping[str, Any], chosen: str) -> Sequence[RichCell]:
    text = each["text"] or each["id"]
    top = max(1.0, each["one"], each["other"])
    return (
        RichCell(
            text,
            under=about(each["id"], each),
            hint=text,
            action={"query": each["id"]},
            says=f"Search for {text}, side by side",
        ),
        *(RichCell(f"{each[side]:.3f}", heat=round(each[side] / top, 3)) for side in ("one", "other")),
        signed(each["difference"]),
        RichCell(f"{each['influence']:+.4f}", tone="faint"),
        RichCell(
            "moves",
            action={"moves": each["id"]},
            pill=True,
            on=each["id"] == chosen,
            says=f"How the documents of {text} moved",
        ),
    )


# -- documents ---------------------------------------------------------------------------------------------------------


def moves(look: ComparisonSelection, query: str) -> DataTable:
    """The ranks of a query's documents in both, the relevant ones first."""
    rows = look.values["moved"].get(query, ())
    top = max((each["grade"] or 0 for each in rows), default=0)
    heads = [
        RichCell("document", hint="Relevant ones first, found or not; then what else stands near the top of either."),
        RichCell("label"),
        *(RichCell(name, style=look.styles[name], hint="Its rank") for name in (look.baseline, look.system)),
        RichCell("moved", hint=f"Ranks gained from {look.baseline} to {look.system}"),
    ]
    return of_cells(
        "How documents moved",
        heads,
        [_move(each, top) for each in rows],
        right=(2, 3, 4),
        tall=len(rows) > DECIDING,
        reveal=look.query,
        empty="The documents of this query are not kept with the comparison. Search for it to see them.",
    )


def _move(each: Mapping[str, Any], top: int) -> Sequence[RichCell]:
    title = each["title"] or each["item"]
    return (
        RichCell(title, under=each["item"] if title != each["item"] else ""),
        label(each["grade"], top),
        *(RichCell(_rank(each[side]), tone="" if each[side] else "faint") for side in ("other", "one")),
        replace(_step(each["one"], each["other"]), tone=_tone(each)),
    )


def label(grade: int | None, top: int) -> RichCell:
    """The label of a document."""
    if grade is None:
        return RichCell("unjudged", tone="unjudged")
    if grade <= 0:
        return RichCell("judged 0", tone="zero")
    return RichCell(f"grade {grade}", tone="best" if grade == top else "good")


def _rank(rank: int | None) -> str:
    return "not found" if rank is None else str(rank)


def _step(one: int | None, other: int | None) -> RichCell:
    if one is None or other is None:
        return RichCell("-" if one is other else "gone" if one is None else "new")
    up = other - one
    return RichCell(f"{'↑' if up > 0 else '↓'} {abs(up)}" if up else "=")


def _tone(each: Mapping[str, Any]) -> Tone:
    """Only moves of relevant documents are gains or losses."""
    one, other = (each[side] or math.inf for side in ("one", "other"))
    if not (each["grade"] or 0) > 0 or one == other:
        return "faint"
    return "win" if one < other else "loss"
