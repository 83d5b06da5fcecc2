"""One split of a query set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import UnknownName
from core.types import Query
from evals.types import ALL, Exclusion, Label, LabelledQueries, QuerySplit, Span

LABELLED = LabelledQueries(
    (
        Query("b", "two", "long", ("x",)),
        Query("a", "one", "short", ("x", "y")),
        Query("c", "three"),
        Query("d", "four"),
    ),
    (Label("a", "i1", 2), Label("a", "i2", 1), Label("b", "i1", 1, "train"), Label("a", "i2", 3, "train")),
    (Span("c", "i1", 0, 3, "abc"),),
    (Exclusion("a", "i1"),),
)


def test_a_split_has_the_queries_with_labels_or_spans_in_it_in_the_order_of_their_ids():
    split = QuerySplit.of(LABELLED, "test")
    assert list(split.queries) == ["a", "c"]
    assert list(QuerySplit.of(LABELLED, "train").queries) == ["a", "b"]
    assert split.spans["c"][0].text == "abc"
    assert split.digest == QuerySplit.of(LABELLED, "train").digest == LABELLED.digest()


def test_what_may_not_be_returned_is_not_missed_either():
    split = QuerySplit.of(LABELLED, "test")
    assert split.grades["a"] == {"i2": 1}
    assert split.excluded["a"] == {"i1"}
    shut = replace(LABELLED, exclusions=(Exclusion("c", "i1"),))
    assert QuerySplit.of(shut, "test").spans == {"c": ()}
    assert "c" in QuerySplit.of(shut, "test").queries  # asked all the same: its digest and its runs stay as they were


def test_all_splits_together_keep_the_highest_grade():
    assert QuerySplit.of(LABELLED, ALL).grades == {"a": {"i2": 3}, "b": {"i1": 1}}


def test_a_set_without_labels_is_all_its_queries():
    assert list(QuerySplit.of(LabelledQueries((Query("q", "x"),)), ALL).queries) == ["q"]


def test_a_split_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(UnknownName, match="'test'"):
        QuerySplit.of(LABELLED, "tests")


def test_queries_are_grouped_by_kind_and_tag():
    split = QuerySplit.of(LABELLED, ALL)
    assert split.kinds == {"": ("c",), "long": ("b",), "short": ("a",)}
    assert split.tags == {"x": ("a", "b"), "y": ("a",)}
    assert list(split.only({"b", "nobody"}).queries) == ["b"]
