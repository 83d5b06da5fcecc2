"""The search page, as Streamlit would draw it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store.engine import Capabilities, Store
from evals.schema import schema_chain
from tests.app.corpus import HOSTILE, MARKUP, SCRIPT
from tests.conftest import make_home

LEGS = ("vector", "fulltext", "trigram")


def visit(app: AppTest, **address: str) -> AppTest:
    app.query_params.clear()
    app.query_params.update(address)
    app.run()
    assert not app.exception
    return app


def handed(app: AppTest, key: str) -> dict[str, Any]:
    """What a component was given to show."""
    for element in app.get("bidi_component"):
        if element.key == key:
            values: dict[str, Any] = json.loads(element.proto.json)
            return values
    raise AssertionError(f"no {key} among {[element.key for element in app.get('bidi_component')]}")


def cards(app: AppTest, leg: str) -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = handed(app, f"cards.{leg}")["cards"]
    return shown


def written(app: AppTest) -> str:
    """All HTML that the page writes itself."""
    return "\n".join(element.proto.body for element in app.get("html"))


def test_three_legs_answer_side_by_side(app):
    visit(app, collection="kettles", query="remove scale from the kettle")
    found = {leg: [card["item"] for card in cards(app, leg)] for leg in LEGS}
    assert found["fulltext"][0] == "descale"
    assert all("descale" in items for items in found.values())
    assert written(app).count(" ms</span>") == 3


def test_an_item_stands_once_in_a_column(app):
    visit(app, collection="kettles", query="kettle scale receipt")
    items = [card["item"] for card in cards(app, "vector")]
    assert len(items) == len(set(items)) == 4


def test_a_card_says_what_is_known_of_its_document(app):
    visit(app, collection="kettles", query="remove scale from the kettle")
    card = cards(app, "fulltext")[0]
    assert (card["rank"], card["title"], card["facts"]) == (
        1,
        "Descale the kettle",
        [["type", "guide"], ["date", "2025-01-02"]],
    )
    assert ["kettle", True] not in card["snippet"]  # it stands in the heading, which the card does not repeat
    assert card["snippet"][0][0].startswith("Fill it")
    assert [dot["leg"] for dot in card["dots"] if dot["rank"]] == list(LEGS)


def test_labels_become_badges_for_their_query_alone(app):
    visit(app, collection="kettles", query="remove scale from the kettle")
    badges = {card["item"]: card["badge"]["text"] for card in cards(app, "vector")}
    assert badges == {"descale": "grade 3", "warranty": "grade 1", "teapot": "judged 0", "e42": "unjudged"}
    assert "2 of 2 relevant documents" in written(app)
    visit(app, collection="kettles", query="kettle")
    assert {card["badge"] for card in cards(app, "vector")} == {None}


def test_examples_are_of_different_kinds(app):
    visit(app, collection="kettles")
    chips = handed(app, "chips.kettles")["chips"]
    assert [chip["kind"] for chip in chips] == ["question", "identifier", "misspelling"]


def test_before_a_query_each_leg_says_what_it_is_good_at(app):
    visit(app, collection="kettles")
    assert written(app).count("Good with") == 3


def test_typing_a_query_puts_it_into_the_address_bar(app):
    visit(app, collection="kettles")
    app.text_input(key="selection.query").input("E-42").run()
    assert app.query_params["query"] == "E-42"
    assert app.query_params["collection"] == "kettles"
    assert cards(app, "fulltext")[0]["item"] == "e42"


def test_the_level_chooses_what_is_searched(app):
    visit(app, collection="kettles", level="items", query="vinegar")
    assert cards(app, "fulltext")[0]["id"] == "descale"
    visit(app, collection="kettles", query="vinegar")
    assert cards(app, "fulltext")[0]["id"].startswith("descale#")


def test_choosing_another_collection_leaves_the_query_behind(app):
    visit(app, collection="kettles", query="vinegar")
    app.selectbox(key="selection.collection").select("hostile").run()
    assert not app.exception
    assert app.query_params == {"collection": "hostile"}


@pytest.mark.parametrize("level", ["default", "items"])
def test_a_document_opens_with_its_passage_marked(app, level):
    visit(app, collection="kettles", level=level, query="receipt")
    unit = cards(app, "fulltext")[0]["id"]
    visit(app, collection="kettles", level=level, query="receipt", opened=unit)
    shown = handed(app, f"document.{unit}")
    assert shown["title"] == "Warranty"
    assert "".join(piece for piece, _ in shown["text"]).startswith("# Warranty")
    assert any(passage for _, passage in shown["text"]) == (level == "default")


def test_a_document_that_is_gone_is_said_to_be_gone(app):
    visit(app, collection="kettles", query="receipt", opened="burnt#0000")
    assert "has no &#x27;burnt#0000&#x27; any more" in written(app)


def test_what_a_corpus_says_is_handed_over_as_it_is_and_written_nowhere(app):
    query = HOSTILE.asked[0].text
    visit(app, collection="hostile", query=query)
    card = next(card for card in cards(app, "fulltext") if card["item"] == "<i>id</i>")
    assert card["title"] == f"Trap {SCRIPT} {MARKUP}"
    assert "<script" not in written(app)
    assert "onerror" not in written(app)
    assert "&lt;u&gt;kind&lt;/u&gt;" in written(app)
    assert not [text for text in app.markdown if "Trap" in text.value]


def test_a_leg_without_its_means_says_so_and_the_others_go_on(app):
    visit(app, collection="no vectors", query="receipt")
    assert "Not available here" in written(app)
    assert "<code>rankbook data embed</code>" in written(app)
    assert cards(app, "fulltext")[0]["item"] == cards(app, "trigram")[0]["item"] == "warranty"


def test_a_collection_that_is_not_there_is_named_with_the_nearest(app):
    visit(app, collection="kettels", query="receipt")
    assert "Did you mean &#x27;kettles&#x27;?" in written(app)
    app.selectbox(key="selection.collection").select("kettles").run()
    assert "Did you mean" not in written(app)


def test_a_level_that_is_not_there_is_named_with_what_is(app):
    visit(app, collection="kettles", level="chapters", query="receipt")
    assert "There is: default, items." in written(app)


def test_words_that_the_language_drops_find_nothing_and_fail_nothing(app):
    visit(app, collection="kettles", query="the of and")
    assert "No passage holds any of the query's words." in written(app)


# -- other stores than the session's -----------------------------------------------------------------------------------

stores: dict[str, Store] = {}


def draw_stored(which: str) -> None:
    from tests.app.test_search_page import stores
    from workbench.components import feedback
    from workbench.screens.search import page

    with feedback.draw_errors():
        page.render(stores[which])


def test_without_a_collection_the_page_teaches_how_to_add_one():
    stores["empty"] = bridge.run(Store.open(home=make_home(), chains=[schema_chain]))
    try:
        app = AppTest.from_function(draw_stored, kwargs={"which": "empty"}, default_timeout=60).run()
        assert not app.exception
        assert app.code[0].value == "rankbook data add handbook"
    finally:
        bridge.run(stores.pop("empty").close())


def test_an_extension_that_the_server_lacks_costs_its_leg_alone(store):
    lacking = Capabilities(store.capabilities.version, {}, {"pg_trgm": "Trigram search needs pg_trgm <here>."})
    stores["lacking"] = Store(store.engine, store.server, lacking)
    app = AppTest.from_function(draw_stored, kwargs={"which": "lacking"}, default_timeout=60)
    visit(app, collection="kettles", query="receipt")
    assert "Trigram search needs pg_trgm &lt;here&gt;." in written(app)
    assert cards(app, "fulltext")[0]["item"] == "warranty"
