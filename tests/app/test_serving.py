"""Serving: who is let near it, what it answers to strangers' requests, and whether it is well."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from httpx import ASGITransport
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send
from typer.testing import CliRunner

from core import bridge
from core.errors import InputError
from core.store.engine import Store
from workbench.server import serve
from workbench.server.access import AccessControl
from workbench.server.origin import LOOPBACK, MOST_WARNINGS, HostNames, OriginGuard, host_names
from workbench.server.serve import Health
from workbench.server.sign_in import Auth, SignIn
from workbench.server.sign_ins import SignIns
from workbench.server.uploads import UploadGuard, Uploads

PROJECT = Path(__file__).parents[2]
FOREIGN = "http://evil.example"
SERVE = "import sys; from workbench.server.serve import serve; sys.exit(serve(0, open_browser=False))"


class EverySignIn(SignIns):
    """One that counts however it came to be."""

    def counts(self, said: Mapping[str, Any]) -> bool:
        return True


def gate(folder: Path, access: str = 'default = "viewer"', sign_ins: SignIns | None = None) -> AccessControl:
    auth = Auth(
        redirect_uri="https://rankbook.example.org/oauth2callback",
        client_id="x",
        client_secret="planted",
        server_metadata_url="https://accounts.example.org/.well-known/openid-configuration",
    )
    (folder / "access.toml").write_text(access)
    return AccessControl(SignIn(auth, auth.client_secret), folder / "access.toml", sign_ins or EverySignIn(folder))


# -- reach -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_beyond_loopback_without_a_sign_in_is_refused_unless_insisted_on(host, tmp_path):
    with pytest.raises(InputError, match="--open-to-all") as caught:
        serve.check_reach(host, None)
    assert "docs/serving.md" in str(caught.value)
    serve.check_reach(host, None, open_to_all=True)
    serve.check_reach(host, gate(tmp_path))


@pytest.mark.parametrize("host", sorted(LOOPBACK))
def test_on_loopback_nothing_is_asked_for(host):
    serve.check_reach(host, None)


def test_a_sign_in_without_roles_is_refused_before_anything_is_served(tmp_path):
    with pytest.raises(InputError, match="must be one of"):
        serve.check_reach("127.0.0.1", gate(tmp_path, 'default = "boss"'))


@pytest.mark.parametrize("command", [[], ["notebook", "open", "tour"]])
def test_both_commands_refuse_in_a_sentence_before_they_start_anything(command, tmp_path):
    environment = {**os.environ, "RANKBOOK_HOME": str(tmp_path)}
    said = subprocess.run(
        [sys.executable, "-m", "workbench.cli", *command, "--host", "0.0.0.0", "--no-browser"],
        cwd=PROJECT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said.returncode == 1
    assert "Error: On '0.0.0.0' everybody who reaches this machine" in said.stderr
    assert list(tmp_path.iterdir()) == []


def test_protections_are_said_outright():
    settings = serve.settings("127.0.0.1", 8501)
    assert settings["server.enableXsrfProtection"] is True
    assert settings["server.enableCORS"] is True
    assert settings["server.enableStaticServing"] is False
    assert settings["secrets.files"] == []
    assert settings["server.maxUploadSize"] == serve.LARGEST_FILE


def test_pages_answer_to_names_of_their_own_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("STREAMLIT_SERVER_ALLOWED_HOSTS", raising=False)
    assert serve.own_names("127.0.0.1", None).names == LOOPBACK
    assert serve.own_names("192.168.1.7", None).names == {*LOOPBACK, "192.168.1.7"}
    assert serve.own_names("0.0.0.0", gate(tmp_path)).names == {*LOOPBACK, "rankbook.example.org"}
    assert set(serve.settings("0.0.0.0", 1, gate(tmp_path))["server.allowedHosts"]) == {
        *LOOPBACK,
        "rankbook.example.org",
    }
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "one.example *.two.example")
    assert serve.own_names("127.0.0.1", None).names == {*LOOPBACK, "one.example", "*.two.example"}
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "One.example.:8443 *.two.example:8443 [fe80::1]:1 fe80::2")
    named = serve.own_names("127.0.0.1", None)
    assert named.names == {*LOOPBACK, "one.example", "*.two.example", "fe80::1", "fe80::2"}
    assert named.include("one.example:8443")
    assert named.include("[fe80::2]:8443")


# -- a real one --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    server = subprocess.Popen(
        [sys.executable, "-P", "-c", SERVE],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout
        yield server.stdout.readline().split()[4]
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
        server.communicate()
    assert code == 0


def test_the_health_endpoint_says_that_the_store_answers_and_nothing_else(address):
    answer = httpx.get(f"{address}/health", timeout=60)
    assert answer.status_code == 200
    assert answer.json() == {"status": "ok", "store": "answers"}
    assert answer.headers["cache-control"] == "no-store"
    assert httpx.post(f"{address}/health").status_code == 405


@pytest.mark.parametrize("path", ["/_stcore/host-config", "/_stcore/health", "/health"])
def test_another_site_may_read_nothing(address, path):
    answer = httpx.get(address + path, headers={"Origin": FOREIGN}, timeout=60)
    assert "access-control-allow-origin" not in answer.headers


def shaken(address: str, origin: str | None, host: str | None = None) -> int:
    """What a browser is told that wants to talk to the pages."""
    asked = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
        "Sec-WebSocket-Version": "13",
        **({"Origin": origin} if origin else {}),
        **({"Host": host} if host else {}),
    }
    with httpx.stream("GET", f"{address}/_stcore/stream", headers=asked, timeout=60) as answer:
        return answer.status_code


def test_pages_talk_to_their_own_site_alone(address):
    assert shaken(address, address) == 101
    assert shaken(address, FOREIGN) == 403


def test_another_name_for_this_machine_reaches_nothing(address):
    """What a site does that points its own name here."""
    assert shaken(address, FOREIGN, "evil.example") == 403
    assert shaken(address, "http://evil.example", "evil.example") == 403
    for path in ("/", "/health", "/_stcore/health", "/_stcore/metrics"):
        answer = httpx.get(address + path, headers={"Host": "evil.example"}, timeout=60)
        assert answer.status_code == 403
        assert "STREAMLIT_SERVER_ALLOWED_HOSTS" in answer.text


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]"])
def test_a_page_of_another_port_of_this_machine_opens_no_websocket_and_sends_nothing(address, name):
    """Streamlit alone would let it: any port of localhost is one of its own."""
    port = address.rpartition(":")[2]
    own, other = f"{name}:{port}", f"http://{name}:{int(port) - 1}"
    assert shaken(address, f"http://{own}", own) == 101
    assert shaken(address, other, own) == 403
    assert shaken(address, "null", own) == 403
    headers = {"Origin": other, "Host": own}
    for method, path in (("PUT", "/_stcore/upload_file/a/b"), ("POST", "/_stcore/agent/interact"), ("GET", "/")):
        answer = httpx.request(method, address + path, headers=headers, timeout=60)
        assert (answer.status_code, "comes from a page of" in answer.text) == (403, True)
        assert "access-control-allow-origin" not in answer.headers


def test_the_demo_is_guarded_as_the_workbench_is(tmp_path):
    program = "import sys; from workbench.commands.demo import APP; from workbench.server.serve import serve; "
    program += "sys.exit(serve(0, open_browser=False, app=APP))"
    environment = {**os.environ, "PYTHONPATH": str(PROJECT), "RANKBOOK_HOME": str(tmp_path)}
    command = [sys.executable, "-P", "-c", program]
    server = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout
        address = server.stdout.readline().split()[4]
        assert shaken(address, address) == 101
        assert shaken(address, "http://127.0.0.1:1") == 403
        assert httpx.get(address, headers={"Host": "evil.example"}).status_code == 403
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)


def test_files_are_taken_of_nobody_who_has_no_page_open(address):
    for headers in ({}, {"X-Xsrftoken": "made-up", "Cookie": "_streamlit_xsrf=made-up"}):
        answer = httpx.put(f"{address}/_stcore/upload_file/session/file", content=b"x", headers=headers, timeout=60)
        assert (answer.status_code, answer.text) == (403, "You may not upload files here.")  # before Streamlit looks


# -- names -------------------------------------------------------------------------------------------------------------


def answer(names: HostNames, kind: str = "http", **headers: str) -> int | None:
    """The number of the answer to such a request; 101 where a websocket is let through, and None where it is not."""
    said: list[Message] = []

    async def passed(scope: Scope, receive: Receive, send: Send) -> None:
        status = 101 if scope["type"] == "websocket" else 200
        await send({"type": "http.response.start", "status": status, "headers": []})

    async def send(message: Message) -> None:
        said.append(message)

    async def receive() -> Message:
        return {"type": f"{kind}.connect"}

    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": kind, "method": "POST", "path": "/", "headers": raw}
    bridge.run(OriginGuard(passed, names)(scope, receive, send))
    return said[0].get("status")


@pytest.mark.parametrize(
    ("listens", "host", "status"),
    [
        ("127.0.0.1", "127.0.0.1:8501", 200),
        ("127.0.0.1", "LOCALHOST.:1", 200),
        ("127.0.0.1", "127.0.0.5", 200),
        ("127.0.0.1", "[::1]:8501", 200),
        ("127.0.0.1", "192.168.1.7:8501", 403),
        ("127.0.0.1", "localhost.evil.example", 403),
        ("127.0.0.1", "evil.example@localhost", 403),
        ("127.0.0.1", "localhost:99999999", 403),
        ("127.0.0.1", "", 403),
        ("192.168.1.7", "192.168.1.7:8501", 200),
        ("192.168.1.7", "192.168.1.8:8501", 403),
        ("0.0.0.0", "192.168.1.7:8501", 200),
        ("::", "[fe80::1]:8501", 200),
        ("0.0.0.0", "evil.example:8501", 403),
        ("0.0.0.0", socket.gethostname(), 200),
    ],
)
def test_names_of_this_server_are_loopback_where_it_listens_and_no_other(listens, host, status, monkeypatch):
    monkeypatch.delenv("STREAMLIT_SERVER_ALLOWED_HOSTS", raising=False)
    assert answer(host_names(listens), host=host) == status


@pytest.mark.parametrize(
    ("origin", "host", "ours"),
    [
        ("http://localhost:8501", "localhost:8501", True),
        ("https://Rankbook.example.org", "rankbook.example.org", True),
        ("https://rankbook.example.org", "rankbook.example.org:443", True),
        ("https://rankbook.example.org:443", "rankbook.example.org", True),
        ("http://rankbook.example.org:443", "rankbook.example.org", False),
        ("https://team.example.org", "rankbook.example.org", False),
        ("http://localhost:8502", "localhost:8501", False),
        ("http://127.0.0.1:8501", "localhost:8501", False),
        ("null", "localhost:8501", False),
        ("file://", "localhost:8501", False),
        ("chrome-extension://localhost:8501", "localhost:8501", False),
        ("", "localhost:8501", False),
    ],
)
def test_a_page_acts_on_the_server_alone_that_it_came_from(origin, host, ours, monkeypatch):
    monkeypatch.setenv("STREAMLIT_SERVER_ALLOWED_HOSTS", "*.example.org")
    names = host_names("127.0.0.1")
    assert answer(names, host=host, origin=origin) == (200 if ours else 403)
    assert answer(names, "websocket", host=host, origin=origin) == (101 if ours else None)


def test_a_request_that_is_refused_is_said_to_the_log_once_and_not_for_ever(caplog):
    names = host_names("127.0.0.1")
    guard = OriginGuard(Starlette(), names)
    client = httpx.AsyncClient(transport=ASGITransport(guard), base_url="http://x")
    for number in range(2 * MOST_WARNINGS):
        for _ in range(2):
            assert bridge.run(client.get("/", headers={"Host": f"h{number}.example:8443"})).status_code == 403
    said = [made for made in caplog.records if made.getMessage() == "request_refused"]
    assert len(said) == MOST_WARNINGS
    assert "'h0.example'" in said[0].fields["says"]


# -- files -------------------------------------------------------------------------------------------------------------


async def took(request: Request) -> Response:
    return PlainTextResponse(f"took {len(await request.body())}")


@pytest.fixture
def uploads() -> Uploads:
    return Uploads(most=100)


@pytest.fixture
def guarded(uploads: Uploads) -> httpx.AsyncClient:
    routes = [Route("/{rest:path}", took, methods=["GET", "PUT", "DELETE"])]
    app = UploadGuard(Starlette(routes=routes), uploads)
    return httpx.AsyncClient(transport=ASGITransport(app), base_url="http://x")


def sent(client: httpx.AsyncClient, method: str, path: str, size: int = 0, *, said: bool = True) -> int:

    async def pieces() -> AsyncIterator[bytes]:
        yield b"x" * size

    async def work() -> int:
        content = b"x" * size if said else pieces()
        return (await client.request(method, f"/_stcore/upload_file/{path}", content=content)).status_code

    return bridge.run(asyncio.wait_for(work(), 30))


def test_a_window_uploads_as_long_as_its_page_allows_it(guarded, uploads):
    assert sent(guarded, "PUT", "window/a", 10) == 403
    uploads.allow_window("window", True)
    assert sent(guarded, "PUT", "window/a", 10) == 200
    assert sent(guarded, "PUT", "another/a", 10) == 403
    uploads.allow_window("window", False)
    assert sent(guarded, "PUT", "window/b", 10) == 403


def test_the_files_of_a_window_are_counted_together(guarded, uploads):
    uploads.allow_window("window", True)
    assert sent(guarded, "PUT", "window/a", 60) == 200
    assert sent(guarded, "PUT", "window/b", 60) == 413
    assert sent(guarded, "PUT", "window/a", 90) == 200, "in the place of the first"
    assert sent(guarded, "DELETE", "window/a") == 200
    assert sent(guarded, "PUT", "window/b", 60) == 200


def test_what_streamlit_refused_is_counted_as_it_was_before(uploads):
    refusing = UploadGuard(Starlette(), uploads)  # which answers 404 to everything
    client = httpx.AsyncClient(transport=ASGITransport(refusing), base_url="http://x")
    uploads.allow_window("window", True)
    assert sent(client, "PUT", "window/a", 90) == 404
    assert uploads.refusal("window", "b", 90) is None, "a file that never came takes no room"
    uploads.finish("window", "b", came=True)
    for method in ("DELETE", "PUT"):
        assert sent(client, method, "window/b") == 404
        assert uploads.refusal("window", "c", 90) is not None, "one that was not taken away still does"


@pytest.mark.parametrize(("meanwhile", "status"), [("PUT", 409), ("DELETE", 200)])
def test_a_file_that_is_still_coming_is_counted_as_long_as_it_is(uploads, meanwhile, status):
    async def slowly(request: Request) -> Response:
        if request.method == "PUT" and len(await request.body()) > 1:
            assert (await client.request(meanwhile, request.url.path, content=b"")).status_code == status
        return PlainTextResponse("took it")

    app = UploadGuard(Starlette(routes=[Route("/{rest:path}", slowly, methods=["PUT", "DELETE"])]), uploads)
    client = httpx.AsyncClient(transport=ASGITransport(app), base_url="http://x")
    uploads.allow_window("window", True)
    assert sent(client, "PUT", "window/a", 90) == 200
    assert sent(client, "PUT", "window/b", 20) == 413


def test_a_length_is_not_believed_of_a_file_that_comes_in_pieces(guarded, uploads):
    uploads.allow_window("window", True)
    headers = {"content-length": "1", "transfer-encoding": "chunked"}
    answer = bridge.run(guarded.put("/_stcore/upload_file/window/a", content=b"x" * 90, headers=headers))
    assert answer.status_code == 411


def test_a_file_that_does_not_say_its_length_is_refused(guarded, uploads):
    uploads.allow_window("window", True)
    assert sent(guarded, "PUT", "window/a", 10, said=False) == 411


def test_what_is_no_upload_passes(guarded):
    assert bridge.run(guarded.get("/anything")).status_code == 200


# -- health ------------------------------------------------------------------------------------------------------------


def asked(health: Health, times: int = 1) -> list[tuple[int, dict[str, str]]]:
    async def work() -> list[tuple[int, dict[str, str]]]:
        client = httpx.AsyncClient(transport=ASGITransport(Starlette(routes=[health.route()])), base_url="http://x")
        answers = await asyncio.gather(*(client.get("/health") for _ in range(times)))
        return [(answer.status_code, json.loads(answer.content)) for answer in answers]

    return asyncio.run_coroutine_threadsafe(work(), _other_loop()).result(60)


def _other_loop() -> asyncio.AbstractEventLoop:
    """The server's own, which is not the store's."""
    import threading

    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return loop


def test_a_store_that_does_not_answer_is_said_without_a_reason():
    def broken() -> Store:
        raise OSError("postgresql://u:planted@h/d")

    assert asked(Health(broken)) == [(503, {"status": "unavailable", "store": "does not answer"})]


def test_many_who_ask_at_once_are_one_question(store: Store):
    opened: list[int] = []

    def opening() -> Store:
        opened.append(1)
        return store

    answers = asked(Health(opening), 20)
    assert {status for status, _ in answers} == {200}
    assert len(opened) == 1


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_access_command_tells_roles_and_ends_with_1_for_a_stranger(tmp_path, monkeypatch):
    from workbench.cli import app

    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    (tmp_path / "access.toml").write_text('[people]\n"ada@example.org" = "editor"\n')
    ada, eve = (CliRunner().invoke(app, ["access", f"{name}@example.org"]) for name in ("ada", "eve"))
    assert (ada.exit_code, eve.exit_code) == (0, 1)
    assert "ada@example.org comes in as editor." in ada.output
    assert "counts where the sign-in says that it is verified" in " ".join(ada.output.split())
    listed = CliRunner().invoke(app, ["access", "--json"])
    assert json.loads(listed.output)["people"] == {"ada@example.org": "editor"}
    assert "counts where the sign-in says that it is verified" in CliRunner().invoke(app, ["access"]).output


@pytest.mark.parametrize(
    ("email", "more"), [("Stra\u00dfe@example.org", False), ("any@partner.example", False), ("eve@example.org", True)]
)
def test_the_access_command_knows_for_whom_claims_may_say_more(tmp_path, monkeypatch, email, more):
    """For whoever is named neither by their address, as the file takes it, nor by their domain."""
    from workbench.cli import app

    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    people = '[people]\n"stra\u00dfe@example.org" = "viewer"\n"*@partner.example" = "viewer"\n'
    (tmp_path / "access.toml").write_text(f'{people}[claims.groups]\na = "editor"\n', encoding="utf-8")
    assert ("Claims of the sign-in" in CliRunner().invoke(app, ["access", email]).output) is more
