"""The judging page in Chromium: a sitting by keys alone, undone, reloaded, and two judges in two windows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from core import bridge
from core.store.engine import Store
from core.types import Item, Query
from evals.collections import load
from evals.judging import judgements as judging
from evals.schema import schema_chain
from evals.types import Label
from tests.app.corpus import MARKUP, SCRIPT, Listed

pytestmark = pytest.mark.browser

DOCUMENTS = 9
TRAPS = Listed(
    documents=tuple(
        Item(f"<i>{number}</i>", f"trap {'gin ' * number} {SCRIPT} {MARKUP}", f"Trap {number} {SCRIPT}")
        for number in range(DOCUMENTS)
    ),
    asked=(Query("q1", f"trap {SCRIPT}", "<u>kind</u>"),),
    judged=(Label("q1", "<i>2</i>", 3),),
)
Sit = Callable[..., Page]


@pytest.fixture(scope="module")
def traps(home: Path) -> Iterator[tuple[Store, str]]:
    """A collection to be judged, whose texts and ids could all be taken for markup."""
    name = f"judged {uuid.uuid4().hex[:8]}"
    store = bridge.run(Store.open(home=home, chains=[schema_chain]))
    bridge.run(load.load_collection(store, name, TRAPS, load.LoadPlan(models=())))
    yield store, name
    bridge.run(load.drop(store, name))  # other tests say which collections the home has
    bridge.run(store.close())


@pytest.fixture
def sit(visitor: BrowserContext, address: str, traps: tuple[Store, str]) -> Iterator[Sit]:
    """Begins a sitting; nothing may fail in it unseen."""
    failures: list[str] = []

    def go(judge: str, **view: str) -> Page:
        page = visitor.new_page()
        page.set_viewport_size({"width": 1440, "height": 900})
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("dialog", lambda dialog: failures.append(dialog.message))
        said = {"collection": traps[1], "judge": judge, "variants": "bm25", "begun": "1", **view}
        page.goto(f"{address}/judge?{urlencode(said)}")
        page.locator(".judging .grades").first.wait_for(timeout=60_000)
        return page

    yield go
    assert failures == []


def title(page: Page) -> str:
    return page.locator(".judging h4").inner_text()


def told(page: Page, words: str) -> None:
    expect(page.locator(".judging .told")).to_contain_text(words)
    expect(page.locator(".judging .state")).not_to_have_text("Saving …")


def given(traps: tuple[Store, str], judge: str) -> dict[str, tuple[int, str]]:
    every = bridge.run(judging.load(*traps))
    return {each.item_id: (each.grade, each.note) for each in every if each.judge == judge}


def test_a_sitting_by_keys_keeps_each_grade_once_undoes_and_goes_on_after_a_reload(sit, traps):
    page = sit("ada", again="1")  # whatever others judge meanwhile
    told(page, f"0 of {DOCUMENTS}")
    assert SCRIPT in page.locator(".judging .text").inner_text()
    seen = []
    for key in ("3", "0", "1"):  # faster than the server answers
        seen.append(title(page))
        page.keyboard.press(key)
    told(page, f"3 of {DOCUMENTS}")
    assert len(set(seen)) == 3, "each key is one document's"
    assert sorted(grade for grade, _ in given(traps, "ada").values()) == [0, 1, 3]

    page.keyboard.press("u")
    expect(page.locator(".judging h4")).to_have_text(seen[-1])
    page.keyboard.press("n")
    page.keyboard.type("only 2 of 3")  # which grades nothing
    page.keyboard.press("Enter")
    page.keyboard.press("2")
    told(page, f"3 of {DOCUMENTS}")
    assert (2, "only 2 of 3") in given(traps, "ada").values()

    page.keyboard.press("s")
    told(page, "1 skipped")
    at = title(page)
    page.reload()
    page.locator(".judging .grades").wait_for()
    assert title(page) == at
    told(page, f"3 of {DOCUMENTS} · 1 skipped")
    page.get_by_role("button", name="Answers", exact=False).last.click()
    told(page, f"4 of {DOCUMENTS}")
    assert len(given(traps, "ada")) == 4
    assert not page.evaluate("() => 'harmed' in window")
    expect(page.get_by_text("Scores so far")).to_be_visible()


def test_two_windows_do_not_get_in_each_others_way_and_a_list_is_graded_downwards(sit, traps):
    one, other = sit("bob", again="1"), sit("eve", again="1", layout="list")
    one.keyboard.press("3")
    other.keyboard.press("0")
    other.keyboard.press("1")
    told(one, f"1 of {DOCUMENTS}")
    told(other, f"2 of {DOCUMENTS}")
    pressed = other.locator('.judging [aria-pressed="true"]')
    expect(pressed).to_have_count(2)
    assert len(given(traps, "bob")) == 1
    assert sorted(grade for grade, _ in given(traps, "eve").values()) == [0, 1]
