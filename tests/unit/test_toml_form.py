"""A form over TOML: the text changed in place, fields read off a model, mistakes at their line, widgets that follow."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from streamlit.testing.v1 import AppTest

from core import presets
from core.errors import InputError, SpecError
from core.fusion.base import fusions
from core.legs import legs
from core.variant import Variant
from workbench.notebooks.cells import kinds
from workbench.services import form_fields, toml_edit
from workbench.services import variants as variant_text
from workbench.services.toml_edit import line_of, put

pytestmark = pytest.mark.usefixtures("one_scan")

SOURCE = """\
# what it is for
name = "mine"  # its name
top_k = 10   # how many
fusion = { method = "rrf", k = 60 }  # fused

[[leg]]
kind = "vector"  # by meaning
weight = 0.7

# by words
[[leg]]
kind = "bm25"
"""


# -- the text ----------------------------------------------------------------------------------------------------------


def test_a_changed_value_keeps_its_comment_and_everything_else():
    assert put(SOURCE, {("top_k",): 5}) == SOURCE.replace("top_k = 10 ", "top_k = 5 ")


def test_a_new_key_stands_above_the_comment_that_leads_to_the_next_table():
    made = put(SOURCE, {("leg", 0, "depth"): 20})
    assert "weight = 0.7\ndepth = 20\n\n# by words\n[[leg]]" in made


def test_a_new_key_of_the_document_stands_before_its_tables():
    made = put(SOURCE, {("min_score",): 0.5})
    assert made.index("min_score = 0.5") < made.index("[[leg]]")


def test_what_is_inside_a_table_within_a_line_changes_there():
    made = put(SOURCE, {("fusion", "k"): 10, ("fusion", "weighted"): False})
    assert tomllib.loads(made)["fusion"] == {"method": "rrf", "k": 10, "weighted": False}
    assert "# fused" in made


def test_none_takes_a_key_out_and_a_table_that_is_not_there_is_made_for_a_value():
    assert "top_k" not in tomllib.loads(put(SOURCE, {("top_k",): None}))
    assert put(SOURCE, {("pack", "final_max_tokens"): None}) == SOURCE
    assert tomllib.loads(put(SOURCE, {("pack", "final_max_tokens"): 9}))["pack"] == {"final_max_tokens": 9}


def test_a_removed_leg_leaves_the_comment_of_the_next_one():
    made = put(SOURCE, {("leg", 0): None})
    assert [leg["kind"] for leg in tomllib.loads(made)["leg"]] == ["bm25"]
    assert "# by words" in made
    assert "vector" not in made


def test_an_added_leg_is_a_table_of_its_own_at_the_end():
    made = put(SOURCE, {("leg", 2): {"kind": "trigram"}})
    assert made == SOURCE + '\n[[leg]]\nkind = "trigram"\n'


def test_a_list_changes_entry_by_entry():
    text = 'why = [ # one a line\n  "x", # the first\n  "y",\n]\n'
    made = put(text, {("why",): ["x", "z"]})
    assert tomllib.loads(made) == {"why": ["x", "z"]}
    assert "# the first" in made


def test_line_ends_stay_what_they_were():
    made = put("a = 1\r\n", {("b",): 2})
    assert made == "a = 1\r\nb = 2\r\n"


def test_what_cannot_be_changed_is_refused_and_not_half_done():
    with pytest.raises(SpecError, match="source view"):
        put(SOURCE, {("name", "first"): "x"})


@given(
    some.sampled_from([("name",), ("top_k",), ("leg", 0, "weight"), ("leg", 1, "label"), ("fusion", "k"), ("model",)]),
    some.one_of(some.integers(0, 99), some.booleans(), some.text(some.characters(codec="utf-8"), max_size=20)),
)
def test_whatever_is_written_reads_back_and_every_comment_stays(place, value):
    made = put(SOURCE, {place: value})
    assert toml_edit.value_at(tomllib.loads(made), place) == value
    assert all(comment in made for comment in ("# what it is for", "# fused", "# by meaning", "# by words"))
    assert put(made, {place: value}) == made


@pytest.mark.parametrize(
    ("place", "line"), [(("name",), 2), (("leg", 0, "weight"), 8), (("leg", 1), 12), (("nothing",), 1), (("leg",), 7)]
)
def test_the_line_of_a_place_is_found(place, line):
    assert line_of(SOURCE, place) == line


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('name = "x"\ny =\n', 2, "not TOML"),
        ('top_k = "many"\n[[leg]]\nkind = "bm25"\n', 1, "whole number"),
        ('[[leg]]\nkind = "bm25"\n[[leg]]\nkind = "bm26"\n', 4, "Did you mean 'bm25'"),
        ('top_k = 3\n[[leg]]\nkind = "bm25"\nk1 = "x"\n', 4, "k1: must be a number"),
        ('name = "top_k"\ntop_l = 1\n[[leg]]\nkind = "bm25"\n', 2, "Did you mean 'top_k'"),
        ('name = "x"\nchunks = "items"\nparents = "replace"\n[[leg]]\nkind = "bm25"\n', 2, "needs chunks"),
        ('"""\n', 1, "not TOML"),
        ("", 1, "leg: is missing"),
        (f"x = {'[' * 5000}", 1, "nested too deeply"),
    ],
)
def test_a_mistake_is_a_sentence_at_its_line(text, line, said):
    with pytest.raises(InputError, match=said) as found:
        variant_text.read(text)
    assert found.value.line == line


def test_two_variants_differ_option_by_option_defaults_included():
    one, other = presets.preset("local-rag"), presets.preset("local-rag").but(name="mine", top_k=5)
    assert {row.where: (row.one, row.other) for row in variant_text.differing(one, other)} == {
        "name": ("local-rag", "mine"),
        "top_k": ("10", "5"),
    }


def test_two_texts_differ_line_by_line():
    lines = [(each.mark, each.text) for each in variant_text.lines_between("a\nb\nc\n", "a\nB\nc\n")]
    assert lines == [(" ", "a"), ("-", "b"), ("+", "B"), (" ", "c")]


# -- the fields --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [*(kinds[name] for name in kinds), *(legs[name] for name in legs), *(fusions[name] for name in fusions), Variant],
)
def test_every_field_is_there_with_its_help_and_a_default_that_its_widget_holds(model):
    found = form_fields.entries(model)
    assert [each.name for each in found] == form_fields.names(model)
    assert all(each.help for each in found)
    simple = [each for each in found if each.kind in ("switch", "whole", "number", "text", "choice", "texts")]
    assert simple
    assert all(each.fits(each.default) for each in simple)


def test_bounds_choices_and_what_may_be_left_out_are_read_off_the_model():
    search = {each.name: each for each in form_fields.entries(kinds["search"])}
    assert (search["top_k"].kind, search["top_k"].least, search["top_k"].most) == ("whole", 1, 100)
    assert search["pick"].choices == ("worst", "most-different")
    assert search["pick"].optional
    assert search["variants"].kind == "texts"
    assert search["sql"].kind == "switch"
    by = next(each for each in form_fields.entries(kinds["compare"]) if each.name == "by")
    assert by.choices == ("kind", "tag")
    variant = {each.name: each for each in form_fields.entries(Variant)}
    assert variant["leg"].kind == "list of tagged"
    assert (variant["fusion"].kind, variant["fusion"].default) == ("tagged", "rrf")
    assert variant["pack"].optional
    assert variant["filter"].kind == "other"


@pytest.mark.parametrize(
    ("name", "value"),
    [("top_k", "many"), ("top_k", 0), ("top_k", True), ("pick", "best"), ("variants", [{"kind": "bm25"}]), ("sql", 1)],
)
def test_what_a_widget_cannot_hold_does_not_fit(name, value):
    entry = next(each for each in form_fields.entries(kinds["search"]) if each.name == name)
    assert not entry.fits(value)


# -- the widgets -------------------------------------------------------------------------------------------------------


def draw(model: str, source: str) -> None:
    import streamlit as st

    from core.variant import Variant
    from workbench.components import form
    from workbench.notebooks.cells import kinds

    st.session_state.setdefault("source", source)
    changed = form.drawn(
        Variant if model == "variant" else kinds[model],
        st.session_state["source"],
        "f",
        form.Options(offered={"variants": ["bm25", "vector", "local-rag"]}),
    )
    if changed is not None:
        st.session_state["source"] = changed
        st.rerun()


def drawn(model: str, source: str) -> AppTest:
    app = AppTest.from_function(draw, kwargs={"model": model, "source": source}, default_timeout=30).run()
    assert not app.exception
    return app


def source_of(app: AppTest) -> dict[str, Any]:
    assert not app.exception
    return tomllib.loads(app.session_state["source"])


def test_a_change_of_a_widget_changes_its_line_alone():
    app = drawn("search", '# asked\nquery = "a"  # this\ntop_k = 5\n')
    app.number_input(key="f.top_k").set_value(7).run()
    assert app.session_state["source"] == '# asked\nquery = "a"  # this\ntop_k = 7\n'


def test_fields_are_cleared_chosen_and_added_to():
    app = drawn("search", 'query = "a"\n')
    app.text_input(key="f.query").input("").run()
    app.selectbox(key="f.pick").select("worst").run()
    app.multiselect(key="f.variants").select("local-rag").run()
    app.checkbox(key="f.sql").check().run()
    assert source_of(app) == {"pick": "worst", "variants": ["bm25", "vector", "local-rag"], "sql": True}


def test_a_source_that_changes_elsewhere_moves_the_widgets():
    app = drawn("search", 'query = "a"\ntop_k = 5\n')
    app.session_state["source"] = 'query = "b"\ntop_k = 5\n'
    app.run()
    assert app.text_input(key="f.query").value == "b"
    assert source_of(app) == {"query": "b", "top_k": 5}


def test_what_is_changed_elsewhere_meanwhile_does_not_undo_what_is_typed_here():
    app = drawn("search", 'query = "a"\ntop_k = 5\n')
    app.session_state["source"] = 'query = "b"\ntop_k = 5\n'
    app.number_input(key="f.top_k").set_value(9).run()
    assert source_of(app) == {"query": "b", "top_k": 9}


def test_what_does_not_fit_is_shown_locked_and_stays_as_it_is():
    app = drawn("search", 'query = "a"\ntop_k = 5000\nvariants = [{ kind = "bm25" }]\n')
    assert {each.label for each in app.text_input if each.disabled} == {"Top k", "Variants"}
    app.text_input(key="f.query").input("b").run()
    assert source_of(app) == {"query": "b", "top_k": 5000, "variants": [{"kind": "bm25"}]}


def test_a_text_that_is_no_toml_is_complained_of():
    app = drawn("search", "query = <script>")
    assert "not TOML" in app.get("html")[-1].proto.body
    assert not app.text_input


@pytest.mark.slow
def test_legs_fusion_and_tables_have_fields_of_their_own():
    app = drawn("variant", 'name = "a"\n\n[[leg]]\nkind = "vector"\n')
    assert app.button(key="f.leg.0.remove").disabled
    app.selectbox(key="f.leg.add.1").select("bm25").run()
    app.number_input(key="f.leg.1.k1").set_value(2.0).run()
    app.number_input(key="f.fusion.k").set_value(10.0).run()
    app.selectbox(key="f.rerank.tag").select("overlap").run()
    app.checkbox(key="f.pack.there").check().run()
    app.number_input(key="f.pack.neighbor_same_page").set_value(3).run()
    assert source_of(app) == {
        "name": "a",
        "leg": [{"kind": "vector"}, {"kind": "bm25", "k1": 2.0}],
        "fusion": {"method": "rrf", "k": 10.0},
        "rerank": {"method": "overlap"},
        "pack": {"neighbor_same_page": 3},
    }
    Variant.from_data(source_of(app))
    app.selectbox(key="f.fusion.tag").select("linear").run()
    app.button(key="f.leg.0.remove").click().run()
    app.checkbox(key="f.pack.there").uncheck().run()
    found = source_of(app)
    assert (found["fusion"], [leg["kind"] for leg in found["leg"]]) == ({"method": "linear"}, ["bm25"])
    assert "pack" not in found


@pytest.mark.parametrize("name", presets.names())
def test_a_preset_is_drawn_without_changing_it(name):
    text = (presets.FOLDER / f"{name}.toml").read_text(encoding="utf-8")
    assert drawn("variant", text).session_state["source"] == text
