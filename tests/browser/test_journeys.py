"""Ways through several pages, as a person goes them; and every page on a desk and on a phone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Browse

pytestmark = pytest.mark.browser

NOTEBOOK = """# Is it better?

```notebook
collection = "kettles"
split = "all"
```

```evaluate which
variants = ["bm25", "NAME"]
```
"""
PAGES = {
    "search": "?collection=kettles",
    "notebook": "?notebook=is-it-better",
    "weights": "?collection=kettles&legs=bm25,fulltext&split=all",
    "collections": "?collection=kettles",
    "variants": "?variant=hybrid-retriever",
    "runs": "",
    "judge": "?collection=kettles",
}
Open = Callable[..., Page]


@pytest.fixture
def window(browse: Browse, address: str) -> Open:
    """Opens a page."""
    return lambda path, **look: browse(f"{address}/{path}", **look)


@pytest.fixture
def write(home: Path) -> Iterator[Callable[[str], None]]:
    """Writes the notebook, with that variant in it."""
    folder: Path = home / "notebooks"
    folder.mkdir(exist_ok=True)
    file = folder / "is-it-better.md"

    def with_variant(name: str) -> None:
        file.write_text(NOTEBOOK.replace("NAME", name), encoding="utf-8")

    yield with_variant
    file.unlink()


def test_weights_that_are_kept_are_a_variant_that_a_notebook_evaluates(window, home, write):
    page = window("weights?collection=kettles&legs=bm25,fulltext&weights=5-15&split=all")
    page.get_by_role("button", name="Keep as variant").click()
    name = page.get_by_role("status").filter(has_text="Kept as").locator("b").inner_text()
    try:
        write(name)
        page = window("notebook?notebook=is-it-better")
        page.get_by_role("button", name="Run all").click()
        expect(page.locator(".st-key-part-which").get_by_role("row").filter(has_text=name).first).to_be_visible()
        page = window(f"variants?variant={name}")
        expect(page.get_by_text(name).first).to_be_visible()
    finally:
        for kept in (home / "variants").iterdir():
            kept.unlink()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
@pytest.mark.parametrize("name", PAGES)
def test_every_page_fits_its_screen_and_complains_of_nothing(window, write, picture, name, width, scheme):
    write("vector")
    page = window(f"{name}{PAGES[name]}", width=width, scheme=scheme)
    expect(page.get_by_test_id("stMain").locator("button, input").first).to_be_attached()
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", re.compile("notRunning|stopped"))
    assert page.locator(".rb-complaint, [data-testid=stException]").count() == 0
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth <= window.innerWidth")
    picture(page, f"{name}-{width}-{scheme}")
