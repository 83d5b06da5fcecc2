"""Who may come in: the two files that say so, and what they come to for one person."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from core import home as homes
from core.errors import InputError
from workbench.components.sign_in import grader
from workbench.server import roles_file, sign_in
from workbench.server.roles_file import EXAMPLE, RoleFile

SECRET = "planted-client-secret"
AUTH = f"""\
[auth]
redirect_uri = "https://rankbook.example.org/oauth2callback"
client_id = "rankbook"
client_secret = "{SECRET}"
server_metadata_url = "https://accounts.example.org/.well-known/openid-configuration"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    monkeypatch.delenv(sign_in.SETTING, raising=False)
    return tmp_path


def access(text: str, folder: Path) -> RoleFile:
    path = folder / "access.toml"
    path.write_text(text, encoding="utf-8")
    return roles_file.read(path)


def secrets(home: Path, text: str = AUTH, mode: int = 0o600) -> Path:
    path = home / "secrets.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


# -- roles -----------------------------------------------------------------------------------------------------------

WHO = [
    ({"email": "ada@example.org", "email_verified": True}, "editor"),
    ({"email": "ADA@Example.org ", "email_verified": "true"}, "editor"),
    ({"email": "ada@example.org.evil.net", "email_verified": True}, "viewer"),
    ({"email": "somebody@partner.example", "email_verified": True}, "viewer"),
    ({"email": "eve@example.org", "email_verified": True}, None),
    ({"email": "eve@example.org", "email_verified": False}, None),
    ({"email": "eve@example.org"}, None),
    ({"email": "eve@example.org", "groups": ["search-team"]}, None),
    ({"email": "new@example.org", "groups": ["search-team"]}, "editor"),
    ({"email": "new@example.org", "groups": "search-team"}, "editor"),
    ({"email": "new@example.org", "groups": ["other", 3, None]}, "viewer"),
    ({"email": ["ada@example.org"], "email_verified": True}, "viewer"),
    ({}, "viewer"),
]


@pytest.mark.parametrize(("told", "role"), WHO)
def test_the_example_gives_each_person_the_role_that_it_says(tmp_path, told, role):
    assert access(EXAMPLE, tmp_path).role_of(told) == role


NOBODY_VOUCHES = [{"email_verified": said} for said in (None, False, "false", "False", "True", "", 1, 0, ["true"])]


@pytest.mark.parametrize("said", [{}, *NOBODY_VOUCHES])
def test_an_address_that_the_provider_does_not_vouch_for_gives_no_role_and_signs_no_grade(tmp_path, said):
    told = {"sub": "7", "email": "ada@example.org", **said}
    found = access('[people]\n"ada@example.org" = "editor"\n"*@example.org" = "judge"', tmp_path)
    assert found.role_of(told) is None
    assert found.discounts(told)
    assert grader(told) == "sub:7"


def test_addresses_count_unverified_where_the_file_says_so_but_none_that_the_provider_did_not_verify(tmp_path):
    found = access('unverified_emails = true\n[people]\n"ada@example.org" = "editor"', tmp_path)
    roles = [found.role_of({"email": "ada@example.org", **said}) for said in ({}, *NOBODY_VOUCHES)]
    assert roles == ["editor", "editor", *[None] * (len(NOBODY_VOUCHES) - 1)]
    assert grader({"sub": "7", "email": "ada@example.org"}) == "sub:7"


def test_who_is_not_named_does_not_come_in_where_nothing_is_said_of_them(tmp_path):
    made = access('[people]\n"ada@example.org" = "viewer"\n', tmp_path)
    assert made.role_of({"email": "eve@example.org"}) is None
    assert made.role_of({}) is None


def test_of_several_claims_the_highest_counts_but_none_shuts_out(tmp_path):
    made = access('[claims.groups]\na = "viewer"\nb = "editor"\nc = "none"\n', tmp_path)
    assert made.role_of({"groups": ["a", "b"]}) == "editor"
    assert made.role_of({"groups": ["a", "b", "c"]}) is None


MISTAKES = [
    ('default = "boss"', 1, "default", "must be one of"),
    ('\n[people]\n"ada@example.org" = "vewer"', 3, "people.ada@example.org", "must be one of"),
    ('[people]\n"ada" = "viewer"', 2, "people", "no e-mail address"),
    ('[people]\n"ada@x" = "viewer"\n"ADA@x" = "editor"', 2, "people", "stands there twice"),
    ('deflt = "viewer"', 1, "deflt", "did you mean 'default'"),
    ("[claims]\ngroups = 3", 2, "claims.groups", "table"),
    ('unverified_emails = "true"', 1, "unverified_emails", "true or false"),
    ("unverified_emails = 1", 1, "unverified_emails", "true or false"),
    ("unverified_email = true", 1, "unverified_email", "did you mean 'unverified_emails'"),
]


@pytest.mark.parametrize(("text", "line", "field", "said"), MISTAKES)
def test_a_mistake_is_told_with_its_line_and_field(tmp_path, text, line, field, said):
    with pytest.raises(InputError, match=said) as caught:
        access(text, tmp_path)
    assert caught.value.line == line
    assert caught.value.field == field
    assert str(caught.value.path).endswith("access.toml")


def test_what_is_no_toml_is_told_with_its_line_and_a_missing_file_teaches(tmp_path):
    with pytest.raises(InputError, match="not TOML") as caught:
        access('default = "viewer"\nx =', tmp_path)
    assert caught.value.line == 2
    with pytest.raises(InputError, match="Nobody is let in yet") as caught:
        roles_file.read(tmp_path / "none.toml")
    assert EXAMPLE in str(caught.value)


# -- the provider ------------------------------------------------------------------------------------------------------


def test_without_the_file_nobody_signs_in(home):
    assert sign_in.configured() is None


def test_a_file_that_was_named_and_is_not_there_is_refused_and_not_passed_over(home, monkeypatch):
    monkeypatch.setenv(sign_in.SETTING, str(home / "elsewhere.toml"))
    with pytest.raises(InputError, match="cannot be read"):
        sign_in.configured()


def test_the_file_says_whom_to_sign_in_with_and_cookies_get_a_secret_once(home):
    secrets(home)
    made = sign_in.configured()
    assert made
    assert (made.host, made.provider) == ("rankbook.example.org", "accounts.example.org")
    kept = home / sign_in.COOKIES
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert made.as_streamlit_has_it()["cookie_secret"] == kept.read_text()
    again = sign_in.configured()
    assert again
    assert again.cookies == made.cookies
    assert len(kept.read_text()) >= 60
    assert sorted(path.name for path in home.iterdir()) == [sign_in.COOKIES, "secrets.toml"]


def test_the_secrets_stand_in_no_representation(home):
    secrets(home)
    made = sign_in.configured()
    assert made
    assert SECRET not in repr(made)
    assert (home / sign_in.COOKIES).read_text() not in repr(made)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606, 0o660])
def test_a_file_that_others_can_read_is_refused(home, mode):
    secrets(home, mode=mode)
    with pytest.raises(InputError, match="chmod 600"):
        sign_in.configured()


def test_a_cookies_secret_that_others_can_read_is_refused(home):
    secrets(home)
    sign_in.configured()
    (home / sign_in.COOKIES).chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        sign_in.configured()


WRONG = [
    (AUTH.replace("[auth]", "[other]"), None, "no table"),
    (AUTH.replace('client_id = "rankbook"\n', ""), 2, "client_id: is missing"),
    (AUTH.replace("/oauth2callback", "/"), 2, "oauth2callback"),
    (AUTH.replace("https://accounts", "http://accounts"), 5, "must begin with https"),
    (AUTH.replace("https://rankbook", "http://rankbook"), 2, "must begin with https"),
    (AUTH + 'cookie_secret = "short"\n', 6, "32 characters or more"),
    (AUTH + "surprise = 3\n", 6, "is not known here"),
    ("[auth", 1, "not TOML"),
]


@pytest.mark.parametrize(("text", "line", "said"), WRONG)
def test_a_mistake_in_it_is_told_with_its_line_and_without_a_secret(home, text, line, said):
    secrets(home, text)
    with pytest.raises(InputError, match=said) as caught:
        sign_in.configured()
    assert caught.value.line == line
    assert SECRET not in str(caught.value)
    assert "short" not in str(caught.value).replace("shorter", "")


def test_a_secret_of_the_wrong_kind_is_not_quoted(home):
    secrets(home, AUTH.replace(f'"{SECRET}"', '["planted-in-a-list"]'))
    with pytest.raises(InputError) as caught:
        sign_in.configured()
    assert "planted" not in str(caught.value)


def test_many_processes_at_once_agree_on_one_cookies_secret(home):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: sign_in.cookie_secret(), range(16)))) == 1
    assert [path.name for path in home.iterdir()] == [sign_in.COOKIES]


def test_nobody_has_an_address_that_only_folds_to_theirs(tmp_path):
    access('[people]\n"kate@example.org" = "editor"', tmp_path)
    found = roles_file.read(tmp_path / "access.toml")
    assert found.role_of({"email": "KATE@example.org", "email_verified": True}) == "editor"
    assert found.role_of({"email": "\N{KELVIN SIGN}ate@example.org", "email_verified": True}) is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives a file to another account")
def test_a_file_of_another_account_lets_nobody_in(home):
    access('default = "viewer"', home)
    os.chown(home / "access.toml", 65534, -1)
    with pytest.raises(InputError, match=r"another account's.*sudo chown 0 "):
        roles_file.read(home / "access.toml")


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_can_write_lets_nobody_in(home, mode):
    access('default = "viewer"', home)
    (home / "access.toml").chmod(mode)
    with pytest.raises(InputError, match="chmod go-w"):
        roles_file.read(home / "access.toml")


def test_where_modes_and_owners_tell_nothing_nothing_is_refused_for_them(home, monkeypatch):
    """As on Windows, which says 0o666 of every file."""
    monkeypatch.setattr(homes, "POSIX", False)
    assert access('default = "viewer"', home).default == "viewer"
    (home / "access.toml").chmod(0o666)
    assert roles_file.read(home / "access.toml").default == "viewer"
    secrets(home, mode=0o666)
    assert sign_in.configured()
