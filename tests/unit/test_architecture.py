"""docs/architecture.md and CONTRIBUTING.md name modules, functions and classes that exist, and the layers that hold."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.contributed import examples

ROOT = Path(__file__).parents[2]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
PACKAGES = ("core", "evals", "workbench")
DOTTED = sorted(set(re.findall(r"`((?:core|evals|workbench)(?:\.\w+)+)`", ARCHITECTURE + GUIDE)))
CLASSES = sorted(set(re.findall(r"`([A-Z]\w*[a-z]\w*)`", ARCHITECTURE)))
PATHS = set(re.findall(r"`((?:core|evals|workbench|tests)/[\w/]+(?:\.\w+|/))`", ARCHITECTURE + GUIDE))
NEW = {each.file for each in examples().values()}  # which the guide has you write


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def defined(body: list[ast.stmt]) -> dict[str, list[ast.stmt]]:
    """Names that statements bind, imported ones included, each with the body of what it names."""
    names: dict[str, list[ast.stmt]] = {}
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names[node.name] = node.body
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names[node.target.id] = []
        elif isinstance(node, ast.Assign):
            names |= {each.id: [] for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            names |= {each.asname or each.name: [] for each in node.names}
    return names


def exists(dotted: str) -> bool:
    """A module or package, or what its source defines: nothing is imported for this."""
    path, rest = ROOT, dotted.split(".")
    while rest and (path / rest[0] / "__init__.py").is_file():
        path /= rest.pop(0)
    if rest and (path / f"{rest[0]}.py").is_file():
        path /= f"{rest.pop(0)}.py"
    elif (path / "__init__.py").is_file():
        path /= "__init__.py"
    else:
        return False
    body = tree(path).body
    for name in rest:
        names = defined(body)
        if name not in names:
            return False
        body = names[name]
    return True


@pytest.mark.parametrize(
    ("dotted", "there"),
    [
        ("core.legs.base.Leg.recall", True),
        ("core.legs", True),
        ("core.legs.base.Leg.telepathy", False),
        ("core.limbs", False),
        ("core.legs.legs", True),
    ],
)
def test_a_name_is_looked_up_in_the_source(dotted: str, there: bool) -> None:
    assert exists(dotted) is there


@pytest.mark.parametrize("dotted", DOTTED)
def test_a_module_or_function_that_is_named_exists(dotted: str) -> None:
    assert exists(dotted)


@pytest.mark.parametrize("path", sorted(PATHS - NEW))
def test_a_path_that_is_named_exists(path: str) -> None:
    assert (ROOT / path).exists()


def test_every_class_that_is_named_exists() -> None:
    modules = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    known = {name for path in modules for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE)}
    assert set(CLASSES) - known == set()
    assert len(CLASSES) > 20


@pytest.mark.parametrize("package", PACKAGES)
def test_the_layers_are_those_of_the_contracts(package: str) -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = [
        each
        for each in settings["tool"]["importlinter"]["contracts"]
        if each["type"] == "layers" and each.get("containers") == [package]
    ]
    section = ARCHITECTURE.partition(f"### The layers of `{package}`")[2].partition("\n#")[0]
    rows = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in re.findall(r"^\| `.*$", section, re.MULTILINE)]
    layers = [{each.strip(" ()") for each in re.split(r"[|:]", layer)} for layer in contract["layers"]]
    there = [{each for each in layer if exists(f"{package}.{each}")} for layer in layers]
    assert rows == [layer for layer in there if layer]
