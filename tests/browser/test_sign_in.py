"""Signing in for real: a provider on loopback, the workbench in a process of its own, and Chromium between them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from joserfc.jwk import RSAKey
from playwright.sync_api import BrowserContext, Page, expect

from core import bridge
from core.store.engine import Store
from evals.collections import load
from evals.schema import schema_chain
from tests.app.corpus import KETTLES
from tests.browser.conftest import PROJECT
from tests.browser.provider import CLIENT, SECRET, Provider, provider
from tests.conftest import make_home, remove_home

pytestmark = pytest.mark.browser
PASSWORD, KEY = "planted-password-4711", "sk-planted-key-9f2c"
ACCESS = """
default = "none"

[people]
"ada@example.org" = "editor"
"grace@example.org" = "judge"
"vera@example.org" = "viewer"
"""
SERVE = (
    "import sys; from workbench.server.serve import serve; sys.exit(serve({port}, '0.0.0.0', False, log_format='json'))"
)
ADA = {"sub": "1", "email": "ada@example.org", "email_verified": True, "name": "Ada *Lovelace*"}
UNVERIFIED: dict[str, object] = {"sub": "5", "email": "ada@example.org", "name": "Ada of another tenant"}
VERA = {"sub": "2", "email": "vera@example.org", "email_verified": True, "name": "Vera"}
GRACE = {"sub": "4", "email": "Grace@example.org", "email_verified": True, "name": "Ada *Lovelace*"}
STRANGER = {"sub": "3", "email": "eve@example.org", "email_verified": True, "name": "Eve"}


@pytest.fixture(scope="module")
def idp() -> Iterator[Provider]:
    with provider() as made:
        yield made


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Served:
    """The workbench: where it is, its home, and what it logged so far."""

    def __init__(self, home: Path, port: int, log: Path) -> None:
        self.home, self.address, self._log = home, f"http://127.0.0.1:{port}", log

    def logged(self) -> str:
        return self._log.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def served(idp: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Reached from everywhere, which only a sign-in allows."""
    home, port, elsewhere = make_home(), _free_port(), tmp_path_factory.mktemp("elsewhere")
    store = bridge.run(Store.open(home=home, chains=[schema_chain]))
    bridge.run(load.load_collection(store, "kettles", KETTLES, load.LoadPlan(models=())))
    bridge.run(store.close())
    (home / "access.toml").write_text(ACCESS)
    secrets = home / "secrets.toml"
    secrets.touch(0o600)
    secrets.write_text(
        f'[auth]\nredirect_uri = "http://127.0.0.1:{port}/oauth2callback"\nclient_id = "{CLIENT}"\n'
        f'client_secret = "{SECRET}"\nserver_metadata_url = "{idp.issuer}/.well-known/openid-configuration"\n'
    )
    environment = {
        **os.environ,
        "RANKBOOK_HOME": str(home),
        "PYTHONPATH": str(PROJECT),
        "RANKBOOK_TEST_PASSWORD": PASSWORD,
        "OPENAI_API_KEY": KEY,
    }
    made = Served(home, port, elsewhere / "log")
    with (elsewhere / "log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-P", "-c", SERVE.format(port=port)], cwd=elsewhere, env=environment, stderr=log
        )
        try:
            _wait_for(made, server)
            yield made
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                code = server.wait(60)
            except subprocess.TimeoutExpired:
                server.kill()
                raise
            finally:
                remove_home(home)
    assert code == 0


def _wait_for(made: Served, server: subprocess.Popen[bytes]) -> None:
    while server.poll() is None:
        with suppress(httpx.TransportError):  # nobody listens yet
            if httpx.get(f"{made.address}/_stcore/health").is_success:
                return
        time.sleep(0.1)
    raise AssertionError(made.logged())


@pytest.fixture
def window(visitor: BrowserContext) -> BrowserContext:
    """Of somebody who is not signed in."""
    visitor.set_default_timeout(60_000)
    return visitor


def sign_in(window: BrowserContext, served: Served, idp: Provider, person: dict[str, object], path: str = "/") -> Page:
    idp.person, idp.claims = person, {}
    page = window.new_page()
    page.goto(served.address + path)
    page.get_by_role("button", name="Sign in").click()
    return page


def offers_no_link(page: Page) -> None:
    expect(page.get_by_role("link")).to_have_text(["Skip to main content"])


def test_a_stranger_sees_a_page_with_one_button_at_whatever_address(window, served, picture):
    page = window.new_page()
    for path in ("/", "/collections?collection=kettles", "/runs", "/notebook?notebook=tour", "/judge"):
        page.goto(served.address + path)
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        expect(page.get_by_text("With your account at 127.0.0.1")).to_be_visible()
        assert page.get_by_role("button").count() == 1
        offers_no_link(page)
        assert "kettle" not in page.content().lower()
    picture(page, "sign-in")


def test_somebody_signs_in_sees_the_page_and_their_name_and_signs_out(window, served, idp, picture):
    page = sign_in(window, served, idp, ADA)
    expect(page.get_by_role("button", name="Ada *Lovelace*")).to_be_visible()
    expect(page.get_by_role("link", name="Collections")).to_be_visible()
    picture(page, "signed-in")
    page.goto(served.address + "/collections")
    expect(page.get_by_role("button", name="Add a collection")).to_be_visible()
    page.get_by_role("button", name="Ada *Lovelace*").click()
    with page.expect_response(lambda answer: "/auth/logout" in answer.url):
        page.get_by_text("Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    offers_no_link(page)
    assert [each for each in window.cookies() if each["name"] == "_streamlit_user"] == []


def test_a_link_on_a_page_of_elsewhere_signs_nobody_out(window, served, idp):
    page = sign_in(window, served, idp, ADA)
    expect(page.get_by_role("button", name="Ada *Lovelace*")).to_be_visible()
    other = window.new_page()
    other.set_content(f'<a href="{served.address}/auth/logout">Cheap kettles</a>')
    with other.expect_response(lambda answer: "/auth/logout" in answer.url) as answer:
        other.get_by_role("link").click()
    assert answer.value.status == 403
    expect(other.get_by_text("You are not signed out")).to_be_visible()
    page.reload()
    expect(page.get_by_role("button", name="Ada *Lovelace*")).to_be_visible()


def test_a_copied_cookie_stops_working_at_sign_out_and_says_so(window, chromium, served, idp, picture):
    page = sign_in(window, served, idp, ADA)
    expect(page.get_by_role("button", name="Ada *Lovelace*")).to_be_visible()
    with chromium.new_context() as elsewhere:
        elsewhere.add_cookies([dict(each) for each in window.cookies()])
        copied = elsewhere.new_page()
        copied.goto(served.address)
        expect(copied.get_by_role("button", name="Ada *Lovelace*")).to_be_visible()
        page.get_by_role("button", name="Ada *Lovelace*").click()
        page.get_by_text("Sign out").click()
        expect(copied.get_by_text("Your sign-in has ended")).to_be_visible()
        copied.goto(served.address + "/collections")
        expect(copied.get_by_text("Your sign-in has ended")).to_be_visible()
        offers_no_link(copied)
        picture(copied, "sign-in-ended")


def test_a_viewer_is_offered_nothing_that_changes_something(window, served, idp):
    page = sign_in(window, served, idp, VERA, "/collections")
    expect(page.get_by_role("button", name="Vera")).to_be_visible()
    expect(page.get_by_role("link", name="Judge")).to_have_count(0)
    page.goto(served.address + "/collections?collection=kettles")
    expect(page.get_by_text("Documents", exact=True).first).to_be_visible()
    expect(page.get_by_role("button", name="Add a collection")).to_have_count(0)
    expect(page.get_by_text("Export, drop")).to_have_count(0)


def test_a_judge_grades_under_the_name_of_the_sign_in_whatever_the_address_says(window, served, idp, picture):
    page = sign_in(window, served, idp, GRACE)
    expect(page.get_by_role("link", name="Judge")).to_be_visible()
    page.goto(served.address + "/judge?collection=kettles&judge=ada@example.org&variants=bm25&split=test")
    name = page.get_by_role("textbox", name="You grade as")
    expect(name).to_have_value("grace@example.org")
    expect(name).to_be_disabled()
    expect(page.get_by_role("textbox", name="Your name")).to_have_count(0)
    picture(page, "judge-signed-in")
    page.get_by_role("button", name="Begin").click()
    expect(page.get_by_text("grace@example.org judges")).to_be_visible()


def test_who_is_signed_in_and_has_no_role_does_not_come_in(window, served, idp):
    page = sign_in(window, served, idp, STRANGER)
    expect(page.get_by_text("have no role here yet")).to_be_visible()
    offers_no_link(page)
    expect(page.get_by_role("button")).to_have_count(1)


def test_who_has_an_address_that_the_provider_does_not_vouch_for_is_not_taken_for_its_owner(window, served, idp):
    page = sign_in(window, served, idp, UNVERIFIED)
    expect(page.get_by_text("does not say that your e-mail address is verified")).to_be_visible()
    offers_no_link(page)


def test_a_role_that_is_taken_away_is_gone_with_the_next_page(window, served, idp):
    page = sign_in(window, served, idp, VERA)
    expect(page.get_by_role("link", name="Collections")).to_be_visible()
    file = served.home / "access.toml"
    try:
        file.write_text(ACCESS.replace('"viewer"', '"none"'))
        page.goto(f"{served.address}/collections")
        expect(page.get_by_text("have no role here yet")).to_be_visible()
        file.write_text("people = 3")  # nobody can say who may come in: nobody does
        page.reload()
        expect(page.get_by_text("the file that says who may do what has a mistake")).to_be_visible()
    finally:
        file.write_text(ACCESS)


def test_a_page_that_is_open_follows_the_role_of_whoever_looks_at_it(window, served, idp):
    """Nobody clicks: what is on the page acts before it is drawn anew."""
    page = sign_in(window, served, idp, ADA)
    expect(page.get_by_role("link", name="Variants")).to_be_visible()
    page.goto(f"{served.address}/variants?variant=local-rag")
    expect(page.get_by_role("button", name="Save as new")).to_be_visible()
    file = served.home / "access.toml"
    try:
        file.write_text(ACCESS.replace('"editor"', '"viewer"'))
        expect(page.get_by_role("button", name="Save as new")).to_be_hidden()
        expect(page.get_by_role("heading", name="local-rag")).to_be_visible()
        file.write_text(ACCESS.replace('"editor"', '"none"'))
        expect(page.get_by_text("have no role here yet")).to_be_visible()
    finally:
        file.write_text(ACCESS)
    expect(page.get_by_role("button", name="Save as new")).to_be_visible()


def refused(window: BrowserContext, page: Page, served: Served, idp: Provider) -> None:
    """The provider hands out a token, the workbench looks at it, and lets nobody in."""
    before = idp.tokens
    with page.expect_response(lambda answer: "/oauth2callback" in answer.url):
        page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile(f"^{re.escape(served.address)}/?$"))
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert idp.tokens == before + 1
    assert [each for each in window.cookies() if each["name"] == "_streamlit_user"] == []


def test_a_token_that_is_meant_for_another_or_was_good_once_lets_nobody_in(window, served, idp):
    page = window.new_page()
    page.goto(served.address)
    idp.person = ADA
    try:
        for wrong in ({"aud": "another"}, {"iss": "http://127.0.0.1:1"}, {"exp": 1, "iat": 0}, {"nonce": "another"}):
            idp.claims = wrong
            refused(window, page, served, idp)
    finally:
        idp.claims = {}


def test_a_token_that_somebody_else_signed_lets_nobody_in(window, served, idp):
    right, idp.person = idp.key, ADA
    idp.shown, idp.key = right, RSAKey.generate_key(2048, {"kid": "one"})
    page = window.new_page()
    page.goto(served.address)
    try:
        refused(window, page, served, idp)
    finally:
        idp.key, idp.shown = right, None


@pytest.mark.parametrize("algorithm", ["none", "HS256"])
def test_a_token_that_anybody_could_have_signed_lets_nobody_in_whatever_the_provider_accepts(
    window, served, idp, algorithm
):
    idp.algorithm = algorithm
    try:
        page = sign_in(window, served, idp, ADA)
        expect(page.get_by_text("You are not signed in")).to_be_visible()
        page.goto(served.address)
        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    finally:
        idp.algorithm = "RS256"
    assert [each for each in window.cookies() if each["name"] == "_streamlit_user"] == []


def test_a_cookie_that_somebody_made_up_lets_nobody_in(window, served, idp):
    sign_in(window, served, idp, ADA).get_by_role("link", name="Collections").wait_for()
    made = [
        {**each, "value": each["value"][:-4] + "AAAA"} for each in window.cookies() if "streamlit_user" in each["name"]
    ]
    window.add_cookies(made)
    page = window.new_page()
    page.goto(served.address)
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()


def test_the_logs_of_all_that_hold_no_secret_and_no_query(window, served, idp):
    page = sign_in(window, served, idp, ADA)
    expect(page.get_by_role("button", name="Ada *Lovelace*")).to_be_visible()
    page.goto(served.address + "/?collection=kettles&query=descale+unmistakable")
    expect(page.locator(".rb-leg").first).to_be_visible()
    cookies = served.home / "cookie-secret"
    said = served.logged()
    rows = [json.loads(line) for line in said.splitlines()]
    assert {"open", "page"} <= {row["event"] for row in rows}
    assert any(row.get("page") == "search" and row["milliseconds"] >= 0 and row["user"] for row in rows)
    for planted in (PASSWORD, KEY, SECRET, cookies.read_text(), "unmistakable", "ada@example.org", "Lovelace"):
        assert planted not in said
    assert cookies.stat().st_mode & 0o077 == 0
