"""What the help teaches works: every example of every command is run as it stands, and ends well."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app.help_examples import LAST, NOT_RUN, TYPED, examples, ordered, tree
from tests.conftest import TEST_DSN, make_home

HERE = Path(__file__).parents[2]


def test_what_is_not_run_or_answered_is_an_example_still() -> None:
    lines = {each.line for each in examples()}
    assert {*NOT_RUN, *TYPED, *LAST} <= lines
    assert len(NOT_RUN) < len(lines) / 8
    assert sorted(ordered()) == sorted(lines - NOT_RUN.keys())


@pytest.mark.parametrize("line", [each for each in NOT_RUN if each != "rankbook"])
def test_what_is_not_run_is_parsed(line: str) -> None:
    command, words = tree(), shlex.split(line)[1:]
    while words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], [*words[1:], ""]
    command.make_context(command.name, [word for word in words if word])


@pytest.fixture
def home() -> Iterator[Path]:
    made = make_home()
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.skipif(TEST_DSN is not None, reason="the examples have a home and a server of their own")
def test_every_example_of_the_help_ends_well(home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "RANKBOOK_HOME": str(home), "PYTHONPATH": str(HERE)}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.app.help_examples"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-5000:]
    results = json.loads(ended.stdout)
    assert {each["line"]: each["said"] for each in results if each["code"]} == {}
    assert len(results) == len(ordered())
