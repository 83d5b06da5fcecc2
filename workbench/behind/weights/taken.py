"""A point of the surface taken along: kept as a variant under a name, and put into a cell that evaluates it.

Knows no Streamlit. Files of variants are `evals.variants`'s, notebooks the shelf's and their desks'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from core.errors import SpecError
from core.store import roles
from core.store.engine import Store
from core.variant import Variant
from evals import variants as evals_variants
from workbench.notebooks import session
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import own_folder

KIND: Final = "evaluate"
NOTEBOOK: Final = "weights"  # what a new one is called


@dataclass(frozen=True, slots=True)
class CellLocation:
    """Where a cell was put."""

    notebook: str
    cell: str


def usual_name(made: Variant) -> str:
    """What it is called where nobody says otherwise; what is kept already under its own name keeps that."""
    there = evals_variants.find(made.name)
    return made.name if there is not None and _same(there.variant, made) else evals_variants.free_name(made.name)


def replaceable(made: Variant, name: str) -> bool:
    """Whether another variant is kept under that name, in whose place this one could be."""
    there = evals_variants.find(name.strip())
    return there is not None and not _same(there.variant, made.but(name=there.name))


def keep(store: Store, made: Variant, name: str, *, over: bool = False) -> str:
    """Keep it; the name by which it is found. What is kept already as it is stays as it is."""
    roles.refuse_reader(store, "keep variants")
    name = name.strip()
    if not name:
        raise SpecError("A variant that is kept needs a name. Type one.")
    there = evals_variants.find(name)
    if there is not None and _same(there.variant, made.but(name=name)):
        return there.name
    return evals_variants.keep(made.but(name=name).to_toml(), over=name if over and there is not None else None).name


def _same(one: Variant | None, other: Variant) -> bool:
    return one is not None and one.id == other.id and one.name == other.name


def source(where: Mapping[str, str], metric: str, references: Sequence[Any]) -> str:
    """The source of a cell that scores these side by side, the first being what the others are compared with.

    References are names, or tables as TOML writes them on one line.
    """
    import tomlkit

    variants = tomlkit.array()
    variants.extend(references)
    given = {name: value for name, value in where.items() if value}
    return tomlkit.dumps({**given, "variants": variants, "metrics": [metric]})


def notebooks() -> list[str]:
    """Those that a cell can be put into."""
    return own_folder().own()


def place(store: Store, notebook: str, text: str) -> CellLocation:
    """Put the cell at the end of that notebook, or of a new one where none is named, and have it run."""
    roles.refuse_reader(store, "change notebooks")
    own = own_folder()
    if not notebook:
        notebook = own.free(NOTEBOOK)
        own.create(notebook, Notebook.parse("# Which weights?\n"))
    desk = session.session_for(store, own.find(notebook))
    cell = desk.change(f"new {KIND}", lambda book: book.insert(KIND, text))
    desk.run([cell])
    return CellLocation(notebook, cell)
