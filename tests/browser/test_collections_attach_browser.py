"""Somebody's table in Chromium: attached, given queries and labels, searched, and dropped, the table left as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.collections import load
from evals.schema import schema_chain
from tests.app.corpus import SCRIPT
from tests.browser.conftest import report

pytestmark = pytest.mark.browser

NAME = "somebody's answers"
TABLE = 'their "odd" <b>answers</b>'


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def table(home: Path) -> Iterator[str]:
    """A table in the pages' own server; other tests say which collections the home has."""
    store = bridge.run(Store.open(home=home, chains=[schema_chain]))

    async def run(*statements: tuple[str, tuple[object, ...]]) -> None:
        async with store.begin() as connection:
            for statement, values in statements:
                await connection.exec_driver_sql(statement, values or None)

    called = f"public.{quoted(TABLE)}"
    rows = [(1, "Reset the hub", f"Hold the button for ten seconds {SCRIPT}"), (2, "Bills", "Look under Billing")]
    made = (f"CREATE TABLE {called} (nr int PRIMARY KEY, heading text, answer text)", ())
    bridge.run(run(made, *((f"INSERT INTO {called} VALUES (%s, %s, %s)", row) for row in rows)))
    yield called
    if bridge.run(collections.find(store, NAME)) is not None:
        bridge.run(load.drop(store, NAME))
    bridge.run(run((f"DROP TABLE {called}", ())))
    bridge.run(store.close())


def address(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)


def test_a_table_is_attached_given_queries_and_dropped_and_stays_as_it_is(visit, table, picture):
    page = visit("/?collection=kettles")
    page.goto(page.url.split("?")[0] + "collections?add=attach")
    page.get_by_role("combobox", name=re.compile("Table or view")).click()
    page.get_by_role("option", name=table).click()
    first = page.get_by_role("table", name="The first rows", exact=True)
    expect(first).to_contain_text(f"Hold the button for ten seconds {SCRIPT}")
    assert address(page)["table"] == [table]
    page.reload()
    expect(first).to_contain_text("Reset the hub")
    box = page.get_by_role("textbox", name="Name", exact=True)
    box.fill(NAME)
    picture(page, "collections-attach")
    page.get_by_role("button", name="Attach", exact=True).click()
    expect(page.get_by_text("is attached to")).to_be_visible()
    report(page, NAME).get_by_role("button", name="Show it").click()
    expect(page.get_by_role("heading", name=NAME)).to_be_visible()

    page.get_by_role("radio", name="Add queries, labels").click()
    typed = page.get_by_role("textbox", name="Queries, one a line")
    typed.fill(f"how do I reset it {SCRIPT}")
    typed.press("Control+Enter")
    page.get_by_role("button", name="Add 1 query").click()
    expect(page.get_by_text("1 query added")).to_be_visible()
    page.get_by_role("radio", name="Bring labels").click()
    expect(page.get_by_text("Judgements that somebody has made")).to_be_visible()
    labels = {"name": "test.tsv", "mimeType": "text/plain", "buffer": b"mine\t1\t2\nmine\t<b>9</b>\t1\n"}
    asked = {"name": "queries.csv", "mimeType": "text/plain", "buffer": b"id,text\nmine,reset the hub\n"}
    page.locator("input[type=file]").set_input_files([labels, asked])
    expect(page.get_by_text("Labels: test.tsv. Queries: queries.csv.")).to_be_visible()
    page.get_by_role("button", name="Bring them in").click()
    expect(page.get_by_role("table", name="Remarks on the input")).to_contain_text(
        "'<b>9</b>' is not in the collection"
    )
    picture(page, "collections-labels")
    page.get_by_role("radio", name="Queries", exact=True).click()
    expect(page.get_by_role("table", name="Queries", exact=True)).to_contain_text("reset the hub")
    assert "by" not in address(page)

    page.get_by_role("radio", name="Export, drop").click()
    page.get_by_role("button", name="Drop the collection").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("the table itself stays as it is")
    dialog.get_by_role("textbox").fill(NAME)
    dialog.get_by_role("textbox").press("Enter")
    dialog.get_by_role("button", name="Drop it").click()
    expect(page.get_by_text("is gone.")).to_be_visible()
    page.goto(page.url.split("?")[0] + f"?add=attach&table={table}")
    expect(first).to_contain_text("Look under Billing")
    assert page.evaluate("window.harmed") is None
