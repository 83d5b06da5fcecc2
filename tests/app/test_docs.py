"""README, docs/ and SECURITY.md describe what exists: commands, options, metrics and the suite in docs/measuring.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.main import get_command

from evals.measures import MEASURES, Metric
from evals.suites.suite import Suite
from tests.docs_pages import reference
from workbench.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MEASURING = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# At the beginning of a line, after settings of the environment or in a step of CI; a comment follows two spaces.
COMMAND = re.compile(r"^\s*(?:- run: |(?:[A-Z_]+=\S+ )*(?:old/bin/)?)rankbook(?: ([^|>\n]+?))?(?:  .*)?$", re.MULTILINE)
LINES = sorted(
    {
        (page.name, re.split(r" [|>] ", line)[0].strip())
        for page in PAGES
        for language, block in FENCE.findall(page.read_text(encoding="utf-8"))
        if language in {"", "yaml"}
        for line in COMMAND.findall(block)
    }
)
TREE = get_command(app)
SHIPPED = ROOT / "evals" / "measures" / "shipped.py"  # one that is added is in the reference


def test_the_suite_in_the_docs_is_valid():
    (written,) = re.findall(r"```toml\n(.*?)```", MEASURING, re.DOTALL)
    suite = Suite.from_toml(written)
    assert len(suite.all_variants()) == 9
    assert suite.gate
    assert suite.gate.variants == (suite.tune[0].name,)


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}" for page, line in LINES])
def test_every_command_and_option_in_the_docs_exists(page, line):
    words = line.split()
    command, path = TREE, []
    while hasattr(command, "commands") and words and not words[0].startswith("-"):
        path.append(words.pop(0))
        assert path[-1] in command.commands, path
        command = command.commands[path[-1]]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word.split("=")[0] for word in words if word.startswith("-")} <= known


def test_commands_are_found_on_every_page_that_has_some():
    assert len(LINES) > 80
    assert {page for page, _ in LINES} >= {"README.md", "documents.md", "measuring.md", "postgres.md", "variants.md"}


def test_the_reference_is_what_make_docs_writes():
    assert (ROOT / "docs" / "reference.md").read_text(encoding="utf-8") == reference()


def test_the_table_of_metrics_has_every_measure_that_is_shipped():
    words = re.findall(r"`([a-z][a-z0-9_-]*(?:\.\d+)?(?:@\d+)?)`", MEASURING)
    named = {Metric.parse(each).measure for each in words if re.split(r"[@.]", each)[0] in MEASURES}
    shipped = set(re.findall(r'^register\(\n?\s*"([\w-]+)"', SHIPPED.read_text(encoding="utf-8"), re.MULTILINE))
    assert named >= {measure for measure in shipped if not measure.startswith("dcg")}
