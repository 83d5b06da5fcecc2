"""A class name means one thing: no top-level class of the product is called as another is."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "evals", "workbench")
# Interfaces that were published under these names: the systems' results and the object that gives them.
PUBLISHED = {"ContextPack", "Retriever"}


def places() -> dict[str, list[str]]:
    """The modules that define a top-level class, by its name."""
    found = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    found[node.name].append(path.relative_to(ROOT).as_posix())
    return dict(found)


@pytest.mark.slow
def test_no_class_name_stands_twice() -> None:
    twice = {name: modules for name, modules in places().items() if len(modules) > 1}
    assert {name: modules for name, modules in twice.items() if name not in PUBLISHED} == {}
    for name in PUBLISHED:
        assert sum(not path.startswith("core/systems/") for path in twice[name]) <= 1
