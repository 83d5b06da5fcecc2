"""The workbench in a browser: the demo collection where there is none, the pages, and the way out."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from workbench.commands import telling

DEMO = "handbook"


def start(port: int | None, host: str, *, browser: bool, demo: bool = True, page: str = "") -> NoReturn:
    """Open it, at a page of it, until Ctrl-C ends it; and with it this process."""
    from workbench.serve import check_port, serve

    check_port(port)  # before the demo is loaded, which takes its time
    if demo:
        _load_demo()
    code = serve(port=port, host=host, open_browser=browser, page=page)
    sys.stdout.flush()
    os._exit(code)  # a model still loading in the background would make the interpreter wait, and then complain


def _load_demo() -> None:
    from core import bridge
    from evals import library
    from evals.overview import needs_demo
    from evals.sources import guess
    from workbench.session import store

    opened = store(telling.say)
    if not bridge.run(needs_demo(opened, DEMO)):
        return
    telling.say("Loading the demo collection, which happens once.")
    source = guess(DEMO)
    with telling.progress() as listener:
        bridge.run(library.add(opened, DEMO, source, library.plan_for(source), listener=listener))
