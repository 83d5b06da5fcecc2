"""SECURITY.md: every promise names a test that is there, and a protection that can be taken out to see it fail."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.drills.mutants.protections import PROTECTIONS, Protection

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", TEXT)))
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and not line.startswith("| promise")]

# Promises without a protection in `tests/drills/mutants`, and why.
UNPROTECTED = {
    "Memory and connections stay flat over thousands of operations.": "what leaks is no protection that is missing",
    "A store moves to PostgreSQL's next major version with all its rows, and ranks as before.": "its drill needs a "
    "second PostgreSQL, which few machines have",
}


@cache
def named_in(path: Path) -> frozenset[str]:
    """Functions of the file, those of its classes too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize(("file", "name"), NAMED, ids=[f"{Path(file).stem}::{name}" for file, name in NAMED])
def test_a_test_that_is_named_in_a_promise_exists(file: str, name: str) -> None:
    assert (ROOT / file).is_file(), file
    assert name in named_in(ROOT / file)


def test_every_promise_names_the_tests_that_hold_it() -> None:
    assert len(ROWS) > 30
    for row in ROWS:
        promise, tested = row.strip("| ").rsplit(" | ", 1)
        assert promise.endswith("."), row
        assert re.fullmatch(r"(?:`tests/[\w/]+\.py::test_\w+` ?)+", tested), row


def test_every_promise_has_a_protection_that_one_of_its_tests_misses_when_it_is_taken_out() -> None:
    missed = {each.test for each in PROTECTIONS}
    unprotected = {
        row.strip("| ").rsplit(" | ", 1)[0] for row in ROWS if not any(f"`{test}`" in row for test in missed)
    }
    assert unprotected == set(UNPROTECTED)
    assert missed <= {f"{file}::{name}" for file, name in NAMED}


@pytest.mark.parametrize("protection", PROTECTIONS, ids=lambda each: each.name)
def test_a_protection_can_be_taken_out_as_the_drill_does_it(protection: Protection) -> None:
    assert (ROOT / protection.file).read_text(encoding="utf-8").count(protection.text) == 1
    file, _, name = protection.stays.partition("::")
    assert name in named_in(ROOT / file)


def test_it_says_what_is_not_promised_and_how_to_report_without_an_address_that_nobody_reads() -> None:
    assert "## What is not promised" in TEXT
    assert "private security advisory" in TEXT
    assert not re.search(r"[\w.]+@[\w-]+\.\w+", TEXT)
