"""The page of whoever signed in and does not come in: it says why, and nothing of what the file says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from tests.app.test_serving import gate
from tests.app.test_serving_roles import words
from workbench.server.access import AccessControl
from workbench.server.sign_ins import SignIns

ADA = {"is_logged_in": True, "sub": "1", "email": "ada@example.org", "name": "Ada"}
GATES: list[AccessControl] = []


def draw(told: dict[str, object]) -> None:
    from tests.app.test_sign_in_page import GATES
    from workbench.components import sign_in

    assert GATES[-1].role_of(told) is None
    sign_in.draw(GATES[-1], told)


def seen(folder: Path, access: str, sign_ins: SignIns | None = None, **more: Any) -> str:
    GATES[:] = [gate(folder, access, sign_ins)]
    app = AppTest.from_function(draw, args=({**ADA, **more},))
    app.run()
    assert not app.exception
    return words(app)


def test_a_mistake_in_the_file_is_told_as_such_and_what_it_says_is_not(tmp_path):
    said = seen(tmp_path, '[people]\n"planted@example.org" = "boss"\n')
    assert "the file that says who may do what has a mistake" in said
    assert "Ask whoever runs this workbench" in said
    assert "no role here yet" not in said
    assert "planted" not in said
    assert "boss" not in said


@pytest.mark.parametrize("named", ["ada", "eve"])
def test_an_address_that_nobody_vouches_for_is_told_as_such_whether_the_file_names_it_or_not(tmp_path, named):
    said = seen(tmp_path, f'[people]\n"{named}@example.org" = "editor"\n')
    assert "does not say that your e-mail address is verified" in said
    assert "Ask whoever runs this workbench" in said


@pytest.mark.parametrize(("more", "key"), [({"email_verified": True}, ""), ({}, "unverified_emails = true\n")])
def test_who_has_no_role_though_their_address_counts_is_told_that_alone(tmp_path, more, key):
    said = seen(tmp_path, f'{key}[people]\n"eve@example.org" = "editor"\n', **more)
    assert "no role here yet" in said
    assert "verified" not in said


def test_who_comes_with_a_sign_in_that_has_ended_is_told_so_and_may_sign_in_again(tmp_path):
    said = seen(tmp_path, 'default = "viewer"', SignIns(tmp_path / "sign-ins"))
    assert "Your sign-in has ended" in said
    assert "no role" not in said
    assert "Ada" not in said
