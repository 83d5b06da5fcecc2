"""What is told of the packages that Rankbook stands on: known holes, and what a build brings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "supply_chain.py"
HOLE = {"id": "PYSEC-1", "aliases": ["CVE-1"], "fix_versions": ["1.2"], "description": "bad"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rankbook_supply_chain", SCRIPT)
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def report(*known: tuple[str, list[dict[str, Any]]], skipped: tuple[str, ...] = ()) -> dict[str, Any]:
    """As pip-audit writes it."""
    found = [{"name": name, "version": "1.0", "vulns": holes} for name, holes in known]
    return {"dependencies": [*found, *({"name": name, "skip_reason": "not found"} for name in skipped)]}


def test_known_holes_are_listed_with_the_version_that_mends_them(script):
    made = report(("some-package", [HOLE, {**HOLE, "fix_versions": []}]), ("other", []), skipped=("ours",))
    said = script.audit({"some-package": "1.0", "other": "1.0", "ours": "1.0"}, lambda service, packages: made)
    assert said == [
        "some-package 1.0: PYSEC-1 CVE-1; mended in 1.2.",
        "some-package 1.0: PYSEC-1 CVE-1; mended in no version yet.",
        "2 known holes in 2 packages that were looked up.",
        "1 could not be looked up: ours.",
    ]


@pytest.mark.parametrize("made", [None, {}, report(skipped=("a", "b"))])
def test_where_no_list_can_be_reached_nothing_is_said_to_be_sound(script, made):
    asked = []

    def look(service: str, packages: dict[str, str]) -> Any:
        asked.append(service)
        return made

    (said,) = script.audit({"a": "1", "b": "2"}, look)
    assert "cannot be reached" in said
    assert asked == ["pypi", "osv"], "another list of the same was tried"


def test_versions_are_those_of_the_index_and_our_own_package_is_none_of_them(script):
    found = script.installed()
    assert "rankbook" not in found
    assert "streamlit" in found
    assert not any("+" in version for version in found.values())


@pytest.mark.slow
def test_what_a_build_brings_is_all_that_it_needs_and_nothing_of_its_makers(script):
    needed = script.needs("rankbook", script.EXTRAS)
    assert {"torch", "streamlit", "starlette", "numpy", "authlib", "joserfc", "distributed"} <= needed
    assert not needed & {"rankbook", "pytest", "mypy", "ruff", "pip-audit", "playwright"}


@pytest.mark.slow
def test_the_list_of_a_build_keeps_who_needs_whom(script):
    def named(name: str, *needs: str) -> tuple[dict[str, Any], dict[str, Any]]:
        return {"name": name, "bom-ref": f"{name}=="}, {
            "ref": f"{name}==",
            "dependsOn": [f"{each}==" for each in needs],
        }

    parts = [named("streamlit", "starlette", "pytest"), named("starlette"), named("pytest"), named("rankbook")]
    made = {
        "metadata": {"component": {"bom-ref": "root", "name": "rankbook"}},
        "components": [component for component, _ in parts],
        "dependencies": [{"ref": "root", "dependsOn": ["pytest=="]}, *(edge for _, edge in parts)],
    }
    kept = script.shipped(made)
    assert [each["name"] for each in kept["components"]] == ["streamlit", "starlette"]
    assert kept["dependencies"] == [
        {"ref": "root", "dependsOn": ["streamlit=="]},
        {"ref": "streamlit==", "dependsOn": ["starlette=="]},
        {"ref": "starlette==", "dependsOn": []},
    ]
