"""The columns of a search: plain values for the component, and the component. Texts are set as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from core.explain import ExplanationLine, explanation
from core.legs import describe
from core.snippets import pieces
from evals.evaluation.context import EvalContext
from evals.presentation import palette
from evals.presentation.types import ResultColumn, ResultHit, SearchResults
from workbench.components import theme
from workbench.components.cards import badge_of, title_of
from workbench.components.theme import asset
from workbench.notebooks.cells.base import CellQuery
from workbench.notebooks.cells.base import find_query as query_of
from workbench.screens.notebook.cell_views.base import CellView
from workbench.services.search import QueryLabels

Plain = dict[str, Any]
TITLES = 12  # of the documents of one part of the overlap, in its tooltip


_component = st.components.v2.component(
    "rankbook.search",
    html=asset("screens/notebook/cell_views/search.html"),
    css=f":host{{{palette.variables()}}}\n{asset('components/assets/shared.css')}\n{asset('screens/notebook/cell_views/search.css')}",
    js=asset("screens/notebook/cell_views/search.js"),
)


def draw(
    view: CellView,
    hits: SearchResults,
    ctx: EvalContext,
    asked: tuple[int, str] | None,
    account: Sequence[ExplanationLine] | None,
) -> None:
    """The columns. `asked` is the card to explain, by its column and id; `account` is the explanation, once known."""
    key = view.key("columns")

    def opened() -> None:
        if (value := st.session_state[key].get("open")) is not None:
            name = hits.columns[int(value["column"])].name
            view.select(document=str(value["id"]), variant=name, against="")

    def why() -> None:
        if (value := st.session_state[key].get("why")) is not None:
            name = hits.columns[int(value["column"])].name
            document, against = (str(value["id"]), name) if value["open"] else ("", "")
            view.select(document=document, against=against, variant="")

    told = None
    if asked is not None:
        lines = [[each.text, each.exact] for each in account] if account else None
        told = {"column": asked[0], "id": asked[1], "lines": lines}
    judged, styles = judged_of(hits, ctx), theme.styles(column.name for column in hits.columns)
    _component(
        key=key,
        data={**plain(hits, judged, view.output.values, styles), "account": told},
        on_open_change=opened,
        on_why_change=why,
    )


def judged_of(hits: SearchResults, ctx: EvalContext) -> QueryLabels:
    """The labels of the query."""
    known = {each.id: each for each in ctx.labelled.queries}
    if hits.query_id not in known:
        return QueryLabels()
    return QueryLabels(known[hits.query_id].kind, query_of(ctx, None, hits.query_id).grades)


def plain(hits: SearchResults, judged: QueryLabels, values: Mapping[str, Any], styles: Mapping[str, int]) -> Plain:
    """All columns, and their overlap. `styles` are the variants' colours and marks."""
    ways: Sequence[Plain] = values.get("columns") or [{} for _ in hits.columns]
    keywords = CellQuery(hits.query).keywords
    columns = [
        {**_column(column, at, judged, way, keywords), **_look(styles[column.name])}
        for at, (column, way) in enumerate(zip(hits.columns, ways, strict=False))
    ]
    return {"columns": columns, "overlap": overlap(hits.columns)}


def _look(style: int) -> Plain:
    return {"colour": palette.colour(style), "shape": palette.shape(style)}


def _column(column: ResultColumn, at: int, judged: QueryLabels, way: Plain, keywords: Sequence[str]) -> Plain:
    legs: list[Plain] = way.get("legs", [])
    top = max((sum(max(0.0, leg.contribution) for leg in hit.legs) for hit in column.hits), default=0.0)
    return {
        "name": column.name,
        "milliseconds": column.milliseconds,
        "notes": list(column.notes),
        "recall": _recall(column, judged),
        "legs": [
            {**_named(leg["name"], legs), "weight": f"{leg['weight']:g}" if len(legs) > 1 else None} for leg in legs
        ],
        "cards": [
            {
                **_card(hit, at, judged, way.get("ways", {})),
                "heading": _heading(hit, keywords),
                "legs": _shares(hit, legs, top),
                "says": _says(hit, legs),
            }
            for hit in column.hits
        ],
        "stages": [_stage(stage) for stage in way.get("stages", [])],
    }


def _card(hit: ResultHit, at: int, judged: QueryLabels, ways: Mapping[str, Any]) -> Plain:
    return {
        "id": hit.id,
        "item": hit.item_id,
        "rank": hit.rank,
        "title": title_of(hit.title, hit.item_id),
        "where": (hit.place.removeprefix(hit.title.strip()).removeprefix(" > ") if hit.title.strip() else hit.place),
        "score": hit.score,
        "snippet": [list(piece) for piece in hit.snippet],
        "badge": badge_of(judged, hit.item_id),
        "move": _move(hit) if at else None,
        "again": hit.repeats_item,
        "way": [[explanation.step(stage), rank, score, stage] for stage, rank, score in ways.get(hit.id, [])],
    }


def _stage(stage: Plain) -> Plain:
    """A stage in plain words, with its exact name as a hint."""
    dropped = [
        {**each, "says": explanation.why_dropped(each.get("code", ""), each.get("limit", "")) or each["reason"]}
        for each in stage.get("dropped", [])
    ]
    return {**stage, "says": explanation.step(stage["name"]), "dropped": dropped}


def _says(hit: ResultHit, legs: Sequence[Plain]) -> str:
    """What found the hit."""
    kinds = {leg["name"]: leg["kind"] for leg in legs}
    return explanation.found((describe(kinds.get(each.leg, each.leg)).phrase, each.rank) for each in hit.legs)


def _heading(hit: ResultHit, keywords: Sequence[str]) -> list[list[Any]]:
    """The title, cut at matched words."""
    title = title_of(hit.title, hit.item_id)
    return [list(piece) for piece in pieces(title, keywords, len(title))]


def _shares(hit: ResultHit, legs: Sequence[Plain], top: float) -> list[Plain]:
    """The share of each leg, including those that did not find it."""
    said = {each.leg: each for each in hit.legs}
    made = []
    for name in dict.fromkeys([*(leg["name"] for leg in legs), *said]):
        share = said.get(name)
        shown: Plain = {"rank": None, "share": 0.0}
        if share is not None:
            part = max(0.0, share.contribution) / top * 100 if top > 0 else 0.0
            shown = {"rank": share.rank, "raw": share.raw, "adds": share.contribution, "share": part}
        made.append({**_named(name, legs), **shown})
    return made


def _named(name: str, legs: Sequence[Plain]) -> Plain:
    """The label of a leg, and its kind, which decides the colour."""
    kind = next((leg["kind"] for leg in legs if leg["name"] == name), name)
    label = describe(kind).label if name == kind else name
    return {"name": name, "label": label, "kind": kind}


def _move(hit: ResultHit) -> Plain:
    """The document's move since the first column."""
    if hit.repeats_item:
        return {"text": "again", "tone": "still", "hint": "Another passage of this document stands above it."}
    if hit.previous_rank is None:
        return {"text": "new", "tone": "up", "hint": "Not among the first column's results."}
    moved = hit.previous_rank - hit.rank
    if not moved:
        return {"text": "=", "tone": "still", "hint": "At the same rank as in the first column."}
    up = moved > 0
    text = f"{'↑' if up else '↓'}{abs(moved)}"
    hint = f"{'Up' if up else 'Down'} {abs(moved)}, from rank {hit.previous_rank} in the first column."
    return {"text": text, "tone": "up" if up else "down", "hint": hint}


def _recall(column: ResultColumn, judged: QueryLabels) -> str:
    """The share of the relevant documents in the column, for a labelled query."""
    if not judged.relevant:
        return ""
    found = len({hit.item_id for hit in column.hits} & judged.relevant)
    return f"{found} of {len(judged.relevant)} relevant"


def overlap(columns: Sequence[ResultColumn]) -> list[Plain]:
    """The documents by the columns that contain them."""
    where: dict[str, list[int]] = defaultdict(list)
    titles: dict[str, str] = {}
    for at, column in enumerate(columns):
        for item, title in {hit.item_id: title_of(hit.title, hit.item_id) for hit in column.hits}.items():
            where[item].append(at)
            titles.setdefault(item, title)
    parts: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for item, places in where.items():
        parts[tuple(places)].append(item)
    return [
        {
            "columns": list(part),
            "count": len(items),
            "items": items,
            "titles": [titles[each] for each in items[:TITLES]],
        }
        for part, items in sorted(parts.items(), key=lambda entry: _order(entry[0], len(columns)))
    ]


def _order(part: tuple[int, ...], columns: int) -> tuple[float, ...]:
    """Of two columns: only the first, both, only the second. Of more: shared by most first."""
    return (sum(part) / len(part),) if columns == 2 else (-len(part), *part)
