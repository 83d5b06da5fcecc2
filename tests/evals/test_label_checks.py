"""The checks over queries, judgements, spans and exclusions."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.types import Flaw, Place, Query, Row
from evals.labels.label_checks import check_labels
from evals.types import Exclusion, Label, Span

TEXTS = {"a": "one two one", "b": "three"}


def rows(*values):
    return [value if isinstance(value, Flaw) else Row(value, Place("f", line)) for line, value in enumerate(values, 1)]


ONE_QUERY = (Query("1", "x"),)


def check(queries=ONE_QUERY, labels=(), spans=(), exclusions=(), **options: Any):
    options = {"has_item": TEXTS.__contains__, "item_text": TEXTS.get, **options}
    return check_labels(rows(*queries), rows(*labels), rows(*spans), rows(*exclusions), **options)


def messages_of(checked):
    return [(flaw.place.line, flaw.outcome) for flaw in checked.flaws]


def test_sound_labels_pass_untouched():
    checked = check(labels=[Label("1", "a", 2), Label("1", "b", 0)], exclusions=[Exclusion("1", "b")])
    assert [row.value for row in checked.labels] == [Label("1", "a", 2), Label("1", "b", 0)]
    assert (checked.flaws, checked.unlabelled, len(checked.exclusions)) == ((), (), 1)


def test_queries_that_are_empty_doubled_or_twins():
    checked = check(
        [Query("1", "x"), Query("2", " "), Query("1", "y"), Query("3", "x ")], [Label("1", "a", 1), Label("3", "a", 1)]
    )
    assert [row.value.id for row in checked.queries] == ["1", "3"]
    assert messages_of(checked) == [(2, "quarantined"), (3, "quarantined"), (4, "noted")]
    assert "f, line 1" in checked.flaws[1].message


def test_dangling_ids_are_left_out():
    checked = check(
        labels=[Label("9", "a", 1), Label("1", "z", 1), Label("1", "a", 1)], exclusions=[Exclusion("1", "z")]
    )
    assert (len(checked.labels), checked.exclusions) == (1, ())
    assert messages_of(checked) == [(1, "quarantined"), (2, "quarantined"), (1, "quarantined")]


@pytest.mark.parametrize(
    ("grade", "kept", "outcome"),
    [(-2, [0], "cleaned"), (11, [], "quarantined"), (1.5, [], "quarantined"), (True, [], "quarantined")],
)
def test_grades_off_the_scale(grade, kept, outcome):
    checked = check(labels=[Label("1", "a", grade)])
    assert [row.value.grade for row in checked.labels] == kept
    assert checked.flaws[0].outcome == outcome


def test_doubled_pairs_are_merged_and_of_conflicting_grades_the_highest_stands():
    checked = check(
        labels=[
            Label("1", "a", 1),
            Label("1", "a", 1),
            Label("1", "a", 3),
            Label("1", "a", 2),
            Label("1", "a", 2, "dev"),
        ]
    )
    assert [row.value for row in checked.labels] == [Label("1", "a", 3), Label("1", "a", 2, "dev")]
    assert messages_of(checked)[:3] == [(2, "noted"), (3, "cleaned"), (4, "cleaned")]
    assert "leaks" in checked.flaws[-1].message


def test_queries_without_labels_or_hope_are_counted_in_one_note_each():
    queries = [Query(str(number), f"q{number}") for number in range(20)]
    checked = check(queries, [Label("0", "a", 0), Label("1", "a", 1)])
    assert messages_of(checked) == [(3, "noted"), (1, "noted")]
    assert checked.flaws[0].message.startswith("18 queries ('2', '3', '4', '5', '6', ...) have no judgement")
    assert len(checked.unlabelled) == 18


def test_spans_are_held_against_the_text():
    spans = [
        Span("1", "a", 4, 7, "two"),
        Span("1", "a", 0, 3, "two"),
        Span("1", "a", 4, 7, "one"),
        Span("1", "a", 7, 7, ""),
        Span("1", "a", 4, 7, "two"),
    ]
    checked = check(labels=[Label("1", "a", 1)], spans=spans)
    assert [row.value for row in checked.spans] == [Span("1", "a", 4, 7, "two")]
    assert messages_of(checked) == [(2, "cleaned"), (2, "noted"), (3, "quarantined"), (4, "quarantined"), (5, "noted")]
    assert len(check(spans=[Span("1", "a", 0, 3, "two")], item_text=None).spans) == 1


def test_an_excluded_document_that_is_relevant_is_noted():
    checked = check(labels=[Label("1", "a", 1)], exclusions=[Exclusion("1", "a"), Exclusion("1", "a")])
    assert (len(checked.exclusions), messages_of(checked)) == (1, [(1, "noted"), (2, "noted")])


def test_flaws_of_the_source_are_passed_on():
    flaw = Flaw(Place("f", 3), "Bad.")
    assert flaw in check(labels=[flaw, Label("1", "a", 1)]).flaws


IDS = st.sampled_from(["1", "2", "", "a", "b", "\ud800"])
NUMBERS: Any = st.integers(-3, 20) | st.sampled_from([1.5, None, "3", True])


@given(
    st.lists(st.builds(Query, IDS, st.text(max_size=2))),
    st.lists(st.builds(Label, IDS, IDS, NUMBERS, st.sampled_from(["test", "dev"]))),
    st.lists(st.builds(Span, IDS, IDS, st.integers(-2, 9), st.integers(-2, 9), st.sampled_from(["one", "two", ""]))),
)
def test_nothing_raises_and_what_is_kept_is_sound(queries, labels, spans):
    checked = check(queries, labels, spans)
    known = {row.value.id for row in checked.queries}
    keys = [(row.value.split, row.value.query_id, row.value.item_id) for row in checked.labels]
    assert len(keys) == len(set(keys))
    assert all(query in known and item in TEXTS for _, query, item in keys)
    assert all(0 <= row.value.grade <= 10 for row in checked.labels)
    for row in checked.spans:
        assert TEXTS[row.value.item_id][row.value.start : row.value.end] == row.value.text
