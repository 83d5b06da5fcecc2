"""The weights page in Chromium: what the pointer does while it is down, and what is left when it is let go of."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from core import bridge
from core.store import collections
from core.store.engine import Store
from core.types import Item, Query
from evals.collections import load
from evals.schema import schema_chain
from evals.types import Label
from tests.app.corpus import MARKUP, SCRIPT, Listed
from tests.browser.conftest import Browse

pytestmark = pytest.mark.browser

TRAPS = Listed(
    documents=tuple(
        Item(
            f"<i>{number}</i>",
            f"trap {'snare ' * (number % 3)}{'gin ' * (number % 4)} number {number} {SCRIPT}",
            f"Trap {number} {SCRIPT} {MARKUP}",
        )
        for number in range(12)
    ),
    asked=(
        Query("q1", f"trap snare {SCRIPT}", "<u>kind</u>"),
        Query("q2", f"gin trap 5 {MARKUP}", "</style>"),
        Query("q3", "trpa snaer"),
    ),
    judged=(
        Label("q1", "<i>2</i>", 3),
        Label("q1", "<i>5</i>", 1),
        Label("q2", "<i>7</i>", 2),
        Label("q2", "<i>5</i>", 1),
        Label("q3", "<i>8</i>", 3),
    ),
)
LEGS = "bm25,fulltext,trigram"
Open = Callable[..., Page]


@pytest.fixture(scope="module")
def traps(home: Path) -> Iterator[None]:
    """A collection in which weights matter, and every text and id of which could be taken for markup."""
    store = bridge.run(Store.open(home=home, chains=[schema_chain]))
    bridge.run(load.load_collection(store, "traps", TRAPS, load.LoadPlan(models=())))
    yield
    bridge.run(collections.drop(store, "traps"))  # other tests say which collections the home has
    bridge.run(store.close())


@pytest.fixture
def weigh(browse: Browse, address: str, traps: None) -> Open:
    """Opens the page, and waits for its list."""

    def go(*, width: int = 1440, scheme: str = "light", **view: str) -> Page:
        said = urlencode({"collection": "traps", "legs": LEGS, **view})
        page = browse(f"{address}/weights?{said}", width=width, scheme=scheme)
        page.locator(".list li").first.wait_for(timeout=60_000)
        return page

    return go


def at(page: Page, across: float, down: float) -> tuple[float, float]:
    box = page.locator(".plot svg").bounding_box()
    assert box
    return box["x"] + box["width"] * across, box["y"] + box["height"] * down


def titles(page: Page) -> list[str]:
    return page.locator(".list .title").all_inner_texts()


def counts(page: Page) -> list[str]:
    return page.locator(".counts b").all_inner_texts()


def said_in(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def handle(page: Page) -> Locator:
    return page.get_by_role("slider", name="Point on the weight surface")


def test_score_wins_and_results_follow_while_the_pointer_is_down(weigh):
    page = weigh(query="q1")
    page.mouse.move(*at(page, 0.5, 0.6))
    page.mouse.down()
    seen = []
    for across, down in ((0.0, 0.99), (0.5, 0.0), (1.0, 0.99)):
        page.mouse.move(*at(page, across, down), steps=4)
        seen.append((page.locator(".mean").inner_text(), counts(page), titles(page)))
    for what in zip(*seen, strict=True):
        assert len({str(each) for each in what}) > 1, "score, counts and list each changed before the release"
    assert "weights" not in said_in(page)
    page.mouse.up()
    page.wait_for_url("**weights=0-21-0**")
    after = (page.locator(".mean").inner_text(), counts(page), titles(page))
    assert after == seen[-1]
    page.reload()
    page.locator(".list .row").first.wait_for()
    expect(handle(page)).to_have_attribute("aria-valuetext", re.compile("BM25 0.00, Full text 1.00, Trigram 0.00: "))
    assert (page.locator(".mean").inner_text(), counts(page), titles(page)) == after


def test_a_list_of_results_says_grade_and_movement(weigh):
    page = weigh(query="q1", weights="0-0-21", against="0-21-0")
    expect(page.locator(".list .badge").filter(has_text="grade 3")).to_be_visible()
    moved = page.locator(".list .move.up, .list .move.down")
    assert moved.count() > 0
    expect(moved.first).to_have_attribute("aria-label", re.compile("^(up|down) |^not found"))


def test_a_weight_drags_too_and_the_others_share_the_rest(weigh):
    page = weigh(weights="11-4-6")
    slider = page.get_by_role("slider", name="Weight of BM25")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] / 2, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 1, middle, steps=4)
    expect(page.locator(".slider output")).to_have_text(["1.00", "0.00", "0.00"])
    page.mouse.move(box["x"] + 1, middle, steps=4)
    expect(page.locator(".slider output")).to_have_text(["0.00", "0.38", "0.62"])
    assert said_in(page)["weights"] == ["11-4-6"]
    page.mouse.up()
    page.wait_for_url("**weights=0-8-13**")


def test_arrows_move_the_point_and_it_says_where_it_is(weigh):
    page = weigh(legs="bm25,fulltext", weights="10-10")
    handle(page).focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(handle(page)).to_have_attribute(
        "aria-valuetext", re.compile(r"^BM25 0\.65, Full text 0\.35: ndcg@10 0\.\d{3}$")
    )
    page.wait_for_url("**weights=13-7**")
    page.keyboard.press("Tab")
    assert (
        page.evaluate(
            "() => document.activeElement.shadowRoot?.activeElement?.ariaLabel ?? document.activeElement.ariaLabel"
        )
        == "Weight of BM25"
    )


def test_the_way_back_leads_to_the_point_before(weigh):
    page = weigh(legs="bm25,fulltext", weights="10-10")
    page.mouse.click(*at(page, 0.8, 0.5))
    page.wait_for_function("() => !location.search.includes('10-10')")
    page.go_back()
    expect(page.locator(".slider output").first).to_have_text("0.50")


def test_a_query_that_moved_is_one_click_away(weigh):
    page = weigh(query="q1", weights="0-0-21", against="0-21-0")
    mover = page.locator(".mover").first
    text = mover.locator(".what").inner_text()
    mover.click()
    expect(page.locator(".asked")).to_have_text(text)
    assert said_in(page)["weights"] == ["0-0-21"]


def test_what_is_compared_with_is_in_the_address(weigh):
    page = weigh(weights="0-0-21")
    page.get_by_label("than with").select_option("this point")
    page.wait_for_url("**against=0-0-21**")
    assert counts(page) == ["0", "3", "0"]


def test_four_legs_have_a_surface_of_any_two(weigh):
    page = weigh(legs="bm25,fulltext,trigram,fuzzy", weights="6-2-2-2")
    expect(page.locator(".plot .leg")).to_have_text(["BM25", "Full text", "Trigram + Fuzzy"])
    page.get_by_label("Corner 2 of the surface").select_option("Fuzzy")
    expect(page.locator(".plot .leg")).to_have_text(["BM25", "Fuzzy", "Full text + Trigram"])
    page.mouse.click(*at(page, 0.5, 0.06))
    page.wait_for_url("**weights=0-6-6-0**")


@pytest.fixture
def own(home: Path) -> Iterator[Path]:
    """Where variants and notebooks are kept; nothing of it is left to other tests."""
    yield home
    for folder in (home / "variants", home / "notebooks"):
        for file in folder.glob("mostly words*"):
            file.unlink()


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_a_mix_is_kept_under_a_name_and_leads_to_the_variants_page_and_a_notebook(weigh, own, picture, width, scheme):
    page = weigh(legs="bm25,fulltext", weights="5-15", width=width, scheme=scheme)
    page.get_by_role("textbox", name="Name", exact=True).fill("mostly words")
    page.get_by_role("button", name="Keep as variant").click()
    said = page.get_by_role("status").filter(has_text="Kept as mostly words")
    expect(said).to_be_visible()
    expect(page.get_by_role("combobox", name="Use in an evaluate cell")).to_be_visible()
    said.scroll_into_view_if_needed()
    picture(page, f"weights-kept-{width}-{scheme}")
    said.get_by_role("link", name="Open in Variants").click()
    expect(page.get_by_text("mostly words").first).to_be_visible()
    assert said_in(page) == {"variant": ["mostly words"]}


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1440, "light")])
def test_it_fits_phones_and_desks_by_day_and_night(weigh, picture, width, scheme):
    page = weigh(width=width, scheme=scheme, query="q1", weights="12-4-4")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    for part in (".plot svg", ".list", ".sliders", ".legend"):
        box = page.locator(part).bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    expect(page.locator(".entry dt")).to_contain_text(
        ["Current weights", "In-sample best", "Tie band", "Cross-fitted estimate", "Oracle"]
    )
    picture(page, f"weights-{width}-{scheme}")


def test_what_a_corpus_says_is_text_and_no_script_of_it_runs(weigh):
    page = weigh(query="q1")
    expect(page.locator(".asked")).to_have_text(f"trap snare {SCRIPT}")
    expect(page.locator(".list .title").filter(has_text=f"{SCRIPT} {MARKUP}").first).to_be_visible()
    assert page.evaluate("() => window.harmed") is None
    assert page.locator("[onerror]").count() == 0
