"""docs/python.md, run from top to bottom as it stands there; what a notebook would show at the end of a block, too."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.collections import load
from tests.conftest import TEST_DSN

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
COLLECTION = "coffee"
KINDS = (
    *("Lab", "SideBySide", "DataFrame", "Why", "Board", "Compared", "Board", "LabSweep", "Board", "Pool", "Board"),
    "DataFrame",
    "Statement",
)


@pytest.fixture
def beside(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A folder to write to, and a store without the collection, before and after."""
    monkeypatch.chdir(tmp_path)
    if TEST_DSN:
        monkeypatch.setenv("RANKBOOK_DSN", TEST_DSN)
    _drop(store)
    yield store
    _drop(store)


def _drop(store: Store) -> None:
    if bridge.run(collections.find(store, COLLECTION)):
        bridge.run(load.drop(store, COLLECTION))


def cell(code: str, names: dict[str, Any]) -> Any:
    """As a notebook runs a cell: the value of its last line, where that is an expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(PAGE), "exec"), names)
    return eval(compile(ast.Expression(last.value), str(PAGE), "eval"), names) if isinstance(last, ast.Expr) else None


@pytest.mark.slow
def test_the_worked_example_runs_and_shows_what_it_promises(beside: Store, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    shown = [
        (type(value).__name__, value._repr_html_()) for block in BLOCKS if (value := cell(block, names)) is not None
    ]

    assert [kind for kind, _ in shown] == [*KINDS]
    assert all(any(tag in html for tag in ("<table", "<div", "<pre")) for _, html in shown)
    printed = capsys.readouterr().out
    assert "e42" in printed
    assert "Too few queries to tell mine from bm25" in printed
    assert 'name = "tuned"' in printed
    assert "Too few labels to tune" in repr(names["swept"])
    assert names["board"].names == ("bm25", "vector", "mine")
