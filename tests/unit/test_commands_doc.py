"""docs/commands.md lists every command that there is, and no other, by the first sentence of its help."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from tests.docs_pages import DOCS, LISTED, commands, with_commands
from workbench.cli import app

TEXT = (DOCS / "commands.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_every_command_stands_in_the_list_with_what_its_help_says_and_no_other_does() -> None:
    assert LISTED.findall(TEXT) == list(commands())


@pytest.mark.slow
def test_writing_the_tables_anew_mends_them_and_leaves_the_rest() -> None:
    without = re.sub(r"^\| `rankbook data add`.*\n", "| `rankbook data ad` | Misspelt. |\n", TEXT, flags=re.MULTILINE)
    assert without != TEXT
    assert with_commands(without) == TEXT


def test_every_group_has_a_heading() -> None:
    groups = [name for name, each in get_command(app).commands.items() if hasattr(each, "commands")]  # type: ignore[attr-defined]
    assert re.findall(r"^## .*`rankbook ([a-z]+)`$", TEXT, re.MULTILINE) == groups
