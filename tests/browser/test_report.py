"""A report in Chromium, from a file, without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from evals.reports import write
from tests.browser.conftest import Browse
from tests.evals import reports

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made = {"plausible": reports.plausible(), "hostile": reports.hostile()}
    return {name: write(each, folder / f"{name}.html") for name, each in made.items()}


@pytest.fixture
def open_report(browse: Browse, files: dict[str, Path]) -> Callable[..., Page]:
    """Opens a report; it may ask for nothing but itself, and complain of nothing."""

    def go(name: str = "plausible", **look: Any) -> Page:
        return browse(files[name].as_uri(), strict=True, **look)

    return go


def names(page: Page) -> list[str]:
    return page.locator("table.main tbody th bdi").all_text_contents()


def test_a_heading_sorts_by_mouse_and_by_keyboard(open_report):
    page = open_report()
    first = names(page)
    head = page.locator("table.main thead th").filter(has_text="p50 ms")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    expect(page.locator("table.main thead th[aria-sort]")).to_have_count(1)
    slowest = names(page)
    assert slowest != first
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(head).to_have_attribute("aria-sort", "ascending")
    *timed, untimed = slowest
    assert names(page) == [*timed[::-1], untimed], "a run that nobody timed stays last"
    page.locator("table.main thead th").filter(has_text="Variant").get_by_role("button").press("Space")
    assert names(page) == sorted(names(page), key=str.lower)


def test_a_query_is_found_and_its_hits_stand_side_by_side(open_report, picture):
    page = open_report()
    page.get_by_label("Find").fill("hub 21 ")
    expect(page.get_by_role("status")).to_have_text("1 of 60 queries")
    detail = page.locator(".detail")
    expect(detail.locator(".asked")).to_have_text("How do I reset hub 21 that sits behind the dashboard?")
    columns = detail.locator(".ranked")
    expect(columns).to_have_count(4)
    expect(columns.first.locator("bdi")).to_have_text("bm25")
    expect(columns.first.locator(".hit")).to_have_count(10)
    expect(columns.first.locator(".move")).to_have_count(0)
    expect(columns.nth(1).locator(".move")).to_have_count(10)
    expect(detail.get_by_text("unjudged").first).to_be_visible()
    expect(detail.locator(".hit p").first).to_contain_text("Hold the button")
    page.get_by_text("Variants side by side").click()
    page.get_by_role("checkbox", name="fulltext").check()
    expect(columns).to_have_count(5)
    picture(page, "report-query")


def test_the_list_of_queries_is_used_by_keyboard(open_report):
    page = open_report()
    page.get_by_label("Order").select_option("id")
    queries = page.get_by_role("listbox", name="Queries of handbook, test")
    queries.focus()
    expect(page.locator(".about span").first).to_have_text("q0000")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".about span").first).to_have_text("q0001")
    page.get_by_label("Find").fill("q0007")
    page.get_by_text("Variants side by side").click()
    page.get_by_role("checkbox", name="fulltext").check()
    expect(page.get_by_text("Failed: The statement took longer than 5 s.")).to_be_visible()
    page.get_by_label("Find").fill("no such words")
    expect(page.locator(".detail")).to_have_text("No query holds these words.")


def test_the_chosen_metric_changes_charts_and_tables(open_report):
    page = open_report()
    page.get_by_label("Charts and tables below show").select_option("mrr@10")
    expect(page.get_by_role("region", name="Comparisons by mrr@10")).to_be_visible()
    expect(page.get_by_role("region", name="Comparisons by ndcg@10")).to_be_hidden()
    chart = page.get_by_role("img", name="mrr@10 against latency")
    chart.scroll_into_view_if_needed()
    expect(chart.locator("svg.main-svg").first).to_be_visible()
    expect(chart).to_contain_text("Median ms a query")


def test_charts_are_drawn_anew_in_the_dark(open_report):
    page = open_report()
    chart = page.locator(".chart").first
    chart.scroll_into_view_if_needed()
    text = chart.locator(".xtick text").first
    expect(text).to_have_css("fill", "rgb(30, 36, 43)")
    page.emulate_media(color_scheme="dark")
    expect(text).to_have_css("fill", "rgb(230, 232, 234)")
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 23, 27)")


@pytest.mark.parametrize(("name", "width"), [("plausible", 1440), ("hostile", 390)])
def test_the_page_is_no_wider_than_the_window(open_report, picture, name, width):
    page = open_report(name, width=width, scheme="dark" if width == 390 else "light")
    for chart in page.locator(".chart:visible").all():
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg.main-svg").first).to_be_attached()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    picture(page, f"report-{name}-{width}")


def test_hostile_texts_show_as_texts(open_report):
    page = open_report("hostile")
    for chart in page.locator(".chart:visible").all():
        chart.scroll_into_view_if_needed()
        expect(chart.locator("svg.main-svg").first).to_be_attached()
    page.get_by_label("Find").fill("harmed")
    expect(page.locator("h1")).to_contain_text("<script>window.harmed = true</script><img src=x")
    expect(page.locator(".asked")).to_contain_text("<script>window.harmed = true</script><img src=x")
    expect(page.locator(".hit .title").first).to_contain_text("</script><!-- <script>")
    expect(page.locator(".ytick text").filter(has_text="</script…").first).to_be_visible()
    assert page.evaluate("window.harmed") is None
    assert page.locator("img, .chart a").count() == 0
