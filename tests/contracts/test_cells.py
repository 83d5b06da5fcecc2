"""What every kind of cell says of itself, from which menus, forms and examples are made."""

from __future__ import annotations

import re

import pytest

from workbench.notebooks.cells import CellSpec, kinds, ordered_kinds
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import example
from workbench.notebooks.parsing import parse_cells


@pytest.mark.parametrize("kind", kinds)
def test_a_kind_carries_icon_example_version_and_words(kind: str) -> None:
    spec = kinds[kind]
    assert issubclass(spec, CellSpec)
    assert re.fullmatch(r":material/\w+:", spec.icon)
    assert spec.version >= 1
    assert spec.__doc__
    assert all(field.description for field in spec.model_fields.values())
    parsed = parse_cells(Notebook.parse(f"```{kind}\n{example(kind)}```\n"))
    assert (len(parsed.specs), parsed.problems) == (1, {})


def test_kinds_are_offered_by_their_places_and_no_two_look_alike() -> None:
    places = [kinds[kind].place for kind in ordered_kinds()]
    assert places == sorted(places)
    assert len({kinds[kind].icon for kind in kinds}) == len(kinds)
