"""Takes the README's pictures of the demo collection: `make pictures`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, SERVE

FOLDER = Path(__file__).parents[2] / "docs"
DEMO = (
    "import sys; from workbench.cli import main; "
    "sys.argv[1:] = ['demo', 'handbook', '--blind', '--port', '0', '--no-browser']; main()"
)
HEAD = 170  # pixels of the bars that stay at the top
AT_REST = 1500  # milliseconds, after which nothing moves any more


def main() -> None:
    with served(SERVE) as address:
        take(f"{address}/notebook?notebook=tour", FOLDER / "notebook.png", ran)
        weighed = "legs=bm25,vector,fulltext&weights=9-7-4&split=train"
        take(f"{address}/weights?{weighed}", FOLDER / "weights.png", lambda page: first(page, ".list .row"))
    with served(DEMO) as address:
        take(address, FOLDER / "demo.png", answered)


@contextmanager
def served(program: str) -> Iterator[str]:
    """Where the pages are, once they are there."""
    server = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        told = next(line for line in server.stdout if " is open at " in line)
        yield told.split()[4]
    finally:
        server.terminate()
        server.wait(30)


def take(address: str, file: Path, ready: Callable[[Page], None]) -> None:
    """Twice: the first time the model loads, which is not what a figure of milliseconds should show."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 860}, device_scale_factor=1)
        page.set_default_timeout(120_000)
        for _ in range(2):
            page.goto(address)
            ready(page)
        page.wait_for_timeout(AT_REST)
        page.screenshot(path=file)
        browser.close()


def first(page: Page, selector: str) -> None:
    page.locator(selector).first.wait_for()


def ran(page: Page) -> None:
    """The tour, every cell of it; the picture shows its scores."""
    page.get_by_role("button", name="Run all").click()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    page.wait_for_timeout(AT_REST)
    page.get_by_text("Which is better, and how sure is that?").evaluate("each => each.scrollIntoView()")
    page.mouse.move(640, 500)
    page.mouse.wheel(0, -HEAD)


def answered(page: Page) -> None:
    page.get_by_role("button").filter(has_text="?").first.click()
    page.get_by_text("Which is better?").wait_for()


if __name__ == "__main__":
    main()
