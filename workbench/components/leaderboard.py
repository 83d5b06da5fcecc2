"""Variants scored side by side: the table of scores, intervals, the heat map, and the table of queries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.evaluation.board import Score
from evals.presentation import charts
from evals.presentation.types import Chart
from evals.statistics.verdicts import legend
from workbench.components.table import VERDICTS, DataTable, RichCell, of_cells, signed

# -- kinds and tags under one key --------------------------------------------------------------------------------------


def key_of(by: str, name: str) -> str:
    return f"{by}:{name}"


def name_of(key: str) -> str:
    by, _, name = key.partition(":")
    return (name or "(no kind)") if by == "kind" else f"#{name}"


def groups_of(queries: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every kind and tag of these queries."""
    given = list(queries)
    kinds = {key_of("kind", each.get("kind", "")) for each in given}
    tags = {key_of("tag", tag) for each in given for tag in each.get("tags", ())}
    return [*sorted(kinds), *sorted(tags)]


def is_in(query: Mapping[str, Any], key: str) -> bool:
    """Whether the query has that kind or tag."""
    by, _, name = key.partition(":")
    return not key or (query.get("kind", "") == name if by == "kind" else name in query.get("tags", ()))


def about(query: str, given: Mapping[str, Any]) -> str:
    """The faint line below a query's text."""
    return " · ".join(filter(None, [query, given.get("kind", "")]))


LIVE = "Half of the queries took at most so many milliseconds, timed one at a time."


@dataclass(frozen=True, slots=True)
class LeaderboardSelection:
    """The values of a cell and what is selected. `styles` are the variants' colours."""

    values: Mapping[str, Any]
    styles: Mapping[str, int]
    metric: str
    variant: str = ""
    group: str = ""

    @property
    def lines(self) -> Sequence[Mapping[str, Any]]:
        """The variants, best first."""
        lines: Sequence[Mapping[str, Any]] = self.values["lines"]
        return lines

    @property
    def names(self) -> list[str]:
        return [line["name"] for line in self.lines]

    @property
    def baseline(self) -> str:
        return str(self.values["baseline"])

    @property
    def metrics(self) -> list[str]:
        return list(self.values["metrics"])

    def of(self, name: str) -> Mapping[str, float]:
        """A variant's scores by query."""
        scores: Mapping[str, float] = self.values["scores"][self.metric][name]
        return scores


# -- variants by metrics -----------------------------------------------------------------------------------------------


def scores(look: LeaderboardSelection) -> DataTable:
    """Means with intervals and verdicts, the share judged, latency, and the choice of the baseline."""
    several, failed = len(look.lines) > 1, any(line["failed"] for line in look.lines)
    heads = [
        RichCell("variant"),
        *(_metric_head(look, metric) for metric in look.metrics),
        RichCell("judged", hint=f"The share of the hits which {look.metric} counts that have a label."),
        RichCell("p50 ms", hint=LIVE),
        *([RichCell("failed", hint="Queries without an answer. They score 0.")] if failed else []),
        *(
            [RichCell("compared with", hint="What the others' verdicts and differences are against.")]
            if several
            else []
        ),
    ]
    rows = [
        (
            RichCell(
                line["name"],
                style=look.styles[line["name"]],
                action={"variant": line["name"]},
                on=line["name"] == look.variant,
                says=f"Queries of {line['name']}",
            ),
            *(_score(look, line, metric) for metric in look.metrics),
            RichCell(_share(line["values"][look.metric]["judged"])),
            _time(line),
            *([RichCell(str(line["failed"]), tone="loss" if line["failed"] else "faint")] if failed else []),
            *([_against(look, line["name"])] if several else []),
        )
        for line in look.lines
    ]
    at = len(look.metrics) + 1
    return of_cells(
        f"Variants by metrics, against {look.baseline}",
        heads,
        rows,
        right=(at, at + 1, *([at + 2] if failed else [])),
        notes=_notes(look),
        selected=look.names.index(look.variant) if look.variant else None,
    )


def _metric_head(look: LeaderboardSelection, metric: str) -> RichCell:
    hint = f"{look.values['formulas'][metric]} Means over the queries, with intervals in brackets."
    return RichCell(metric, hint=hint, action={"metric": metric}, on=metric == look.metric, says=f"Look at {metric}")


def _score(look: LeaderboardSelection, line: Mapping[str, Any], metric: str) -> RichCell:
    value = line["values"][metric]
    if value["mean"] is None:
        return RichCell("-", tone="faint")
    sign, tone = VERDICTS.get(value["verdict"], ("", ""))
    interval = "" if value["low"] is None else f"[{value['low']:.2f}, {value['high']:.2f}]"
    return RichCell(
        f"{value['mean']:.3f}",
        " ".join(filter(None, (interval, value.get("badge", "")))),
        sign=sign,
        tone=tone,
        strong=len(look.lines) > 1 and line["name"] in look.values["best"][metric],
        hint=" ".join([value["sentence"], *value["doubts"]]).strip(),
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _time(line: Mapping[str, Any]) -> RichCell:
    if line["p50"] is None or line.get("live") is False:  # outputs of before hold estimates too
        return RichCell("-", tone="faint", hint="No query was timed alone: set time_live.")
    sizes = "" if line["megabytes"] is None else f" Its indexes take {line['megabytes']:.1f} MB."
    return RichCell(f"{line['p50']:.1f}", hint=f"Asked alone; p95 {line['p95']:.1f} ms.{sizes}")


def _against(look: LeaderboardSelection, name: str) -> RichCell:
    here = name == look.baseline
    return RichCell(
        "baseline" if here else "compare",
        action={"baseline": name},
        pill=True,
        on=here,
        says=f"{name} is what the others are compared with" if here else f"Compare the others with {name}",
    )


def _notes(look: LeaderboardSelection) -> list[str]:
    several = len(look.lines) > 1
    return [*([legend(look.baseline)] if several else []), *look.values["notes"]]


# -- a chart -----------------------------------------------------------------------------------------------------------


def intervals(look: LeaderboardSelection) -> Chart:
    """The report's own chart, in the colours that the variants have on this page."""
    values = {line["name"]: line["values"][look.metric] for line in look.lines}
    scores = {
        name: Score(value["mean"], value["low"], value["high"], None)
        for name, value in values.items()
        if value["mean"] is not None
    }
    return charts.interval_chart(look.metric, scores, look.styles, look.baseline, f"{look.metric} with intervals")


# -- kinds of queries --------------------------------------------------------------------------------------------------


def heatmap(look: LeaderboardSelection) -> DataTable | None:
    """Variants by kinds and tags, each cell a mean."""
    groups = [group for group in look.values["groups"] if look.metric in group["means"]]
    if not groups:
        return None
    means = [group["means"][look.metric] for group in groups]
    every = [value for each in means for value in each.values()]
    low, spread = min(every), max(every) - min(every) or 1.0
    rows = [
        (
            RichCell(name, style=look.styles[name]),
            *(
                _mean(look, name, group, mean[name], (mean[name] - low) / spread)
                for group, mean in zip(groups, means, strict=True)
            ),
        )
        for name in look.names
    ]
    heads = [
        RichCell(
            name_of(_key(group)),
            under=f"{group['queries']}{' (few)' if group['few'] else ''}",
            hint=f"{group['queries']} queries{', too few for a tie to be told' if group['few'] else ''}",
            action={"group": _key(group)},
            on=look.group == _key(group),
            says=f"Queries: {name_of(_key(group))}",
        )
        for group in groups
    ]
    return of_cells(f"{look.metric} by kind of query", [RichCell(""), *heads], rows, dense=True)


def _mean(look: LeaderboardSelection, name: str, group: Mapping[str, Any], mean: float, heat: float) -> RichCell:
    key = _key(group)
    told = f"{name}, {name_of(key)}: {look.metric} {mean:.3f} over {group['queries']} queries"
    return RichCell(
        f"{mean:.2f}",
        heat=round(heat, 3),
        hint=told,
        says=f"{told}. See them",
        action={"variant": name, "group": key},
        on=(name, key) == (look.variant, look.group),
    )


def _key(group: Mapping[str, Any]) -> str:
    return key_of(group["by"], group["name"])


MOST = 200  # rows
ORDERS = ("worst", "behind", "ahead", "divided")


def focus(look: LeaderboardSelection) -> str:
    """The variant by which queries are ordered: the selected one, else the best."""
    return look.variant or look.names[0]


def orders(look: LeaderboardSelection) -> dict[str, str]:
    """The orders of queries, with their labels."""
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


def groups(look: LeaderboardSelection) -> list[str]:
    """Every kind and tag of the scored queries."""
    return groups_of(look.values["queries"].get(query, {}) for query in look.of(focus(look)))


def ordered(look: LeaderboardSelection, order: str) -> list[str]:
    """The ids of the selected kind's queries; ties by id."""
    mine, base = look.of(focus(look)), look.of(look.baseline)
    every = [look.of(name) for name in look.names]
    keys = {
        "worst": lambda query: mine[query],
        "behind": lambda query: mine[query] - base[query],
        "ahead": lambda query: base[query] - mine[query],
        "divided": lambda query: min(each[query] for each in every) - max(each[query] for each in every),
    }
    kept = [query for query in mine if is_in(look.values["queries"].get(query, {}), look.group)]
    return sorted(kept, key=lambda query: (keys[order](query), query))


def table(look: LeaderboardSelection, order: str) -> DataTable:
    """The queries, each with a button to search for it."""
    found = ordered(look, order)
    compared = focus(look) != look.baseline
    heads = [
        RichCell("query", hint="Choose one to search for it, variants side by side."),
        *(_head(look, name) for name in look.names),
        *([RichCell("difference", hint=f"{focus(look)} minus {look.baseline}")] if compared else []),
    ]
    many = f"The first {MOST} of {len(found):,} queries." if len(found) > MOST else ""
    return of_cells(
        f"Queries and their {look.metric}",
        heads,
        [_row(look, query, compared=compared) for query in found[:MOST]],
        right=range(1, len(heads)),
        notes=[many] if many else [],
        tall=True,
        reveal=f"{look.variant}\n{look.group}",
        empty="No query of this kind was scored.",
    )


def _head(look: LeaderboardSelection, name: str) -> RichCell:
    return RichCell(
        name,
        style=look.styles[name],
        action={"variant": name},
        on=name == focus(look),
        says=f"Order by {name}'s queries",
    )


def _row(look: LeaderboardSelection, query: str, *, compared: bool) -> Sequence[RichCell]:
    given = look.values["queries"].get(query, {})
    text = given.get("text") or query
    top = max(1.0, *(look.of(name)[query] for name in look.names))
    cells = [
        RichCell(
            text,
            under=about(query, given),
            hint=text,
            action={"query": query},
            says=f"Search for {text}, side by side",
        ),
        *(RichCell(f"{look.of(name)[query]:.3f}", heat=round(look.of(name)[query] / top, 3)) for name in look.names),
    ]
    if compared:
        cells.append(signed(look.of(focus(look))[query] - look.of(look.baseline)[query]))
    return cells
