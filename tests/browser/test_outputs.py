"""The views of search and fusion cells in Chromium: what the pointer does, and that a corpus's text stays text."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.corpus import MARKUP, SCRIPT
from tests.browser.conftest import Browse

pytestmark = pytest.mark.browser

BOOK = """# Seen

```notebook
collection = "kettles"
split = "all"
```

```search apart
query_id = "q1"
variants = ["bm25", "fulltext"]
```

```search trapped
collection = "hostile"
query = "trap"
variants = ["bm25", "fulltext"]
```

```fusion weights
legs = ["bm25", "trigram"]
looked_on = "all"
steps = 10
```
"""
Open = Callable[..., Page]


@pytest.fixture
def book(home: Path) -> Iterator[str]:
    """A notebook that nothing ran in yet: what is seen in it is this test's own."""
    name = f"seen-{uuid.uuid4().hex[:8]}"
    folder = home / "notebooks"
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.md"
    file.write_text(BOOK, encoding="utf-8")
    yield name
    file.unlink()


@pytest.fixture
def read(browse: Browse, address: str, book: str) -> Open:
    """Opens the notebook."""

    def go(*, width: int = 1440, **place: str) -> Page:
        return browse(f"{address}/notebook?{urlencode({'notebook': book, **place})}", width=width, height=1000)

    return go


def ran(page: Page, name: str, shows: str) -> Locator:
    """The cell, once it shows what it came to."""
    cell = page.locator(f".st-key-cell-{name}")
    cell.get_by_role("button", name="Run", exact=True).click()
    cell.locator(shows).first.wait_for(timeout=60_000)
    expect(page.get_by_role("button", name="Stop", exact=True, disabled=False)).to_have_count(0)
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
    return cell


def test_a_card_says_why_it_is_there_and_a_link_opens_it_again(read):
    page = read()
    cell = ran(page, "apart", ".card")
    cell.locator(".column").nth(1).locator(".ask").first.click()
    expect(cell.locator(".why .legs td.leg")).to_have_text("Full text")
    expect(cell.locator(".why .account li").first).to_contain_text("is there, at rank 1 of")
    page.wait_for_url("**against=fulltext**")
    page.reload()
    expect(page.locator(".st-key-cell-apart .why .account li").first).to_contain_text("is there, at rank 1 of")


def test_what_only_one_column_has_is_told_apart_and_lines_lead_to_what_both_have(read):
    page = read()
    cell = ran(page, "apart", ".card")
    both = cell.locator(".share").filter(has_text="both")
    shared = int(both.inner_text().split()[0])
    expect(cell.locator(".lines path")).to_have_count(shared)
    both.click()
    expect(both).to_have_attribute("aria-pressed", "true")
    expect(cell.locator(".card:not(.dim)")).to_have_count(2 * shared)


def test_a_corpuss_texts_are_text_in_cards_and_in_a_document(read):
    page = read()
    cell = ran(page, "trapped", ".card")
    title = cell.locator(".card .title").filter(has_text=f"Trap {SCRIPT} {MARKUP}").first
    expect(title).to_be_visible()
    title.click()
    expect(page.get_by_role("dialog").locator(".text")).to_contain_text(SCRIPT)
    assert page.evaluate("() => window.harmed") is None
    assert page.locator("[onerror]").count() == 0


def test_columns_on_a_phone_are_swiped_and_the_page_is_not(read):
    page = read(width=390)
    cell = ran(page, "apart", ".card")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    scroller = cell.locator(".scroller").element_handle()
    page.wait_for_function("box => box.scrollWidth > box.clientWidth", arg=scroller)


def test_in_a_cell_too_all_follows_while_the_pointer_is_down(read):
    page = read()
    cell = ran(page, "weights", ".list li")
    box = cell.locator(".plot svg").bounding_box()
    assert box
    cell.locator(".plot svg").scroll_into_view_if_needed()
    seen = []
    box = cell.locator(".plot svg").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    for across in (0.03, 0.5, 0.97):
        page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * 0.5, steps=3)
        seen.append(
            (
                cell.locator(".slider output").all_inner_texts(),
                cell.locator(".list .stack").first.get_attribute("aria-label"),
            )
        )
    assert len({str(each) for each in seen}) == 3
    assert "weights=" not in page.url
    page.mouse.up()
    page.wait_for_url("**cell=weights&weights=10-0**")
