"""A local endpoint that answers as it is told, badly if need be, and keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from core.context import Resources


@dataclass
class Reply:
    """`body` is sent as it is, or as JSON. `silent` never answers; `closed` hangs up in the middle; `endless` goes on
    and on; `drip` is the seconds between its bytes.
    """

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    silent: bool = False
    closed: bool = False
    endless: bool = False
    drip: float = 0.0

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


Answer = Reply | Callable[[dict[str, Any]], Reply]


class Endpoint:
    """The replies in turn; the last one stays."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.sent = 0  # bytes of bodies, as far as somebody read them
        self.began, self.over = threading.Event(), threading.Event()
        self.url = ""

    def reply(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Reply:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(body)
        self.paths.append(path)
        self.headers.append(headers)
        self.began.set()
        return answer if isinstance(answer, Reply) else answer(body)


def parts_of(reply: Reply, over: threading.Event) -> Iterator[bytes]:
    """The body as it is sent: at once, byte by byte, or again and again until all is over."""
    while reply.endless and not over.is_set():
        yield reply.content
    if reply.endless:
        return
    if not reply.drip:
        yield reply.content
        return
    for at in range(len(reply.content)):
        yield reply.content[at : at + 1]
        if over.wait(reply.drip):
            return


@contextmanager
def serving(*answers: Answer) -> Iterator[Endpoint]:
    endpoint = Endpoint(*answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = endpoint.reply(self.path, dict(self.headers), body)
            if reply.silent:
                endpoint.over.wait(10)
                return
            self.send_response_only(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if not reply.endless:
                self.send_header("Content-Length", str(len(reply.content) + (100 if reply.closed else 0)))
            self.end_headers()
            try:
                for part in parts_of(reply, endpoint.over):
                    self.wfile.write(part)
                    endpoint.sent += len(part)
            except OSError:
                return  # a client that stops reading a huge answer is what some tests are about

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        endpoint.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield endpoint
        finally:
            endpoint.over.set()
            server.shutdown()
            thread.join()


class Pauses(list[float]):
    """A pause that takes no time and is written down."""

    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


def completion(content: Any, **more: Any) -> Reply:
    """A chat completion with this text, or with this as JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": more.pop("finish_reason", "stop")}
    return Reply({"choices": [choice], **more})


def language_model(
    endpoint: Endpoint, pauses: Pauses | None = None, environment: Mapping[str, str] | None = None
) -> Resources:
    """Resources whose environment names the endpoint and a model."""
    named = {"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small"}
    return Resources(pause=pauses if pauses is not None else Pauses(), environment=named | dict(environment or {}))
