"""The examples of CONTRIBUTING.md: what each adds works, and is shown wherever its kind is.

They are registered in this process. `tests/drills/packaging/test_contributed.py` installs them in a copy, as it says.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

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
from evals.sources import source_from, sources
from tests.contributed import ROOT, examples
from tests.docs_pages import reference
from tests.fakes import HashingEmbedder, rows
from workbench.services.form_fields import form_fields

EXAMPLES = examples()
NAMES = {"leg": "substring", "fusion": "discount", "source": "text_lines"}
REGISTRIES = (legs, fusions, sources)


@pytest.fixture
def contributed(monkeypatch: pytest.MonkeyPatch) -> None:
    """All examples, registered for the time of one test."""
    for registry in REGISTRIES:
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    for example in EXAMPLES.values():
        module = ModuleType(example.file.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(example.code, example.file, "exec"), module.__dict__)


def test_each_example_is_one_file_and_one_line_that_imports_it() -> None:
    assert set(EXAMPLES) == set(NAMES)
    for each in EXAMPLES.values():
        package, _, module = each.file.removesuffix(".py").rpartition("/")
        assert each.line == f"from {package.replace('/', '.')} import {module}"
        assert each.registry == f"{package}/__init__.py"
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
    for registry, name in zip(REGISTRIES, NAMES.values(), strict=True):
        with pytest.raises(UnknownName, match=f"Did you mean {name!r}"):
            registry[f"{name}s"]  # type: ignore[index]
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
def test_the_reference_has_an_entry_of_each() -> None:
    page = reference()
    for name in NAMES.values():
        assert f"### `{name}`\n" in page
    assert "Units that contain the query as it was typed; the earlier, the better." in page
    assert "| `shortest` | `3` | Queries of fewer characters find nothing. |" in page
