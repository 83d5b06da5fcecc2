"""The Collections page in Chromium: a collection out of uploaded files, found, searched, looked through, dropped."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect
from playwright.sync_api import TimeoutError as TooEarly

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.collections import load
from evals.schema import schema_chain
from tests.app.corpus import SCRIPT
from tests.browser.conftest import report

pytestmark = pytest.mark.browser

UPLOADED = "lamps and chairs"
FILES = {
    "corpus.jsonl": [
        {"_id": "lamp", "title": f"Lamp {SCRIPT}", "text": "Turn the lamp on by its cord."},
        {"_id": "chair", "title": "Chair", "text": "Four legs and no arms."},
        {"text": "It has no id."},
    ],
    "queries.jsonl": [{"_id": "q1", "text": f"where is the cord {SCRIPT}"}],
}


@pytest.fixture
def opened(visit: Callable[..., Page]) -> Callable[..., Page]:
    """The Collections page, on the way that people take."""

    def go(width: int = 1440, scheme: str = "light") -> Page:
        page = visit("/?collection=kettles", width=width, scheme=scheme)
        page.goto(page.url.split("?")[0] + "collections")
        expect(table(page, "Collections")).to_contain_text("kettles")
        return page

    return go


@pytest.fixture
def dropped(home: Path) -> Iterator[None]:
    """Other tests say which collections the home has."""
    yield
    store = bridge.run(Store.open(home=home, chains=[schema_chain]))
    if bridge.run(collections.find(store, UPLOADED)) is not None:
        bridge.run(load.drop(store, UPLOADED))
    bridge.run(store.close())


def table(page: Page, label: str) -> Locator:
    return page.get_by_role("table", name=label, exact=True)


def address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "\n".join(json.dumps(row) for row in rows).encode()


def upload(page: Page) -> None:
    contents = {name: lines(rows) for name, rows in FILES.items()}
    contents["test.tsv"] = b"query-id\tcorpus-id\tscore\nq1\tlamp\t2\n"
    files: list[FilePayload] = [
        {"name": name, "mimeType": "text/plain", "buffer": content} for name, content in contents.items()
    ]
    page.locator("input[type=file]").set_input_files(files)


def test_uploaded_files_become_a_collection_that_is_searched_and_dropped(opened, dropped, picture):
    page = opened()
    page.get_by_role("button", name="Add a collection").click()
    page.get_by_role("radio", name="Upload files").click()
    upload(page)
    expect(table(page, "The first documents")).to_contain_text("Turn the lamp on")
    expect(page.get_by_text("1 remark on the first rows")).to_be_visible()
    page.get_by_role("textbox", name="Name", exact=True).fill(UPLOADED)
    page.get_by_role("textbox", name="Name", exact=True).press("Enter")
    expect(page.get_by_role("button", name="Import")).to_be_enabled()
    page.get_by_role("combobox", name=re.compile("Embedding model")).click()
    page.get_by_role("option", name="none: search by words only").click()
    picture(page, "collections-add")
    page.get_by_role("button", name="Import").click()

    card = report(page, UPLOADED)  # other tests leave theirs
    expect(card.get_by_text("2 documents added")).to_be_visible()
    row = table(page, "Collections").get_by_role("row", name=re.compile(UPLOADED))
    expect(row).to_contain_text("loaded")
    page.reload()
    expect(card.get_by_text("2 documents added")).to_be_visible()
    card.get_by_text("1 remark on the input").click()
    expect(card.get_by_role("table", name="Remarks on the input")).to_contain_text("corpus.jsonl, line 3")
    picture(page, "collections-report")

    card.get_by_role("button", name="Show it").click()
    expect(page.get_by_role("heading", name=UPLOADED)).to_be_visible()
    page.get_by_role("link", name="Search it").first.click()
    box = page.get_by_role("textbox", name="Query")
    box.fill("cord")
    box.press("Enter")
    found = page.get_by_role("list", name="Results of Full text").locator(".title").first
    expect(found).to_have_text(f"Lamp {SCRIPT}")
    assert page.evaluate("window.harmed") is None

    page.goto(page.url.split("?")[0] + f"collections?collection={UPLOADED}&view=out")
    page.get_by_role("button", name="Drop the collection").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("can be brought back")
    gone = dialog.get_by_role("button", name="Drop it")
    expect(gone).to_be_disabled()
    dialog.get_by_role("textbox").fill(UPLOADED)
    dialog.get_by_role("textbox").press("Enter")
    gone.click()
    expect(page.get_by_text("is gone.")).to_be_visible()
    expect(table(page, "Collections")).not_to_contain_text(UPLOADED)
    card.get_by_role("button", name="Close").click()
    expect(card).to_have_count(0)


def test_documents_are_found_while_one_types_and_open_with_their_chunks(opened, picture):
    page = opened()
    table(page, "Collections").get_by_role("button", name="kettles").click()
    page.get_by_role("radio", name="Documents").click()
    rows = table(page, "Documents").locator("tbody tr")
    expect(rows).to_have_count(4)
    page.get_by_role("searchbox", name="Filter by id or title").press_sequentially("warr")
    expect(rows).to_have_count(1)  # without Enter
    page.wait_for_function("() => location.search.includes('find=warr')")
    rows.first.click()
    text = page.get_by_role("document", name="The document's text")
    expect(text.locator(".mark").first).to_have_text("0")
    expect(text).to_contain_text("Two years on every kettle.")
    expect(page.get_by_role("searchbox")).to_have_value("warr")
    assert address(page)["document"] == ["warranty"]
    picture(page, "collections-document")
    table(page, "Queries that this document was judged for").get_by_role("button", name="ketle warrenty").click()
    expect(table(page, "Documents judged for this query")).to_contain_text("Warranty")
    assert (address(page)["view"], address(page)["query"]) == (["queries"], ["q3"])
    page.go_back()
    expect(page.get_by_role("searchbox", name="Filter by id or title")).to_have_value("warr")


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_nothing_is_wider_than_the_screen(opened, picture, width, scheme):
    page = opened(width, scheme)
    table(page, "Collections").get_by_role("button", name="hostile").click()
    expect(page.get_by_role("heading", name="What the import found")).to_be_visible()
    assert page.evaluate("document.querySelector('[data-testid=stMain]').scrollWidth <= window.innerWidth")
    assert page.evaluate("window.harmed") is None
    picture(page, f"collections-{width}-{scheme}")


def choose(page: Page, field: str, option: str) -> None:
    """A list closes where the page is drawn below it, so it is opened until the option was pressed."""
    box = page.get_by_role("combobox", name=field)
    for _ in range(20):
        if box.input_value() != option:
            box.press("ArrowDown")
            with suppress(TooEarly):
                page.get_by_role("option", name=option, exact=True).click(timeout=1000)
    expect(box).to_have_value(option)


def test_a_label_is_corrected_beside_its_query_and_that_is_undone(opened, picture):
    page = opened()
    table(page, "Collections").get_by_role("button", name="kettles").click()
    page.get_by_role("radio", name="Queries", exact=True).click()
    table(page, "Queries").get_by_role("button", name="ketle warrenty").click()
    judged = table(page, "Documents judged for this query").locator("tbody tr")
    expect(judged).to_contain_text("2")
    page.get_by_text("Correct a label").click()
    choose(page, "Document", "Warranty")
    choose(page, "Grade", "1")
    picture(page, "collections-correct")
    page.get_by_role("button", name="Correct the label").click()
    expect(page.get_by_role("status").filter(has_text="'train': 2 -> 1.")).to_be_visible()
    expect(judged).to_contain_text("1")
    page.get_by_text("1 change of this set").click()
    expect(table(page, "Changes of this query set")).to_contain_text("'q3' and 'warranty' in 'train': 2 -> 1")
    picture(page, "collections-changes")
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.get_by_role("status").filter(has_text="Undone: 'q3'")).to_be_visible()
    expect(judged).to_contain_text("2")
