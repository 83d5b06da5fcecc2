"""How soon the weights page answers: 225 queries x 3 legs x depth 100, on the server and in Chromium."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlencode

import numpy as np
from playwright.sync_api import Page, sync_playwright
from streamlit.testing.v1 import AppTest

from core import bridge
from core.types import Item, Query
from evals.collections import load
from evals.types import Label
from tests.app.corpus import Listed
from tests.bench.figures import Figure, below, percentile
from tests.browser.conftest import CHROMIUM, FLAGS, SERVE

NAME = "weights bench"
QUERIES, ITEMS, WORDS, TIMES = 225, 1400, 3000, 40
VIEW = {"collection": NAME, "legs": "bm25,fulltext,trigram", "split": "all"}


def measure() -> list[Figure]:
    _load()
    whole = _on_the_server()
    with _served() as page:
        dragged, released = _dragged(page), _released(page)
    return [
        below("weights page drawn anew at other weights, server, p95 ms", percentile(whole, 0.95), 200),
        below("drag to changed score and list, Chromium, p95 ms", percentile(dragged, 0.95), 400),
        below("release to the address that the server wrote, Chromium, p95 ms", percentile(released, 0.95), 400),
    ]


def corpus() -> Listed:
    """As many queries, documents and labels as cranfield has; words fall off as in language."""
    random = np.random.default_rng(0)
    words = [f"{''.join(random.choice(list('aeioubcdfglmnprst'), 6))}" for _ in range(WORDS)]
    odds = 1 / np.arange(1, WORDS + 1)

    def text(length: int) -> str:
        return " ".join(random.choice(words, length, p=odds / odds.sum()))

    documents = tuple(Item(f"d{number}", text(120), text(6)) for number in range(ITEMS))
    asked = tuple(Query(f"q{number}", text(12), f"kind {number % 4}") for number in range(QUERIES))
    judged = tuple(
        Label(query.id, f"d{item}", int(random.integers(1, 4)))
        for query in asked
        for item in sorted(random.choice(ITEMS, 8, replace=False).tolist())
    )
    return Listed(documents=documents, asked=asked, judged=judged)


def _load() -> None:
    from workbench import session

    bridge.run(load.load_collection(session.store(), NAME, corpus(), load.LoadPlan(chunks={}, models=(), check=False)))


def draw() -> None:
    from workbench import session
    from workbench.screens.weights import page as weights_page

    weights_page.render(session.store())


def _on_the_server() -> list[float]:
    """Milliseconds of whole runs: what a release draws, its fragment, is a part of that."""
    page = AppTest.from_function(draw, default_timeout=300)
    page.query_params.update(VIEW)
    page.run()
    taken = []
    for share in range(TIMES):
        page.query_params["weights"] = f"{share % 20}-{20 - share % 20}-0"
        begun = time.perf_counter()
        page.run()
        taken.append((time.perf_counter() - begun) * 1000)
    return taken


@contextmanager
def _served() -> Iterator[Page]:
    server = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[4]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.goto(f"{address}/weights?{urlencode(VIEW)}")
            page.locator(".list .row").first.wait_for(timeout=300_000)
            yield page
            browser.close()
    finally:
        server.terminate()
        server.wait(30)


def _spots(page: Page) -> list[tuple[float, float]]:
    box = page.locator(".plot svg").bounding_box()
    assert box
    return [
        (box["x"] + box["width"] * (0.35 + 0.3 * (at % 2)), box["y"] + box["height"] * (0.5 + 0.4 * at / TIMES))
        for at in range(TIMES)
    ]


def _dragged(page: Page) -> list[float]:
    """From the pointer's move to a changed score, the pointer being down."""
    spots = _spots(page)
    page.mouse.move(*spots[-1])
    page.mouse.down()
    taken = []
    for spot in spots:
        before = page.locator(".handle").get_attribute("aria-valuetext")
        begun = time.perf_counter()
        page.mouse.move(*spot)
        while page.locator(".handle").get_attribute("aria-valuetext") == before:
            pass
        taken.append((time.perf_counter() - begun) * 1000)
    page.mouse.up()
    return taken


def _released(page: Page) -> list[float]:
    """From the release to the address that the server wrote."""
    taken = []
    for spot in _spots(page):
        page.mouse.move(*spot)
        page.mouse.down()
        before = page.url
        begun = time.perf_counter()
        page.mouse.up()
        page.wait_for_function("before => location.href !== before", arg=before, polling=5)
        taken.append((time.perf_counter() - begun) * 1000)
    return taken
