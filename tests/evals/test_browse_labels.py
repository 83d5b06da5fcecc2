"""Queries and labels as people look through them: by page, by document, by query."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest

from core import bridge
from core.errors import InputError
from core.types import Item, Query
from evals.labels import browse, query_sets
from evals.labels.browse import LabelEntry, QueryEntry
from evals.types import Label, LabelledQueries
from tests.store.making import fresh, ingest, make, some_name

LABELLED = LabelledQueries(
    (Query("q1", "boil water", "task", ("kitchen",)), Query("q2", "clean a kettle"), Query("q3", "nobody judged")),
    (
        Label("q1", "kettle", 2),
        Label("q2", "kettle", 1),
        Label("q2", "oven", 0),
        Label("q2", "gone", 3),
        Label("q2", "oven", 2, "train"),
    ),
)


@pytest.fixture(scope="module")
def view(store):
    name = some_name()
    make(store, name, chunks={})
    ingest(store, name, [Item("kettle", "boils", "A kettle"), Item("oven", "bakes", "An oven")])
    bridge.run(query_sets.keep(store, name, LABELLED))
    bridge.run(query_sets.keep(store, name, LabelledQueries((Query("q9", "another"),)), name="other"))
    return fresh(store, name)


def test_queries_are_listed_with_how_many_documents_are_relevant_and_judged(store, view):
    page = bridge.run(browse.list_queries(store, view.name, "", 1))
    assert page.rows == tuple(
        QueryEntry(query, *counts) for query, counts in zip(LABELLED.queries, ((1, 1), (3, 3), (0, 0)), strict=True)
    )
    assert page.range_text == "1\u20133 of 3"
    assert [row.query.id for row in bridge.run(browse.list_queries(store, view.name, "TASK", 1)).rows] == ["q1"]
    assert [row.query.id for row in bridge.run(browse.list_queries(store, view.name, "", 1, name="other")).rows] == [
        "q9"
    ]


def test_a_document_tells_the_queries_that_it_was_judged_for(store, view):
    assert bridge.run(browse.relevant_counts(store, view.name, ["kettle", "oven", "lamp"])) == {"kettle": 2, "oven": 1}
    assert bridge.run(browse.labels_of_document(store, view.name, "kettle")) == (
        LabelEntry("q1", "boil water", "task", 2, "test"),
        LabelEntry("q2", "clean a kettle", "", 1, "test"),
    )
    assert bridge.run(browse.labels_of_document(store, view.name, "kettle", name="other")) == ()


def test_a_query_tells_the_documents_that_were_judged_under_their_titles(store, view):
    query, labels = bridge.run(browse.read_query(store, view, "q2"))
    assert query == LABELLED.queries[1]
    assert [(each.id, each.text, each.grade, each.split) for each in labels] == [
        ("gone", "", 3, "test"),
        ("oven", "An oven", 2, "train"),
        ("kettle", "A kettle", 1, "test"),
        ("oven", "An oven", 0, "test"),
    ]
    with pytest.raises(InputError, match="has no query 'q7'"):
        bridge.run(browse.read_query(store, view, "q7"))
