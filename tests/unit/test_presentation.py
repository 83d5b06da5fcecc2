"""The forms of output: what earlier versions stored is read and written with the same keys, and each is rendered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evals.display import Table, TableCell, written
from evals.presentation import html
from evals.presentation.text import text_of
from evals.presentation.types import Chart, Code, Output, SearchResults, Text

STORED = Path(__file__).with_name("stored") / "cell_output.json"


@pytest.fixture
def stored():
    return json.loads(STORED.read_text(encoding="utf-8"))


def test_an_output_that_the_first_version_stored_is_read_and_written_with_the_same_keys(stored):
    output = Output.model_validate(stored)
    assert [type(block) for block in output.blocks] == [Text, Text, Text, Table, Chart, SearchResults, Code]
    assert output.plain() == stored
    assert Output.model_validate_json(json.dumps(output.plain())) == output


def test_an_output_names_the_variants_that_it_shows(stored):
    assert Output.model_validate(stored).variant_names == ["bm25", "vector"]
    assert Output(blocks=(), values={"names": ["a", 3], "system": "b", "baseline": None}).variant_names == ["a", "b"]


def test_every_form_is_rendered_as_text_and_as_html(stored):
    for block in Output.model_validate(stored).blocks:
        assert text_of(block).strip()
        assert html.fragment(block).startswith('<div class="tex2jax_ignore')


def test_a_hit_says_how_its_document_moved_and_what_labels_say(stored):
    results = next(each for each in Output.model_validate(stored).blocks if isinstance(each, SearchResults))
    page = written(html.search_results(results))
    for part in ("grade 2", "judged 0", "unjudged", "same document", ">new<", "<mark>reset</mark>", "ranks: bm25 1"):
        assert part in page


def test_a_table_takes_any_values_for_cells():
    table = Table.of("title", ("a", "b"), [(1, None), ("x", TableCell(text="y", aside="z"))], ("a",))
    assert [[cell.plain for cell in row] for row in table.rows] == [["1", ""], ["x", "y z"]]
    assert Table.model_validate(table.model_dump()) == table
