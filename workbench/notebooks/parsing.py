"""Cells as what they mean: TOML becomes specs, and every mistake a sentence with its line. Asks no database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pydantic
from pydantic import BaseModel

from core.errors import InputError, RankbookError, SpecError, UnknownName
from core.toml_io import read_toml
from workbench.notebooks.cells import CellSpec, kinds
from workbench.notebooks.cells.base import resolve_reference
from workbench.notebooks.document import Cell, Notebook
from workbench.notebooks.shared import HEADER, SharedOptions

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class ParsedCells:
    """A notebook's cells as specs, by identity. A cell with a problem has no spec."""

    shared: SharedOptions = SharedOptions()  # noqa: RUF009 - frozen
    specs: dict[str, CellSpec] = field(default_factory=dict)
    problems: dict[str, InputError] = field(default_factory=dict)


def parse_cells(notebook: Notebook, path: Path | None = None) -> ParsedCells:
    """Every cell, parsed. A mistake in the notebook cell is a problem of all the others too."""
    parser = _Parser(notebook, path)
    shared = SharedOptions()
    problems: dict[str, InputError] = {}
    try:
        shared = parser.shared()
    except InputError as error:
        problems = {cell.id: error for cell in (*notebook.headers, *notebook.cells)}
    specs: dict[str, CellSpec] = {}
    names = [cell.name for cell in notebook.cells]
    for at, cell in enumerate(notebook.cells):
        try:
            if cell.name and cell.name in names[:at]:
                raise parser.mistake(cell, f"Two cells are called {cell.name!r}. Give each a name of its own.")
            specs[cell.id] = parser.spec(cell, shared)
        except InputError as error:
            problems.setdefault(cell.id, error)
    return ParsedCells(shared, {key: spec for key, spec in specs.items() if key not in problems}, problems)


class _Parser:
    """The cells of one notebook, whose lines mistakes name."""

    def __init__(self, notebook: Notebook, path: Path | None) -> None:
        self.notebook, self.path = notebook, path
        self.folder = path.parent if path else Path()

    def shared(self) -> SharedOptions:
        headers = self.notebook.headers
        if not headers:
            return SharedOptions()
        first, *others = headers
        if others:
            raise self.mistake(others[0], f"A notebook has one cell of the kind {HEADER}, and this is the second.")
        line = self.notebook.line_of(first.id)
        if any(self.notebook.line_of(cell.id) < line for cell in self.notebook.cells):
            raise self.mistake(first, f"The cell of the kind {HEADER} stands before all others, which it is for.")
        shared = self.options(first, SharedOptions)
        try:
            for each in shared.variants:
                resolve_reference(each["name"], shared, self.folder)
        except RankbookError as error:
            raise self.mistake(first, str(error), "variant") from error
        return shared

    def spec(self, cell: Cell, shared: SharedOptions) -> CellSpec:
        spec = self.options(cell, kinds[cell.kind])
        try:
            spec.check(shared, self.folder)
        except RankbookError as error:
            raise self.mistake(cell, str(error), "variants", "variant", "legs") from error
        return spec

    def options(self, cell: Cell, model: type[M]) -> M:
        """The cell's TOML as that model."""
        if not cell.closed:
            raise self.mistake(cell, "The cell is not closed: all that follows would be part of it. Add its last line.")
        try:
            values = read_toml(cell.source)
        except InputError as error:
            raise self._at(cell, error.line or 1, error.message) from error
        known = [option.alias or name for name, option in model.model_fields.items()]
        for key in values:
            if key not in known:
                raise self.mistake(cell, str(UnknownName(f"key of a cell {cell.kind}", key, known)), key)
        try:
            return model(**values)
        except pydantic.ValidationError as error:
            places = [str(each["loc"][0]) for each in error.errors() if each["loc"]]
            sentence = str(SpecError.from_pydantic(f"The cell {cell.name or cell.kind}", error))
            raise self.mistake(cell, sentence, *places) from error
        except RankbookError as error:
            raise self.mistake(cell, str(error), *_culprits(model, values, str(error))) from error

    def mistake(self, cell: Cell, message: str, *keys: str) -> InputError:
        """At the line of the first of these keys that is written in the cell, or at its first line."""
        for key in keys:
            written = re.compile(rf"""\s*(\[\[?\s*)?["']?{re.escape(key)}["']?\s*[=.\]]""")
            for line, text in enumerate(cell.source.split("\n"), start=1):
                if written.match(text):
                    return self._at(cell, line, message)
        return self._at(cell, 0, message)

    def _at(self, cell: Cell, line: int, message: str) -> InputError:
        return InputError(message, path=self.path, line=self.notebook.line_of(cell.id) + line)


def _culprits(model: type[BaseModel], values: dict[str, object], message: str) -> Iterator[str]:
    """The options without which the mistake would be gone, or another."""
    for key in values:
        try:
            model(**{name: value for name, value in values.items() if name != key})
        except pydantic.ValidationError:
            yield key
        except RankbookError as error:
            if str(error) != message:
                yield key
        else:
            yield key
