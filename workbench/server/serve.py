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
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import text

from core import bridge
from core.errors import InputError
from core.store.engine import Store
from workbench import session
from workbench.server import access, logs
from workbench.server.access import AccessControl
from workbench.server.follow_roles import watched
from workbench.server.origin import LOOPBACK, HostNames, OriginGuard, host_names
from workbench.server.theme import OPTIONS

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

PATH: Final = "/health"
HEALTH_PATIENCE: Final = 3.0  # seconds that the database has to answer
FRESH: Final = 1.0  # seconds for which an answer stands


class Health:
    """One question at a time, whoever asks. `store` may block: it opens what is not open yet."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._asking: asyncio.Task[bool] | None = None
        self._said: tuple[float, bool] = (-FRESH, False)

    def route(self) -> Route:
        from starlette.routing import Route

        return Route(PATH, self.answer, methods=["GET", "HEAD"])

    async def answer(self, _: Request) -> Response:
        from starlette.responses import JSONResponse

        well = await self._well()
        told = {"status": "ok" if well else "unavailable", "store": "answers" if well else "does not answer"}
        return JSONResponse(told, 200 if well else 503, headers={"Cache-Control": "no-store"})

    async def _well(self) -> bool:
        at, said = self._said
        if time.monotonic() - at < FRESH:
            return said
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(self._answers))
        done, _ = await asyncio.wait({self._asking}, timeout=HEALTH_PATIENCE)
        self._said = time.monotonic(), bool(done) and self._asking.result()
        return self._said[1]

    def _answers(self) -> bool:
        try:
            bridge.run(_ask(self._store()))
        except Exception as error:
            logs.told("store_unavailable", error=type(error).__name__)
            return False
        return True


async def _ask(store: Store) -> None:
    async with store.begin(read_only=True) as connection:
        await connection.execute(text("SELECT 1"))


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
    """Serve until Ctrl-C or SIGTERM. Call it in the main thread: signals arrive there. Gives the exit code.

    `app` is the entry file: what it does not draw cannot be reached from the browser. `page` is what is opened of it.
    `store` is what the health endpoint asks. Only the workbench itself has a sign-in.
    """
    check_port(port)
    gate = access.current() if app == APP else None
    form = logs.form_of(log_format)
    check_reach(host, gate, open_to_all=open_to_all or app != APP)
    chosen = _port(host, port)
    logs.install(form, queries=os.environ.get(logs.QUERIES) == "1", secrets=gate.provider.secrets() if gate else ())
    if gate:  # which Streamlit takes from the environment only
        os.environ["STREAMLIT_SERVER_COOKIE_SECRET"] = gate.provider.cookies.get_secret_value()
    threading.Thread(target=_announce, args=(host, chosen, open_browser, page, form), daemon=True).start()
    try:
        with watched(gate):
            _run(app, settings(host, chosen, gate), own_names(host, gate), gate, store)
    except KeyboardInterrupt:
        return 0
    finally:
        access.forget()
        session.close()
    return 0


def _run(
    app: Path, settings: Mapping[str, Any], names: HostNames, gate: AccessControl | None, store: Callable[[], Store]
) -> None:
    from starlette.middleware import Middleware
    from streamlit.starlette import App

    from workbench.server.cookies import CookieGuard
    from workbench.server.uploads import UploadGuard

    guards = [Middleware(OriginGuard, names), Middleware(UploadGuard)]
    if gate:
        guards.append(Middleware(CookieGuard, gate, gate.provider.cookies.get_secret_value()))

    served = App(
        app,
        secrets={"auth": gate.provider.as_streamlit_has_it()} if gate else None,
        routes=[Health(store).route()],
        middleware=guards,
    )
    # The server ends in good order and then raises the signal anew, which would end this process before it tidies up.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.argv[:] = [str(app)]  # else Streamlit looks for settings beside the program that was started
    served.run(config=settings)


def own_names(host: str, gate: AccessControl | None) -> HostNames:
    """By which names pages are asked for. Another site could else point its own name at this machine."""
    return host_names(host, gate.provider.host if gate else "")


def check_reach(host: str, gate: AccessControl | None, *, open_to_all: bool = False) -> None:
    """Refuse to let others in who have not said who they are, unless somebody insists; and a sign-in without roles."""
    if gate is not None:
        _ = gate.access  # refused now, and not at somebody's first click
    elif host not in LOOPBACK and not open_to_all:
        raise InputError(
            f"On {host!r} everybody who reaches this machine could read, change and drop everything. Set up a sign-in "
            f"(docs/serving.md), or insist with {INSIST} where something else keeps strangers out."
        )


def check_port(wanted: int | None) -> None:
    """Refuse a number that no port has; 0 stands for any that is free."""
    if wanted is not None and not 0 <= wanted <= LAST_PORT:
        raise InputError(f"There is no port {wanted}: ports are numbered from 1 to {LAST_PORT}.")


def settings(host: str, port: int, gate: AccessControl | None = None) -> dict[str, Any]:
    """Streamlit's settings."""
    names = own_names(host, gate)
    any_name = names.addresses and gate is None  # it cannot say: any address; what stands before it can
    return {
        "server.address": host,
        "server.port": port,
        "server.allowedHosts": [] if any_name else sorted(names.names),
        "server.headless": True,  # no question for an e-mail address; the browser is opened here
        "server.fileWatcherType": "none",
        "server.enableXsrfProtection": True,
        "server.enableCORS": True,
        "server.corsAllowedOrigins": [],
        "server.trustedUserHeaders": {},  # who somebody is, the sign-in alone says
        "server.enableAgentApi": False,
        "server.enableStaticServing": False,
        "server.maxUploadSize": LARGEST_FILE,
        "secrets.files": [],  # what lies in the folder that one happens to be in is none of ours
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


def _port(host: str, wanted: int | None) -> int:
    """The port asked for, or the first free one."""
    if wanted is not None:
        if wanted and not _free(host, wanted):
            raise InputError(f"Port {wanted} of {host} cannot be used. Leave --port out, and a free one is found.")
        return wanted or _any_port(host)
    for port in range(FIRST_PORT, FIRST_PORT + PORTS_TRIED):
        if _free(host, port):
            return port
    return _any_port(host)


def _free(host: str, port: int) -> bool:
    try:
        with _bound(host, port):
            return True
    except socket.gaierror:
        raise InputError(f"{host!r} is not an address of this machine. Try 127.0.0.1, or 0.0.0.0 for all.") from None
    except OSError:
        return False


def _any_port(host: str) -> int:
    with _bound(host, 0) as bound:
        number: int = bound.getsockname()[1]
        return number


def _bound(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    made = socket.socket(family, kind, protocol)
    try:
        # As the server itself does: a port that was just given up may be taken again.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(1)
    except BaseException:
        made.close()
        raise
    return made


def _announce(host: str, port: int, open_browser: bool, page: str, form: logs.Form) -> None:
    """Say where the pages are once they are there, and show them."""
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
        logs.told("open", address=f"{url}{page}")
    else:
        print(f"Rankbook is open at {url}{page} (Ctrl-C stops it)", flush=True)
    if open_browser:
        webbrowser.open(f"{url}{page}")


def address(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(host, host)  # noqa: S104 - only compared
    return f"http://{shown}:{port}"
