"""The demo in Chromium: search, a chip, a blind vote that a reload keeps, and no way into the workbench."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.corpus import HOSTILE, MARKUP, SCRIPT
from tests.browser.conftest import HASHING, Browse, served

pytestmark = pytest.mark.browser

QUERY = "remove scale from the kettle"
COMMAND = ("-c", f"{HASHING}; from workbench.cli import main; main()", "demo", "--port", "0", "--no-browser")
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def blind(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = ("kettles", "--blind", "-v", "bm25", "-v", "vector", "--title", "Kettle help")
    yield from served((*COMMAND, *options), home, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture(scope="module")
def hostile(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    options = ("hostile", "-v", "bm25", "-n", f"Old {SCRIPT}", "-v", "vector", "-n", MARKUP, "--title", SCRIPT)
    yield from served((*COMMAND, *options), home, tmp_path_factory.mktemp("elsewhere"))


@pytest.fixture
def go(browse: Browse) -> Open:
    """Opens a demo as a visitor who was never here before."""

    def visit(address: str, query: str = "", *, path: str = "/", **look: Any) -> Page:
        page = browse(f"{address}{path}{f'?query={quote(query)}' if query else ''}", **look)
        page.locator(".demo-head").wait_for()
        return page

    return visit


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def way(page: Page, name: str) -> Locator:
    return page.locator(".st-key-demo-ballot").get_by_role("radio", name=name, exact=True)


def test_visitors_send_no_files(go, blind):
    """They would be held in memory, whatever the page makes of them."""
    page = go(blind)
    token = next(each["value"] for each in page.context.cookies() if each["name"] == "_streamlit_xsrf")
    sent = page.request.put(
        f"{blind}/_stcore/upload_file/window/file", data=b"much", headers={"X-Xsrftoken": token}, timeout=60_000
    )
    assert (sent.status, sent.text()) == (403, "You may not upload files here.")


def test_a_search_is_answered_side_by_side_and_its_words_are_marked(go, blind, picture):
    page = go(blind)
    expect(page.get_by_role("heading", name="Kettle help")).to_be_visible()
    picture(page, "demo-welcome")
    page.get_by_role("textbox", name="Search").fill("vinegar")
    page.keyboard.press("Enter")
    for name in ("A", "B"):
        expect(column(page, name).locator(".result").first).to_be_visible()
    expect(page.locator("mark", has_text="vinegar").first).to_be_visible()
    assert page.url.endswith("?query=vinegar")


def test_an_example_is_one_click_away_and_the_way_back_leads_to_the_start(go, blind):
    page = go(blind)
    page.get_by_role("button", name="E-42").click()
    expect(column(page, "A").locator(".result").first).to_be_visible()
    expect(page.get_by_role("textbox", name="Search")).to_have_value("E-42")
    page.go_back()
    expect(page.locator(".demo-welcome")).to_be_visible()


def test_a_blind_vote_shows_the_reasons_and_a_reload_keeps_it(go, blind, picture):
    page = go(blind, QUERY)
    for name in ("A", "B"):
        expect(column(page, name).locator(".result").first).to_be_visible()
    expect(page.locator(".why")).to_have_count(0)
    titles = page.locator(".result .title").all_inner_texts()
    way(page, "B").click()
    expect(page.get_by_text("Thank you")).to_be_visible()
    expect(page.locator(".why").first).to_contain_text("Found because")
    picture(page, "demo-voted")
    page.reload()
    expect(page.get_by_text("Thank you")).to_be_visible()
    expect(way(page, "B")).to_be_checked()
    expect(page.locator(".result .title")).to_have_text(titles)


def test_a_vote_is_changed_and_taken_back(go, blind):
    page = go(blind, "receipt")
    way(page, "A").click()
    expect(way(page, "A")).to_be_checked()
    way(page, "Neither").click()
    expect(way(page, "Neither")).to_be_checked()
    expect(way(page, "A")).not_to_be_checked()
    way(page, "Neither").click()
    expect(page.get_by_text("Vote, and see why")).to_be_visible()
    page.reload()
    expect(page.get_by_text("Vote, and see why")).to_be_visible()
    expect(way(page, "Neither")).not_to_be_checked()


@pytest.mark.parametrize("path", ["/search", "/weights", "/notebook", "/runs", "/app"])
def test_no_page_of_the_workbench_can_be_reached(go, blind, path):
    page = go(blind, path=path)
    expect(page.get_by_role("heading", name="Kettle help")).to_be_visible()
    assert page.locator(".rb-leg, .rb-tagline, .weights, [data-testid=stTopNavLink]").count() == 0
    assert page.get_by_role("combobox").count() == 0


def test_there_is_no_menu_and_no_settings(go, blind):
    page = go(blind)
    for part in ("stMainMenu", "stToolbar", "stHeader"):
        for each in page.get_by_test_id(part).all():
            expect(each).to_be_hidden()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light"), (1920, "dark")])
def test_it_fits_phones_desks_and_projectors_by_day_and_night(go, blind, picture, width, scheme):
    page = go(blind, QUERY, width=width, scheme=scheme)
    expect(way(page, "A")).to_be_in_viewport()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.locator(".stApp").evaluate("app => getComputedStyle(app).colorScheme") == scheme
    box, other = (column(page, name).bounding_box() for name in ("A", "B"))
    assert box
    assert other
    assert round(box["y"]) == round(other["y"])
    assert other["x"] < width
    picture(page, f"demo-{width}-{scheme}")


def test_what_a_corpus_a_name_or_a_query_says_is_text_and_no_script_of_it_runs(go, hostile, picture):
    page = go(hostile, HOSTILE.asked[0].text)
    expect(column(page, f"Old {SCRIPT}").locator(".result").first).to_be_visible()
    expect(page.locator(".title", has_text="Trap <script>").first).to_be_visible()
    assert page.evaluate("() => window.harmed") is None
    assert page.locator("[onerror]").count() == 0
    picture(page, "demo-hostile")
