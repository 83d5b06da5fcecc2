"""docs/commands.md lists every command that there is, and no other, by the first sentence of its help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from workbench.cli import app

TEXT = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
LISTED = re.findall(r"^\| `(rankbook [a-z -]+)` \| (.+) \|$", TEXT, re.MULTILINE)


def _commands(path: str, command: Any) -> Iterator[tuple[str, str]]:
    """In the order of `--help`: the commands of a group first, then its groups."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, _first_sentence(command.help)
        return
    for name, each in sorted(inner.items(), key=lambda pair: hasattr(pair[1], "commands")):
        yield from _commands(f"{path} {name}", each)


def _first_sentence(text: str) -> str:
    beginning = " ".join(text.partition("\n\n")[0].split())
    return re.split(r"(?<=[.?])\s", beginning, maxsplit=1)[0]


@pytest.mark.slow
def test_every_command_stands_in_the_list_with_what_its_help_says_and_no_other_does() -> None:
    assert list(_commands("rankbook", get_command(app))) == LISTED


def test_every_group_has_a_heading() -> None:
    groups = [name for name, each in get_command(app).commands.items() if hasattr(each, "commands")]  # type: ignore[attr-defined]
    assert re.findall(r"^## .*`rankbook ([a-z]+)`$", TEXT, re.MULTILINE) == groups
