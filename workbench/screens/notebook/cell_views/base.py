"""What a view of a cell's output draws from, and the choosers that several views have.

A view draws plain values; live work goes through the cell's own context. Changes of a cell are changes of its TOML,
made by the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from core.errors import SpecError
from evals.evaluation.context import EvalContext
from evals.presentation.types import Output
from workbench.components.leaderboard import name_of
from workbench.components.url_state import Chooser
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext, Reference
from workbench.notebooks.document import Cell
from workbench.screens.notebook import state
from workbench.screens.notebook.state import NotebookState
from workbench.services.context import open_collection


@dataclass(frozen=True, slots=True)
class CellView:
    """A cell with its output. `stale` says what has changed since.

    `change` sets options of the cell (None removes one) and runs it; `add` adds a cell of a kind and source behind it,
    goes there and runs it. Both are for callbacks, and can be undone.
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
        """What is selected in this cell."""
        return state.current().within(self.cell.id)

    def select(self, **fields: str) -> None:
        """Select something in this cell, by field. For callbacks."""
        state.select(self.cell.id, **fields)


View = Callable[[CellView], None]


def choose_kind_and_order(view: CellView, groups: Sequence[str], orders: Mapping[str, str]) -> str:
    """Choosers of a kind of query and of an order; gives the order."""
    choosers, (kind, order) = Chooser(f"cell.{view.cell.id}", view.select), st.columns(2)
    with kind:
        chosen = group(view, groups)
        choosers.select("Kind", "kind", ["", *groups], chosen, named=lambda key: name_of(key) if key else "All kinds")
    first, chosen = next(iter(orders)), view.selected.order
    with order:
        return choosers.select(
            "Order", "order", list(orders), chosen if chosen in orders else first, named=orders.__getitem__, first=first
        )


def group(view: CellView, groups: Sequence[str]) -> str:
    """The selected kind; empty for all."""
    return view.selected.kind if view.selected.kind in groups else ""


def context_of(context: CellContext, spec: CellSpec) -> tuple[EvalContext, str]:
    """The cell's collection, and a key for its content and labels."""
    collection = spec.collection or context.shared.collection
    if collection is None:
        raise SpecError('No collection is named. Write collection = "handbook" in this cell.')
    found, mark = open_collection(context.store, collection, spec.query_set or context.shared.query_set)
    if context.resources is not None:
        found = replace(found, context=replace(found.context, resources=context.resources))
    return found, mark


MOST = 4  # columns that can be read side by side
WHERE = ("collection", "query_set", "split")


def source(spec: CellSpec, query: str, variants: Sequence[Reference]) -> str:
    """The source of a search cell: a labelled query with these variants."""
    import tomlkit

    where: dict[str, Any] = {name: value for name in WHERE if (value := getattr(spec, name)) is not None}
    columns = tomlkit.array()
    columns.extend(inline(each) for each in variants)
    return tomlkit.dumps({**where, "query_id": query, "variants": columns})


def inline(value: Any) -> Any:
    """A value with its tables in one line, as TOML needs it between brackets."""
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


def first_columns(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The places of the first few of the wanted names, in the order of the names."""
    places = dict.fromkeys(names.index(name) for name in wanted if name in names)
    return sorted(list(places)[:MOST])
