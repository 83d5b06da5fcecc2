"""Texts call a page by the name that the navigation shows, so that whoever reads one finds it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.screens import registry

ROOT = Path(__file__).parents[2]
MODULES = [path for part in ("core", "evals", "workbench") for path in sorted((ROOT / part).rglob("*.py"))]
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# What somebody would call a page: its title in any form, or what one does there.
CALLED = r"(?:search|notebooks?|weights?|collections?|variants?|runs?|judg\w*)"
# "A search page" is what the demo is, and none of these.
NAMED = re.compile(rf"(?<!\ba )\b({CALLED}) page\b|\bpages? (?:called |named )?({CALLED})\b", re.IGNORECASE)


def texts(path: Path) -> Iterator[str]:
    """What a module may show: its strings, of which docstrings are none."""
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source if " page" in source else "")
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    first = [node.body[0] for node in ast.walk(tree) if isinstance(node, documented) and node.body]
    docstrings = {id(each.value) for each in first if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def misnamed(text: str) -> list[str]:
    called = [one or other for one, other in NAMED.findall(text)] if "page" in text else []
    return [each for each in called if each not in registry.TITLES]


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("The search page says how.", ["search"]),
        ("judge them on the page Judging", ["Judging"]),
        ("Open the judging page", ["judging"]),
        ("The Collections page adds one, and the page Judge too.", []),
        ("Reload the page to go on", []),
    ],
)
def test_a_name_that_the_navigation_does_not_show_is_noticed(text: str, wrong: list[str]) -> None:
    assert misnamed(text) == wrong


@pytest.mark.slow
def test_every_text_calls_a_page_by_its_name() -> None:
    told = [(path, text) for path in MODULES for text in texts(path)]
    told += [(path, path.read_text(encoding="utf-8")) for path in PROSE]
    assert {f"{path.relative_to(ROOT)}: {wrong}" for path, text in told for wrong in misnamed(text)} == set()
    assert sum(" page" in text and bool(NAMED.search(text)) for _, text in told) > 5, "there are texts that name a page"
