"""Writes what docs/ repeats of the code: `make docs`.

docs/reference.md is every plug-in by its docstring and its fields' descriptions; the tables of docs/commands.md are the
commands' help; docs/results.md is filled with the figures measured last. `tests/app/test_docs.py` compares.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python
from typer.main import get_command

from core.chunking import Chunker, chunkers
from core.expansion import Expansion, expansions
from core.fusion import Fusion, fusions
from core.legs import Leg, legs
from core.registry import Registry
from core.rerank import Reranker, rerankers
from evals.measures import MEASURES
from evals.sources import Source, sources
from tests.bench import results
from workbench.cli import app
from workbench.notebooks.cells import CellSpec, kinds

DOCS = Path(__file__).parents[1] / "docs"
# A heading, how one of its entries is written down, the registry, and the class whose fields all entries have.
PLUG_INS: tuple[tuple[str, str, Registry[Any], type[BaseModel]], ...] = (
    ("Legs", "A `[[leg]]` of a variant, by its `kind`; by itself with `rankbook search --leg NAME`.", legs, Leg),
    ("Fusions", "`fusion = { method = NAME }` in a variant.", fusions, Fusion),
    ("Expansions", "`expand = { method = NAME }` in a variant.", expansions, Expansion),
    ("Rerankers", "`rerank = { method = NAME }` in a variant.", rerankers, Reranker),
    ("Chunkers", "`rankbook data chunk COLLECTION SET=NAME,option=value`.", chunkers, Chunker),
    ("Sources", "`rankbook data add COLLECTION PATH --as NAME -o option=value`.", sources, Source),
    ("Cells of a notebook", "A fence with this name in a notebook, its options as TOML.", kinds, CellSpec),
)
REFERENCE = """# Reference

Every leg, fusion, expansion, reranker, chunker, source, cell and measure, by its own description. `make docs` writes
this page from the code. [CONTRIBUTING.md](../CONTRIBUTING.md) says how to add one.
"""
LISTED = re.compile(r"^\| `(rankbook [a-z -]+)` \| (.+) \|$", re.MULTILINE)


def main() -> None:
    (DOCS / "reference.md").write_text(reference(), encoding="utf-8")
    commands = DOCS / "commands.md"
    commands.write_text(with_commands(commands.read_text(encoding="utf-8")), encoding="utf-8")
    results.PAGE.write_text(results.page(results.read()), encoding="utf-8")
    sys.stdout.write("docs/reference.md, docs/commands.md and docs/results.md are written.\n")


# -- docs/reference.md -------------------------------------------------------------------------------------------------


def reference() -> str:
    parts = [REFERENCE]
    for heading, how, registry, base in PLUG_INS:
        parts += [f"## {heading}\n", f"{how}\n"]
        common = {name: field.description for name, field in base.model_fields.items()}
        if common:
            parts += ["Options of all of them:\n", options(base.model_fields.items())]
        for name in sorted(registry):
            entry = registry[name]
            own = [(each, field) for each, field in entry.model_fields.items() if common.get(each) != field.description]
            parts += [f"### `{name}`\n", f"{plain(inspect.getdoc(entry) or '')}\n", *([options(own)] if own else [])]
    rows = "".join(f"| `{name}` | {cell(measure.formula)} |\n" for name, measure in MEASURES.items())
    parts += ["## Measures\n", "With a cut-off, as in `ndcg@10`; see [measuring.md](measuring.md#metrics).\n"]
    return "\n".join([*parts, f"| measure | formula |\n|---|---|\n{rows}"])


def options(fields: Iterable[tuple[str, FieldInfo]]) -> str:
    rows = "".join(
        f"| `{field.alias or name}` | {default(field)} | {cell(field.description or '')}{choices(field.annotation)} |\n"
        for name, field in fields
    )
    return f"| option | by default | what it says |\n|---|---|---|\n{rows}"


def default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "must be given"
    return "nothing" if value is None else f"`{cell(json.dumps(to_jsonable_python(value), ensure_ascii=False))}`"


def choices(annotation: Any) -> str:
    """The values of an option that has a fixed set of them."""
    every = [annotation, *get_args(annotation)]
    values = next((get_args(each) for each in every if get_origin(each) is Literal), ())
    return f" One of {', '.join(f'`{cell(json.dumps(value))}`' for value in values)}." if len(values) > 1 else ""


def cell(text: str) -> str:
    """Text in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def plain(text: str) -> str:
    """A docstring's paragraphs; whatever looks like markup in it is text."""
    return re.sub(r"(?<![`\\])([<*])", r"\\\1", text)


# -- docs/commands.md --------------------------------------------------------------------------------------------------


def commands() -> Iterator[tuple[str, str]]:
    """Every command and the first sentence of its help, in the order of `--help`: commands first, then groups."""
    yield from _commands("rankbook", get_command(app))


def _commands(path: str, command: Any) -> Iterator[tuple[str, str]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        beginning = " ".join(command.help.partition("\n\n")[0].split())
        yield path, re.split(r"(?<=[.?])\s", beginning, maxsplit=1)[0]
        return
    for name, each in sorted(inner.items(), key=lambda pair: hasattr(pair[1], "commands")):
        yield from _commands(f"{path} {name}", each)


def with_commands(page: str) -> str:
    """The page with the tables of its groups written anew; what stands around them stays."""
    groups: dict[str, list[str]] = {}
    for path, says in commands():
        groups.setdefault(" ".join(path.split()[1:-1]), []).append(f"| `{path}` | {says} |\n")

    def table(found: re.Match[str]) -> str:
        group = re.search(r"`rankbook ([a-z]+)`$", found[1])
        return f"{found[1]}\n\n{found[2]}{''.join(groups[group[1] if group else ''])}"

    return re.sub(r"^(## [^\n]+)\n\n(\| command \|[^\n]*\n\|[-|]+\|\n)(?:\|[^\n]*\n)+", table, page, flags=re.MULTILINE)


if __name__ == "__main__":
    main()
