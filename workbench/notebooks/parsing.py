"""Cells as what they mean: TOML into specs, every mistake in a sentence with its line, nothing asked of a database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pydantic
from pydantic import BaseModel

from core.errors import InputError, RankbookError, SpecError, UnknownName
from core.toml_io import read_toml
from workbench.notebooks.cells import CellSpec, kinds
from workbench.notebooks.cells.base import variant_meant
from workbench.notebooks.document import Cell, Notebook
from workbench.notebooks.shared import HEADER, Shared

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ParsedCells:
    """What a notebook asks for. `problems` are the mistakes by the identity of their cells: those have no spec."""

    shared: Shared = Shared()  # noqa: RUF009 - frozen
    specs: dict[str, CellSpec] = field(default_factory=dict)
    problems: dict[str, InputError] = field(default_factory=dict)


def parse_cells(notebook: Notebook, path: Path | None = None) -> ParsedCells:
    """Every cell, read. A mistake in the notebook cell is one of all the others too."""
    reader = _Reader(notebook, path)
    shared = Shared()
    problems: dict[str, InputError] = {}
    try:
        shared = reader.shared()
    except InputError as error:
        problems = {cell.id: error for cell in (*notebook.headers, *notebook.cells)}
    specs: dict[str, CellSpec] = {}
    names = [cell.name for cell in notebook.cells]
    for at, cell in enumerate(notebook.cells):
        try:
            if cell.name and cell.name in names[:at]:
                raise reader.mistake(cell, f"Two cells are called {cell.name!r}. Give each a name of its own.")
            specs[cell.id] = reader.spec(cell, shared)
        except InputError as error:
            problems.setdefault(cell.id, error)
    return ParsedCells(shared, {key: spec for key, spec in specs.items() if key not in problems}, problems)


class _Reader:
    """The notebook's cells with their places."""

    def __init__(self, notebook: Notebook, path: Path | None) -> None:
        self.notebook, self.path = notebook, path
        self.folder = path.parent if path else Path()

    def shared(self) -> Shared:
        headers = self.notebook.headers
        if not headers:
            return Shared()
        first, *others = headers
        if others:
            raise self.mistake(others[0], f"A notebook has one cell of the kind {HEADER}, and this is the second.")
        line = self.notebook.line_of(first.id)
        before = [cell for cell in self.notebook.cells if self.notebook.line_of(cell.id) < line]
        if before:
            raise self.mistake(first, f"The cell of the kind {HEADER} stands before all others, which it is for.")
        shared = self.filled(first, Shared)
        try:
            for each in shared.variants:
                variant_meant(each["name"], shared, self.folder)
        except RankbookError as error:
            raise self.mistake(first, str(error), "variant") from error
        return shared

    def spec(self, cell: Cell, shared: Shared) -> CellSpec:
        spec = self.filled(cell, kinds[cell.kind])
        try:
            spec.check(shared, self.folder)
        except RankbookError as error:
            raise self.mistake(cell, str(error), "variants", "variant", "legs") from error
        return spec

    def filled(self, cell: Cell, model: type[M]) -> M:
        given = self._toml(cell)
        known = [option.alias or name for name, option in model.model_fields.items()]
        for key in given:
            if key not in known:
                raise self.mistake(cell, str(UnknownName(f"key of a cell {cell.kind}", key, known)), key)
        try:
            return model(**given)
        except pydantic.ValidationError as error:
            places = [str(each["loc"][0]) for each in error.errors() if each["loc"]]
            told = SpecError.from_pydantic(f"The cell {cell.name or cell.kind}", error)
            raise self.mistake(cell, str(told), *places) from error
        except RankbookError as error:
            raise self.mistake(cell, str(error), *_culprits(model, given, str(error))) from error

    def _toml(self, cell: Cell) -> dict[str, Any]:
        if not cell.closed:
            raise self.mistake(cell, "The cell is not closed: all that follows would be part of it. Add its last line.")
        try:
            return read_toml(cell.source)
        except InputError as error:
            raise self._at(cell, error.line or 1, error.message) from error

    def mistake(self, cell: Cell, message: str, *keys: str) -> InputError:
        """At the line of the first of these keys that is written in the cell, or at its first line."""
        return self._at(cell, next(_lines_of(cell.source, keys), 0), message)

    def _at(self, cell: Cell, line: int, message: str) -> InputError:
        return InputError(message, path=self.path, line=self.notebook.line_of(cell.id) + line)


def _culprits(model: type[BaseModel], given: dict[str, Any], said: str) -> Iterator[str]:
    """The options without which this would not be said."""
    for key in given:
        try:
            model(**{name: value for name, value in given.items() if name != key})
        except pydantic.ValidationError:
            yield key
        except RankbookError as error:
            if str(error) != said:
                yield key
        else:
            yield key


def _lines_of(source: str, keys: tuple[str, ...]) -> Iterator[int]:
    for key in keys:
        written = re.compile(rf"""\s*(\[\[?\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
        yield from (at for at, line in enumerate(source.split("\n"), start=1) if written.match(line))
