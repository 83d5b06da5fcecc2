"""Query sets in the store: kept whole, read back equal, replaced only when they differ."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import pytest
from sqlalchemy import func, select, update

from core import bridge
from core.types import Flaw, Place, Query, Row
from evals.labels import query_sets
from evals.labels.label_checks import check_labels
from evals.labels.query_sets import sanitized
from evals.schema import QuerySet, StoredExclusion, StoredLabel, StoredQuery, StoredSpan
from evals.types import Exclusion, Label, LabelledQueries, Span

HERE = Place("file", 1)


def labelled(queries=(), labels=(), spans=(), exclusions=()) -> LabelledQueries:
    """As it comes out of the checks, so in a fixed order."""
    checked = check_labels(
        *([Row(each, HERE) for each in several] for several in (queries, labels, spans, exclusions)),
        has_item=lambda _: True,
    )
    return checked.labelled_queries()


WHOLE = labelled(
    queries=[
        Query("q2", "what; DROP TABLE queries; --", "question", ("a", "b"), 2.5, {"n": [1, None, {"x": "ü🦊"}]}),
        Query("q1", 'it\'s "quoted" %s :x {y}', "keyword"),
        Query("Q1", "another case"),
    ],
    labels=[Label("q2", "d1", 3), Label("q1", "d2", 0, "train"), Label("q1", "d1", 1, "train"), Label("Q1", "d1", 2)],
    spans=[Span("q2", "d1", 5, 9, "span", "test", 2), Span("q2", "d1", 1, 3, "sp")],
    exclusions=[Exclusion("q1", "d9"), Exclusion("q1", "d8")],
)


def test_what_is_kept_is_read_back_equal(store, name):
    assert bridge.run(query_sets.keep(store, name, WHOLE))
    assert bridge.run(query_sets.load(store, name)) == WHOLE
    assert bridge.run(query_sets.load(store, name)).digest() == WHOLE.digest()
    assert WHOLE.splits == {"test": 2, "train": 1}


def test_keeping_the_same_again_changes_nothing_and_something_else_replaces_all(store, name):
    bridge.run(query_sets.keep(store, name, WHOLE))
    assert not bridge.run(query_sets.keep(store, name, WHOLE))
    other = labelled([Query("q1", "alone")], [Label("q1", "d1", 1)])
    assert bridge.run(query_sets.keep(store, name, other))
    assert bridge.run(query_sets.load(store, name)) == other
    assert rows_of(store, name) == {"queries": 1, "labels": 1, "spans": 0, "exclusions": 0}


@pytest.mark.parametrize(
    "other",
    [
        Query("q", "text", weight=2.0),
        Query("q", "text", kind="k"),
        Query("q", "text", tags=("t",)),
        Query("q", "text", metadata={"a": 1}),
        Query("q", "Text"),
    ],
)
def test_every_part_of_a_query_counts_as_a_difference(other):
    assert labelled([other]).digest() != labelled([Query("q", "text")]).digest()


@pytest.mark.slow
def test_sets_of_other_names_and_collections_stay_apart(store, name):
    one, two = labelled([Query("a", "1")]), labelled([Query("b", "2")])
    bridge.run(query_sets.keep(store, name, one))
    bridge.run(query_sets.keep(store, name, two, name="other"))
    bridge.run(query_sets.keep(store, name + "x", two))
    assert bridge.run(query_sets.load(store, name)) == one
    assert bridge.run(query_sets.load(store, name, name="other")) == two
    bridge.run(query_sets.forget(store, name))
    assert bridge.run(query_sets.load(store, name)) == LabelledQueries()
    assert bridge.run(query_sets.load(store, name, name="other")) == LabelledQueries()
    assert bridge.run(query_sets.load(store, name + "x")) == two
    assert rows_of(store, name) == {"queries": 0, "labels": 0, "spans": 0, "exclusions": 0}


def rows_of(store, collection) -> dict[str, int]:
    async def work():
        async with store.begin() as connection:
            keys = select(QuerySet.key).where(QuerySet.collection == collection)
            counted = {}
            for table in (StoredQuery, StoredLabel, StoredSpan, StoredExclusion):
                query = select(func.count()).select_from(table).where(table.set_key.in_(keys))
                counted[table.__tablename__] = await connection.scalar(query)
            return counted

    return bridge.run(work())


def test_order_of_labels_and_spans_is_the_same_after_reading_as_before(store, name):
    many = labelled(
        [Query(f"q{number}", "text") for number in range(20)],
        [Label(f"q{number % 20}", f"d{number * 7 % 50}", number % 4, f"s{number % 3}") for number in range(300)],
        [Span(f"q{number % 20}", f"d{number * 7 % 50}", number, number + 2, "xy") for number in range(100)],
    )
    bridge.run(query_sets.keep(store, name, many))
    assert bridge.run(query_sets.load(store, name)) == many


def test_a_set_is_the_same_one_wherever_the_server_puts_its_rows(store, name):
    """A restore, or an update and a vacuum, moves rows; what the digest stands for is no other thing for that."""
    bridge.run(query_sets.keep(store, name, WHOLE))

    async def move() -> None:
        async with store.begin() as connection:
            for table in (StoredQuery, StoredLabel, StoredSpan, StoredExclusion):
                first = table.query_id < "q2" if hasattr(table, "query_id") else table.id < "q2"
                await connection.execute(update(table).where(first).values(set_key=table.set_key))

    bridge.run(move())
    moved = bridge.run(query_sets.load(store, name))
    assert moved == WHOLE
    assert moved.digest() == bridge.run(query_sets.last_check(store, name)).digest


def test_flaws_are_kept_beside_the_set_up_to_a_limit_and_whatever_they_hold(store, name):
    flaws = tuple(Flaw(Place("bad\udcff\x00.tsv", line), "nul\x00 \ud800", "noted", "s\x00") for line in range(1500))
    bridge.run(query_sets.keep(store, name, WHOLE, {"labels": flaws}))

    async def kept():
        async with store.begin() as connection:
            return await connection.scalar(select(QuerySet.flaws).where(QuerySet.collection == name))

    found = bridge.run(kept())
    assert len(found) == query_sets.FLAWS_KEPT
    told = {"place": "bad\ufffd.tsv, line 0", "message": "nul \ufffd", "outcome": "noted", "subject": "s"}
    assert found[0] == {"of": "labels"} | told


def test_flaws_of_one_look_are_replaced_by_the_next_of_its_kind_and_by_no_other(store, name):
    def kept():
        return sorted((flaw["of"], flaw["message"]) for flaw in bridge.run(query_sets.flaws(store, name)))

    def flaw(message):
        return (Flaw(HERE, message, "noted"),)

    bridge.run(query_sets.keep(store, name, WHOLE, {"labels": flaw("a"), "leaks": flaw("b"), "documents": flaw("c")}))
    assert not bridge.run(query_sets.keep(store, name, WHOLE, {"labels": flaw("d")}))
    assert kept() == [("documents", "c"), ("labels", "d"), ("leaks", "b")]
    assert bridge.run(query_sets.keep(store, name, labelled([Query("q1", "alone")]), {"leaks": ()}))
    assert kept() == [("documents", "c"), ("labels", "d")]


@pytest.mark.slow
def test_the_version_checked_stands_as_long_as_the_queries_do(store, name):
    assert bridge.run(query_sets.last_check(store, name)) is None
    bridge.run(query_sets.keep(store, name, WHOLE, checked_version=7))
    bridge.run(query_sets.keep(store, name, WHOLE))
    assert bridge.run(query_sets.last_check(store, name)) == query_sets.CorpusCheck(WHOLE.digest(), 7)
    bridge.run(query_sets.keep(store, name, labelled([Query("q1", "alone")])))
    assert bridge.run(query_sets.last_check(store, name)).version is None
    assert bridge.run(query_sets.count(store, name)) == 1


def test_rows_that_cannot_be_stored_are_cleaned_and_broken_ids_left_out():
    rows = [
        Row(Query("a", "nul\x00", "k\x00", ("t\x00",), metadata={"n": float("nan")}), HERE),
        Row(Query("b\x00", "text"), HERE),
        Row(Query("c", "fine"), HERE),
        Flaw(HERE, "said before"),
    ]
    first, second, third, fourth = sanitized(rows)
    assert first == Row(Query("a", "nul", "k", ("t",), metadata={"n": None}), HERE)
    assert isinstance(second, Flaw)
    assert "id 'b\\x00' holds what cannot be stored" in second.message
    assert third == rows[2]
    assert fourth is rows[3]
    (label,) = sanitized([Row(Label("q", "d\ud800", 1), HERE)])
    assert isinstance(label, Flaw)
