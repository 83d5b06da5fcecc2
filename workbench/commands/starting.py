"""The workbench in a browser: the demo collection where there is none, the pages, and the way out."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from typing import Annotated, NoReturn

import typer

from workbench.commands import telling

DEMO = "handbook"

Port = Annotated[int | None, typer.Option(help="The port; by default 8501, or the next that is free.")]
Host = Annotated[
    str, typer.Option(help="The address to listen on; beyond loopback only with a sign-in: docs/serving.md.")
]
OpenToAll = Annotated[
    bool, typer.Option("--open-to-all", help="Listen beyond loopback without a sign-in: whoever gets there owns all.")
]
Browser = Annotated[bool, typer.Option(help="Open a browser window.")]


def start(
    port: int | None,
    host: str,
    *,
    browser: bool,
    demo: bool = True,
    page: str = "",
    open_to_all: bool = False,
    log_format: str | None = None,
) -> NoReturn:
    """Open it, at a page of it, until Ctrl-C ends it; and with it this process."""
    from workbench import logs
    from workbench.access import gate
    from workbench.serve import check_port, check_reach, serve

    check_port(port)  # before the demo is loaded, which takes its time
    form = logs.form_of(log_format)
    check_reach(host, gate.current(), open_to_all=open_to_all)
    if form == "json":
        logs.install(form)
    if demo:
        _load_demo(quiet=form == "json")
    code = serve(port=port, host=host, open_browser=browser, page=page, open_to_all=open_to_all, log_format=form)
    sys.stdout.flush()
    os._exit(code)  # a model still loading in the background would make the interpreter wait, and then complain


def _load_demo(*, quiet: bool) -> None:
    from core import bridge
    from core.store.progress import nobody
    from evals import library
    from evals.overview import needs_demo
    from evals.sources import guess
    from workbench import logs
    from workbench.session import store

    def say(sentence: str) -> None:
        if quiet:
            logs.told("starting", says=sentence)
        else:
            telling.say(sentence)

    opened = store(say if quiet else telling.say)  # which hears of the server's start already, and is told once
    if not bridge.run(needs_demo(opened, DEMO)):
        return
    say("Loading the demo collection, which happens once.")
    source = guess(DEMO)
    with nullcontext(nobody) if quiet else telling.progress() as listener:
        bridge.run(library.add(opened, DEMO, source, library.plan_for(source), listener=listener))
