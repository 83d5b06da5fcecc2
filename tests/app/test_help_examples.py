"""What the drill `help` does not run of the help's examples is parsed here."""

from __future__ import annotations

import shlex

import pytest

from tests.drills.help.examples import LAST, NOT_RUN, TYPED, examples, ordered, tree


def test_what_is_not_run_or_answered_is_an_example_still() -> None:
    lines = {each.line for each in examples()}
    assert {*NOT_RUN, *TYPED, *LAST} <= lines
    assert len(NOT_RUN) < len(lines) / 6
    assert sorted(ordered()) == sorted(lines - NOT_RUN.keys())


@pytest.mark.parametrize("line", [each for each in NOT_RUN if each != "rankbook"])
def test_what_is_not_run_is_parsed(line: str) -> None:
    command, words = tree(), shlex.split(line)[1:]
    while words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], [*words[1:], ""]
    command.make_context(command.name, [word for word in words if word])
