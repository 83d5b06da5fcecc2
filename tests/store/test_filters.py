"""Metadata filters: what they mean, that every leg obeys them everywhere, and by which index."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import re
import tomllib
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from sqlalchemy.dialects import postgresql

from core import bridge
from core.errors import MissingCapability, SpecError, UnknownName
from core.filters import And, Condition, Not, Or, compiled, filter_from
from core.legs import PreparedQuery, legs
from core.store import attached
from core.store.resolve_target import search_target
from core.store.search_target import item_field
from core.types import Item
from tests.effort import examples
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, explain, fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder()
RECORDS: dict[str, dict[str, Any]] = {
    "five": {"n": 5, "type": "guide", "date": "2024-03-01", "tags": ["red", "blue"], "ok": True},
    "five text": {"n": "5", "type": "guides", "date": "2023-12-31", "tags": ["green"], "ok": False},
    "half": {"n": 5.5, "type": "note", "date": "2024-01-01", "tags": "red wine"},
    "minus": {"n": -1, "type": "Guide", "tags": []},
    "null": {"n": None, "type": None, "tags": [5, "5"]},
    "empty": {},
    "odd'; DROP": {"n": [5], 'we\'ird "field" %s': "x", "tags": {"red": 1}},
}
CASES: list[tuple[dict[str, Any], set[str]]] = [
    ({"field": "n", "eq": 5}, {"five"}),
    ({"field": "n", "eq": 5.0}, {"five"}),
    ({"field": "n", "eq": "5"}, {"five text"}),
    ({"field": "ok", "eq": True}, {"five"}),
    ({"field": "n", "eq": True}, set()),
    ({"field": "n", "ne": 5}, RECORDS.keys() - {"five"}),
    ({"field": "n", "gt": 5}, {"half"}),
    ({"field": "n", "gte": 5}, {"five", "half"}),
    ({"field": "n", "lt": 5}, {"minus"}),
    ({"field": "n", "lte": 5, "gt": -1}, {"five"}),
    ({"field": "n", "gt": "4"}, {"five text"}),
    ({"field": "date", "gt": "2024-01-01"}, {"five"}),
    ({"field": "date", "gte": date(2024, 1, 1)}, {"five", "half"}),
    ({"field": "type", "in": ["guide", "note", 5]}, {"five", "half"}),
    ({"field": "n", "in": []}, set()),
    ({"field": "tags", "contains": "red"}, {"five", "half"}),
    ({"field": "tags", "contains": 5}, {"null"}),
    ({"field": "tags", "contains": "5"}, {"null"}),
    ({"field": "type", "contains": "uid"}, {"five", "five text", "minus"}),
    ({"field": "n", "exists": True}, {"five", "five text", "half", "minus", "odd'; DROP"}),
    ({"field": "n", "exists": False}, {"null", "empty"}),
    ({"field": 'we\'ird "field" %s', "eq": "x"}, {"odd'; DROP"}),
    ({"field": "n'; DROP SCHEMA rankbook CASCADE; --", "eq": "'; --"}, set()),
    ({"and": [{"field": "n", "gte": 5}, {"field": "type", "eq": "guide"}]}, {"five"}),
    ({"or": [{"field": "n", "lt": 0}, {"field": "n", "eq": "5"}]}, {"minus", "five text"}),
    ({"not": {"field": "n", "gt": 0}}, RECORDS.keys() - {"five", "half"}),
    ({"not": {"not": {"field": "n", "gt": 0}}}, {"five", "half"}),
    ({"and": []}, set(RECORDS)),
    ({"or": []}, set()),
    ({"field": "_id", "eq": "five"}, {"five"}),
    ({"field": "_id", "ne": "odd'; DROP"}, RECORDS.keys() - {"odd'; DROP"}),
    ({"field": "_id", "in": ["half", "nowhere", 5]}, {"half"}),
    ({"field": "_id", "gte": "minus", "lt": "null"}, {"minus"}),
    ({"field": "_id", "contains": "five"}, {"five", "five text"}),
    ({"field": "_id", "exists": True}, set(RECORDS)),
    ({"field": "_id", "eq": 5}, set()),
    ({"not": {"field": "_id", "in": ["five", "half"]}}, RECORDS.keys() - {"five", "half"}),
]


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"family": FAMILY}, fields=["n", "type", "tags"])
    items = [Item(record, f"equal words for all {record}", metadata=held) for record, held in RECORDS.items()]
    ingest(store, name, items, [EMBEDDER])
    return fresh(store, name)


def kept(store, view, written: dict[str, Any]) -> set[str]:
    async def work():
        from core.store.schema import ITEM_TABLE

        async with store.begin(view.namespace, read_only=True) as connection:
            condition = compiled(filter_from(written), item_field)
            return set(await connection.scalars(select(ITEM_TABLE.c.id).where(condition)))

    return bridge.run(work())


async def embed(model: str, text: str) -> Any:
    return (await EMBEDDER.embed([text], "query"))[0]


def found(store, view, leg, written: Any, chunks: str = "items") -> set[str]:
    async def work():
        narrowed = search_target(store, view, chunks).filtered(filter_from(written))
        async with store.begin(view.namespace, read_only=True) as connection:
            recalled = await leg.recall(connection, narrowed, PreparedQuery("equal words", embed), 50)
            return {row.item_id for row in await connection.execute(narrowed.described([each.id for each in recalled]))}

    return bridge.run(work())


# -- what they say --------------------------------------------------------------------------------------------------


def test_a_filter_comes_from_toml_and_goes_back_as_it_was():
    written = tomllib.loads(
        'filter = { and = [ { field = "type", eq = "guide" }, { not = { field = "date", gt = 2024-01-01 } }, '
        '{ or = [ { field = "n", in = [1, 2.5, "x", true] }, { field = "a", exists = false } ] } ] }'
    )["filter"]
    made = filter_from(written)
    assert isinstance(made, And)
    dumped = made.model_dump(mode="json")
    assert dumped["and"][1] == {"not": {"field": "date", "gt": "2024-01-01"}}
    assert dumped["and"][2]["or"][0] == {"field": "n", "in": [1, 2.5, "x", True]}
    assert filter_from(dumped) == made
    assert hash(made) == hash(filter_from(dumped))


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"field": "n"}, "compared with nothing"),
        ({"field": "n", "equals": 5}, "equals"),
        ({"field": "", "eq": 5}, "field"),
        ({"field": "n", "gt": True}, "gt"),
        ({"field": "n", "eq": float("nan")}, "finite"),
        ({"field": "n", "eq": "a\x00b"}, "NUL"),
        ({"field": "a\ud800", "eq": 1}, "unicode"),
        ({"and": {"field": "n", "eq": 5}}, "and"),
        ({"and": [], "or": []}, "or"),
        ({"field": "n", "in": 5}, "in"),
        ("n = 5", "filter"),
        (None, "filter"),
    ],
)
def test_a_filter_that_is_not_valid_is_refused_with_where_and_why(written, message):
    with pytest.raises(SpecError, match=message):
        filter_from(written)


def test_a_filter_nested_beyond_reading_is_refused():
    for times in (20, 5000):
        written: dict[str, Any] = {"field": "n", "eq": 1}
        for _ in range(times):
            written = {"not": written}
        with pytest.raises(SpecError, match="20 deep"):
            filter_from(written)


def test_keys_and_values_are_bound_and_never_part_of_the_statement():
    hostile = "'; DROP TABLE items; --"
    made = filter_from({"and": [{"field": hostile, op: hostile} for op in ("eq", "gt", "contains")]})
    text = str(compiled(made, item_field).compile(dialect=postgresql.dialect()))
    assert "DROP" not in text


# -- what they let through ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("written", "expected"), CASES)
def test_a_filter_keeps(store, collection, written, expected):
    assert kept(store, collection, written) == expected


@pytest.mark.parametrize("chunks", ["items", "family"])
@pytest.mark.parametrize("kind", sorted(legs))
def test_every_leg_obeys_a_filter_at_every_level(store, collection, kind, chunks):
    leg = legs[kind]()
    assert found(store, collection, leg, {"and": []}, chunks) == set(RECORDS)
    assert found(store, collection, leg, {"field": "n", "gte": 5}, chunks) == {"five", "half"}
    assert found(store, collection, leg, {"not": {"field": "n", "gte": 5}}, chunks) == RECORDS.keys() - {"five", "half"}
    assert found(store, collection, leg, {"field": "nowhere", "exists": True}, chunks) == set()
    assert found(store, collection, leg, {"field": "_id", "in": ["half", "null"]}, chunks) == {"half", "null"}


def test_a_level_narrowed_twice_obeys_both(store, collection):
    once = search_target(store, collection, "items").filtered(Condition(field="n", gte=5))
    twice = once.filtered(Condition(field="type", eq="note"))
    assert once.filtered(None) is once
    assert isinstance(twice.filter, And)

    async def work():
        async with store.begin(collection.namespace, read_only=True) as connection:
            return [each.id for each in await legs["bm25"]().recall(connection, twice, PreparedQuery("equal"), 9)]

    assert bridge.run(work()) == ["half"]


def test_a_filter_uses_the_index_of_its_field(store, collection):
    async def plan(written):
        from core.store.schema import ITEM_TABLE

        async with store.begin(collection.namespace, read_only=True) as connection:
            await connection.exec_driver_sql("SET LOCAL enable_seqscan = off")
            return await explain(connection, select(ITEM_TABLE.c.id).where(compiled(filter_from(written), item_field)))

    for written in ({"eq": 5}, {"gt": 5}, {"in": [5, 6]}):
        assert re.search("items_field_0", bridge.run(plan({"field": "n", **written})))
    both = bridge.run(plan({"field": "tags", "contains": "red"}))
    assert "items_metadata_gin" in both
    assert "items_field_2" in both
    assert "Seq Scan" not in both


# -- the same, said in Python -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["n", "type", "date", "tags", "ok", "none"])
VALUES = st.sampled_from([5, 5.5, "5", True, "guide", "red", "2024-01-01", "", -1])
ORDERED = st.sampled_from([5, 5.5, "5", "guide", "2024-01-01", "", -1])
CONDITIONS = st.one_of(
    st.builds(lambda f, o, v: {"field": f, o: v}, NAMES, st.sampled_from(["eq", "ne", "contains"]), VALUES),
    st.builds(lambda f, o, v: {"field": f, o: v}, NAMES, st.sampled_from(["gt", "gte", "lt", "lte"]), ORDERED),
    st.builds(lambda f, v: {"field": f, "in": v}, NAMES, st.lists(VALUES, max_size=3)),
    st.builds(lambda f, v: {"field": f, "exists": v}, NAMES, st.booleans()),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds(lambda each: {"and": each}, st.lists(inner, max_size=3)),
        st.builds(lambda each: {"or": each}, st.lists(inner, max_size=3)),
        st.builds(lambda each: {"not": each}, inner),
    ),
    max_leaves=5,
)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def same(left: Any, right: Any) -> bool:
    alike = (is_number(left) and is_number(right)) or type(left) is type(right)
    return bool(alike and left == right)


def lets_through(given_: Any, held: dict[str, Any]) -> bool:
    if isinstance(given_, And):
        return all(lets_through(each, held) for each in given_.and_)
    if isinstance(given_, Or):
        return any(lets_through(each, held) for each in given_.or_)
    if isinstance(given_, Not):
        return not lets_through(given_.not_, held)
    value = held.get(given_.field)
    return all(_holds(value, how, wanted) for how, wanted in given_.operators().items())


def _holds(value: Any, how: str, wanted: Any) -> bool:
    if how in ("gt", "gte", "lt", "lte"):
        if not ((is_number(value) and is_number(wanted)) or (isinstance(value, str) and isinstance(wanted, str))):
            return False
        return bool({"gt": value > wanted, "gte": value >= wanted, "lt": value < wanted, "lte": value <= wanted}[how])
    if how == "contains":
        if isinstance(value, str):
            return isinstance(wanted, str) and wanted in value
        return isinstance(value, list) and any(same(each, wanted) for each in value)
    judged: bool = {
        "eq": lambda: same(value, wanted),
        "ne": lambda: not same(value, wanted),
        "in": lambda: any(same(value, each) for each in wanted),
        "exists": lambda: (value is not None) == wanted,
    }[how]()
    return judged


@examples(60)
@given(written=FILTERS)
def test_the_server_and_python_agree_on_every_filter(store, collection, written):
    made = filter_from(written)
    assert kept(store, collection, written) == {name for name, held in RECORDS.items() if lets_through(made, held)}


# -- attached tables --------------------------------------------------------------------------------------------------

COLUMNS = {
    "n": "numeric",
    "whole": "integer",
    "type": "text",
    "day": "date",
    "at": "timestamptz",
    "tags": "text[]",
    "ok": "boolean",
}
THEIRS = [
    ("a", 5, 1, "guide", "2024-03-01", "2024-03-01T12:00Z", "{red,blue}", True),
    ("b", 5.5, 2, "note", "2024-01-01", "2024-01-01T00:00Z", "{green}", False),
    ("c", None, None, None, None, None, None, None),
]
IN_COLUMNS: list[tuple[dict[str, Any], set[str]]] = [
    ({"field": "_id", "eq": "b"}, {"b"}),
    ({"not": {"field": "_id", "in": ["b", "nowhere"]}}, {"a", "c"}),
    ({"field": "n", "eq": 5}, {"a"}),
    ({"field": "n", "eq": "5"}, set()),
    ({"field": "n", "gt": 5}, {"b"}),
    ({"field": "n", "ne": 5}, {"b", "c"}),
    ({"field": "whole", "gte": 1.5}, {"b"}),
    ({"field": "whole", "lt": 10**30}, {"a", "b"}),
    ({"field": "whole", "in": [1, "2", True]}, {"a"}),
    ({"field": "whole", "eq": True}, set()),
    ({"field": "type", "in": ["guide", "note"]}, {"a", "b"}),
    ({"field": "type", "gt": 5}, set()),
    ({"field": "type", "contains": "uid"}, {"a"}),
    ({"field": "day", "gt": "2024-01-01"}, {"a"}),
    ({"field": "day", "eq": "no day"}, set()),
    ({"field": "at", "gte": "2024-01-01"}, {"a", "b"}),
    ({"field": "at", "gt": "2024-01-01T01:00:00+01:00"}, {"a"}),
    ({"field": "tags", "contains": "red"}, {"a"}),
    ({"field": "tags", "contains": 5}, set()),
    ({"field": "ok", "eq": True}, {"a"}),
    ({"not": {"field": "ok", "eq": True}}, {"b", "c"}),
    ({"field": "type", "exists": False}, {"c"}),
]


@pytest.fixture(scope="module")
def theirs(store):
    """Makes tables of somebody's, and drops them in the end."""
    made = []

    def make_one(kind: str) -> str:
        made.append(_table(store, kind))
        return made[-1]

    yield make_one
    for table in made:
        bridge.run(_run(store, f"DROP TABLE public.{table} CASCADE"))


async def _run(store, statement: str) -> None:
    async with store.begin() as connection:
        await connection.exec_driver_sql(statement)


def _table(store, kind: str) -> str:
    """With metadata in columns, and in a jsonb or a json."""
    table = f"filters_{some_name()[5:]}"
    typed = ", ".join(f'"{name}" {type_}' for name, type_ in COLUMNS.items())

    async def work():
        async with store.begin() as connection:
            run = connection.exec_driver_sql
            await run(f"CREATE TABLE public.{table} (id text PRIMARY KEY, body text, meta {kind}, {typed})")
            for id_, *values in THEIRS:
                await run(
                    f"INSERT INTO public.{table} VALUES (%s, 'equal words', NULL, %s, %s, %s, %s, %s, %s, %s)",
                    (id_, *values),
                )
            objects = f"SELECT id, to_{kind}(each) AS made FROM public.{table} AS each"
            await run(f"UPDATE public.{table} AS t SET meta = made FROM ({objects}) AS m WHERE m.id = t.id")

    bridge.run(work())
    return table


def attach(store, table: str, metadata: Any):
    mapping = attached.mapped(table=table, id="id", text="body", metadata=metadata)
    return bridge.run(attached.attach_table(store, some_name(), mapping))


@pytest.fixture(scope="module")
def columns(store, theirs):
    return attach(store, theirs("jsonb"), tuple(COLUMNS))


@pytest.mark.parametrize(("written", "expected"), IN_COLUMNS)
def test_columns_of_an_attached_table_are_filtered_in_their_own_types(store, columns, written, expected):
    assert found(store, columns, legs["fulltext"](), written) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["json", "jsonb"])
def test_a_json_column_of_an_attached_table_is_filtered_as_our_own_is(store, theirs, kind):
    view = attach(store, theirs(kind), "meta")
    for written, expected in IN_COLUMNS:
        if written.get("field") != "at":
            assert found(store, view, legs["trigram"](), written) == expected, written


def test_what_was_built_aside_obeys_a_filter_too(store, columns):
    built = bridge.run(attached.build_side_tables(store, columns))
    for kind in ("bm25", "fuzzy", "fulltext"):
        assert found(store, built, legs[kind](), {"field": "n", "gt": 5}) == {"b"}
        assert found(store, built, legs[kind](), {"field": "_id", "eq": "c"}) == {"c"}


def test_a_json_value_with_a_nul_is_as_good_as_missing(store, theirs):
    table = theirs("json")

    bridge.run(_run(store, f"UPDATE public.{table} SET meta = '{{\"type\": \"\\u0000\"}}' WHERE id = 'b'"))
    view = attach(store, table, "meta")
    assert found(store, view, legs["trigram"](), {"field": "type", "eq": "guide"}) == {"a"}
    assert found(store, view, legs["trigram"](), {"field": "type", "exists": False}) == {"b", "c"}


def test_a_field_that_is_no_mapped_column_is_refused_with_the_nearest(store, columns):
    with pytest.raises(UnknownName, match="Did you mean 'type'"):
        search_target(store, columns, "items").filtered(Condition(field="tpye", eq="guide"))


def test_a_table_attached_without_metadata_cannot_be_filtered(store, theirs):
    view = attach(store, theirs("jsonb"), None)
    with pytest.raises(MissingCapability, match="--metadata"):
        search_target(store, view, "items").filtered(Condition(field="type", eq="guide"))
