"""What a view of a cell's output draws from, and the choosers that several views have.

A view draws plain values; what it asks for live goes through the cell's own context. Changes of a cell are changes of
its TOML, made and saved by the page that shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from core.errors import SpecError
from evals.evaluation.context import EvalContext
from workbench.components.leaderboard import name_of
from workbench.components.open_collection import opened
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext, Reference
from workbench.notebooks.document import Cell
from workbench.notebooks.output import Output
from workbench.screens.notebook import state
from workbench.screens.notebook.state import NotebookState


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell with what it gave, as its view sees it. `stale` says what moved on since.

    `change` sets options of the cell (None takes one away), keeps the rest of its TOML as it is, and runs it; `add`
    puts a cell of a kind and source behind it, goes there and runs it. Both are for callbacks, and can be undone.
    """

    cell: Cell
    spec: CellSpec
    output: Output
    context: CellContext
    stale: tuple[str, ...]
    change: Callable[[dict[str, Any]], None]
    add: Callable[[str, str], None]

    def key(self, name: str) -> str:
        """A key for a widget of this cell."""
        return f"cell.{self.cell.id}.{name}"

    @property
    def selected(self) -> NotebookState:
        """What is looked at in this cell, as the address says it."""
        return state.current().within(self.cell.id)

    def select(self, **fields: str) -> None:
        """Look at something in it: a field of the place, by its name. In a callback."""
        state.select(self.cell.id, **fields)


View = Callable[[CellView], None]


def which(shown: CellView, groups: Sequence[str], orders: Mapping[str, str]) -> str:
    """Draws both, and gives the order."""
    kind, order = st.columns([1, 1])
    with kind:
        _choose(shown, "Kind", "kind", {"": "All kinds", **{key: name_of(key) for key in groups}})
    with order:
        return _choose(shown, "Order", "order", orders)


def _choose(shown: CellView, label: str, field: str, options: Mapping[str, str]) -> str:
    key, values = shown.key(field), list(options)
    said = getattr(shown.selected, field)
    chosen = said if said in values else values[0]
    if st.session_state.get(key) != chosen:
        st.session_state[key] = chosen

    def followed() -> None:
        value = str(st.session_state[key])
        shown.select(**{field: "" if value == values[0] else value})

    st.selectbox(label, values, format_func=lambda value: options[value], key=key, on_change=followed)
    return chosen


def group(shown: CellView, groups: Sequence[str]) -> str:
    """The kind that is chosen; empty for all."""
    return shown.selected.kind if shown.selected.kind in groups else ""


def ground_of(context: CellContext, spec: CellSpec) -> tuple[EvalContext, str]:
    """The cell's collection, and what stands for its content and labels in keys."""
    collection = spec.collection or context.shared.collection
    if collection is None:
        raise SpecError('No collection is named. Write collection = "handbook" in this cell.')
    found, mark = opened(context.store, collection, spec.query_set or context.shared.query_set)
    if context.resources is not None:
        found = replace(found, context=replace(found.context, resources=context.resources))
    return found, mark


MOST = 4  # columns that can be read side by side
WHERE = ("collection", "query_set", "split")


def source(spec: CellSpec, query: str, variants: Sequence[Reference]) -> str:
    """A labelled query asked of these variants, over what the cell it comes from is about."""
    import tomlkit

    where: dict[str, Any] = {name: value for name in WHERE if (value := getattr(spec, name)) is not None}
    columns = tomlkit.array()
    columns.extend(inline(each) for each in variants)
    return tomlkit.dumps({**where, "query_id": query, "variants": columns})


def inline(value: Any) -> Any:
    """A table on one line, whatever is in it: between brackets no other can stand."""
    import tomlkit

    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update({key: inline(each) for key, each in value.items() if each is not None})
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        array.extend(map(inline, value))
        return array
    return value


def few(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The places of the first of those wanted, as many as can be read side by side, in the order of the names."""
    places = dict.fromkeys(names.index(name) for name in wanted if name in names)
    return sorted(list(places)[:MOST])
