"""What the help teaches works: every example of every command is run as it stands, and ends well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import TEST_DSN, make_home, remove_home
from tests.drills.help.examples import ordered

HERE = Path(__file__).parents[3]


@pytest.fixture
def home() -> Iterator[Path]:
    made = make_home()
    yield made
    remove_home(made)


@pytest.mark.skipif(TEST_DSN is not None, reason="the examples have a home and a server of their own")
def test_every_example_of_the_help_ends_well(home: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "RANKBOOK_HOME": str(home), "PYTHONPATH": str(HERE)}
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.drills.help.examples"],
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
