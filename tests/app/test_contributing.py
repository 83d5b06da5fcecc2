"""The examples of CONTRIBUTING.md: what each adds works, and is shown wherever its kind is.

They are registered in this process. `tests/drills/packaging/test_contributed.py` installs them in a copy, as it says.
"""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.context import RequestContext
from core.errors import SpecError, UnknownName
from core.fusion import LegRanking, fusion_from, fusions
from core.legs import legs
from core.pipeline.retriever import search
from core.store import collections
from core.store.engine import Store
from core.store.ingest import Ingest
from core.types import Candidate, Item, Row
from core.variant import Variant
from evals.display import Table
from evals.labels import query_sets
from evals.measures import MEASURES, base
from evals.metrics.scoring import score_rankings
from evals.sources import source_from, sources
from tests.contributed import ROOT, examples
from tests.docs_pages import reference
from tests.fakes import HashingEmbedder, rows
from workbench.notebooks.cells import kinds, ordered_kinds
from workbench.notebooks.document import Notebook
from workbench.notebooks.runner import Runner
from workbench.screens import registry
from workbench.services.form_fields import form_fields

EXAMPLES = examples()
NAMES = {"leg": "substring", "fusion": "discount", "source": "text_lines", "cell": "query_kinds"}
MEASURE, PAGE = "measure", "page"
REGISTRIES = (legs, fusions, sources, kinds)


@pytest.fixture
def contributed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All examples, registered for the time of one test."""
    for each in REGISTRIES:
        monkeypatch.setattr(each, "_entries", dict(each._entries))
    for example in EXAMPLES.values():
        module = ModuleType(example.file.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(example.code, example.file, "exec"), module.__dict__)
        if example.what == PAGE:
            monkeypatch.setattr(registry, "PAGES", (*registry.PAGES, module.__dict__["PAGE"]))
    yield
    del base._REGISTERED["graded_rbp"]


def test_each_example_is_one_file_and_one_line_that_imports_it() -> None:
    assert set(EXAMPLES) == {*NAMES, MEASURE, PAGE}
    for each in EXAMPLES.values():
        package, _, module = each.file.removesuffix(".py").rpartition("/")
        dotted = package.replace("/", ".")
        assert each.line == (f'    "{dotted}.{module}",' if each.what == PAGE else f"from {dotted} import {module}")
        assert each.registry == f"{package}/{'registry' if each.what == PAGE else '__init__'}.py"
        assert (ROOT / each.registry).is_file()
        assert not (ROOT / each.file).exists()


@pytest.mark.usefixtures("contributed")
def test_the_leg_finds_what_contains_the_query(store: Store, name: str, embedder: HashingEmbedder) -> None:
    items = [
        Item("late", "First some words, then hold the button."),
        Item("soon", "Hold the button."),
        Item("no", "Let go."),
    ]
    view = bridge.run(collections.create(store, name))
    bridge.run(Ingest(store, view, {}, embedder).run(rows(items)))

    variant = Variant.of_leg(legs["substring"](), chunks="items")
    found = bridge.run(search(RequestContext(store, view), "hold the button", variant))

    assert [hit.id for hit in found.hits] == ["soon", "late"]


@pytest.mark.usefixtures("contributed")
def test_the_fusion_adds_up_discounted_ranks() -> None:
    one = LegRanking("one", 1.0, [Candidate("a", 9.0), Candidate("b", 8.0)])
    two = LegRanking("two", 1.0, [Candidate("b", 0.9), Candidate("c", 0.8)])
    fused = fusion_from({"method": "discount"}).fuse([one, two])
    assert [hit.id for hit in fused] == ["b", "a", "c"]
    assert fused[1].score == 1.0


@pytest.mark.usefixtures("contributed")
def test_the_source_reads_a_document_a_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Hold the button.\n\nLet go.\n", encoding="utf-8")
    read = list(source_from({"kind": "text_lines", "path": str(tmp_path / "notes.txt")}).items())
    assert [(row.value.id, row.value.text) for row in read if isinstance(row, Row)] == [
        ("1", "Hold the button."),
        ("3", "Let go."),
    ]


@pytest.mark.usefixtures("contributed")
def test_a_misspelt_name_is_refused_with_the_new_one() -> None:
    for each, name in zip(REGISTRIES, NAMES.values(), strict=True):
        with pytest.raises(UnknownName, match=f"Did you mean {name!r}"):
            each[f"{name}s"]  # type: ignore[index]
    with pytest.raises(SpecError, match="shortest"):
        Variant.from_data({"leg": [{"kind": "substring", "shortest": 0}]})


@pytest.mark.usefixtures("contributed")
def test_a_form_offers_the_new_ones_with_their_descriptions() -> None:
    tagged = {each.name: each.tagged for each in form_fields(Variant) if each.tagged}
    assert "discount" in tagged["fusion"].registry
    shortest = next(each for each in form_fields(legs["substring"]) if each.name == "shortest")
    assert (shortest.kind, shortest.default, shortest.least) == ("whole", 3, 1)
    assert shortest.help == "Queries of fewer characters find nothing."


@pytest.mark.usefixtures("contributed")
def test_the_measure_scores_a_ranking_and_says_how() -> None:
    found = score_rankings({"q": {"a": 2, "b": 1}}, {"q": ["b", "x", "a"]}, ["graded_rbp@10"])
    assert found.of("graded_rbp@10")["q"] == pytest.approx(0.2 * (1 + 2 * 0.64))
    assert "graded_rbp" in MEASURES
    assert "| `graded_rbp` | Graded rank-biased precision" in reference()


@pytest.mark.usefixtures("contributed")
def test_the_cell_counts_the_queries_of_each_kind(store: Store) -> None:
    notebook = Notebook.parse('```notebook\ncollection = "kettles"\n```\n\n```query_kinds\nleast = 1\n```\n')
    (state,) = bridge.run(Runner(store, notebook, key=uuid.uuid4().hex).run())
    assert state.output, state.problem
    (table,) = state.output.blocks
    assert isinstance(table, Table)
    counted = sum(int(cells[1].text) for cells in table.rows)
    assert 0 < counted <= len(bridge.run(query_sets.load(store, "kettles")).queries)
    assert "query_kinds" in ordered_kinds()
    assert kinds["query_kinds"].place > kinds["judge"].place


def draw(path: str) -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.registry import PAGES

    with feedback.draw_errors():
        next(page for page in PAGES if page.path == path).render(session.store())


def drawn(path: str, **address: str) -> AppTest:
    """A page of the registry, at an address."""
    app = AppTest.from_function(draw, default_timeout=60, args=(path,))
    app.query_params.update(address)
    app.run()
    assert not app.exception
    return app


@pytest.mark.usefixtures("contributed")
def test_the_page_draws_what_its_address_says(store: Store) -> None:
    page = drawn("kinds", collection="kettles")
    assert page.selectbox[0].value == "kettles"
    assert sum(page.dataframe[0].value["queries"]) == len(bridge.run(query_sets.load(store, "kettles")).queries)
    page.selectbox[0].select("no vectors").run()
    assert page.query_params["collection"] == "no vectors"


@pytest.mark.usefixtures("contributed", "store")
def test_the_collections_page_offers_the_source() -> None:
    (kinds,) = [each for each in drawn("collections", add="path").selectbox if each.label == "Read as"]
    assert "text_lines" in kinds.options


@pytest.mark.usefixtures("contributed")
def test_the_reference_has_an_entry_of_each() -> None:
    page = reference()
    for name in NAMES.values():
        assert f"### `{name}`\n" in page
    assert "Units that contain the query as it was typed; the earlier, the better." in page
    assert "| `shortest` | `3` | Queries of fewer characters find nothing. |" in page
