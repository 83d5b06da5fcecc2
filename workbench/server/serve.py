"""The workbench's server: its settings, its ports, and the answer to whether it is healthy."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from core import bridge
from core.errors import InputError
from core.store.engine import Store
from workbench import session
from workbench.server import access, logs
from workbench.server.access import AccessControl
from workbench.server.follow_roles import following_roles
from workbench.server.origin import LOOPBACK, HostNames, OriginGuard, host_names
from workbench.server.theme import OPTIONS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

PATH: Final = "/health"
HEALTH_PATIENCE: Final = 3.0  # seconds that the database has to answer
FRESH: Final = 1.0  # seconds for which an answer holds


class Health:
    """The answer to whether the store answers. One question to it at a time; `store` may block while it is opened."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._asking: asyncio.Task[bool] | None = None
        self._last: tuple[float, bool] = (-FRESH, False)  # when it was asked, and what it answered

    def route(self) -> Route:
        from starlette.routing import Route

        return Route(PATH, self.answer, methods=["GET", "HEAD"])

    async def answer(self, _: Request) -> Response:
        from starlette.responses import JSONResponse

        at, well = self._last
        if time.monotonic() - at >= FRESH:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(asyncio.to_thread(self._ask))
            done, _pending = await asyncio.wait({self._asking}, timeout=HEALTH_PATIENCE)
            well = bool(done) and self._asking.result()
            self._last = time.monotonic(), well
        status = {"status": "ok" if well else "unavailable", "store": "answers" if well else "does not answer"}
        return JSONResponse(status, 200 if well else 503, headers={"Cache-Control": "no-store"})

    def _ask(self) -> bool:
        try:
            bridge.run(self._store().ping())
        except Exception as error:
            logs.info("store_unavailable", error=type(error).__name__)
            return False
        return True


APP = Path(__file__).parents[1] / "app.py"
FIRST_PORT, PORTS_TRIED = 8501, 50
LAST_PORT = 65535
PATIENCE = 60
LARGEST_FILE = 500  # megabytes of an upload, which goes through memory
INSIST = "--open-to-all"


def serve(
    port: int | None = None,
    host: str = "127.0.0.1",
    open_browser: bool = True,
    app: Path = APP,
    page: str = "",
    *,
    open_to_all: bool = False,
    log_format: logs.Form | None = None,
    store: Callable[[], Store] = session.store,
) -> int:
    """Serve until Ctrl-C or SIGTERM, and give the exit code. For the main thread, which signals arrive in.

    `app` is the entry file: what it does not draw cannot be reached from the browser. `page` is the one that is opened.
    The health endpoint asks `store`. Only the workbench itself has a sign-in.
    """
    from starlette.middleware import Middleware
    from streamlit.starlette import App

    from workbench.server.cookies import CookieGuard
    from workbench.server.uploads import UploadGuard

    check_port(port)
    gate = access.current() if app == APP else None
    form = logs.form_of(log_format)
    check_reach(host, gate, open_to_all=open_to_all or app != APP)
    port = _choose_port(host, port)
    logs.install(form, queries=os.environ.get(logs.QUERIES) == "1", secrets=gate.provider.secrets() if gate else ())
    names = own_names(host, gate)
    guards = [Middleware(OriginGuard, names), Middleware(UploadGuard)]
    if gate:
        cookie_secret = gate.provider.cookies.get_secret_value()
        os.environ["STREAMLIT_SERVER_COOKIE_SECRET"] = cookie_secret  # Streamlit takes it from there only
        guards.append(Middleware(CookieGuard, gate, cookie_secret))
    served = App(
        app,
        secrets={"auth": gate.provider.as_streamlit_has_it()} if gate else None,
        routes=[Health(store).route()],
        middleware=guards,
    )
    threading.Thread(target=_announce, args=(host, port, open_browser, page, form), daemon=True).start()
    # The server ends in good order and then raises the signal anew, which would end this process before it tidies up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.argv[:] = [str(app)]  # else Streamlit looks for settings beside the program that was started
    try:
        with following_roles(gate):
            served.run(config=settings(host, port, gate))
    except KeyboardInterrupt:
        return 0
    finally:
        access.forget()
        session.close()
    return 0


def own_names(host: str, gate: AccessControl | None) -> HostNames:
    """The names under which this server answers. Under any other, a site could point its own name at this machine."""
    return host_names(host, gate.provider.host if gate else "")


def check_reach(host: str, gate: AccessControl | None, *, open_to_all: bool = False) -> None:
    """Refuse to serve others without a sign-in, unless it is insisted on, and a sign-in whose roles have a mistake."""
    if gate is not None:
        _ = gate.access  # a mistake is refused now, and not at somebody's first click
    elif host not in LOOPBACK and not open_to_all:
        raise InputError(
            f"On {host!r} everybody who reaches this machine could read, change and drop everything. Set up a sign-in "
            f"(docs/serving.md), or insist with {INSIST} where something else keeps strangers out."
        )


def check_port(port: int | None) -> None:
    """Refuse a number that no port has; 0 stands for any that is free."""
    if port is not None and not 0 <= port <= LAST_PORT:
        raise InputError(f"There is no port {port}: ports are numbered from 1 to {LAST_PORT}.")


def settings(host: str, port: int, gate: AccessControl | None = None) -> dict[str, Any]:
    """Streamlit's settings."""
    names = own_names(host, gate)
    any_name = names.addresses and gate is None  # Streamlit cannot be told "any address"; OriginGuard checks
    return {
        "server.address": host,
        "server.port": port,
        "server.allowedHosts": [] if any_name else sorted(names.names),
        "server.headless": True,  # no question for an e-mail address; the browser is opened here
        "server.fileWatcherType": "none",
        "server.enableXsrfProtection": True,
        "server.enableCORS": True,
        "server.corsAllowedOrigins": [],
        "server.trustedUserHeaders": {},  # the sign-in alone says who somebody is
        "server.enableAgentApi": False,
        "server.enableStaticServing": False,
        "server.maxUploadSize": LARGEST_FILE,
        "secrets.files": [],  # not those of the folder that one happens to be in
        "browser.gatherUsageStats": False,
        "client.toolbarMode": "minimal",
        "client.showErrorDetails": "none",
        "logger.hideWelcomeMessage": True,
        "logger.level": "warning",
        "runner.magicEnabled": False,
        # A widget gets its value twice, as its default too: one that is mounted anew knows the default alone.
        "global.disableWidgetStateDuplicationWarning": True,
        "runner.postScriptGC": False,  # with a model in memory it takes half a second, in which nothing else is done
        "theme.font": "sans-serif",
        **OPTIONS,
    }


def _choose_port(host: str, wanted: int | None) -> int:
    """The port that is wanted, or the first free one."""
    if wanted and _bind(host, wanted) is None:
        raise InputError(f"Port {wanted} of {host} cannot be used. Leave --port out, and a free one is found.")
    ports = range(FIRST_PORT, FIRST_PORT + PORTS_TRIED) if wanted is None else (wanted,)
    free = (port for candidate in (*ports, 0) if (port := _bind(host, candidate)) is not None)  # 0: any that is free
    return next(free)


def _bind(host: str, port: int) -> int | None:
    """The number of the port, bound for a moment; None where it cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as bound:
            # As the server itself does: a port that was just given up may be taken again.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(1)
            return int(bound.getsockname()[1])
    except socket.gaierror:
        raise InputError(f"{host!r} is not an address of this machine. Try 127.0.0.1, or 0.0.0.0 for all.") from None
    except OSError:
        return None


def _announce(host: str, port: int, open_browser: bool, page: str, form: logs.Form) -> None:
    """Say where the pages are once they answer, and open a browser."""
    url = address(host, port)
    pause = threading.Event()
    for _ in range(PATIENCE * 10):
        try:
            with urllib.request.urlopen(f"{url}/_stcore/health", timeout=2):  # noqa: S310 - our own server
                break
        except (urllib.error.URLError, OSError):
            pause.wait(0.1)
    else:
        return
    if form == "json":
        logs.info("open", address=f"{url}{page}")
    else:
        print(f"Rankbook is open at {url}{page} (Ctrl-C stops it)", flush=True)
    if open_browser:
        webbrowser.open(f"{url}{page}")


def address(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(host, host)  # noqa: S104 - only compared
    return f"http://{name}:{port}"
