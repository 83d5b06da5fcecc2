"""Labels corrected one by one, and every change of a query set undone and made again."""

# mypy: disable-error-code="no-untyped-call, union-attr"

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from core import bridge
from core.errors import InputError, SpecError, StoreError, UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Flaw, Place, Query
from evals.collections import load as collections_load
from evals.collections.load import LoadPlan
from evals.labels import corrections, query_sets, revisions
from evals.labels.corrections import Correction, HistoryStep
from evals.labels.label_checks import UnusualGrades
from evals.labels.revisions import KEPT, Cause, LabelChange, LabelDifference, LabelState, Revision
from evals.types import Exclusion, Label, LabelledQueries, MergedFrom, Span
from tests.app.corpus import KETTLES
from tests.evals.test_query_sets import WHOLE

ADA = Cause("ada")


@pytest.fixture
def view(store: Store, name: str) -> Iterator[CollectionView]:
    """Four documents with three labelled queries."""
    bridge.run(collections_load.load_collection(store, name, KETTLES, LoadPlan(models=(), check=False)))
    yield bridge.run(collections.get(store, name))
    bridge.run(collections_load.drop(store, name))


def load(store: Store, name: str) -> LabelledQueries:
    return bridge.run(query_sets.load(store, name))


def keep(store: Store, name: str, labelled: LabelledQueries, author: str = "", **options: object) -> None:
    bridge.run(query_sets.keep(store, name, labelled, cause=Cause(author), **options))  # type: ignore[arg-type]


def relabel(
    store: Store, view: CollectionView, query: str, item: str, grade: int | None, **options: object
) -> Correction:
    options.setdefault("cause", ADA)
    return bridge.run(corrections.relabel(store, view, query, item, grade, **options))  # type: ignore[arg-type]


def undo(store: Store, name: str, author: str = "") -> HistoryStep:
    return bridge.run(corrections.undo(store, name, author=author))


def redo(store: Store, name: str) -> HistoryStep:
    return bridge.run(corrections.redo(store, name))


def changes(store: Store, name: str) -> list[Revision]:
    return bridge.run(corrections.changes(store, name))


def one_label(grade: int) -> LabelledQueries:
    return LabelledQueries((Query("q", "text"),), (Label("q", "d", grade),))


# -- one label ---------------------------------------------------------------------------------------------------------


def test_a_corrected_label_makes_another_set_with_who_when_and_why(store, view):
    before = load(store, view.name)
    made = relabel(store, view, "q1", "warranty", 0, cause=Cause("ada", "it covers no scale"))
    assert made.sentence == "'q1' and 'warranty' in 'test': 1 -> 0."
    after = load(store, view.name)
    assert set(before.labels) - set(after.labels) == {Label("q1", "warranty", 1)}
    assert set(after.labels) - set(before.labels) == {Label("q1", "warranty", 0)}
    assert after.digest() == bridge.run(query_sets.last_check(store, view.name)).digest != before.digest()
    (change,) = changes(store, view.name)
    assert (change.author, change.state) == ("ada", "holds")
    assert change.reason == "'q1' and 'warranty' in 'test': 1 -> 0 (it covers no scale)"
    assert change.made_at is not None


def test_a_pair_without_a_label_gets_one_and_a_label_is_taken_away(store, view):
    made = relabel(store, view, "q2", "teapot", 1)
    assert (made.before, made.after, made.split) == (None, 1, "test")
    assert relabel(store, view, "q2", "teapot", None).sentence == "'q2' and 'teapot' in 'test': 1 -> no label."
    assert Label("q2", "teapot", 1) not in load(store, view.name).labels
    with pytest.raises(InputError, match="no label in 'test' that could be removed"):
        relabel(store, view, "q2", "teapot", None)


def test_the_split_is_the_one_of_the_pair_and_is_asked_for_where_that_does_not_say(store, view):
    assert relabel(store, view, "q3", "warranty", 1).split == "train"
    assert relabel(store, view, "q3", "e42", 1, split="dev").split == "dev"
    assert relabel(store, view, "q3", "e42", 2).split == "dev"
    with pytest.raises(SpecError, match="'q3' is labelled in several splits: dev, train"):
        relabel(store, view, "q3", "teapot", 1)


def test_the_same_grade_again_changes_nothing(store, view):
    assert "is 3 already" in relabel(store, view, "q1", "descale", 3).sentence
    assert changes(store, view.name) == []


def test_what_is_not_there_is_named_and_nothing_is_changed(store, view):
    before = load(store, view.name)
    with pytest.raises(UnknownName, match="Did you mean 'q1'"):
        relabel(store, view, "q11", "descale", 1)
    with pytest.raises(InputError, match="'nowhere' is not in"):
        relabel(store, view, "q1", "nowhere", 1)
    with pytest.raises(UnknownName, match="default"):
        relabel(store, view, "q1", "descale", 1, query_set="pilot")
    with pytest.raises(InputError, match="The grade 11"):
        relabel(store, view, "q1", "descale", 11, all_grades=True)
    assert (load(store, view.name), changes(store, view.name)) == (before, [])


@pytest.mark.parametrize("split", ["", " ", "a\0b", "\ud800", "x" * 1000])
def test_a_new_split_has_a_name_that_can_be_seen_and_stored(store, view, split):
    before = load(store, view.name)
    with pytest.raises(SpecError, match=r"The split .*(visible name|control character|too|room)"):
        relabel(store, view, "q1", "teapot", 2, split=split)
    assert load(store, view.name) == before


@pytest.mark.parametrize("item", ["a\0b", "\ud800"])
def test_a_document_whose_id_cannot_be_stored_is_none_that_is_there(store, view, item):
    with pytest.raises(InputError, match="so it cannot be labelled"):
        relabel(store, view, "q1", item, 2)


def test_of_a_set_without_queries_that_is_said(store, view):
    keep(store, view.name, LabelledQueries())
    with pytest.raises(InputError, match="holds no queries"):
        relabel(store, view, "q1", "teapot", 2)


def test_a_grade_beyond_the_usual_is_taken_where_somebody_says_so_or_the_set_has_it_already(store, view):
    with pytest.raises(UnusualGrades, match=r"beyond 0 to 3: 5 .*--all-grades"):
        relabel(store, view, "q1", "descale", 5)
    relabel(store, view, "q1", "descale", 5, all_grades=True)
    assert relabel(store, view, "q1", "warranty", 4).after == 4


def test_a_document_that_does_not_answer_has_no_answer_in_it(store, view):
    span = Span("q1", "warranty", 0, 3, "# W")
    there = load(store, view.name)
    keep(store, view.name, replace(there, spans=(span, replace(span, split="train"))))
    made = relabel(store, view, "q1", "warranty", 0, split="test")
    assert made.sentence == "'q1' and 'warranty' in 'test': 1 -> 0, 1 answer span removed."
    assert load(store, view.name).spans == (replace(span, split="train"),)
    assert "1 answer span -> 2 (test 0 -> 1, train 1 -> 1)" in undo(store, view.name).sentence
    assert set(load(store, view.name).spans) == {span, replace(span, split="train")}


def test_a_label_that_an_exclusion_makes_void_is_said(store, view):
    keep(store, view.name, replace(load(store, view.name), exclusions=(Exclusion("q1", "e42"),)))
    assert "counts for nothing" in relabel(store, view, "q1", "e42", 2).sentence


# -- back and forth ----------------------------------------------------------------------------------------------------


def test_changes_are_undone_one_by_one_and_made_again(store, name):
    states = [WHOLE, one_label(1), one_label(2), LabelledQueries()]
    for state in states:
        keep(store, name, state)
    backwards = []
    for _ in states[1:]:
        undo(store, name)
        backwards.append(load(store, name))
    assert backwards == [one_label(2), one_label(1), WHOLE]
    assert bridge.run(query_sets.last_check(store, name)).digest == WHOLE.digest()
    with pytest.raises(InputError, match="no change to undo"):
        undo(store, name)
    forwards = []
    for _ in states[1:]:
        redo(store, name)
        forwards.append(load(store, name))
    assert forwards == states[1:]
    with pytest.raises(InputError, match="nothing to do again"):
        redo(store, name)


def test_what_undoing_came_to_is_told_with_counts_and_the_steps_left(store, name):
    keep(store, name, WHOLE)
    keep(store, name, LabelledQueries(WHOLE.queries), "ada")
    keep(store, name, one_label(1))
    undo(store, name)
    moved = undo(store, name)
    told = "0 labels -> 4 (test 0 -> 2, train 0 -> 2), 0 answer spans -> 2, 0 exclusions -> 2. "
    assert moved.sentence.startswith(f"{told}Undone: a change, by ada at ")
    assert (moved.undoable, moved.redoable) == (0, 2)


def test_who_undid_what_stays_in_the_list(store, name):
    keep(store, name, WHOLE)
    keep(store, name, LabelledQueries(), "ada")
    undo(store, name, "bob")
    (change,) = changes(store, name)
    assert change.state.startswith("undone by bob, ")
    assert change.change.sentence.startswith("4 labels -> 0 (test 2 -> 0, train 2 -> 0), 3 queries -> 0")
    redo(store, name)
    assert changes(store, name)[0].state == "holds"


def test_a_change_after_an_undo_takes_its_place(store, name):
    keep(store, name, one_label(1))
    keep(store, name, one_label(2))
    undo(store, name)
    keep(store, name, one_label(3))
    with pytest.raises(InputError, match="nothing to do again"):
        redo(store, name)
    undo(store, name)
    assert load(store, name) == one_label(1)
    redo(store, name)
    assert load(store, name) == one_label(3), "not what was undone before it"


@pytest.mark.slow
def test_the_last_twenty_changes_are_kept_and_no_more(store, name):
    for grade in range(KEPT + 3):
        keep(store, name, one_label(grade))
    assert len(changes(store, name)) == KEPT
    for _ in range(KEPT):
        moved = undo(store, name)
    assert (moved.undoable, load(store, name)) == (0, one_label(2))
    with pytest.raises(InputError, match="the last 20 changes"):
        undo(store, name)


def test_what_was_found_wrong_with_labels_goes_back_with_them(store, name):
    flaw = Flaw(Place("judged.qrels", 3), "no such query", "quarantined", "q9")
    keep(store, name, one_label(1), flaws_by_kind={"labels": [flaw]})
    keep(store, name, one_label(2), flaws_by_kind={"labels": []})
    assert bridge.run(query_sets.flaws(store, name)) == []
    undo(store, name)
    assert [each["message"] for each in bridge.run(query_sets.flaws(store, name))] == ["no such query"]
    redo(store, name)
    assert bridge.run(query_sets.flaws(store, name)) == []


def test_a_merged_set_is_one_again_once_a_correction_is_undone(store, view):
    merged = MergedFrom(query_set="other", splits={})
    labelled = load(store, view.name)
    keep(store, view.name, replace(labelled, labels=labelled.labels[:-1]), merged=merged)
    relabel(store, view, "q1", "descale", 0)
    assert bridge.run(query_sets.merged_from(store, view.name, name="default")) is None
    undo(store, view.name)
    assert bridge.run(query_sets.merged_from(store, view.name, name="default")) == merged
    undo(store, view.name)
    assert bridge.run(query_sets.merged_from(store, view.name, name="default")) is None


def test_a_set_that_was_changed_by_other_hands_is_not_undone_over_them(store, name):
    keep(store, name, one_label(1))
    keep(store, name, one_label(2))

    async def change() -> None:
        async with store.begin() as connection:
            other = text("UPDATE rankbook.query_sets SET digest = '\\x00' WHERE collection = :name")
            await connection.execute(other, {"name": name})

    bridge.run(change())
    with pytest.raises(StoreError, match="keeps no revisions"):
        undo(store, name)
    assert load(store, name) == one_label(2)


def test_a_set_that_is_not_there_is_named(store, view):
    for work in (corrections.undo, corrections.redo, corrections.changes):
        with pytest.raises(UnknownName, match="Did you mean 'default'"):
            bridge.run(work(store, view.name, name="defualt"))


def test_changes_go_with_their_set(store, name):
    keep(store, name, one_label(1))
    keep(store, name, one_label(2))
    bridge.run(query_sets.drop(store, name, "default"))
    keep(store, name, one_label(3))
    assert changes(store, name) == []


def test_a_correction_writes_one_row_of_many(store, view):
    async def written() -> set[str]:
        async with store.begin(read_only=True) as connection:
            rows = text(
                "SELECT labels.xmin::text FROM rankbook.labels JOIN rankbook.query_sets ON key = set_key "
                "WHERE collection = :name"
            )
            return {*await connection.scalars(rows, {"name": view.name})}

    (loaded,) = bridge.run(written())
    relabel(store, view, "q1", "descale", 1)
    assert len(bridge.run(written()) - {loaded}) == 1
    assert loaded in bridge.run(written())


# -- differences, without a server -------------------------------------------------------------------------------------

IDS = st.sampled_from(["a", "b", "c"])
TEXTS = st.sampled_from(["", "a", "ü🦊", "\x00"])
QUERIES = st.builds(Query, IDS, TEXTS, TEXTS, st.tuples(TEXTS), st.floats(0, 9), st.just({"x": [1, None]}))
LABELS = st.builds(Label, IDS, IDS, st.integers(0, 3), IDS)
SETS = st.builds(
    LabelledQueries.ordered,
    st.lists(QUERIES, unique_by=lambda query: query.id),
    st.lists(LABELS, unique_by=lambda each: (each.query_id, each.item_id, each.split)),
    st.lists(st.builds(Span, IDS, IDS, st.integers(0, 9), st.integers(10, 20), TEXTS, IDS), unique=True),
    st.lists(st.builds(Exclusion, IDS, IDS), unique=True),
)


def state(labelled: LabelledQueries) -> LabelState:
    return LabelState(labelled.digest(), [{"of": "labels", "message": "\ud800"}], b"\x00", {"query_set": "x"})


@given(SETS, SETS)
def test_a_kept_difference_leads_from_each_of_two_sets_to_the_other(one: LabelledQueries, other: LabelledQueries):
    made = LabelDifference.between(one, state(one), other, state(other))
    read = LabelDifference.decode(made.encode())
    assert read == made
    assert as_sets(read.undo(other)) == as_sets(one)
    assert as_sets(read.redo(one)) == as_sets(other)


def as_sets(labelled: LabelledQueries) -> tuple[object, ...]:
    return labelled.queries, set(labelled.labels), set(labelled.spans), set(labelled.exclusions)


@given(SETS, SETS)
def test_a_change_loses_something_where_a_number_goes_down(one: LabelledQueries, other: LabelledQueries):
    change = LabelChange.between(one, other)
    fewer = [len(getattr(other, part)) < len(getattr(one, part)) for part in revisions.PARTS]
    assert change.loses or not any(fewer)
    assert not LabelChange.between(one, one).loses
