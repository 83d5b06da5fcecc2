"""From a query of a table to a cell that searches for it: the source of that cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import Reference

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
