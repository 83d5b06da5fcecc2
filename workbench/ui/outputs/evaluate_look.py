"""An evaluate cell's output as its tables and its chart show it, with what is selected in it. Knows no Streamlit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals.evaluation.board import Score
from evals.presentation import charts
from evals.presentation.types import Chart
from evals.statistics.verdicts import legend
from workbench.ui.outputs.choosing import key_of, name_of
from workbench.ui.outputs.grid import VERDICTS, Cell, Grid

LIVE = "Half of the queries took at most so many milliseconds, timed one at a time."


@dataclass(frozen=True, slots=True)
class Look:
    """The values of a cell and what of them is looked at. `styles` are the variants' colours."""

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


def scores(look: Look) -> Grid:
    """Means with intervals and verdicts, what is judged, what it costs, and what the others are compared with."""
    several, failed = len(look.lines) > 1, any(line["failed"] for line in look.lines)
    heads = [
        Cell("variant"),
        *(_metric_head(look, metric) for metric in look.metrics),
        Cell("judged", hint=f"The share of the hits which {look.metric} counts that have a label."),
        Cell("p50 ms", hint=LIVE),
        *([Cell("failed", hint="Queries without an answer. They score 0.")] if failed else []),
        *([Cell("compared with", hint="What the others' verdicts and differences are against.")] if several else []),
    ]
    rows = [
        (
            Cell(
                line["name"],
                style=look.styles[line["name"]],
                pick={"variant": line["name"]},
                on=line["name"] == look.variant,
                said=f"Queries of {line['name']}",
            ),
            *(_score(look, line, metric) for metric in look.metrics),
            Cell(_share(line["values"][look.metric]["judged"])),
            _time(line),
            *([Cell(str(line["failed"]), tone="loss" if line["failed"] else "faint")] if failed else []),
            *([_against(look, line["name"])] if several else []),
        )
        for line in look.lines
    ]
    at = len(look.metrics) + 1
    return Grid(
        f"Variants by metrics, against {look.baseline}",
        heads,
        rows,
        right=(at, at + 1, *([at + 2] if failed else [])),
        notes=_notes(look),
        chosen=look.names.index(look.variant) if look.variant else None,
    )


def _metric_head(look: Look, metric: str) -> Cell:
    hint = f"{look.values['formulas'][metric]} Means over the queries, with intervals in brackets."
    return Cell(metric, hint=hint, pick={"metric": metric}, on=metric == look.metric, said=f"Look at {metric}")


def _score(look: Look, line: Mapping[str, Any], metric: str) -> Cell:
    value = line["values"][metric]
    if value["mean"] is None:
        return Cell("-", tone="faint")
    sign, tone = VERDICTS.get(value["verdict"], ("", ""))
    interval = "" if value["low"] is None else f"[{value['low']:.2f}, {value['high']:.2f}]"
    return Cell(
        f"{value['mean']:.3f}",
        " ".join(filter(None, (interval, value.get("badge", "")))),
        sign=sign,
        tone=tone,
        strong=len(look.lines) > 1 and line["name"] in look.values["best"][metric],
        hint=" ".join([value["sentence"], *value["doubts"]]).strip(),
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _time(line: Mapping[str, Any]) -> Cell:
    if line["p50"] is None or line.get("live") is False:  # outputs of before hold estimates too
        return Cell("-", tone="faint", hint="No query was timed alone: set time_live.")
    sizes = "" if line["megabytes"] is None else f" Its indexes take {line['megabytes']:.1f} MB."
    return Cell(f"{line['p50']:.1f}", hint=f"Asked alone; p95 {line['p95']:.1f} ms.{sizes}")


def _against(look: Look, name: str) -> Cell:
    here = name == look.baseline
    return Cell(
        "baseline" if here else "compare",
        pick={"baseline": name},
        pill=True,
        on=here,
        said=f"{name} is what the others are compared with" if here else f"Compare the others with {name}",
    )


def _notes(look: Look) -> list[str]:
    several = len(look.lines) > 1
    return [*([legend(look.baseline)] if several else []), *look.values["notes"]]


# -- a chart -----------------------------------------------------------------------------------------------------------


def intervals(look: Look) -> Chart:
    """The report's own chart, in the colours that the variants have on this page."""
    values = {line["name"]: line["values"][look.metric] for line in look.lines}
    scores = {
        name: Score(value["mean"], value["low"], value["high"], None)
        for name, value in values.items()
        if value["mean"] is not None
    }
    return charts.interval_chart(look.metric, scores, look.styles, look.baseline, f"{look.metric} with intervals")


# -- kinds of queries --------------------------------------------------------------------------------------------------


def heatmap(look: Look) -> Grid | None:
    """Variants by kinds and tags, each cell a mean."""
    groups = [group for group in look.values["groups"] if look.metric in group["means"]]
    if not groups:
        return None
    means = [group["means"][look.metric] for group in groups]
    every = [value for each in means for value in each.values()]
    low, spread = min(every), max(every) - min(every) or 1.0
    rows = [
        (
            Cell(name, style=look.styles[name]),
            *(
                _mean(look, name, group, mean[name], (mean[name] - low) / spread)
                for group, mean in zip(groups, means, strict=True)
            ),
        )
        for name in look.names
    ]
    heads = [
        Cell(
            name_of(_key(group)),
            under=f"{group['queries']}{' (few)' if group['few'] else ''}",
            hint=f"{group['queries']} queries{', too few for a tie to be told' if group['few'] else ''}",
            pick={"group": _key(group)},
            on=look.group == _key(group),
            said=f"Queries: {name_of(_key(group))}",
        )
        for group in groups
    ]
    return Grid(f"{look.metric} by kind of query", [Cell(""), *heads], rows, dense=True)


def _mean(look: Look, name: str, group: Mapping[str, Any], mean: float, heat: float) -> Cell:
    key = _key(group)
    told = f"{name}, {name_of(key)}: {look.metric} {mean:.3f} over {group['queries']} queries"
    return Cell(
        f"{mean:.2f}",
        heat=round(heat, 3),
        hint=told,
        said=f"{told}. See them",
        pick={"variant": name, "group": key},
        on=(name, key) == (look.variant, look.group),
    )


def _key(group: Mapping[str, Any]) -> str:
    return key_of(group["by"], group["name"])
