"""The worked example of CONTRIBUTING.md, run as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from core import bridge
from core.context import RequestContext
from core.legs import Leg, legs
from core.pipeline.retriever import search
from core.store import collections
from core.store.engine import Store
from core.store.ingest import Ingest
from core.types import Item
from core.variant import Variant
from tests.fakes import HashingEmbedder, rows

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def substring(monkeypatch: pytest.MonkeyPatch) -> type[Leg]:
    """The leg, registered for the time of one test."""
    (code,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    module = ModuleType("contributed_leg")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(legs, "_entries", dict(legs._entries))
    exec(compile(code, str(GUIDE), "exec"), module.__dict__)
    return legs["substring"]


def test_the_leg_of_the_contributors_guide_finds_what_holds_the_query(
    store: Store, name: str, embedder: HashingEmbedder, substring: type[Leg]
) -> None:
    items = [
        Item("late", "First some words, then hold the button."),
        Item("soon", "Hold the button."),
        Item("no", "Let go."),
    ]
    view = bridge.run(collections.create(store, name))
    bridge.run(Ingest(store, view, {}, embedder).run(rows(items)))

    variant = Variant.of_leg(substring(), chunks="items")
    found = bridge.run(search(RequestContext(store, view), "hold the button", variant))

    assert [hit.id for hit in found.hits] == ["soon", "late"]
