"""How soon the workbench is there on a set-up machine, and how soon another page is, in Chromium on the demo."""

from __future__ import annotations

import subprocess
import sys
import time

from playwright.sync_api import Page, sync_playwright

from tests.bench.figures import Figure, below, percentile
from tests.bench.sessions import load_demo
from tests.browser.conftest import CHROMIUM, FLAGS

START = "from workbench.cli import main; import sys; sys.argv[1:] = ['--port', '0', '--no-browser']; main()"
PAGES = {
    "Search": ".rb-tagline",
    "Weights": ".slider",
    "Collections": ".st-key-collections-head",
    "Variants": "text=hybrid-retriever",
    "Notebook": "text=A tour of Rankbook",
}
ROUNDS = 5


def measure() -> list[Figure]:
    load_demo()
    begun = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-c", START], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(line for line in server.stdout if " is open at " in line).split()[4]
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.goto(address)
            page.locator("input").first.wait_for(timeout=60_000)
            first = time.perf_counter() - begun
            switched = _switched(page)
            browser.close()
    finally:
        server.terminate()
        server.wait(30)
    return [
        below("rankbook to its first usable page, Chromium's start included, seconds", first, 6, "{:.2f}"),
        below("page switch, p95 ms", percentile(switched, 0.95), 500),
    ]


def _switched(page: Page) -> list[float]:
    """Milliseconds from the click on a page's name to what only that page has; each was seen once before."""
    taken = []
    for turn in range(ROUNDS):
        for name, sign in PAGES.items():
            begun = time.perf_counter()
            page.get_by_role("link", name=name, exact=True).click()
            page.locator(sign).first.wait_for(timeout=60_000)
            if turn:
                taken.append((time.perf_counter() - begun) * 1000)
            page.wait_for_timeout(500)
    return taken
