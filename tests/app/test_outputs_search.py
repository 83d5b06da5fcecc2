"""A search cell on the page: its columns, its controls, why a document is there or not, its SQL, a document in full."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.app.corpus import MARKUP, SCRIPT
from tests.app.showing import CELL, STAGE, page, settled
from tests.app.test_search_page import handed, written
from workbench.components.document import Part, in_browser
from workbench.services.find_documents import find_documents

PAIR = 'query_id = "q1"\nvariants = ["bm25", "vector"]\n'
BOTH = '{ name = "both", rerank = { method = "overlap" }, leg = [{ kind = "vector" }, { kind = "fulltext" }] }'
HYBRID = f'query_id = "q1"\nvariants = [{BOTH}]\ntop_k = 2\n'
FREE = 'query = "kettle"\nvariants = ["bm25", "vector"]\n'
COLUMNS = f"cell.{CELL}.columns"


def columns(app) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = handed(app, COLUMNS)["columns"]
    return shown


def widget(name: str) -> str:
    return f"cell.{CELL}.{name}"


# -- columns -----------------------------------------------------------------------------------------------------------


def test_variants_stand_side_by_side_with_grades_and_movement(store):
    STAGE.play(store, "search", PAIR)
    first, second = columns(page())
    assert (first["name"], second["name"]) == ("bm25", "vector")
    badges = {card["item"]: card["badge"]["text"] for card in second["cards"]}
    assert badges == {"descale": "grade 3", "warranty": "grade 1", "teapot": "judged 0", "e42": "unjudged"}
    assert second["recall"] == "2 of 2 relevant"
    places = {card["item"]: card["rank"] for card in first["cards"]}
    assert {card["move"] for card in first["cards"]} == {None}
    for card in second["cards"]:
        before = places.get(card["item"])
        moved = "new" if before is None else "=" if before == card["rank"] else str(abs(before - card["rank"]))
        assert card["move"]["text"].strip("↑↓") == moved


def test_a_query_that_nobody_labelled_has_no_badges(store):
    STAGE.play(store, "search", FREE)
    assert {card["badge"] for column in columns(page()) for card in column["cards"]} == {None}


def test_what_columns_share_is_counted_once(store):
    STAGE.play(store, "search", PAIR)
    parts = handed(page(), COLUMNS)["overlap"]
    assert sum(part["count"] for part in parts) == 4
    assert [part["columns"] for part in parts] == sorted((part["columns"] for part in parts), key=sum)


def test_a_card_says_each_legs_rank_score_and_part_and_its_way(store):
    STAGE.play(store, "search", HYBRID)
    (column,) = columns(page())
    assert [leg["label"] for leg in column["legs"]] == ["Vector", "Full text"]
    card = column["cards"][0]
    assert {leg["label"] for leg in card["legs"]} == {"Vector", "Full text"}
    assert 0 < sum(leg["share"] for leg in card["legs"]) <= 100.001
    assert [said for said, *_ in card["way"]] == ["put together", "second look", "shown"]
    assert [exact for *_, exact in card["way"]] == ["fuse", "rerank", "cut"]
    assert card["says"].startswith("Found by its ")
    assert card["way"][-1][1] == 1
    stages = {stage["name"]: stage for stage in column["stages"]}
    assert sum(each["count"] for each in stages["cut"]["dropped"]) == stages["rerank"]["kept"] - 2


def test_what_a_corpus_says_is_handed_over_as_it_is_and_written_nowhere(store):
    STAGE.play(
        store,
        "search",
        f"query = '''trap {SCRIPT} {MARKUP}'''\nvariants = ['bm25']\n".replace("'''", '"""'),
        collection="hostile",
        split="all",
    )
    app = page(cell=CELL, document="Trap", against="*")
    card = next(card for card in columns(app)[0]["cards"] if card["item"] == "<i>id</i>")
    assert card["title"] == f"Trap {SCRIPT} {MARKUP}"
    assert "".join(text for text, _ in card["heading"]) == card["title"]
    assert ["Trap", True] in card["heading"]
    assert SCRIPT not in written(app)
    assert "<i>id</i>" not in written(app)
    assert "&lt;i&gt;id&lt;/i&gt; is there" in written(app)


# -- what is asked -----------------------------------------------------------------------------------------------------


def test_one_leafs_through_labelled_queries_and_asks_ones_own(store):
    STAGE.play(store, "search", PAIR, split="all")
    app = page()
    assert app.button(key=widget("previous")).disabled
    app.button(key=widget("next")).click().run()
    app.selectbox(key=widget("labelled")).select("q3").run()
    app.text_input(key=widget("query")).input("descale it").run()
    app.text_input(key=widget("query")).input("  ").run()
    assert not app.exception
    unset = {"query": None, "query_id": None, "pick": None}
    assert STAGE.changes == [
        {**unset, "query_id": "q2"},
        {**unset, "query_id": "q3"},
        {**unset, "query": "descale it"},
    ]


@pytest.mark.parametrize("pick", ["worst", "most-different"])
def test_the_worst_and_the_most_divided_query_are_one_click_away(store, pick):
    STAGE.play(store, "search", FREE)
    page().button(key=widget(pick)).click().run()
    assert STAGE.changes == [{"query": None, "query_id": None, "pick": pick}]


def test_from_a_free_query_the_next_one_is_the_first(store):
    STAGE.play(store, "search", FREE)
    page().button(key=widget("next")).click().run()
    assert STAGE.changes[0]["query_id"] == "q1"


# -- why ---------------------------------------------------------------------------------------------------------------


def test_a_card_is_explained_leg_by_leg_in_its_own_column(store):
    shown = STAGE.play(store, "search", PAIR)
    first = next(block for block in shown.output.blocks if block.type == "hits").columns[1].hits[0]
    account = handed(page(cell=CELL, document=first.id, against="vector"), COLUMNS)["account"]
    assert (account["column"], account["id"]) == (1, first.id)
    text, exact = account["lines"][0]
    assert text == f"This passage of “{first.title}” is there, at rank 1 of 4."
    assert exact.startswith(f"{first.id} is there: 1st of 4")
    assert account["lines"][1][0] == "Found by its meaning, at rank 1."
    assert account["lines"][1][1].startswith("vector: 1st, scoring ")


def test_a_document_that_is_missed_is_named_by_its_title_and_explained_in_each_column(store):
    STAGE.play(store, "search", 'query_id = "q2"\nvariants = ["bm25", "vector"]\ntop_k = 1\n')
    app = page()
    app.text_input(key=widget("missed")).input("the teapot").run()
    assert app.query_params["document"] == "the teapot"
    said = written(settled(app))
    assert said.count("“The teapot” is not among the 1 results.") == 2
    assert said.count("teapot is not among the 1 results.</small>") == 2
    assert " results shown it would come in, at rank " in said
    assert "With top_k = " in said
    assert handed(app, COLUMNS)["account"] is None


def test_of_several_documents_of_such_a_title_one_is_chosen(store):
    STAGE.play(store, "search", PAIR)
    app = page(cell=CELL, document="the", against="*")
    assert set(app.selectbox(key=widget("meant")).options) == {"Descale the kettle (descale)", "The teapot (teapot)"}
    app.selectbox(key=widget("meant")).select_index(0)
    assert "is there" in written(settled(app))


def test_of_an_unknown_document_the_nearest_are_told(store):
    STAGE.play(store, "search", PAIR)
    assert "There is no document 'warrenty'" in written(page(cell=CELL, document="warrenty", against="*"))


def test_another_cells_selection_is_none_of_this_one(store):
    STAGE.play(store, "search", PAIR)
    assert "is there" not in written(page(cell="other", document="teapot", against="*"))


# -- SQL, and a document in full ---------------------------------------------------------------------------------------


def test_a_column_is_shown_as_sql_filled_in_and_with_its_plan(store):
    STAGE.play(store, "search", PAIR)
    app = page()
    assert not app.code
    app.selectbox(key=widget("sql")).select("bm25")
    assert "Parameters" in settled(app).code[0].value
    app.toggle(key=widget("sql.filled")).set_value(True)
    app.toggle(key=widget("sql.plan")).set_value(True)
    settled(app)
    assert "remove scale from the kettle" in app.code[0].value
    assert "Execution Time:" in app.code[1].value


def test_a_document_opens_with_its_passages(store):
    shown = STAGE.play(store, "search", PAIR)
    found = next(block for block in shown.output.blocks if block.type == "hits").columns[0].hits[0]
    told = handed(page(cell=CELL, document=found.id, variant="bm25"), f"document.{found.id}")
    assert found.id in [part[0] for part in told["parts"]]
    marked = next(piece for piece, passage in told["text"] if passage)
    start, end = next((start, end) for unit, start, end in told["parts"] if unit == found.id)
    assert "".join(piece for piece, _ in told["text"])[start:end] == marked


def test_passages_are_counted_as_a_browser_counts():
    text = "a\N{TEAPOT}\N{GRINNING FACE}b"
    assert in_browser(text, [Part("x#0001", 0, 3), Part("x#0002", 3, 4)]) == [["x#0001", 0, 5], ["x#0002", 5, 6]]


def test_what_was_found_is_still_there_where_the_collection_is_gone(store):
    shown = STAGE.play(store, "search", PAIR)
    gone = shown.spec.model_copy(update={"collection": "dropped"})
    STAGE.shown = replace(shown, spec=gone)
    said = written(page())
    assert "dropped" in said
    assert "Descale the kettle" in said


def test_a_passages_id_is_taken_as_it_is(store):
    from core import bridge
    from core.store import collections

    view = bridge.run(collections.get(store, "kettles"))
    assert [each.id for each in bridge.run(find_documents(store, view, "teapot#0001"))] == ["teapot#0001"]
    assert [each.title for each in bridge.run(find_documents(store, view, "ERROR e-42"))] == ["Error E-42"]
