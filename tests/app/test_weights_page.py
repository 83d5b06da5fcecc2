"""The weights page, as Streamlit would draw it."""

from __future__ import annotations

import threading
from typing import Any
from urllib.parse import urlencode

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store.engine import Store
from evals import variants
from evals.schema import schema_chain
from tests.app.test_search_page import handed, visit, written
from tests.conftest import make_home
from workbench.services import jobs

INSTRUMENT = "weights.instrument"
WORDS = {"collection": "kettles", "legs": "bm25,fulltext"}


def draw() -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.weights import page as weights_page

    with feedback.draw_errors():
        weights_page.render(session.store())


@pytest.fixture
def page(store: Store) -> AppTest:
    return AppTest.from_function(draw, default_timeout=60)


def test_the_instrument_is_given_a_surface_and_a_query(page):
    visit(page, **WORDS)
    given = handed(page, INSTRUMENT)
    assert [leg["label"] for leg in given["surface"]["legs"]] == ["BM25", "Full text"]
    assert len(given["surface"]["means"]) == 21
    assert given["weights"] == "10-10"
    assert {query["id"] for query in given["surface"]["queries"]} == {"q1", "q2"}
    titles = dict(zip(given["query"]["items"], given["query"]["titles"], strict=True))
    assert set(titles.values()) <= {"Descale the kettle", "Error E-42", "Warranty", "The teapot"}


def test_the_address_decides_point_query_metric_fusion_and_split(page):
    visit(page, **WORDS, weights="13-7", query="q1", metric="mrr@10", fusion="rrf", k="10", split="all", against="20-0")
    given = handed(page, INSTRUMENT)
    assert (given["weights"], given["against"], given["surface"]["metric"]) == ("13-7", "20-0", "mrr@10")
    assert given["query"]["text"] == "remove scale from the kettle"
    assert given["query"]["badges"][given["query"]["items"].index("descale")]["text"] == "grade 3"
    assert len(given["surface"]["queries"]) == 3
    assert page.number_input(key="weights.k").value == 10


def test_three_legs_and_vectors_make_a_triangle(page):
    visit(page, collection="kettles", legs="vector,bm25,trigram")
    given = handed(page, INSTRUMENT)
    assert len(given["surface"]["means"]) == 253
    assert given["weights"] == "7-7-7", "equal weights are exactly equal"
    visit(page, collection="kettles", legs="vector,bm25,trigram", weights="10-6-4")
    assert handed(page, INSTRUMENT)["weights"] == "11-6-4", "an address of before, in twentieths"


def test_choosing_a_fusion_writes_it_to_the_address_and_asks_for_its_option(page):
    visit(page, **WORDS)
    page.selectbox(key="weights.fusion").select("linear").run()
    assert page.query_params["fusion"] == "linear"
    page.selectbox(key="weights.normalize").select("zscore").run()
    assert not page.exception
    assert page.query_params["normalize"] == "zscore"
    assert "zscore" in " ".join(mark["says"] for mark in handed(page, INSTRUMENT)["surface"]["marks"])


def test_the_depth_of_the_legs_stands_beside_k_with_what_deeper_would_bring_and_is_kept(page):
    visit(page, **WORDS)
    assert page.number_input(key="weights.depth").value == 30
    assert "Legs are 30 deep. Deeper would bring +0.000: with legs 100 deep" in written(page)
    page.number_input(key="weights.depth").set_value(120.0).run()
    assert not page.exception
    assert page.query_params["depth"] == "120"
    assert "Deeper would bring" not in written(page)
    next(button for button in page.button if button.label == "Copy as SQL").click().run()
    assert page.code[0].value.count("LIMIT 120") == 2


def test_other_legs_leave_the_point_behind(page):
    visit(page, **WORDS, weights="13-7")
    page.multiselect(key="weights.legs").unselect("fulltext").select("trigram").run()
    assert not page.exception
    assert "weights" not in page.query_params
    assert handed(page, INSTRUMENT)["weights"] == "10-10"


@pytest.mark.parametrize(("preset", "point"), [("local-rag", "8-12"), ("late-chunking", "10-10")])
def test_a_preset_can_be_weighed_and_starts_at_what_its_legs_count(page, preset, point):
    visit(page, collection="kettles", variant=preset)
    given = handed(page, INSTRUMENT)
    assert given["weights"] == point
    assert given["surface"]["marks"][0]["says"].startswith(f"What {preset} has now")


def test_one_leg_is_not_weighed_and_the_page_says_so(page):
    visit(page, collection="kettles", legs="bm25")
    assert "Give two to four." in written(page)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ({"collection": "kettels"}, "Did you mean &#x27;kettles&#x27;?"),
        ({**WORDS, "metric": "nothing@10"}, "nothing"),
        ({**WORDS, "split": "nowhere"}, "nowhere"),
        ({**WORDS, "depth": "30<b>"}, "The depth &#x27;30&lt;b&gt;&#x27; is no whole number."),
        ({**WORDS, "depth": "99999"}, "depth: must be 10000 or less"),
        ({**WORDS, "legs": "bm25,<b>bold</b>"}, "&lt;b&gt;bold&lt;/b&gt;"),
        ({**WORDS, "variant": "../../etc/passwd"}, "hybrid-retriever"),
        ({"collection": "no vectors", "legs": "vector,bm25"}, "rankbook data embed"),
        ({"collection": "hostile", "legs": "bm25,fulltext"}, "One labelled query leaves none to score by"),
    ],
)
def test_what_cannot_be_weighed_is_said_in_a_sentence(page, address, said):
    visit(page, **address)
    assert said in written(page)


def test_an_address_with_a_point_or_a_query_that_is_not_there_still_opens(page):
    visit(page, **WORDS, weights="99-1", against="x", query="<b>gone</b>")
    given = handed(page, INSTRUMENT)
    assert (given["weights"], given["against"]) == ("10-10", "")
    assert "<b>gone</b>" in given["query"]["problem"]


def test_copy_as_sql_shows_the_statement_with_these_weights(page):
    visit(page, **WORDS, weights="13-7")
    next(button for button in page.button if button.label == "Copy as SQL").click().run()
    assert not page.exception
    assert "0.65" in page.code[0].value
    assert "bm25, fulltext" in page.code[0].value or "bm25 + fulltext" in page.code[0].value
    visit(page, **WORDS, weights="12-8")
    assert not page.code


def test_a_point_is_kept_as_a_variant_under_a_name_of_its_own(page, monkeypatch, tmp_path):
    from evals.variants import resolve_variant

    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    visit(page, **WORDS, weights="13-7")
    for _ in range(2):  # what is kept already is not kept twice
        page.button(key="weights.keep").click().run()
        assert not page.exception
    (kept,) = variants.listed()
    assert kept.name == page.text_input(key="weights.name").value == "bm25 + fulltext, 13-7 of 20"
    assert [leg.weight for leg in resolve_variant(kept.name).legs] == [0.65, 0.35]
    assert f"Kept as <b>{kept.name}</b>" in written(page)
    assert f"./variants?{urlencode({'variant': kept.name})}" in written(page)


@pytest.fixture
def named(page: AppTest, monkeypatch, tmp_path) -> AppTest:
    """The page with a point that was kept under a name that somebody typed."""
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    visit(page, **WORDS, weights="13-7")
    page.text_input(key="weights.name").input("mostly words").run()
    page.button(key="weights.keep").click().run()
    assert [kept.name for kept in variants.listed()] == ["mostly words"]
    return page


def test_a_typed_name_stays_while_the_point_moves_until_it_is_used(named):
    visit(named, **WORDS, weights="12-8")
    assert named.text_input(key="weights.name").value == "bm25 + fulltext, 12-8 of 20"
    named.text_input(key="weights.name").input("another").run()
    visit(named, **WORDS, weights="11-9")
    assert named.text_input(key="weights.name").value == "another"
    named.text_input(key="weights.name").input("").run()
    assert named.text_input(key="weights.name").value == "bm25 + fulltext, 11-9 of 20"


def test_a_taken_name_is_said_and_can_be_replaced(named):
    visit(named, **WORDS, weights="12-8")
    named.text_input(key="weights.name").input("mostly words").run()
    named.button(key="weights.keep").click().run()
    assert "Another variant is kept as <b>mostly words</b> already" in written(named)
    assert variants.get("mostly words").valid().legs[0].weight == 0.65
    named.button(key="weights.replace").click().run()
    (kept,) = variants.listed()
    assert kept.valid().legs[0].weight == 0.6
    assert "Kept as <b>mostly words</b>" in written(named)


def test_the_name_of_a_preset_is_refused_in_a_sentence(named):
    named.text_input(key="weights.name").input("local-rag").run()
    named.button(key="weights.keep").click().run()
    assert "local-rag&#x27; is a preset, and stays one." in written(named)
    assert len(variants.listed()) == 1


def test_what_is_kept_goes_into_an_evaluate_cell_of_a_notebook_that_is_chosen(named, tmp_path):
    named.selectbox(key="weights.use").select("A new notebook").run()
    assert not named.exception
    assert "./notebook?notebook=weights&amp;cell=" in written(named)
    text = (tmp_path / "notebooks" / "weights.md").read_text()
    assert "```evaluate" in text
    assert 'variants = ["bm25", "fulltext", "mostly words"]' in text
    assert 'collection = "kettles"' in text
    named.selectbox(key="weights.use").select("weights").run()
    assert (tmp_path / "notebooks" / "weights.md").read_text().count("```evaluate") == 2


def test_work_that_somebody_stopped_can_be_begun_again(page):
    begun, free = threading.Event(), threading.Event()
    visit(page, **WORDS, k="33")
    (key,) = [key for key, _ in jobs.begun() if "33" in key]
    jobs.forget(key)

    async def waits(*_: Any) -> Any:
        import asyncio

        begun.set()
        await asyncio.to_thread(free.wait, 30)

    work = jobs.start(key, "Waits", waits)
    begun.wait(60)
    work.stop()
    free.set()
    visit(page, **WORDS, k="33")
    assert "Stopped" in written(page)
    next(button for button in page.button if button.label == "Go on").click().run()
    assert handed(page, INSTRUMENT)["weights"] == "10-10"


stores: dict[str, Store] = {}


def draw_empty() -> None:
    from tests.app.test_weights_page import stores
    from workbench.screens.weights import page as weights_page

    weights_page.render(stores["empty"])


def test_without_a_collection_the_page_says_where_to_begin():
    stores["empty"] = bridge.run(Store.open(home=make_home(), chains=[schema_chain]))
    try:
        page = AppTest.from_function(draw_empty, default_timeout=60).run()
        assert not page.exception
        assert "There is no collection yet" in written(page)
    finally:
        bridge.run(stores.pop("empty").close())
