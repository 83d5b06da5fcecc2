"""docs/measuring.md says what there is: its suite is one, and its commands are commands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from evals.measures import MEASURES, Metric
from evals.suites.suite import Suite
from workbench.cli import app

TEXT = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\s*(?:- run: )?rankbook (.+?)(?:  .*)?$", TEXT, re.MULTILINE)
TREE = get_command(app)


def test_the_suite_in_the_docs_is_valid():
    (written,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    suite = Suite.from_toml(written)
    assert len(suite.all_variants()) == 9
    assert suite.gate
    assert suite.gate.variants == (suite.tune[0].name,)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_and_option_in_the_docs_exists(line):
    words = line.split()
    command, path = TREE, []
    while hasattr(command, "commands"):
        path.append(words.pop(0))
        assert path[-1] in command.commands, path
        command = command.commands[path[-1]]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("-")} <= known


def test_every_metric_that_there_is_stands_in_the_table():
    words = re.findall(r"`([a-z][a-z0-9_-]*(?:\.\d+)?(?:@\d+)?)`", TEXT)
    named = {Metric.parse(each).measure for each in words if re.split(r"[@.]", each)[0] in MEASURES}
    assert named >= {measure for measure in MEASURES if not measure.startswith("dcg")}
