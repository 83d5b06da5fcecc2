"""A notebook for Jupyter (nbformat 4.5): prose as Markdown cells, cells as calls of `evals.lab`, with their outputs.

Texts from a collection are escaped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from pprint import pformat
from typing import Any

from core.errors import RankbookError
from evals.display import printable
from evals.presentation import palette
from evals.presentation.html import fragment
from evals.presentation.text import text_of
from evals.presentation.types import Chart, Text
from workbench.notebooks import markdown
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells import PythonExport
from workbench.notebooks.document import Cell, Notebook, Prose
from workbench.notebooks.export_html import stale_sentence
from workbench.notebooks.parsing import ParsedCells

Json = dict[str, Any]
PLOTLY = "application/vnd.plotly.v1+json"
_COLOUR = re.compile(r"<([a-z0-9]+)>\Z")


def render(notebook: Notebook, meaning: ParsedCells, folder: Path, results: Sequence[CellState] = ()) -> str:
    """The file's text."""
    python = PythonExport(meaning.shared, folder)
    done = {result.cell.id: result for result in results}
    cells: list[Json] = []
    if not notebook.headers:
        cells.append(_code("open", _opening(notebook, meaning, python)))
    for part in notebook.shown:
        if isinstance(part, Prose):
            source = markdown.inert(part.text).strip()
            cells.append({"cell_type": "markdown", "id": part.id, "metadata": {}, "source": source})
        elif part in notebook.headers:
            cells.append(_code(part.id, _opening(notebook, meaning, python)))
        else:
            cells.append(_code(part.id, _python(part, meaning, python), _outputs(done.get(part.id))))
    for at, cell in enumerate(cells, start=1):  # the format wants letters, digits, - and _, at most 64, each id once
        cell["id"] = f"{re.sub(r'[^a-zA-Z0-9_-]', '-', str(cell['id']))[:50]}-{at}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    file = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(file, ensure_ascii=True, indent=1, allow_nan=False) + "\n"


def _code(identity: str, source: str, outputs: Sequence[Json] = ()) -> Json:
    return {
        "cell_type": "code",
        "id": identity,
        "metadata": {},
        "execution_count": None,
        "source": source,
        "outputs": list(outputs),
    }


# -- code --------------------------------------------------------------------------------------------------------------


def _opening(notebook: Notebook, meaning: ParsedCells, python: PythonExport) -> str:
    """Imports, the collection, and the variants that cells call by name."""
    source = "\n".join(_python(cell, meaning, python) for cell in notebook.cells)
    imports = ["from evals.lab import Lab"]
    imports += ["from evals.tuning.tuner import TuningProcedure as Procedure"] if "Procedure(" in source else []
    imports += ["from evals.statistics.verdicts import Rules"] if "Rules(" in source else []
    shared = meaning.shared
    queries = f", query_set={shared.query_set!r}" if shared.query_set != "default" else ""
    lines = [*imports, "", f"lab = Lab({shared.collection or 'handbook'!r}{queries})"]
    if python.used:  # by the cells that were just written
        own = {each["name"]: each for each in shared.variants if "file" not in each}
        plain = {name: own.get(name) or _without_nothing(each.to_data()) for name, each in python.used.items()}
        lines += ["", f"variants = {pformat(plain, width=100, sort_dicts=False)}"]
    return "\n".join([*lines, "lab"])


def _without_nothing(value: Any) -> Any:
    """Plain data without the options that are None, which is what leaving them out says."""
    if isinstance(value, dict):
        return {key: _without_nothing(each) for key, each in value.items() if each is not None}
    return [_without_nothing(each) for each in value] if isinstance(value, list) else value


def _python(cell: Cell, meaning: ParsedCells, python: PythonExport) -> str:
    spec = meaning.specs.get(cell.id)
    if spec is None:
        return _commented(f"This cell is not valid: {meaning.problems[cell.id]}", cell.source)
    title = [f"# {printable(spec.title)}"] if spec.title else []
    try:
        return "\n".join([*title, spec.python(python)])
    except RankbookError as error:
        return _commented(f"This cell cannot be said in Python: {error}", cell.source)


def _commented(problem: str, source: str) -> str:
    return "\n".join(f"# {printable(line)}" for line in (problem, *source.splitlines()))


# -- outputs -----------------------------------------------------------------------------------------------------------


def _outputs(result: CellState | None) -> list[Json]:
    if result is None or (result.output is None and not result.problem):
        return []
    state = [Text(text=f"It failed. {result.problem}")] if result.problem else []
    if result.stale:
        state = [Text(text=f"Stale: {stale_sentence(result)}")]
    outputs = []
    for block in (*state, *(result.output.blocks if result.output else ())):
        data: Json = {"text/plain": text_of(block), "text/html": fragment(block)}
        if isinstance(block, Chart):
            data[PLOTLY] = {**_coloured(block.figure), "config": {"displayModeBar": False}}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return outputs


def _coloured(value: Any) -> Any:
    """Colours by name as those of the light page."""
    if isinstance(value, dict):
        return {key: _coloured(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_coloured(each) for each in value]
    found = _COLOUR.match(value) if isinstance(value, str) else None
    return palette.named()[found[1]][0] if found and found[1] in palette.named() else value
