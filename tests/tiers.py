"""The tiers of the tests: which test belongs to which, and which tests are too slow for theirs.

fast    tests/unit, contracts, evals, store and systems, but for tests marked `slow`. No torch, no browser.
test    those, the tests marked `slow`, tests/app and tests/browser: what a change must pass.
drills  tests/drills: what proves a promise by taking long.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Final, Literal

import pytest

Tier = Literal["fast", "test", "drills"]
TESTS: Final = Path(__file__).parent
PAGES: Final = ("browser", "app")  # the folders of tests that open pages, the slowest first
LIMITS: Final[dict[Tier, float]] = {"fast": 1.0, "test": 15.0, "drills": float("inf")}  # seconds a test


class NoTorch:
    """Importing torch takes longer than most tests of the fast tier together."""

    def find_spec(self, name: str, _path: Sequence[str] | None, _target: object = None) -> ModuleSpec | None:
        if name.partition(".")[0] in {"torch", "playwright"}:
            pytest.fail(f"A test of the fast tier must not import {name}. Mark it `slow`.")
        return None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="run the fast tier only")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--fast"):
        sys.meta_path.insert(0, NoTorch())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return (
        True
        if config.getoption("--fast") and collection_path.parent == TESTS and collection_path.name in PAGES
        else None
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Pages come first, in random order: with the longest files at the end one process would work on alone."""
    if config.getoption("--fast"):
        config.hook.pytest_deselected(items=[item for item in items if tier(item.nodeid, item.keywords) != "fast"])
        items[:] = [item for item in items if tier(item.nodeid, item.keywords) == "fast"]
    items.sort(key=lambda item: PAGES.index(folder(item.nodeid)) if folder(item.nodeid) in PAGES else len(PAGES))


def pytest_collection_finish() -> None:
    """Thousands of tests and what they import stay to the end: the garbage collector need not look at them."""
    gc.freeze()


def folder(nodeid: str) -> str:
    return nodeid.removeprefix("tests/").partition("/")[0]


def tier(nodeid: str, keywords: Iterable[str]) -> Tier:
    if folder(nodeid) == "drills":
        return "drills"
    return "test" if folder(nodeid) in PAGES or "slow" in keywords else "fast"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Fails nothing: how long a test takes hangs on what else the machine does."""
    reports = [each for several in terminalreporter.stats.values() for each in several]
    calls = [each for each in reports if isinstance(each, pytest.TestReport) and each.when == "call"]
    slow = [each for each in calls if each.duration > LIMITS[tier(each.nodeid, each.keywords)]]
    if slow:
        terminalreporter.section("too slow for their tier")
    for report in sorted(slow, key=lambda each: -each.duration):
        of = tier(report.nodeid, report.keywords)
        terminalreporter.line(f"{report.duration:6.2f} s, {LIMITS[of]:.0f} s in the tier `{of}`: {report.nodeid}")
