"""A compare cell's output as its tables and charts show it, with what is selected in it. Knows no Streamlit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

from evals.presentation import palette
from evals.presentation.types import Chart
from workbench.ui.outputs import choosing
from workbench.ui.outputs.choosing import key_of, name_of
from workbench.ui.outputs.grid import VERDICTS, Cell, Grid, Tone, signed

MOST = 200  # rows
DECIDING = 10
ORDERS = {"deciding": "Those that decide", "ahead": "Greatest gains", "behind": "Greatest losses"}
INFLUENCE = "How much the mean difference hangs on this query: it would change by minus so much without it."


@dataclass(frozen=True, slots=True)
class Look:
    """The values of a cell and what of them is looked at. `styles` are the colours of the two."""

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
        """The query that is selected; else the one that decides most."""
        wanted = self.query or next(iter(self.values["deciding"]), "")
        return next((each for each in self.queries if each["id"] == wanted), None)

    @property
    def sides(self) -> tuple[str, str]:
        """The colours of gains and losses: those of the two, unless they are one."""
        one, other = (palette.colour(self.styles[name]) for name in (self.system, self.baseline))
        return ("win", "loss") if one == other else (one, other)


# -- charts ------------------------------------------------------------------------------------------------------------


def coloured(look: Look, block: Chart) -> Chart:
    """A chart with a point for each query, in the colours of the two, and the selected query's marked."""
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


def kinds(look: Look) -> Grid | None:
    """The difference over the queries of each kind, all of them looked at together."""
    groups = sorted(look.values["groups"], key=lambda each: (-(each["finding"]["mean"] or 0.0), each["name"]))
    if len(groups) < 2:
        return None
    heads = [
        Cell("kind" if groups[0]["by"] == "kind" else "tag"),
        Cell("queries"),
        Cell("difference", hint=f"{look.system} minus {look.baseline}, {look.values['metric']}"),
        Cell("interval", hint=f"{look.values['level']:.0%} interval of the difference, all kinds looked at together"),
        Cell("won"),
        Cell("equal"),
        Cell("lost"),
        Cell("verdict", hint="By the interval: all kinds looked at together"),
    ]
    return Grid(
        f"By {groups[0]['by']}",
        heads,
        [_kind(look, each) for each in groups],
        right=range(1, 7),
        tall=len(groups) > 12,
    )


def _kind(look: Look, each: Mapping[str, Any]) -> Sequence[Cell]:
    finding, key = each["finding"], key_of(each["by"], each["name"])
    sign, tone = VERDICTS[each["verdict"]]
    low, high = finding["low"], finding["high"]
    return (
        Cell(name_of(key), pick={"group": key}, on=key == look.group, said=f"Queries: {name_of(key)}"),
        Cell(str(finding["queries"])),
        signed(finding["mean"]),
        Cell("-" if low is None else f"{low:+.3f} to {high:+.3f}", tone="faint"),
        Cell(str(finding["wins"])),
        Cell(str(finding["ties"])),
        Cell(str(finding["losses"])),
        Cell(each["verdict"], sign=sign, tone=tone, hint=each["sentence"]),
    )


# -- queries -----------------------------------------------------------------------------------------------------------


def groups(look: Look) -> list[str]:
    return choosing.groups_of(look.queries)


def ordered(look: Look, order: str) -> list[Mapping[str, Any]]:
    """The queries of the chosen kind. Of all kinds those that decide are ten."""
    kept = [each for each in look.queries if choosing.is_in(each, look.group)]
    if order == "ahead":
        return kept
    if order == "behind":
        return sorted(kept, key=lambda each: (each["difference"], each["id"]))
    ranked = sorted(kept, key=lambda each: (-abs(each["influence"]), each["id"]))
    return ranked if look.group else ranked[:DECIDING]


def table(look: Look, order: str) -> Grid:
    """The queries, each of which leads to a cell that searches for it, and to how its documents moved."""
    found = ordered(look, order)
    formula = look.values["formula"]
    heads = [
        Cell("query", hint="Choose one to search for it, side by side."),
        *(Cell(name, style=look.styles[name], hint=formula) for name in (look.system, look.baseline)),
        Cell("difference", hint=f"{look.system} minus {look.baseline}"),
        Cell("influence", hint=INFLUENCE),
        Cell("documents"),
    ]
    chosen = look.chosen["id"] if look.chosen else ""
    shown = found[:MOST]
    many = f"The first {MOST} of {len(found):,} queries." if len(found) > MOST else ""
    return Grid(
        f"Queries and their {look.values['metric']}",
        heads,
        [_row(each, chosen) for each in shown],
        right=range(1, 5),
        notes=[many] if many else [],
        chosen=next((at for at, each in enumerate(shown) if each["id"] == chosen), None),
        tall=len(shown) > DECIDING,
        reveal=look.group,
        empty="No query of this kind was scored.",
    )


def _row(each: Mapping[str, Any], chosen: str) -> Sequence[Cell]:
    text = each["text"] or each["id"]
    top = max(1.0, each["one"], each["other"])
    return (
        Cell(
            text,
            under=choosing.about(each["id"], each),
            hint=text,
            pick={"query": each["id"]},
            said=f"Search for {text}, side by side",
        ),
        *(Cell(f"{each[side]:.3f}", heat=round(each[side] / top, 3)) for side in ("one", "other")),
        signed(each["difference"]),
        Cell(f"{each['influence']:+.4f}", tone="faint"),
        Cell(
            "moves",
            pick={"moves": each["id"]},
            pill=True,
            on=each["id"] == chosen,
            said=f"How the documents of {text} moved",
        ),
    )


# -- documents ---------------------------------------------------------------------------------------------------------


def moves(look: Look, query: str) -> Grid:
    """Where the documents of a query stand in both, the relevant ones first."""
    rows = look.values["moved"].get(query, ())
    top = max((each["grade"] or 0 for each in rows), default=0)
    heads = [
        Cell("document", hint="Relevant ones first, found or not; then what else stands near the top of either."),
        Cell("label"),
        *(Cell(name, style=look.styles[name], hint="Its rank") for name in (look.baseline, look.system)),
        Cell("moved", hint=f"Ranks gained from {look.baseline} to {look.system}"),
    ]
    return Grid(
        "How documents moved",
        heads,
        [_move(each, top) for each in rows],
        right=(2, 3, 4),
        tall=len(rows) > DECIDING,
        reveal=look.query,
        empty="The documents of this query are not kept with the comparison. Search for it to see them.",
    )


def _move(each: Mapping[str, Any], top: int) -> Sequence[Cell]:
    title = each["title"] or each["item"]
    return (
        Cell(title, under=each["item"] if title != each["item"] else ""),
        label(each["grade"], top),
        *(Cell(_rank(each[side]), tone="" if each[side] else "faint") for side in ("other", "one")),
        replace(_step(each["one"], each["other"]), tone=_tone(each)),
    )


def label(grade: int | None, top: int) -> Cell:
    """What the labels say of a document."""
    if grade is None:
        return Cell("unjudged", tone="unjudged")
    if grade <= 0:
        return Cell("judged 0", tone="zero")
    return Cell(f"grade {grade}", tone="best" if grade == top else "good")


def _rank(rank: int | None) -> str:
    return "not found" if rank is None else str(rank)


def _step(one: int | None, other: int | None) -> Cell:
    if one is None or other is None:
        return Cell("-" if one is other else "gone" if one is None else "new")
    up = other - one
    return Cell(f"{'↑' if up > 0 else '↓'} {abs(up)}" if up else "=")


def _tone(each: Mapping[str, Any]) -> Tone:
    """A gain or a loss is what moves relevant documents."""
    one, other = (each[side] or math.inf for side in ("one", "other"))
    if not (each["grade"] or 0) > 0 or one == other:
        return "faint"
    return "win" if one < other else "loss"
