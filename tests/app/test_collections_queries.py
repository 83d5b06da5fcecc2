"""Query sets on the Collections page: shown, dropped, written, made of the documents, brought as label files."""

# ruff: noqa: F401, F811 - fixtures are imported, and asked for by name

from __future__ import annotations

from getpass import getuser
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store import collections
from core.store.chunk_and_embed import forget
from core.store.engine import Store
from core.types import Query
from evals.collections import load
from evals.labels import corrections, query_generation, query_sets
from evals.labels.query_generation import KnownItems
from evals.types import Label, LabelledQueries
from tests.app.corpus import KETTLES, MARKUP, MODEL, SCRIPT
from tests.app.test_collections_page import button, nothing_left_under_way, page, press, rows, spare, waited
from tests.app.test_search_page import handed, visit, written
from workbench.services import cost_notice, uploads


@pytest.fixture
def two_sets(store: Store, spare: str) -> str:
    """A collection with a second query set, whose labels differ."""
    labelled = LabelledQueries((Query("mine", f"lid {SCRIPT} {MARKUP}", "own"),), (Label("mine", "warranty", 1),))
    bridge.run(query_sets.keep(store, spare, labelled, name="pi <b>lot</b>"))
    return spare


def text(page: AppTest, label: str) -> Any:
    return next(each for each in (*page.text_input, *page.text_area) if each.label == label)


# -- which set ---------------------------------------------------------------------------------------------------------


def test_every_query_set_is_a_row_and_the_address_says_which_is_told_at_length(page, two_sets):
    visit(page, collection=two_sets)
    assert [cells[:4] for cells in rows(page, "about.sets").values()] == [
        ["default", "3", "3", "5"],
        ["pi <b>lot</b>", "1", "1", "1"],
    ]
    assert rows(page, "about.grade") == {"0": ["0", "1"], "1": ["1", "1"], "2": ["2", "1"], "3": ["3", "2"]}
    visit(page, collection=two_sets, set="pi <b>lot</b>")
    assert rows(page, "about.grade") == {"1": ["1", "1"]}
    assert "query_set=pi+%3Cb%3Elot%3C%2Fb%3E" in written(page)
    assert "<b>lot" not in written(page)


def test_queries_documents_and_judgements_are_those_of_the_chosen_set(page, two_sets):
    visit(page, collection=two_sets, view="queries", set="pi <b>lot</b>")
    assert list(rows(page, "browse.queries")) == ["mine"]
    visit(page, collection=two_sets, view="queries", set="pi <b>lot</b>", query="mine")
    assert list(rows(page, "browse.judged").values()) == [["Warranty", "warranty", "test", "1"]]
    visit(page, collection=two_sets, view="documents", set="pi <b>lot</b>", document="warranty")
    assert rows(page, "browse.documents")["warranty"][2] == "1"
    assert [cells[1] for cells in rows(page, "browse.answers").values()] == ["own"]


def test_another_set_is_chosen_above_the_list(page, two_sets):
    visit(page, collection=two_sets, view="queries", find="scale")
    next(each for each in page.selectbox if each.label == "Query set").select("pi <b>lot</b>").run()
    assert dict(page.query_params)["set"] in ("pi <b>lot</b>", ["pi <b>lot</b>"])
    assert "find" not in page.query_params
    assert list(rows(page, "browse.queries")) == ["mine"]


def test_a_set_that_is_not_there_is_said_with_those_that_are(page, two_sets):
    visit(page, collection=two_sets, view="queries", set="<i>gone</i>")
    assert "There is no such query set" in written(page)
    assert "&lt;i&gt;gone&lt;/i&gt;" in written(page)
    assert "pi &lt;b&gt;lot" in written(page)


def test_a_set_is_dropped_once_asked_twice_and_the_others_stay(page, store, two_sets):
    visit(page, collection=two_sets, view="queries", set="pi <b>lot</b>")
    press(page, "Drop this set")
    assert "1 query and 1 label go into the trash" in written(page)
    press(page, "Drop it")
    assert [each.name for each in bridge.run(query_sets.summaries(store, two_sets))] == ["default"]
    assert "is gone." in written(page)
    assert "set" not in page.query_params
    assert len(rows(page, "browse.queries")) == 3
    press(page, "Undo")
    assert [each.name for each in bridge.run(query_sets.summaries(store, two_sets))] == ["default", "pi <b>lot</b>"]


def test_without_queries_the_page_says_what_it_would_take_and_leads_there(page, store, spare):
    bridge.run(query_sets.drop(store, spare, "default"))
    visit(page, collection=spare, view="queries")
    assert "There are no queries, so variants can be looked at but not scored." in written(page)
    press(page, "Add queries or labels")
    assert page.query_params["view"] in ("ask", ["ask"])


def test_an_export_takes_the_chosen_set_along(page, store, two_sets):
    visit(page, collection=two_sets, view="out", set="pi <b>lot</b>")
    press(page, "Export as BEIR")
    exported = waited(page, store, "export", two_sets).result()
    assert (exported.queries, exported.labels) == (1, 1)


# -- queries in --------------------------------------------------------------------------------------------------------


def test_queries_are_typed_a_line_each_and_join_those_that_are_there(page, store, spare):
    visit(page, collection=spare, view="ask")
    press(page, "Add the queries")
    assert "There is no query yet." in written(page)
    text(page, "Queries, one a line").input("where is the lid\n\n  E-42 again \n").run()
    press(page, "Add 2 queries")
    waited(page, store, "write", spare)
    assert "2 queries added; 5 in default." in written(page)
    assert text(page, "Queries, one a line").value == ""
    press(page, "Show them")
    assert page.query_params["view"] in ("queries", ["queries"])
    assert len(bridge.run(query_sets.load(store, spare)).labels) == 5


def test_a_table_of_queries_comes_in_by_its_path(page, store, spare, tmp_path):
    (tmp_path / "mine.csv").write_text("text,kind\nwhere is the lid,question\n,question\n")
    visit(page, collection=spare, view="ask", by="write", set="pilot")
    text(page, "or a path on this machine").input(str(tmp_path / "mine.csv")).run()
    press(page, "Add the queries")
    result = waited(page, store, "write", spare).result()
    assert (result.name, result.added) == ("pilot", 1)
    assert "1 query added; 1 in pilot." in written(page)
    assert rows(page, f"remarks.written.{spare}")


def test_a_table_and_typed_queries_at_once_are_refused_and_nothing_typed_is_lost(page, store, spare, tmp_path):
    visit(page, collection=spare, view="ask")
    text(page, "Queries, one a line").input("where is the lid").run()
    text(page, "or a path on this machine").input(str(tmp_path / "mine.csv")).run()
    press(page, "Add the queries")
    assert "There are a table and typed queries." in written(page)
    assert text(page, "Queries, one a line").value == "where is the lid"


def test_a_query_set_whose_name_cannot_be_borne_is_refused_in_a_sentence(page, store, spare):
    visit(page, collection=spare, view="ask", by="generate", set="n" * 80)
    press(page, "Make queries")
    assert "takes 80 bytes" in written(page)
    assert [each.name for each in bridge.run(query_sets.summaries(store, spare))] == ["default"]


def test_queries_are_made_of_the_documents_and_no_language_model_is_asked(page, store, spare):
    visit(page, collection=spare, view="ask", by="generate")
    assert "no language model is asked" in written(page)
    assert "do not choose between words and vectors by them" in written(page)
    next(each for each in page.selectbox if each.label == "A query is").select("title").run()
    page.number_input(key="ask.count").set_value(2).run()
    press(page, "Make queries")
    waited(page, store, "generate", spare)
    assert "2 queries in known-items." in written(page)
    made = bridge.run(query_sets.load(store, spare, name="known-items"))
    view = bridge.run(collections.get(store, spare))
    wanted = KnownItems(style="title", count=2)
    assert made == bridge.run(query_generation.generate(store, view, wanted)).labelled
    assert [cells[0] for cells in rows(page, f"made.{spare}").values()] == [query.text for query in made.queries]


def test_made_queries_never_take_the_place_of_written_ones(page, store, spare):
    visit(page, collection=spare, view="ask", by="generate", set="default")
    press(page, "Make queries")
    waited(page, store, "generate", spare)
    assert "holds queries that were not generated" in written(page)
    assert len(bridge.run(query_sets.load(store, spare)).queries) == 3


# -- labels in ---------------------------------------------------------------------------------------------------------


def test_label_files_take_the_place_of_labels_and_what_does_not_fit_is_listed(page, store, spare, tmp_path):
    (tmp_path / "judged.qrels").write_text("q1 0 descale 2\nq1 0 <b>nowhere</b> 1\n")
    visit(page, collection=spare, view="ask", by="labels")
    assert "default has 3 queries and 5 labels." in written(page)
    text(page, "or a path on this machine").input(str(tmp_path / "judged.qrels")).run()
    press(page, "Replace the labels")
    waited(page, store, "label", spare)
    assert "5 labels -&gt; 1 (test 4 -&gt; 1, train 1 -&gt; 0)" in written(page)
    assert "<b>nowhere" not in written(page)
    assert len(rows(page, "problem.flaws")) == 2
    assert len(bridge.run(query_sets.load(store, spare)).labels) == 5
    page.checkbox(key="ask.even_so").check().run()
    press(page, "Replace the labels")
    waited(page, store, "label", spare)
    assert "3 queries, 1 label (labelled queries by split: test 1)." in written(page)
    assert "5 labels -&gt; 1 (test 4 -&gt; 1, train 1 -&gt; 0). Under Queries this can be undone." in written(page)
    assert "<b>nowhere" not in written(page)
    told = [cells[0] for cells in rows(page, f"remarks.labelled.{spare}").values()]
    assert any("<b>nowhere</b>" in sentence for sentence in told)
    assert [each.grade for each in bridge.run(query_sets.load(store, spare)).labels] == [2]


def test_odd_grades_are_taken_once_the_box_for_them_is_ticked(page, store, spare, tmp_path):
    (tmp_path / "judged.qrels").write_text("q1 0 descale 5\n")
    visit(page, collection=spare, view="ask", by="labels", set="pilot")
    text(page, "or a path on this machine").input(str(tmp_path / "judged.qrels")).run()
    press(page, "Bring them in")
    waited(page, store, "label", spare)
    assert "beyond 0 to 3: 5 (1 label)" in written(page)
    page.checkbox(key="ask.all_grades").check().run()
    press(page, "Bring them in")
    waited(page, store, "label", spare)
    assert [each.grade for each in bridge.run(query_sets.load(store, spare, name="pilot")).labels] == [5]


# -- labels corrected --------------------------------------------------------------------------------------------------


def filled(page: AppTest, **fields: Any) -> None:
    """The form below a query: its fields by the last part of their keys."""
    for widget in (*page.selectbox, *page.text_input, *page.checkbox):
        name = str(widget.key).rpartition(".")[2]
        if str(widget.key).startswith("correct.") and name in fields:
            widget.set_value(fields[name])
    page.run()


def test_a_label_is_corrected_where_its_query_is_read_and_that_is_undone(page, store, two_sets):
    before = bridge.run(query_sets.load(store, two_sets, name="pi <b>lot</b>"))
    visit(page, collection=two_sets, view="queries", set="pi <b>lot</b>", query="mine")
    filled(page, item="warranty", grade=3, why=f"better {MARKUP}")
    press(page, "Correct the label")
    assert "&#x27;mine&#x27; and &#x27;warranty&#x27; in &#x27;test&#x27;: 1 -&gt; 3." in written(page)
    assert list(rows(page, "browse.judged").values()) == [["Warranty", "warranty", "test", "3"]]
    ((_, who, what, why, state),) = rows(page, "changes.list").values()
    assert (who, what, state) == (getuser(), "1 label -> 1", "holds")
    assert why.endswith(f"1 -> 3 (better {MARKUP})")
    press(page, "Undo the last change")
    assert "Undone: " in written(page)
    assert bridge.run(query_sets.load(store, two_sets, name="pi <b>lot</b>")) == before
    assert next(iter(rows(page, "browse.judged").values()))[3] == "1"
    press(page, "Make it again")
    assert next(iter(rows(page, "browse.judged").values()))[3] == "3"
    assert button(page, "Make it again").disabled
    filled(page, item="warranty", grade="no label")
    press(page, "Correct the label")
    assert not rows(page, "browse.judged")


def test_a_correction_that_is_refused_says_why_and_changes_nothing(page, store, spare):
    visit(page, collection=spare, view="queries", query="q1")
    press(page, "Correct the label")
    assert "Choose a document and the grade" in written(page)
    filled(page, item="descale", grade=7)
    press(page, "Correct the label")
    assert "beyond 0 to 3" in written(page)
    assert not bridge.run(corrections.changes(store, spare))
    filled(page, item="descale", grade=7, all_grades=True)
    press(page, "Correct the label")
    assert "3 -&gt; 7" in written(page)


def test_uploaded_label_files_are_put_away_whatever_comes_of_them(page, store, spare):
    visit(page, collection=spare, view="ask", by="labels", set="pilot")
    before = sorted(uploads.folder().glob("*"))
    page.get("file_uploader")[0].upload("queries.csv", b"id,text\nmine,where is the lid\n", "text/csv").run()
    press(page, "Bring them in")
    waited(page, store, "label", spare)
    assert "There are no labels here" in written(page)
    assert sorted(uploads.folder().glob("*")) == before


# -- what is sent away -------------------------------------------------------------------------------------------------


def test_an_endpoint_is_announced_with_how_much_goes_there_and_without_its_password(store, spare, monkeypatch):
    monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", "http://me:secret@far.example:1/v1")
    much = cost_notice.texts_of(bridge.run(collections.get(store, spare)), ["items"])
    assert much.startswith("4 texts of ")
    assert f"{much} to `far.example:1`, which may cost money" in cost_notice.for_embedding("openai:bge-m3", much)
    assert not cost_notice.for_embedding(MODEL, much)
    monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", "http://localhost:1/v1")
    assert not cost_notice.for_embedding("openai:bge-m3", much), "nothing leaves this machine"


# -- the cache of embeddings -------------------------------------------------------------------------------------------


def test_cached_embeddings_are_told_by_model_and_forgotten_once_asked_twice(page, store, name):
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=("hashing:8",), check=False)))
    st.cache_data.clear()
    visit(page)
    assert {MODEL, "hashing:8"} <= set(rows(page, "cached.models"))
    page.selectbox(key="cached.model").select("hashing:8").run()
    press(page, "Forget them")
    assert "by <strong>hashing:8</strong>" in written(page)
    press(page, "Forget them for good")
    assert MODEL in rows(page, "cached.models")
    assert "hashing:8" not in rows(page, "cached.models")
    assert bridge.run(forget(store, "hashing:8")) == 0
    bridge.run(load.drop(store, name))
