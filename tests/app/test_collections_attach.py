"""Attaching somebody's table on the Collections page, and what is built beside it."""

# ruff: noqa: F401, F811 - fixtures are imported, and asked for by name

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg import sql
from streamlit.testing.v1 import AppTest

from core import bridge
from core.errors import SpecError
from core.store import attached, collections
from core.store.attached import Attachment
from core.store.engine import Store
from evals.collections import load
from evals.labels import query_sets
from tests.app.corpus import MODEL, SCRIPT
from tests.app.test_collections_page import LIST, button, nothing_left_under_way, page, press, rows, waited
from tests.app.test_search_page import cards, handed, visit, written
from workbench.screens.collections import attach as attach_form
from workbench.services import attach, table_discovery
from workbench.services.attach import AttachRequest

COLUMNS = "nr int PRIMARY KEY, heading text, answer text, product text, emb vector(16), extra jsonb"


@pytest.fixture
def made(store: Store, name: str) -> Iterator[Callable[[str, str], str]]:
    """Tables of somebody's, each dropped after the test with what was attached to it."""
    known: list[str] = []

    async def run(statement: str, *names: str) -> None:
        async with store.begin() as connection:
            composed = sql.SQL(statement).format(*map(sql.Identifier, names)).as_string()
            await connection.exec_driver_sql(composed.replace("%", "%%"))
            await connection.exec_driver_sql(
                "SELECT pg_stat_force_next_flush()"
            )  # else it counts what is written later

    def make(called: str, columns: str, *inserted: str) -> str:
        bridge.run(run(f"CREATE TABLE public.{{}} ({columns})", called))
        known.append(called)
        for statement in inserted:
            bridge.run(run(f"INSERT INTO public.{{}} {statement}", called))
        return called

    yield make
    if bridge.run(collections.find(store, name)):
        bridge.run(load.drop(store, name))
    for each in known:
        bridge.run(run("DROP TABLE public.{}", each))


@pytest.fixture
def faq(made: Callable[..., str], name: str) -> str:
    values = (
        "(nr, heading, answer, product) VALUES (1, 'Reset', 'Hold the <b>button</b>', 'hub'),"
        " (2, 'Bill', 'Under Billing', 'app')"
    )
    return f"public.{made(f'faq {name}', COLUMNS, values)}"


def chosen(page: AppTest, label: str) -> str | None:
    return next(each.value for each in page.selectbox if each.label == label)


def pick(page: AppTest, label: str, value: str) -> None:
    next(each for each in page.selectbox if each.label == label).select(value).run()
    assert not page.exception


def test_a_tables_columns_are_guessed_looked_at_and_attached_and_the_address_names_the_table(page, store, faq, name):
    visit(page, add="attach")
    pick(page, "Table or view", faq)
    assert page.query_params["table"] in (faq, [faq])
    labels = ("Id column", "Text column", "Title column", "Vector column", "Full-text column")
    assert [chosen(page, label) for label in labels] == ["nr", "answer", "heading", "emb", ""]
    assert "table, 2 rows; vectors of 16 numbers" in written(page)
    assert next(iter(rows(page, "attach.rows").values())) == ["1", "Reset", "Hold the <b>button</b>"]
    pick(page, "Model that made the vectors", MODEL)
    next(each for each in page.text_input if each.label == "Name").input(name).run()
    press(page, "Attach")
    result = waited(page, store, "attach", name).result()
    assert {each.subject for each in result.advice} >= {"vector", "trigram"}
    assert f"{name} is attached to {faq}." in written(page)
    assert (rows(page, LIST)[name][1], rows(page, LIST)[name][-2]) == ("2", "attached")
    kept = Attachment.of(bridge.run(collections.get(store, name))).table
    assert (kept.id, kept.text, kept.model, kept.metadata) == ("nr", "answer", MODEL, "extra")


def test_an_address_opens_the_form_on_the_table_that_it_names(page, faq):
    visit(page, add="attach", table=faq)
    assert chosen(page, "Table or view") == faq
    assert handed(page, "attach.rows")["rows"]


def test_a_table_that_is_not_there_is_named_with_the_nearest(page, faq):
    visit(page, add="attach", table=f"{faq}x")
    assert "Did you mean" in written(page)
    assert faq in written(page)


def test_a_column_that_identifies_no_row_is_refused_before_anything_is_attached(page, made, name):
    table = made(f"twice {name}", "id text, body text", "VALUES ('a', 'one'), ('a', 'two')")
    visit(page, add="attach", table=f"public.{table}")
    assert "does not identify a row" in written(page)
    assert "Attach" not in [each.label for each in page.button]


def test_a_hostile_tables_name_and_rows_are_shown_as_they_are_and_written_nowhere(page, made, name):
    called = f'a"b <b>{name[:20]}</b>'
    made(called, "id text PRIMARY KEY, body text", f"VALUES ('1', '{SCRIPT.replace(chr(39), '')}')")
    visit(page, add="attach", table=attached.written_name("public", called))
    assert "<script" not in written(page)
    assert f"<b>{name[:20]}" not in written(page)
    assert rows(page, "attach.rows")["0"][2].startswith("<script>")


def test_only_rows_with_a_value_belong_to_it(page, faq):
    visit(page, add="attach", table=faq)
    next(each for each in page.text_area if each.label == "Only rows with").input("product=app").run()
    assert "table, 1 row;" in written(page)
    next(each for each in page.text_area if each.label == "Only rows with").input("product").run()
    assert "is not of the form COLUMN=VALUE" in written(page)


def test_a_librarys_table_maps_itself(page, store, made, name):
    table = made(
        f"data_{name.replace(' ', '_')}",
        "id bigserial PRIMARY KEY, text varchar NOT NULL, metadata_ json, node_id varchar, embedding vector(16)",
        "(text, node_id) VALUES ('one', 'n1'), ('two', 'n2')",
    )
    visit(page, add="attach", like="llamaindex", table=table.removeprefix("data_"))
    assert [chosen(page, label) for label in ("Id column", "Text column", "Vector column")] == [
        "node_id",
        "text",
        "embedding",
    ]
    assert [cells[0] for cells in rows(page, "attach.rows").values()] == ["n1", "n2"]


def test_what_is_aside_is_built_told_and_removed(page, store, faq, name):
    wanted = AttachRequest(name, faq, given={"id": "nr", "text": "answer"})
    bridge.run(attach.attach(store, wanted))
    visit(page, collection=name, view="extend")
    press(page, "Build aside")
    waited(page, store, "aside", name)
    assert "Built of 2 rows" in written(page)
    assert [each.value for each in page.code if "gin_trgm_ops" in each.value]
    press(page, "Remove what is aside")
    assert Attachment.of(bridge.run(collections.get(store, name))).aside is None
    assert "Build aside" in [each.label for each in page.button]


def test_what_stands_aside_is_told_to_be_behind_its_table_checked_and_refreshed(page, store, made, name):
    grown = f"faq {name}"
    given = {"id": "nr", "text": "answer"}
    table = made(grown, COLUMNS, "(nr, answer) VALUES (1, 'Hold the button'), (2, 'Under Billing')")
    bridge.run(attach.attach(store, AttachRequest(name, f"public.{table}", given=given, aside=True)))

    async def grow() -> None:
        async with store.begin() as connection:
            insert = sql.SQL("INSERT INTO public.{} (nr, answer) VALUES (3, 'New')").format(sql.Identifier(table))
            await connection.exec_driver_sql(insert.as_string())
            await connection.exec_driver_sql("SELECT pg_stat_force_next_flush()")

    bridge.run(grow())
    visit(page, collection=name, view="check")
    press(page, "Verify")
    assert any(each.wrong for each in waited(page, store, "verify", name).result())
    visit(page, collection=name, view="extend")
    assert "was written to since its words were taken aside" in written(page)
    press(page, "Refresh")
    waited(page, store, "refresh", name)
    assert "1 new, 0 changed, 0 gone; 3 rows stand aside now." in written(page)
    assert "was written to since" not in written(page)


@pytest.mark.parametrize(("parent", "kept"), [("product", "product"), ("extra.source", ("extra", "source"))])
def test_rows_may_be_parts_of_documents_by_a_column_or_a_path_that_is_typed(page, store, faq, name, parent, kept):
    page.session_state[attach_form._key(AttachRequest("", faq), "parent")] = parent  # as typed: no option says it
    visit(page, add="attach", table=faq)
    pick(page, "Vector column", "")
    next(each for each in page.text_input if each.label == "Name").input(name).run()
    press(page, "Attach")
    waited(page, store, "attach", name)
    view = bridge.run(collections.get(store, name))
    assert Attachment.of(view).table.parent == kept
    visit(page, collection=name)
    assert f"document: {parent}" in written(page)


def test_rows_of_one_document_stand_once_on_the_search_page_and_open_it_whole(app, store, made, name):
    values = "(nr, answer, product) VALUES (1, 'Hold the button', 'hub'), (2, 'The button of it', 'hub'), (3, 'x', 'y')"
    table = made(f"faq {name}", COLUMNS, values)
    given = {"id": "nr", "text": "answer", "parent": "product"}
    bridge.run(attach.attach(store, AttachRequest(name, f"public.{table}", given=given)))
    visit(app, collection=name, query="hold the button")
    assert [(card["id"], card["item"]) for card in cards(app, "fulltext")] == [("1", "hub")]
    visit(app, collection=name, query="hold the button", opened="1")
    shown = handed(app, "document.1")["text"]
    assert "".join(piece for piece, _ in shown) == "Hold the button\n\nThe button of it"
    assert [piece for piece, found in shown if found] == ["Hold the button"]


def test_a_librarys_tables_are_offered_and_say_of_which_document_a_row_is(page, made, name):
    table = made(
        f"data_{name.replace(' ', '_')}",
        "id bigserial PRIMARY KEY, text varchar NOT NULL, metadata_ json, node_id varchar, embedding vector(16)",
        """(text, node_id, metadata_) VALUES ('one', 'n1', '{{"ref_doc_id": "d"}}'), ('two', 'n2', NULL)""",
    )
    visit(page, add="attach", like="llamaindex")
    pick(page, "Table or view", table)
    assert chosen(page, "Document of a row") == "metadata_.ref_doc_id"


def test_labels_that_cannot_be_read_are_told_before_anything_is_attached(page, store, faq, name, tmp_path):
    visit(page, add="attach", table=faq)
    pick(page, "Vector column", "")
    next(each for each in page.text_input if each.label == "Name").input(name).run()
    next(each for each in page.text_input if each.label == "Labels for it").input(str(tmp_path / "none")).run()
    press(page, "Attach")
    waited(page, store, "attach", name)
    assert "There is nothing at this path" in written(page)
    assert bridge.run(collections.find(store, name)) is None
    (tmp_path / "queries.csv").write_text("id,text\nq1,where is the bill\n")
    (tmp_path / "labels.csv").write_text("query_id,item_id,grade\nq1,2,1\nq1,9,1\n")
    press(page, "Change it and try again")
    assert next(each.value for each in page.text_input if each.label == "Name") == name
    assert chosen(page, "Vector column") == ""
    next(each for each in page.text_input if each.label == "Labels for it").input(str(tmp_path)).run()
    press(page, "Attach")
    waited(page, store, "attach", name)
    assert "1 query, 1 label." in written(page)
    assert bridge.run(query_sets.summaries(store, name))[0].labels == 1


@pytest.mark.parametrize(
    ("columns", "guess"),
    [
        ("id int PRIMARY KEY, body text", {"id": "id", "text": "body"}),
        ("uuid uuid PRIMARY KEY, a text, b text", {"id": "uuid", "text": "b"}),
        (
            "id text, content text, metadata json, title text",
            {"id": "id", "text": "content", "title": "title", "metadata": "metadata"},
        ),
    ],
)
def test_columns_are_guessed_by_their_types_and_names(store, made, name, columns, guess):
    table = made(f"guess {name}", columns)
    assert table_discovery.guessed(bridge.run(table_discovery.relation(store, f"public.{table}"))) == guess


def test_tables_of_rankbooks_own_are_not_offered(store, faq):
    found = bridge.run(table_discovery.tables(store))
    assert faq in found
    assert not [each for each in found if each.startswith(("rankbook.", "c_"))]


def test_a_library_needs_the_model(store):
    with pytest.raises(SpecError, match="Name it"):
        bridge.run(attach.mapping(store, AttachRequest("x", "docs", "llamaindex")))
