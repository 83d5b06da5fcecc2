"""What a notebook asks for: every kind of cell is a form with words, every mistake has its line, nothing is asked."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import cast

import pytest
from pydantic import BaseModel

from core import bridge
from core.store.engine import Store
from workbench.notebooks.cells import kinds
from workbench.notebooks.cells.base import CellContext
from workbench.notebooks.cells.evaluate import resolve_runs
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import shipped, shipped_names
from workbench.notebooks.parsing import ParsedCells, parse_cells
from workbench.notebooks.shared import HEADER, SharedOptions

PATH = Path("book.md")


def read(text: str) -> ParsedCells:
    return parse_cells(Notebook.parse(text), PATH)


def mistake(text: str) -> str:
    """What is said of the only cell that is wrong."""
    (problem,) = set(map(str, read(text).problems.values()))
    return problem


def test_options_that_cells_share_are_described_too():
    assert all(field.description for field in SharedOptions.model_fields.values())


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('\n```search\nquery = "a"\ntop_q = 3\n```\n', 4, "Did you mean 'top_k'"),
        ('```search\nquery = "a"\n\ntop_k = 0\n```\n', 4, "top_k: must be 1 or more"),
        ("```search\nquery = \n```\n", 2, "This is not TOML"),
        ('```search\na = """\n\n```\n', 3, "This is not TOML"),
        ("text\n\n```search\n```\n", 3, "Give one of query, query_id, pick: none is there"),
        ('```search\nquery = "a"\nquery_id = "q"\n```\n', 2, "query and query_id are there"),
        ('```evaluate\nmetrics = ["ncdg@10"]\n```\n', 2, "ndcg"),
        ('```evaluate\nvariants = [\n  "bm52",\n]\n```\n', 2, "Did you mean 'bm25'"),
        ('```context\nquery = "a"\nvariant = { kind = "bm52" }\n```\n', 3, "Did you mean 'bm25'"),
        ('```fusion\nlegs = ["bm25", "vector"]\nfusions = [{ method = "rff" }]\n```\n', 3, "Did you mean 'rrf'"),
        ('```fusion\nsplit = "train"\nconfirm = true\n```\n', 2, "Confirm on another split"),
        ("```search\nquery = 'a'\n", 1, "The cell is not closed"),
        ("```notebook\ncolection = 'x'\n```\n```search\nquery = 'a'\n```\n", 2, "Did you mean 'collection'"),
        ("```notebook\n```\n```notebook\n```\n", 3, "this is the second"),
        ("```search\nquery = 'a'\n```\n```notebook\n```\n", 4, "stands before all others"),
        ("```notebook\n[[variant]]\n[[variant.leg]]\nkind = 'bm25'\n```\n", 2, "has no name"),
        ("```search a\nquery = 'a'\n```\n```search a\nquery = 'a'\n```\n", 4, "Two cells are called 'a'"),
    ],
)
def test_a_mistake_is_told_with_its_file_and_line_and_the_way_out(text, line, said):
    problem = mistake(text)
    assert problem.startswith(f"book.md, line {line}: ")
    assert said in problem


def test_one_mistake_leaves_the_other_cells_valid():
    made = read('```search\n```\n```search\nquery = "a"\n```\n')
    assert len(made.problems) == 1
    assert len(made.specs) == 1


def test_variants_of_the_notebook_are_known_by_name_and_unknown_ones_are_told_beside_them():
    header = '```notebook\n[[variant]]\nname = "ours"\nchunks = "small"\n[[variant.leg]]\nkind = "bm25"\n```\n'
    assert read(f'{header}```evaluate\nvariants = ["ours"]\n```\n').problems == {}
    assert "Did you mean 'ours'" in mistake(f'{header}```evaluate\nvariants = ["our"]\n```\n')


def test_a_variants_file_is_meant_from_the_notebooks_folder(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\n[[leg]]\nkind = "bm25"\n')
    book = Notebook.parse('```evaluate\nvariants = ["mine.toml"]\n```\n')
    assert parse_cells(book, tmp_path / "book.md").problems == {}
    assert parse_cells(book, tmp_path / "elsewhere" / "book.md").problems != {}


@pytest.mark.parametrize("name", shipped_names())
def test_notebooks_that_ship_are_valid_and_say_what_they_are_over(name):
    book = Notebook.parse(shipped(name).read_text(encoding="utf-8"))
    made = parse_cells(book, shipped(name))
    assert made.problems == {}
    assert book.doubts == ()
    assert made.shared.collection == "handbook"
    assert book.title
    assert all(spec.title for spec in made.specs.values())


def test_four_notebooks_ship():
    assert shipped_names() == ["chunking", "fusion-weights", "new-variant", "tour"]


def test_the_kind_of_the_shared_cell_is_no_kind_that_runs():
    assert HEADER not in kinds
    assert issubclass(SharedOptions, BaseModel)


def test_a_file_that_a_cell_names_is_told_from_another_without_being_held_in_memory(tmp_path):
    """Whoever wrote the notebook may name a file that has no room there."""
    context = CellContext(cast("Store", None), SharedOptions(), tmp_path)  # which a file has no need of
    with (tmp_path / "large.run").open("wb") as large:
        large.truncate(64 * 2**20)
    tracemalloc.start()
    try:
        before = bridge.run(resolve_runs(context, ["large.run"], "docs", ""))
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()
    with (tmp_path / "large.run").open("r+b") as large:
        large.write(b"x")
    assert bridge.run(resolve_runs(context, ["large.run"], "docs", "")) != before
