"""Refuses requests to a name that is not this server's, and those that another site's page sends.

Streamlit itself lets pages of any port of localhost in, and answers everything but websockets under any name. So a page
of another program, or a site that points its own name at this machine (DNS rebinding), could press buttons here.
"""

from __future__ import annotations

import ipaddress
import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, urlsplit

from workbench.server import logs

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

NAMES: Final = "STREAMLIT_SERVER_ALLOWED_HOSTS"
LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
USUAL_PORTS: Final = {"http": ":80", "https": ":443"}
MOST_WARNINGS: Final = 50  # different ones: their text is up to those who send requests


@dataclass(frozen=True, slots=True)
class HostNames:
    """The names and addresses of this server; `*` stands for any, `*.example.org` for all names below that one.

    `addresses`: it listens on all of the machine's, and any address is one of them. A page can point a name at this
    machine, but never an address.
    """

    names: frozenset[str]
    addresses: bool = False

    def include(self, host: str) -> bool:
        """Whether a header Host names one of them. Any port will do: proxies and tunnels have their own."""
        if (name := _hostname(host)) is None:
            return False
        if (address := _address(name)) is not None and (self.addresses or address.is_loopback):
            return True
        if name in self.names or "*" in self.names:
            return True
        return any(name.endswith(each[1:]) for each in self.names if each.startswith("*."))


def host_names(host: str, public: str = "") -> HostNames:
    """The names of a server that listens on `host`, and whose sign-in comes back to `public`.

    The setting adds those by which a proxy is reached, with or without a port.
    """
    everywhere = (address := _address(host)) is not None and address.is_unspecified
    own = (host,) if not everywhere else () if public else (name := socket.gethostname(), f"{name}.local")
    added = os.environ.get(NAMES, "").split()
    names = frozenset(_hostname(each) or each.lower() for each in (*LOOPBACK, *own, public, *added) if each)
    return HostNames(names, addresses=everywhere)


class OriginGuard:
    """A middleware before Streamlit. A request without Origin comes from no page's script: only its Host is checked."""

    def __init__(self, app: ASGIApp, hosts: HostNames) -> None:
        self._app, self._hosts = app, hosts
        self._warned: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] in {"http", "websocket"} else ""
        if not refusal:
            await self._app(scope, receive, send)
            return
        if refusal not in self._warned and len(self._warned) < MOST_WARNINGS:
            self._warned.add(refusal)
            logs.warning("request_refused", says=refusal)
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})
            return
        from starlette.responses import PlainTextResponse

        headers = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        await PlainTextResponse(refusal, 403, headers)(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        """Why it is not answered; empty if it is."""
        hosts, origins = _values(scope, b"host"), _values(scope, b"origin")
        for host in hosts:
            if not self._hosts.include(host):
                name = _hostname(host) or host
                return (
                    f"Rankbook does not answer to the name {name!r:.80}. If it is its own, as behind a proxy, "
                    f"start Rankbook with {NAMES} set to that name (docs/serving.md)."
                )
        for origin in origins:
            if len(hosts) != 1 or not _is_same(origin, hosts[0]):
                return (
                    f"This request comes from a page of {origin!r:.80}, and this is {', '.join(hosts)!r:.80}. Behind a "
                    "proxy, let it pass the header Host on as the browser sent it (docs/serving.md)."
                )
        return ""


def _values(scope: Scope, header: bytes) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == header]


def _is_same(origin: str, host: str) -> bool:
    """Whether a page of that origin is a page of this host: the same name, and the same port."""
    parts = _split(origin)
    if parts is None or parts.scheme not in USUAL_PORTS or parts.path or parts.query or parts.fragment:
        return False
    usual = USUAL_PORTS[parts.scheme]
    return parts.netloc.lower().removesuffix(usual) == host.lower().removesuffix(usual)


def _hostname(host: str) -> str | None:
    """The name of a header Host, in small letters; None where it is none."""
    parts = _split(f"//{host}")
    if parts is None or parts.username is not None or parts.path or parts.query or parts.fragment or not parts.hostname:
        return None
    return parts.hostname.rstrip(".")


def _split(address: str) -> SplitResult | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # which is looked at here alone
    except ValueError:
        return None
    return parts


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
