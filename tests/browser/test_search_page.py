"""The search page in Chromium."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.app.corpus import HOSTILE, KETTLES, MARKUP, SCRIPT

pytestmark = pytest.mark.browser

QUERY = "remove scale from the kettle"
SEARCHED = f"/?collection=kettles&query={quote(QUERY)}"


def column(page: Page, label: str) -> Locator:
    return page.get_by_role("list", name=f"Results of {label}")


def settled(page: Page) -> None:
    for label in ("Vector", "Full text", "Trigram"):
        expect(column(page, label).locator(".card").first).to_be_visible()


def address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_query_is_answered_in_three_columns(visit):
    page = visit("/?collection=kettles")
    page.get_by_role("textbox", name="Query").fill(QUERY)
    page.keyboard.press("Enter")
    settled(page)
    expect(column(page, "Full text").locator(".title").first).to_have_text("Descale the kettle")
    assert address(page) == {"collection": ["kettles"], "level": ["default"], "query": [QUERY]}


def test_an_example_is_one_click_away(visit):
    page = visit("/?collection=kettles")
    page.get_by_role("button", name="E-42").click()
    settled(page)
    expect(page.get_by_role("textbox", name="Query")).to_have_value("E-42")
    expect(column(page, "Full text").locator(".title").first).to_have_text("Error E-42")


def test_a_title_opens_the_document_at_its_passage_and_the_address_says_so(visit, picture):
    page = visit(SEARCHED)
    settled(page)
    title = column(page, "Full text").get_by_role("button", name="Descale the kettle")
    title.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("mark")).to_contain_text("Fill it with vinegar and water.")
    assert address(page)["opened"] == ["descale#0000"]
    picture(page, "search-document")
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.wait_for_function("() => !location.search.includes('opened')")
    expect(column(page, "Full text").locator(".card").first).to_be_visible()


def test_a_link_opens_the_same_view(visit):
    page = visit(SEARCHED + "&level=items&opened=descale")
    settled(page)
    expect(page.get_by_role("textbox", name="Query")).to_have_value(QUERY)
    expect(page.get_by_role("dialog").locator(".text")).to_contain_text("rinse twice")


def test_the_way_back_leads_to_the_query_before(visit):
    page = visit("/?collection=kettles")
    for chip in ("E-42", "ketle warrenty"):
        page.get_by_role("button", name=chip).click()
        expect(page.get_by_role("textbox", name="Query")).to_have_value(chip)
    page.go_back()
    expect(page.get_by_role("textbox", name="Query")).to_have_value("E-42")
    page.go_back()
    expect(page.get_by_role("textbox", name="Query")).to_have_value("")


def test_a_document_lights_up_in_all_its_columns(visit):
    page = visit(SEARCHED)
    settled(page)
    column(page, "Vector").locator('[data-item="descale"] .title').hover()
    expect(page.locator('.card.same[data-item="descale"]')).to_have_count(3)


def test_the_keyboard_alone_reaches_a_document(visit):
    page = visit(SEARCHED)
    settled(page)
    first = column(page, "Vector").locator(".title").first
    first.focus()
    assert first.evaluate("element => getComputedStyle(element).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_it_fits_phones_and_desks_by_day_and_night(visit, picture, width, scheme):
    page = visit(SEARCHED, width=width, scheme=scheme)
    settled(page)
    boxes = [column(page, label).bounding_box() for label in ("Vector", "Full text", "Trigram")]
    assert all(box and box["x"] >= 0 and box["x"] + box["width"] <= width for box in boxes)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    side_by_side = len({round(box["y"]) for box in boxes if box}) == 1
    assert side_by_side == (width > 640)
    dark = page.locator(".stApp").evaluate("app => getComputedStyle(app).colorScheme")
    assert dark == scheme
    picture(page, f"search-{width}-{scheme}")


def test_what_a_corpus_says_is_text_and_no_script_of_it_runs(visit, picture):
    page = visit(f"/?collection=hostile&query={quote(HOSTILE.asked[0].text)}")
    settled(page)
    card = column(page, "Full text").locator(".card").filter(has_text="javascript:")
    expect(card.locator(".title")).to_have_text(f"Trap {SCRIPT} {MARKUP}")
    expect(page.get_by_text("<u>kind</u>").first).to_be_visible()
    picture(page, "search-hostile")
    card.locator(".title").click()
    expect(page.get_by_role("dialog").locator(".text")).to_contain_text(SCRIPT)
    expect(page.get_by_role("dialog").locator("h3")).to_have_text(f"Trap {SCRIPT} {MARKUP}")
    page.keyboard.press("Escape")
    page.locator(".chip").hover()
    assert page.evaluate("() => window.harmed") is None
    assert page.locator("[onerror]").count() == 0


def test_a_link_to_what_is_not_there_is_answered_kindly(chromium, address):
    page = chromium.new_page()
    page.goto(f"{address}/?collection=kettels")
    expect(page.get_by_role("alert").filter(has_text="Did you mean 'kettles'?")).to_be_visible()
    page.close()


def test_an_item_found_by_all_legs_says_so_to_those_who_cannot_see_the_dots(visit):
    page = visit(SEARCHED)
    settled(page)
    card = column(page, "Full text").locator('[data-item="descale"]')
    expect(card.get_by_role("img")).to_have_accessible_name(
        re.compile(
            r"Found by its meaning at rank \d \(Vector\), by its words at rank 1 \(Full text\), "
            r"by its spelling at rank \d \(Trigram\)"
        )
    )


def test_a_page_elsewhere_cannot_reach_in_under_a_name_of_its_own(address):
    """A socket opened for another host name is refused, whatever its origin says."""
    import httpx

    headers = {
        "Host": "attacker.example",
        "Origin": "http://attacker.example",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "x3JJHMbDL1EzLkh9GBhXDw==",
    }
    assert httpx.get(f"{address}/_stcore/stream", headers=headers).status_code == 403


def test_the_collections_are_those_of_the_home(visit):
    page = visit("/")
    page.get_by_role("combobox").first.click()
    expect(page.get_by_role("option")).to_have_text(["hostile", "kettles"])
    assert len(KETTLES.documents) == 4
