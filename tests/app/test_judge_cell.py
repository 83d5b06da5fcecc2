"""The judge cell: what it tells without a screen, when that is stale, and the way to the page on exactly its pool."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import ast
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store.engine import Store
from core.store.passages import read_items
from evals.collections import load
from evals.display import Table
from evals.evaluation.context import open_eval
from evals.judging import judgements as judging
from evals.judging.judgements import Judgement
from evals.lab.lab import Lab
from evals.presentation.types import Output, Text
from tests.app.test_judging_page import SOURCE, UNJUDGED
from tests.app.test_search_page import visit, written
from workbench import session
from workbench.notebooks import export_html, export_jupyter
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells import PythonExport
from workbench.notebooks.document import Notebook
from workbench.notebooks.parsing import parse_cells
from workbench.notebooks.runner import Runner
from workbench.screens.notebook.cell_views import VIEWS, CellView
from workbench.services import judging as judging_shown
from workbench.services.pool_request import JudgeState

POOL = '```judge it\nvariants = ["bm25", "fulltext"]\ndepth = 10\n```\n'
BETWEEN = '```judge it\nbetween = ["bm25", "fulltext"]\njudge = "ada"\n```\n'


@pytest.fixture
def name(store: Store) -> Iterator[str]:
    """A collection of this test's own, with holes in its labels."""
    made = f"judge cell {uuid.uuid4().hex[:8]}"
    bridge.run(load.load_collection(store, made, SOURCE, load.LoadPlan(models=())))
    yield made
    bridge.run(load.drop(store, made))


def header(name: str) -> str:
    return f'```notebook\ncollection = "{name}"\nsplit = "test"\n```\n\n'


def run(store: Store, name: str, text: str, key: str = "") -> CellState:
    runner = Runner(store, Notebook.parse(header(name) + text), key=key or uuid.uuid4().hex)
    (result,) = bridge.run(runner.run())
    return result


def output(store: Store, name: str, text: str, key: str = "") -> Output:
    result = run(store, name, text, key)
    assert result.output is not None, result.problem
    return result.output


def tables(found: Output) -> dict[str, Table]:
    return {block.title: block for block in found.blocks if isinstance(block, Table)}


def judged(store: Store, name: str, judge: str, grade: int, *, query: str = "q2", item: str = "descale") -> None:
    view = bridge.run(open_eval(store, name)).view
    version = bridge.run(read_items(store, view, [item]))[item].version
    bridge.run(judging.save_judgements(store, name, [Judgement(query, item, judge, grade, version)]))


def test_it_tells_how_much_of_the_pool_is_judged_and_what_is_next(store, name):
    found = output(store, name, POOL)
    assert found.headline.endswith(f"pairs in the top 10 are judged. {UNJUDGED} are left.")
    scores = tables(found)["Scores so far"]
    assert [row[0].text for row in scores.rows] == ["bm25", "fulltext"]
    assert scores.columns == ("variant", "ndcg@10", "labels alone", "judged@10")
    assert {row[0].text for row in tables(found)["Next to judge"].rows} <= {each.text for each in SOURCE.asked}
    assert found.values["pool"]["pairs"] - found.values["pool"]["judged"] == found.values["left"] == UNJUDGED


def test_a_judgement_makes_another_output_and_nothing_new_the_same(store, name):
    key = uuid.uuid4().hex
    first = output(store, name, POOL, key)
    assert run(store, name, POOL, key).kept
    judged(store, name, "ada", 3)
    second = run(store, name, POOL, key)
    assert not second.kept
    assert second.output is not None
    assert f"{UNJUDGED - 1} are left" in second.output.headline
    assert first.headline != second.output.headline


def test_agreement_is_told_once_two_have_judged_the_same(store, name):
    judged(store, name, "ada", 3)
    judged(store, name, "bob", 1)
    found = output(store, name, POOL)
    assert tables(found)["Judges two by two"].rows[0][0].text == "ada and bob"
    assert any(isinstance(block, Text) and "Krippendorff" in block.text for block in found.blocks)


def test_two_are_settled_by_a_cell_with_between(store, name):
    found = output(store, name, BETWEEN)
    assert "bm25" in found.headline
    assert "fulltext" in found.headline
    sitting = JudgeState.of(found.values["sitting"])
    assert (sitting.what, sitting.judge, sitting.begun) == ("settle", "ada", "1")


def test_the_page_is_opened_on_exactly_the_runs_of_the_cell(store, name):
    own = f"{POOL[:-4]}seed = 3\n```\n".replace('"bm25", "fulltext"', '{ name = "mine", leg = [{ kind = "bm25" }] }')
    link = JudgeState.of(output(store, name, own).values["sitting"]).link("judge")
    said = {key: values[0] for key, values in parse_qs(urlsplit(link).query).items()}
    assert link.startswith("judge?")
    assert (said["collection"], said["split"], said["depth"]) == (name, "test", "10")
    ground = bridge.run(open_eval(store, name))
    (entry,) = [bridge.run(judging_shown.resolve_entry(ground, "test", each)) for each in JudgeState.of(said).entries]
    assert entry.name == "mine"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        ("```judge it\n```\n", "Say whose results are judged"),
        ('```judge it\nvariants = ["bm25"]\nbetween = ["bm25", "vector"]\n```\n', "Say whose results are judged"),
        ('```judge it\nvariants = ["bm25"]\nagain = true\n```\n', "name the `judge`"),
        ('```judge it\nvariants = ["bm26"]\n```\n', "Did you mean 'bm25'"),
        ('```judge it\nvariants = ["bm25"]\nmetric = "fame@10"\n```\n', "fame"),
        ('```judge it\nbetween = ["bm25", "fulltext"]\nmetric = "mrr@10"\n```\n', "does not add up over ranks"),
    ],
)
def test_a_mistake_is_a_sentence_with_the_way_out(store, name, cell, said):
    result = run(store, name, cell)
    assert result.output is None
    assert said in result.problem


@pytest.mark.parametrize("text", [POOL, BETWEEN])
def test_it_goes_to_html_and_to_python_that_runs(store, name, text):
    notebook = Notebook.parse(header(name) + text)
    read = parse_cells(notebook, None)
    result = run(store, name, text)
    assert "Scores so far" in export_html.render(notebook, [result])
    assert "lab.pool" in export_jupyter.render(notebook, read, Path(), [result])
    (spec,) = [result.spec]
    assert spec is not None
    source = spec.python(PythonExport(read.shared, Path()))
    ast.parse(source)
    pool = eval(source, {"lab": Lab(name, store=store, progress=False), "variants": {}})
    assert result.output is not None
    assert len(pool) == result.output.values["left"]


# -- its view ----------------------------------------------------------------------------------------------------------


def view(text: str) -> None:
    from tests.app.test_judge_cell import play

    play(text)


def play(text: str) -> None:
    runner = Runner(session.store(), Notebook.parse(text), key="judge view")
    (result,) = bridge.run(runner.run())
    assert result.output is not None
    assert result.spec is not None

    def unused(*_: Any) -> None:
        st.session_state["changed"] = True

    VIEWS["judge"](CellView(result.cell, result.spec, result.output, runner.context, (), change=unused, add=unused))


def test_its_view_draws_the_blocks_and_leads_to_the_page(store, name):
    page = visit(AppTest.from_function(view, args=(header(name) + POOL,), default_timeout=60))
    assert f"{UNJUDGED} are left" in written(page)
    (link,) = page.get("link_button")
    assert link.proto.label == f"Judge the {UNJUDGED} that are left"
    assert parse_qs(urlsplit(link.proto.url).query)["collection"] == [name]
