"""A fusion cell and a context cell on the page."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from dataclasses import replace

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store import collections
from evals import variants
from evals.collections import load
from evals.labels import query_sets
from tests.app.corpus import KETTLES, MARKUP, SCRIPT
from tests.app.showing import CELL, STAGE, page, settled
from tests.app.test_search_page import handed, visit, written

LEGS = 'legs = ["bm25", "fulltext"]\nlooked_on = "test"\nsteps = 10\n'
INSTRUMENT = f"cell.{CELL}.fusion.instrument"
PACK = 'query_id = "q1"\nvariant = "bm25"\nbudget = 60\n'


def widget(name: str) -> str:
    return f"cell.{CELL}.{name}"


@pytest.fixture
def weighed(store):
    return STAGE.play(store, "fusion", LEGS, split="all")


def test_the_instrument_is_given_the_cells_own_surface(weighed):
    given = handed(page(), INSTRUMENT)
    assert [leg["label"] for leg in given["surface"]["legs"]] == ["BM25", "Full text"]
    assert (len(given["surface"]["means"]), given["weights"]) == (11, "5-5")
    assert given["surface"]["verdict"].startswith("Under ")


def test_the_depth_of_the_legs_is_the_cells_and_what_deeper_would_bring_is_said(store):
    STAGE.play(store, "fusion", f"{LEGS}depth = 5\neven_so = true\n", split="all")
    app = page()
    assert "Legs are 5 deep. Deeper would bring" in written(app)
    assert any(each.value.count("depth = 5") == 2 for each in app.code)


def test_the_address_says_point_query_and_what_it_is_compared_with(weighed):
    given = handed(page(cell=CELL, weights="7-3", against="10-0", query="q2"), INSTRUMENT)
    assert (given["weights"], given["against"], given["query"]["text"]) == ("7-3", "10-0", "E-42")


def test_another_fusion_and_its_k_are_looked_at_by_the_address_alone(weighed):
    app = page()
    app.selectbox(key=widget("with.method")).select("rrf")
    settled(app)
    app.number_input(key=widget("with.k")).set_value(10.0)
    settled(app)
    assert app.query_params["variant"] == "rrf,k=10"
    assert handed(app, INSTRUMENT)["surface"]["verdict"].startswith("Under rrf, k 10")
    assert STAGE.changes == []


def test_a_fusion_that_the_address_makes_up_is_the_cells_own(weighed):
    assert handed(page(cell=CELL, variant="<b>,k=x"), INSTRUMENT)["weights"] == "5-5"


def test_an_option_that_the_address_makes_up_is_said_to_be_none_and_the_figures_stay(weighed):
    said = written(page(cell=CELL, variant="rrf,k=many"))
    assert "many" in said
    assert "Tun" in said or "Too few labels" in said


def test_a_point_is_kept_and_shown_as_sql(weighed, monkeypatch, tmp_path):
    monkeypatch.setattr(variants, "home", lambda: tmp_path)
    app = page(cell=CELL, weights="7-3")
    app.button(key=widget("fusion.keep")).click()
    settled(app)
    (kept,) = variants.listed()
    assert kept.variant
    assert [leg.weight for leg in kept.variant.legs] == [0.7, 0.3]
    app.button(key=widget("fusion.copy")).click()
    assert "0.7" in settled(app).code[0].value


def test_a_stale_output_is_not_dragged_but_its_figures_are_shown(weighed):
    STAGE.shown = replace(weighed, stale=("the collection was changed",))
    app = page()
    assert "Run the cell" in written(app)
    assert INSTRUMENT not in {element.key for element in app.get("bidi_component")}
    assert app.get("plotly_chart")


# -- what the weights page has too -------------------------------------------------------------------------------------


def draw_weights() -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.weights import page

    with feedback.draw_errors():
        page.render(session.store())


def test_the_page_weighs_a_kept_variant(store, monkeypatch, tmp_path):
    monkeypatch.setattr(variants, "home", lambda: tmp_path)
    variants.keep(
        'name = "mine <b>"\n[[leg]]\nkind = "bm25"\nweight = 0.25\n[[leg]]\nkind = "fulltext"\nweight = 0.75\n'
    )
    app = visit(AppTest.from_function(draw_weights, default_timeout=60), collection="kettles", variant="mine <b>")
    assert "mine <b>" in app.selectbox(key="weights.variant").options
    assert handed(app, "weights.instrument")["weights"] == "5-15"


def test_the_page_weighs_over_another_query_set(store):
    kettles = bridge.run(query_sets.load(store, "kettles"))
    bridge.run(load.load_collection(store, "two sets", KETTLES, load.LoadPlan(models=())))
    try:
        bridge.run(query_sets.keep(store, "two sets", replace(kettles, labels=kettles.labels[:-1]), name="fewer"))
        address = {"collection": "two sets", "legs": "bm25,fulltext", "split": "all"}
        app = visit(AppTest.from_function(draw_weights, default_timeout=60), **address)
        assert app.selectbox(key="weights.query_set").options == ["default", "fewer"]
        every = len(handed(app, "weights.instrument")["surface"]["queries"])
        app.selectbox(key="weights.query_set").select("fewer").run()
        assert len(handed(app, "weights.instrument")["surface"]["queries"]) == every - 1
    finally:
        bridge.run(collections.drop(store, "two sets"))


# -- a packed context --------------------------------------------------------------------------------------------------


def test_a_context_shows_its_passages_what_was_left_out_and_the_gain(store):
    shown = STAGE.play(store, "context", PACK)
    app = page()
    given = handed(app, widget("packed"))
    assert given["budget"] == 60
    passage = next(each for each in given["passages"] if each["item"] == "descale")
    assert passage["badge"]["text"] == "grade 3"
    assert passage["citation"].startswith("Doc: descale")
    curve = shown.output.values["own curve"]
    assert [point["gain"] for point in curve] == sorted(point["gain"] for point in curve)
    assert curve[-1]["budget"] == 120
    assert len(app.get("plotly_chart")) == 1


def test_a_budget_is_changed_by_the_slider_and_by_number(store):
    STAGE.play(store, "context", PACK)
    app = page()
    app.slider(key=widget("slid")).set_value(500).run()
    app.number_input(key=widget("typed")).set_value(77).run()
    app.number_input(key=widget("over")).set_value(2).run()
    assert STAGE.changes == [{"budget": 500}, {"budget": 77}, {"over": 2}]


def test_a_context_of_hostile_texts_is_handed_over_as_text(store):
    STAGE.play(store, "context", 'query = "trap"\nvariant = "bm25"\n', collection="hostile", split="all")
    app = page()
    assert any(SCRIPT in passage["text"] for passage in handed(app, widget("packed"))["passages"])
    assert SCRIPT not in written(app)
    assert MARKUP not in " ".join(element.value for element in app.markdown)
