"""Sign-ins: what is written down of one, when it counts no more, and what becomes of copies of its cookie."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx import ASGITransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from streamlit.auth_util import set_cookie_with_chunks
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from core import bridge
from tests.app.test_serving import gate
from workbench.server.access import AccessControl
from workbench.server.cookies import CookieGuard
from workbench.server.sign_ins import LASTS, MOST_OF_ONE, SignIns

SECRET = "what signs the cookies of this test and no others"
SAID = {"iss": "https://accounts.example.org", "sub": "1", "email": "ada@example.org", "email_verified": True}
ADA = {**SAID, "is_logged_in": True, "nonce": "n1"}


class Clock:
    def __init__(self) -> None:
        self.time = 1e9

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def kept(tmp_path: Path, clock: Clock) -> SignIns:
    return SignIns(tmp_path / "sign-ins", now=clock)


# -- what is written down ----------------------------------------------------------------------------------------------


def test_a_sign_in_counts_from_its_beginning_to_its_end_after_a_restart_too(kept, tmp_path, clock):
    assert not kept.counts(ADA), "a cookie alone is none"
    kept.begin(ADA)
    again = SignIns(tmp_path / "sign-ins", now=clock)
    assert kept.counts(ADA)
    assert again.counts(ADA)
    assert not kept.counts({**ADA, "nonce": "n2"}), "another one of the same person"
    again.end(ADA)
    assert not kept.counts(ADA)


def test_what_streamlit_adds_to_what_the_provider_said_makes_no_other_sign_in(kept):
    kept.begin({**SAID, "origin": "https://rankbook.example.org", "is_logged_in": True})
    assert kept.counts({**SAID, "is_logged_in": True, "tokens": {"id": "x"}})


def test_a_sign_in_is_over_when_its_cookie_is(kept, clock):
    kept.begin(ADA)
    clock.time += LASTS - 1
    assert kept.counts(ADA)
    clock.time += 1
    assert not kept.counts(ADA)


@pytest.mark.parametrize("content", ["", "soon", "nan", "\N{SNOWMAN}"])
def test_one_that_is_not_whole_counts_no_more(kept, tmp_path, content):
    kept.begin(ADA)
    (file,) = (tmp_path / "sign-ins").iterdir()
    file.write_text(content, encoding="utf-8")
    assert not kept.counts(ADA)


def test_they_are_few_whoever_signs_in_how_often(kept, tmp_path, clock):
    grace = {**ADA, "sub": "2"}
    kept.begin(grace)
    for number in range(MOST_OF_ONE + 5):
        clock.time += 1
        kept.begin({**ADA, "nonce": str(number)})
    assert len(list((tmp_path / "sign-ins").iterdir())) == MOST_OF_ONE + 1
    assert kept.counts(grace), "somebody else's are left alone"
    assert [kept.counts({**ADA, "nonce": str(number)}) for number in (4, 5)] == [False, True], "the oldest ended"
    clock.time += LASTS
    kept.begin(grace)
    assert len(list((tmp_path / "sign-ins").iterdir())) == 1, "those that are over are thrown away"


def test_others_cannot_read_who_is_signed_in(kept, tmp_path):
    kept.begin(ADA)
    (file,) = (tmp_path / "sign-ins").iterdir()
    assert (tmp_path / "sign-ins").stat().st_mode & 0o077 == 0
    assert file.stat().st_mode & 0o077 == 0
    assert "ada" not in f"{file} {file.read_text()}"


# -- cookies -----------------------------------------------------------------------------------------------------------


def token(algorithm: object = "RS256") -> str:
    return base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).decode().rstrip("=") + ".e30.c2ln"


class Site:
    """Streamlit as far as it signs in, behind the guard; and a browser's cookies."""

    def __init__(self, made: AccessControl) -> None:
        self.says: dict[str, Any] = ADA
        self.tokens: dict[str, Any] = {"id_token": token()}
        routes = [
            Route("/oauth2callback", self._signed_in),
            *(Route(path, self._page) for path in ("/", "/auth/logout", "/_stcore/metrics")),
        ]
        self.browser = self.another(CookieGuard(Starlette(routes=routes), made, SECRET))

    def another(self, app: Any, cookies: Any = None) -> httpx.AsyncClient:
        self.app = app
        return httpx.AsyncClient(transport=ASGITransport(app), base_url="http://x", cookies=cookies)

    async def _signed_in(self, _: Request) -> Response:
        answer = RedirectResponse("/")
        for name, value in (("_streamlit_user", self.says), ("_streamlit_user_tokens", self.tokens)):
            set_cookie_with_chunks(
                lambda part, text: answer.set_cookie(part, create_signed_value(SECRET, part, text).decode()),
                lambda part, text: create_signed_value(SECRET, part, text),
                name,
                value,
                cookie_attr_size=100,
            )
        return answer

    async def _page(self, _: Request) -> Response:
        return PlainTextResponse("a page")

    def get(self, path: str, by: httpx.AsyncClient | None = None, **headers: str) -> httpx.Response:
        return bridge.run((by or self.browser).get(path, headers=headers))


@pytest.fixture
def made(tmp_path: Path, kept: SignIns) -> AccessControl:
    return gate(tmp_path, '[people]\n"ada@example.org" = "viewer"\n', kept)


@pytest.fixture
def site(made: AccessControl) -> Site:
    return Site(made)


@pytest.mark.parametrize("groups", [[], ["a long name of a group"] * 500], ids=["one cookie", "cookies in pieces"])
def test_a_copied_cookie_stops_working_at_sign_out(site, made, groups):
    site.says = {**ADA, "groups": groups}
    assert site.get("/oauth2callback").status_code == 307
    assert made.role_of(site.says) == "viewer"
    thief = site.another(site.app, dict(site.browser.cookies))
    assert site.get("/_stcore/metrics", thief).status_code == 200
    assert site.get("/auth/logout").status_code == 200
    assert made.role_of(site.says) is None
    assert made.has_ended(site.says)
    assert site.get("/_stcore/metrics", thief).status_code == 403


PAGES = {"cross-site": False, "same-site": False, "same-origin": True, "none": True}


@pytest.mark.parametrize(("of", "ends"), PAGES.items())
def test_a_link_of_another_site_or_port_signs_nobody_out(site, made, of, ends):
    site.get("/oauth2callback")
    answer = site.get("/auth/logout", **{"Sec-Fetch-Site": of})
    assert answer.status_code == (200 if ends else 403)
    assert ("You are not signed out" in answer.text) is not ends
    assert made.has_ended(ADA) is ends


def test_signing_in_anew_ends_the_sign_in_that_it_takes_the_place_of(site, made):
    site.get("/oauth2callback")
    site.says = {**ADA, "nonce": "n2"}
    site.get("/oauth2callback")
    assert made.has_ended(ADA)
    assert made.role_of(site.says) == "viewer"


def test_a_cookie_that_is_signed_but_was_never_handed_out_lets_nobody_in(site, made):
    cookie = create_signed_value(SECRET, "_streamlit_user", json.dumps(ADA)).decode()
    assert site.get("/_stcore/metrics", site.another(site.app, {"_streamlit_user": cookie})).status_code == 403
    assert made.role_of(ADA) is None


@pytest.mark.parametrize(
    "tokens",
    [
        *({"id_token": token(algorithm)} for algorithm in ("none", "None", "HS256", "", ["RS256"], None)),
        {"id_token": "no token"},
        {"id_token": 3},
        {},
    ],
    ids=str,
)
def test_a_token_counts_only_where_the_provider_alone_can_have_signed_it(site, made, tokens):
    """Whatever Streamlit and Authlib made of it: the provider's own metadata tell them what to accept."""
    site.tokens = tokens
    answer = site.get("/oauth2callback")
    assert answer.status_code == 403
    assert "is not signed with a key of its own" in answer.text
    assert "set-cookie" not in answer.headers
    assert made.role_of(ADA) is None


def test_the_servers_figures_are_for_those_alone_who_may_see_its_pages(site, made):
    assert site.get("/_stcore/metrics").status_code == 403
    site.get("/oauth2callback")
    assert site.get("/_stcore/metrics").status_code == 200
    made.file.write_text('default = "none"')
    assert site.get("/_stcore/metrics").status_code == 403


def test_a_sign_in_and_a_sign_out_that_cannot_be_written_down_are_said_to_be_none(site, made, tmp_path, caplog):
    (tmp_path / "sign-ins").write_text("no folder")
    answer = site.get("/oauth2callback")
    assert (answer.status_code, "could not be written" in answer.text) == (403, True)
    (tmp_path / "sign-ins").unlink()
    site.get("/oauth2callback")
    (file,) = (tmp_path / "sign-ins").iterdir()
    file.unlink()
    (file / "in the way").mkdir(parents=True)
    answer = site.get("/auth/logout")
    assert (answer.status_code, "You are not signed out" in answer.text) == (503, True)
    assert [each.getMessage() for each in caplog.records] == ["sign_in_not_kept", "sign_out_not_kept"]
