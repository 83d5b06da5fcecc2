"""Takes the README's pictures of the demo collection: `make pictures`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import sync_playwright

from tests.browser.conftest import CHROMIUM, FLAGS, SERVE

FOLDER = Path(__file__).parents[2] / "docs"
QUERY = "How do I reset a Hub Mini that sits behind the dashboard?"


def main() -> None:
    server = subprocess.Popen([sys.executable, "-c", SERVE], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[4]
        take(f"{address}/?collection=handbook&query={quote(QUERY)}", FOLDER / "search.png")
    finally:
        server.terminate()
        server.wait(30)


def take(address: str, file: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1280, "height": 860}, device_scale_factor=1)
        for _ in range(2):  # the first time the model loads, which is not what a figure of milliseconds should show
            page.goto(address)
            for leg in ("Vector", "Full text", "Trigram"):
                page.get_by_role("list", name=f"Results of {leg}").locator(".card").first.wait_for(timeout=60_000)
        page.wait_for_timeout(1000)
        page.screenshot(path=file)
        browser.close()


if __name__ == "__main__":
    main()
