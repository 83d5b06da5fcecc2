"""Whoever talks to the pages without a browser of ours: a line that is cut, and taken up again with the same page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value, generate_xsrf_token_string
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from tests.conftest import make_home, remove_home
from workbench.server import roles_file
from workbench.server.sign_ins import FOLDER, SignIns

PROJECT = Path(__file__).parents[2]
SERVE = (
    "import sys; from workbench.server.serve import serve; sys.exit(serve(0, open_browser=False, log_format='json'))"
)
MOVED = "from workbench.server import follow_roles; follow_roles.disarm = lambda page: page.what_streamlit_renamed; "
COOKIES = "what signs the cookies of this test and no others"
ADA = {"is_logged_in": True, "sub": "1", "email": "ada@example.org", "email_verified": True, "name": "Ada"}
SECRETS = f"""
[auth]
redirect_uri = "https://rankbook.example.org/oauth2callback"
client_id = "x"
client_secret = "planted"
cookie_secret = "{COOKIES}"
server_metadata_url = "https://accounts.example.org/.well-known/openid-configuration"
"""


@dataclass
class Line:
    """A window's line to the pages, of somebody who signed in."""

    home: Path
    log: IO[str]
    address: str

    def let(self, role: str) -> None:
        """Ada has that role from now on, and open pages have heard of it."""
        access = f'[people]\n"ada@example.org" = "{role}"\n'
        if (self.home / roles_file.FILE).read_text() != access:
            (self.home / roles_file.FILE).write_text(access)
            self.logged("access_changed")

    def logged(self, event: str) -> dict[str, str]:
        """The next of its kind, waited for."""
        while True:
            told: dict[str, str] = json.loads(self.log.readline())
            if told["event"] == event:
                return told

    def sign_in(self) -> None:
        SignIns(self.home / FOLDER).begin(ADA)

    def cookie(self) -> str:
        told = json.dumps({**ADA, "origin": self.address}).encode()
        return f"_streamlit_user={create_signed_value(COOKIES, '_streamlit_user', told).decode()}"

    def taken_up(self, page: str = "") -> ClientConnection:
        """Anew, or with the page that was there before."""
        token = generate_xsrf_token_string()
        return connect(
            f"{self.address.replace('http', 'ws')}/_stcore/stream",
            origin=Origin(self.address),
            additional_headers={"Cookie": f"_streamlit_xsrf={token}; {self.cookie()}"},
            subprotocols=[Subprotocol(each) for each in ("streamlit", token, page) if each],
            max_size=None,
        )


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with served(SERVE) as made:
        yield made


@contextmanager
def served(program: str) -> Iterator[Line]:
    home = make_home()
    secrets = home / "secrets.toml"
    secrets.touch(0o600)
    secrets.write_text(SECRETS)
    (home / roles_file.FILE).write_text('default = "none"\n')
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "RANKBOOK_HOME": str(home)}
    server = subprocess.Popen(
        [sys.executable, "-P", "-c", program], cwd=home, env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr
        made = Line(home, server.stderr, "")
        made.address = made.logged("open")["address"]
        made.sign_in()
        yield made
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        remove_home(home)


def drawn(to: ClientConnection) -> tuple[str, dict[str, str]]:
    """The page that was drawn, by its id, and what can be used on it: ids by labels."""
    page, widgets = "", dict[str, str]()
    while True:
        told = ForwardMsg.FromString(to.recv(60))
        page = told.new_session.initialize.session_id or page
        element = told.delta.new_element
        widgets |= {each.label: each.id for each in (element.button, element.text_input) if each.id}
        if told.WhichOneof("type") == "script_finished" and widgets:  # before it knows which page it is, it ends once
            return page, widgets


def use(to: ClientConnection, *, press: str = "", **typed: str) -> None:
    """The variants page with these texts in its fields, and that button pressed."""
    asked = BackMsg()
    asked.rerun_script.page_name = "variants"
    asked.rerun_script.query_string = "variant=local-rag&view=form"
    for field, text in typed.items():
        asked.rerun_script.widget_states.widgets.add(id=field, string_value=text)
    if press:
        asked.rerun_script.widget_states.widgets.add(id=press, trigger_value=True)
    to.send(asked.SerializeToString())


def hurry(to: ClientConnection, on: Mapping[str, str], times: int) -> None:
    """Save pressed so often, faster than a page is drawn."""
    for number in range(times):
        use(to, press=on["Save"], **{on["Its name"]: f"{number}"})


def saved(line: Line) -> list[str]:
    return [file.name for file in (line.home / "variants").glob("*")]


def test_a_page_that_was_left_before_a_role_was_taken_away_acts_for_nobody_who_comes_back(line):
    """Its buttons would act as they were drawn, before the page is drawn anew."""
    line.let("editor")
    with line.taken_up() as first:
        use(first)
        page, on = drawn(first)
    with line.taken_up(page) as again:
        use(again, press=on["Save"], **{on["Its name"]: "one"})
        assert drawn(again)[0] == page
    before = saved(line)
    assert before, "what was left can be taken up"
    line.let("viewer")
    with line.taken_up(page) as again:
        use(again, press=on["Save"], **{on["Its name"]: "two"})
        _, on = drawn(again)
    assert saved(line) == before
    assert "Save" not in on


def test_whoever_presses_faster_than_a_page_is_drawn_acts_no_longer_than_others(line):
    line.let("editor")
    before = saved(line)
    with line.taken_up() as own:
        use(own)
        _, on = drawn(own)
        line.let("viewer")
        hurry(own, on, 60)
        while "Save" in on:
            _, on = drawn(own)
    assert saved(line) == before


def test_a_page_that_is_open_acts_no_more_once_somebody_signed_out_and_a_copy_of_the_cookie_opens_none(line):
    line.let("editor")
    before = saved(line)
    try:
        with line.taken_up() as own, line.taken_up() as other:
            use(own)
            page, on = drawn(own)
            use(other)
            drawn(other)
            httpx.get(f"{line.address}/auth/logout", headers={"Cookie": line.cookie()}, timeout=60)
            line.logged("sign_in_ended")
            hurry(own, on, 20)
            while "Save" in on:
                _, on = drawn(own)
            assert set(drawn(other)[1]) == {"Sign in"}
        with line.taken_up(page) as thief:
            use(thief)
            assert set(drawn(thief)[1]) == {"Sign in"}
        assert httpx.get(f"{line.address}/_stcore/metrics", headers={"Cookie": line.cookie()}).status_code == 403
    finally:
        line.sign_in()
    assert saved(line) == before
    assert httpx.get(f"{line.address}/_stcore/metrics", headers={"Cookie": line.cookie()}).status_code == 200


def test_a_page_that_cannot_be_kept_from_acting_is_ended_and_taken_up_by_nobody():
    with served(MOVED + SERVE) as line:
        line.let("editor")
        with line.taken_up() as own:
            use(own)
            page, on = drawn(own)
            line.let("viewer")
            hurry(own, on, 20)
        with line.taken_up(page) as again:
            use(again)
            other, on = drawn(again)
        assert other != page
        assert "Save" not in on
        assert saved(line) == []
