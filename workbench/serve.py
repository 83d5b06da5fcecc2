"""Starts the pages: Streamlit in this very process, so that one process holds the store and one Ctrl-C ends it.

All settings are flags, because a wheel has no `.streamlit` folder and may be started from any.
"""

from __future__ import annotations

import os
import socket
import threading
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

from core.errors import InputError
from workbench import session
from workbench.ui.theme import OPTIONS

APP = Path(__file__).with_name("app.py")
FIRST_PORT, PORTS_TRIED = 8501, 50
LAST_PORT = 65535
LOOPBACK = {"127.0.0.1", "localhost", "::1"}
PATIENCE = 60


def serve(
    port: int | None = None, host: str = "127.0.0.1", open_browser: bool = True, app: Path = APP, page: str = ""
) -> int:
    """Serve until Ctrl-C or SIGTERM. Call it in the main thread: signals arrive there. Gives the exit code.

    `app` is the entry file: what it does not draw cannot be reached from the browser. `page` is what is opened of it.
    """
    from streamlit.web import cli

    check_port(port)
    chosen = _port(host, port)
    if host in LOOPBACK:
        # Another site must not reach a page on loopback by pointing its own name at it. Older releases ignore this.
        os.environ.setdefault("STREAMLIT_SERVER_ALLOWED_HOSTS", "localhost 127.0.0.1 [::1]")
    threading.Thread(target=_announce, args=(host, chosen, open_browser, page), daemon=True).start()
    try:
        cli.main(["run", str(app), *flags(host, chosen)], prog_name="rankbook", standalone_mode=False)
    except KeyboardInterrupt:  # before the server had its own handler
        return 130
    finally:
        session.close()
    return 0


def check_port(wanted: int | None) -> None:
    """Refuse a number that no port has; 0 stands for any that is free."""
    if wanted is not None and not 0 <= wanted <= LAST_PORT:
        raise InputError(f"There is no port {wanted}: ports are numbered from 1 to {LAST_PORT}.")


def flags(host: str, port: int) -> list[str]:
    """Streamlit's settings, as its command line takes them."""
    settings = {
        "server.address": host,
        "server.port": port,
        "server.headless": True,  # no question for an e-mail address; the browser is opened here
        "server.fileWatcherType": "none",
        "server.enableXsrfProtection": True,
        "server.enableCORS": True,
        "server.enableStaticServing": False,
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
    return [f"--{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in settings.items()]


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


def _announce(host: str, port: int, open_browser: bool, page: str) -> None:
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
    print(f"Rankbook is open at {url}{page} (Ctrl-C stops it)", flush=True)
    if open_browser:
        webbrowser.open(f"{url}{page}")


def address(host: str, port: int) -> str:
    """What to type into a browser on this machine."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "::1": "[::1]"}.get(host, host)  # noqa: S104 - only compared
    return f"http://{shown}:{port}"
