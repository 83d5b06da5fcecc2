"""The gate of the workbench: what it makes of `access.toml` as that stands, and what it tells the log of it."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.app.test_serving import gate
from workbench.server import follow_roles
from workbench.server.access import AccessControl

ADA = {"is_logged_in": True, "sub": "1", "email": "ada@example.org", "email_verified": True}
PEOPLE = '[people]\n"ada@example.org" = "editor"\n'


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """What the log tells without having been asked for more, and why."""
    return [(made.getMessage(), made.fields["says"]) for made in caplog.records if made.levelno >= logging.WARNING]  # type: ignore[attr-defined]


@pytest.fixture
def made(tmp_path: Path) -> AccessControl:
    return gate(tmp_path, PEOPLE)


def write(made: AccessControl, text: str) -> None:
    """As another file, whatever the clock of the disk says."""
    other = made.file.with_suffix(".new")
    other.write_text(text)
    other.replace(made.file)


def test_a_mistake_lets_nobody_in_and_the_log_says_why_once_until_the_file_changes(made, caplog):
    assert made.role_of(ADA) == "editor"
    for _ in range(2):
        write(made, PEOPLE.replace("editor", "edtor"))
        for _ in range(3):
            assert made.role_of(ADA) is None
            assert not made.lets_in(ADA)
            assert made.readable() is None
    assert [event for event, _ in told(caplog)] == ["access_unreadable"] * 2
    assert all("line 2" in says and "must be one of" in says for _, says in told(caplog))
    write(made, PEOPLE)
    assert made.role_of(ADA) == "editor"


def test_a_file_that_is_gone_is_told_each_time_that_it_goes(made, caplog):
    for _ in range(2):
        made.file.unlink()
        assert not made.lets_in(ADA)
        write(made, PEOPLE)
        assert made.lets_in(ADA)
    assert [event for event, _ in told(caplog)] == ["access_unreadable"] * 2


def test_whose_address_does_not_count_is_told_once_without_their_name(made, caplog):
    unverified = {key: value for key, value in ADA.items() if key != "email_verified"}
    stranger = {**unverified, "sub": "2", "email": "eve@example.org"}
    for who in (unverified, unverified, stranger):
        assert made.role_of(who) is None
    ((event, says),) = told(caplog)
    assert event == "address_not_counted"
    assert "unverified_emails" in says
    assert "ada" not in str(vars(caplog.records[0]))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a file to another account")
def test_a_file_that_becomes_another_accounts_while_pages_are_served_lets_nobody_in(made):
    assert made.lets_in(ADA)
    before = made.stamp()
    os.chown(made.file, 65534, -1)
    assert made.stamp() != before
    assert not made.lets_in(ADA)


@pytest.mark.slow
def test_a_mistake_is_told_when_it_is_made_and_not_at_somebodys_next_click(made, caplog: Any):
    with follow_roles.following_roles(made):
        until = time.monotonic() + 20
        while not told(caplog) and time.monotonic() < until:
            write(made, "people = 3")  # again: what stood there when the watch began is no change
            time.sleep(0.1)
    assert {event for event, _ in told(caplog)} == {"access_unreadable"}
