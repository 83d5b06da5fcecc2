"""What commands print for other programs: to the letter in a pipe, harmless on a terminal."""

from __future__ import annotations

import io

import pytest

from workbench.commands import output

HOSTILE = "q1 0 d\x1b[2J\x1b]0;owned\x07\u202e 1\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_pipe_gets_every_letter(capsys: pytest.CaptureFixture[str]) -> None:
    output.raw(HOSTILE)
    assert capsys.readouterr().out == HOSTILE


def test_a_terminal_gets_nothing_that_could_take_it_over(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    output.raw(HOSTILE)
    shown = screen.getvalue()
    assert shown.endswith(" 1\n")
    assert all(letter == "\n" or letter.isprintable() for letter in shown)
