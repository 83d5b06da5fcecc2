"""The notebook page in a real browser: run, stop, reload, two windows, links and keys."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect
from sqlalchemy import text

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.schema import schema_chain
from tests.app.corpus import NOTEBOOK, SCRIPT
from workbench.screens.notebook.keyboard import COMMANDS

Open = Callable[..., Page]


@pytest.fixture
def name(home: Path) -> Iterator[str]:
    """A notebook that no other test uses."""
    made = f"kettles-{uuid.uuid4().hex[:8]}"
    folder = home / "notebooks"
    folder.mkdir(exist_ok=True)
    file = folder / f"{made}.md"
    file.write_text(NOTEBOOK, encoding="utf-8")
    yield made
    file.unlink()


@pytest.fixture
def window(visitor: BrowserContext, address: str, name: str) -> Iterator[Open]:
    """Opens the notebook in a window of its own; nothing may fail in it unseen, and nothing be asked of elsewhere."""
    failures: list[str] = []

    def go(**options: str) -> Page:
        page = visitor.new_page()
        page.set_viewport_size({"width": 1200, "height": 800})
        page.set_default_timeout(60_000)
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.on("request", lambda asked: failures.append(asked.url) if "example.org" in asked.url else None)
        place = "&".join(f"{key}={value}" for key, value in {"notebook": name, **options}.items())
        page.goto(f"{address}/notebook?{place}")
        expect(page.locator(".rb-title")).to_have_count(2)
        return page

    yield go
    assert failures == []


@pytest.fixture
def database(address: str, home: Path) -> Iterator[Store]:
    """The pages' own database, seen from here."""
    opened = bridge.run(Store.open(home=home, chains=[schema_chain]))
    yield opened
    bridge.run(opened.close())


@contextmanager
def locked(store: Store) -> Iterator[None]:
    """While this holds, a cell waits on the server."""
    view = bridge.run(collections.get(store, "kettles"))
    held, release = threading.Event(), threading.Event()

    async def hold() -> None:
        async with store.begin() as connection:
            await connection.execute(text(f'LOCK TABLE "{view.namespace}".items IN ACCESS EXCLUSIVE MODE'))
            held.set()
            await asyncio.to_thread(release.wait)

    holder = threading.Thread(target=lambda: bridge.run(hold()))
    holder.start()
    assert held.wait(20)
    try:
        yield
    finally:
        release.set()
        holder.join()


def test_a_cell_runs_shows_its_output_and_a_link_comes_back_to_it(window, name):
    page = window()
    page.locator(".st-key-run-scale button:visible").click()
    expect(page.locator(".st-key-part-scale .rb-fresh")).to_be_visible()
    expect(page.locator(".st-key-output-scale")).to_be_visible()
    assert page.url.endswith(f"/notebook?notebook={name}&cell=scale")
    again = window(cell="scale")
    expect(again.locator(".st-key-part-scale .rb-fresh")).to_be_visible()
    expect(again.locator(".st-key-part-words .rb-never")).to_be_visible()
    expect(again.locator(".st-key-part-scale")).to_be_in_viewport()


def test_a_long_run_survives_a_reload_and_stop_ends_it(window, database):
    page = window()
    with locked(database):
        page.get_by_role("button", name="Run all").click()
        expect(page.locator(".st-key-part-words .rb-running")).to_be_visible()
        page.reload()
        expect(page.locator(".st-key-part-words .rb-running")).to_be_visible()
        expect(page.locator(".st-key-part-scale .rb-waiting")).to_be_visible()
        page.locator(".st-key-book-bar").get_by_role("button", name="Stop").click()
        expect(page.locator(".st-key-part-words .rb-state")).to_have_text("stopped")
        expect(page.locator(".st-key-part-scale .rb-never")).to_be_visible()
    page.get_by_role("button", name="Run all").click()
    expect(page.locator(".rb-fresh")).to_have_count(2)


@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_in_the_bar_moves_when_cells_run_or_something_can_be_undone(window, database, width):
    page = window()
    page.set_viewport_size({"width": width, "height": 900})
    stop, undo = (page.locator(f".st-key-book-{name} button:visible") for name in ("stop", "undo"))
    expect(stop).to_be_disabled()
    before = places(page)
    assert len(before) > 6
    with locked(database):
        page.locator(".st-key-book-all button:visible").click()
        expect(stop).to_be_enabled()
        assert places(page) == before
        stop.click()
    expect(stop).to_be_disabled()
    delete(page)
    expect(undo).to_be_enabled()
    assert places(page) == before


def delete(page: Page) -> None:
    """The cell called scale."""
    page.locator(".st-key-menu-scale button:visible").click()
    page.mouse.move(0, 0)  # away from the button, and its tooltip with it
    page.get_by_text("Delete", exact=True).click()


def places(page: Page) -> list[tuple[float, ...]]:
    """Where each of the bar's buttons is, and how wide, from the bar's own corner."""
    ask = """row => [...row.querySelectorAll("button")].map(each => each.getBoundingClientRect()).filter(at => at.width)
        .map(at => [at.x - row.getBoundingClientRect().x, at.y - row.getBoundingClientRect().y, at.width])"""
    return [tuple(each) for each in page.locator(".st-key-book-row").evaluate(ask)]


def test_two_windows_see_each_others_changes_and_lose_nothing_that_is_typed(window, home, name):
    one, other = window(), window()
    for page, word in ((one, "teapot"), (other, "receipt")):
        page.locator(".st-key-edit-words button:visible").click()
        page.locator("textarea").fill(f'query = "{word}"\nvariants = ["bm25"]\n')
        page.locator("textarea").blur()
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_visible()
    other.locator("textarea").press("End")
    other.locator("textarea").type("# and")  # which the server has not heard of
    one.get_by_role("button", name="Save", exact=True).click()
    expect(one.locator("textarea")).to_have_count(0)
    expect(other.get_by_text("Changed in another window")).to_be_visible()
    expect(other.locator("textarea")).to_have_value('query = "receipt"\nvariants = ["bm25"]\n# and')
    other.get_by_role("button", name="Save", exact=True).click()
    expect(other.get_by_role("button", name="Save mine over it")).to_be_visible()
    expect(other.locator("textarea")).to_have_value('query = "receipt"\nvariants = ["bm25"]\n# and')
    other.get_by_role("button", name="Take the other one").click()
    expect(other.locator("textarea")).to_have_value('query = "teapot"\nvariants = ["bm25"]\n')
    delete(one)
    expect(one.locator(".rb-title")).to_have_count(1)
    expect(other.locator(".rb-title")).to_have_count(1)  # by itself, a moment later
    other.get_by_role("button", name="Undo", exact=True).click()
    expect(one.locator(".rb-title")).to_have_count(2)
    assert "teapot" in (home / "notebooks" / f"{name}.md").read_text(encoding="utf-8")


def test_keys_lead_through_the_notebook_and_leave_typing_alone(window):
    page = window(cell="words")
    expect(page.locator(".st-key-book-keys button")).to_have_count(len(COMMANDS))
    page.evaluate("() => new Promise(requestIdleCallback)")  # keys are bound a moment after their buttons are there
    page.keyboard.press("j")
    page.wait_for_url(lambda url: "cell=words" not in url)
    page.keyboard.press("j")
    page.wait_for_url("**cell=scale")
    page.keyboard.press("e")
    typing = page.locator("textarea")
    expect(typing).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type("# jk?aA")
    expect(typing).to_have_value('query = "scale"\nvariants = ["fulltext"]\n# jk?aA')
    page.keyboard.press("Control+Enter")
    expect(page.locator(".st-key-part-scale .rb-fresh")).to_be_visible()
    expect(typing).to_have_count(0)
    assert page.url.endswith("cell=scale")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_text("Go to the next cell")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_strangers_notebook_runs_nothing_in_the_page(window, home, name):
    trap = f"{SCRIPT}\n\n![spy](https://example.org/x.png)\n\n[link](javascript:window.harmed=1)\n\n"
    title = f"title = '''{SCRIPT}'''\nquery = "
    file = home / "notebooks" / f"{name}.md"
    file.write_text(trap + NOTEBOOK.replace("query = ", title, 1), encoding="utf-8")
    page = window()
    expect(page.get_by_text("window.harmed = true").first).to_be_visible()
    assert page.evaluate("window.harmed") is None
