"""The pages as a person gets them: `serve` in a process of its own, and Chromium before it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, Page, ViewportSize, expect, sync_playwright

from core import bridge
from core.store.engine import Store
from evals.collections import load
from evals.schema import schema_chain
from tests.app.corpus import HOSTILE, KETTLES, MODEL
from tests.conftest import make_home, remove_home, without_disk

PROJECT = Path(__file__).parents[2]
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")  # the first takes half the processor's time
CHROMIUM = os.environ.get("RANKBOOK_CHROMIUM") or next(filter(None, map(shutil.which, PROGRAMS)), None)
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--js-flags=--no-opt,--no-maglev",  # no page lives long enough to repay what optimising its scripts takes
)
HASHING = "import tests.app.corpus"  # registers an embedder without torch: meanings are not what is tried here
SERVE = f"{HASHING}; import sys; from workbench.server.serve import serve; sys.exit(serve(0, open_browser=False))"
Visit = Callable[..., Page]
Browse = Callable[..., Page]
Scheme = Literal["light", "dark"]

expect.set_options(timeout=60_000)  # the model loads once after a start, which takes its time on a busy machine


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A store with small collections."""
    made = make_home()
    store = bridge.run(Store.open(home=made, chains=[schema_chain]))
    without_disk(store)
    plan = load.LoadPlan(models=(MODEL,), fields=("type", "date"))
    for name, source in (("kettles", KETTLES), ("hostile", HOSTILE)):
        bridge.run(load.load_collection(store, name, source, plan))
    bridge.run(store.close())
    yield made
    remove_home(made)


def served(command: Sequence[str], home: Path, elsewhere: Path) -> Iterator[str]:
    """Where a command serves its pages, run in a folder that is not the project's. It must stop when it is asked to."""
    environment = {**os.environ, "RANKBOOK_HOME": str(home), "PYTHONPATH": str(PROJECT)}
    server = subprocess.Popen(
        [sys.executable, "-P", *command], cwd=elsewhere, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        said = re.search(r"http://\S+", server.stdout.readline())
        assert said, "the command says where the pages are"
        yield said[0]
    finally:
        server.send_signal(signal.SIGTERM)
        try:
            code = server.wait(60)
        except subprocess.TimeoutExpired:
            server.kill()
            raise
        finally:
            server.communicate()
    assert code == 0


@pytest.fixture(scope="session")
def address(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from served(("-c", SERVE), home, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = CHROMIUM or playwright.chromium.executable_path  # the latter is where Playwright puts its own
        if not Path(program).exists():
            pytest.skip("needs Chromium: install it, or set RANKBOOK_CHROMIUM to its path")
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def profile(chromium: Browser) -> Iterator[BrowserContext]:
    """Shared by the tests of a process, so that Streamlit's scripts are fetched and compiled once."""
    context = chromium.new_context()
    yield context
    context.close()


@pytest.fixture
def visitor(profile: BrowserContext) -> Iterator[BrowserContext]:
    """Somebody who was never here before: what a test leaves in the browser is gone after it, its pages too."""
    met: set[str] = set()

    def meet(page: Page) -> None:
        page.on("framenavigated", lambda frame: met.add("/".join(frame.url.split("/")[:3])))

    profile.on("page", meet)
    yield profile
    profile.remove_listener("page", meet)
    for page in profile.pages:
        page.close()
    blank = profile.new_page()
    tools = profile.new_cdp_session(blank)
    for origin in met:
        if origin.startswith("http"):
            tools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": "local_storage,indexeddb"})
    blank.close()
    profile.clear_cookies()


@pytest.fixture
def browse(chromium: Browser, visitor: BrowserContext) -> Iterator[Browse]:
    """Opens an address as somebody who was never here before; nothing may fail in it unseen.

    `strict`: it may say nothing in the console either, and ask for nothing but files, as it is offline.
    """
    failures: list[str] = []
    contexts: list[BrowserContext] = []

    def go(url: str, *, width: int = 1440, height: int = 900, scheme: Scheme = "light", strict: bool = False) -> Page:
        size: ViewportSize = {"width": width, "height": height}
        if strict:
            contexts.append(chromium.new_context(offline=True))
        page = (contexts[-1] if strict else visitor).new_page()
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=scheme)
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("dialog", lambda dialog: failures.append(dialog.message))
        if strict:
            page.on("console", lambda message: failures.append(message.text))
            page.on("request", lambda asked: failures.append(asked.url) if not asked.url.startswith("file:") else None)
        page.goto(url)
        return page

    yield go
    for context in contexts:
        context.close()
    assert failures == []


@pytest.fixture
def visit(browse: Browse, address: str) -> Visit:
    """Opens a page of a given width and colour scheme, and waits until its legs are there."""

    def go(path: str = "/", **look: Any) -> Page:
        page = browse(address + path, **look)
        page.locator(".rb-leg").first.wait_for()
        return page

    return go


@pytest.fixture
def picture() -> Callable[[Page, str], None]:
    """Keeps a screenshot where RANKBOOK_SCREENSHOTS says, if it says."""

    def take(page: Page, name: str) -> None:
        if folder := os.environ.get("RANKBOOK_SCREENSHOTS"):
            page.wait_for_timeout(300)  # for transitions to end; nothing is asserted on it
            page.screenshot(path=Path(folder) / f"{name}.png")

    return take


def report(page: Page, about: str) -> Locator:
    """What came of the work on one collection, whatever else was done at this address."""
    return page.locator('[class*="st-key-work-"][class*="-box"]').filter(has_text=about)
