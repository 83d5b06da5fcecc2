"""A copy of the repository with every example of CONTRIBUTING.md installed as it says: everything stays green."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contributed import examples, installed, run
from tests.effort import TIMES

KINDS = ("substring", "discount", "text_lines", "query_kinds", "graded_rbp")  # what the examples register


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Installed, formatted, and with docs/ written anew."""
    return installed(tmp_path_factory.mktemp("contributed"))


def test_the_contracts_of_their_kinds_hold_for_them(copy: Path) -> None:
    told = run(copy, "-m", "pytest", "tests/contracts", "-q", "-k", " or ".join(KINDS), "-p", "no:cacheprovider")
    assert " passed" in told


def test_they_pass_the_linters_and_the_type_checker(copy: Path) -> None:
    run(copy, "-m", "ruff", "check", ".")
    run(copy, "-m", "ruff", "format", "--check", ".")
    run(copy, "-c", "from importlinter.cli import lint_imports_command as command; command()")
    run(copy, "-m", "mypy", *(each.file for each in examples().values()))


def test_they_are_in_the_reference(copy: Path) -> None:
    page = (copy / "docs" / "reference.md").read_text(encoding="utf-8")
    assert [kind for kind in KINDS if f"### `{kind}`" not in page and f"| `{kind}` |" not in page] == []


@pytest.mark.timeout(3600)
def test_the_fast_tier_stays_green(copy: Path) -> None:
    """A sample runs the folders that know the plug-ins best; `make drills ARGS=all` the whole tier."""
    part = () if TIMES > 3 else ("tests/unit", "tests/evals/test_arrays.py")
    run(copy, "-m", "pytest", "--fast", "-q", "-x", "-p", "no:cacheprovider", *part)
