"""Whatever people call their collections."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import unicodedata
import uuid

import pytest
from sqlalchemy import cast, inspect, select, text
from sqlalchemy.dialects.postgresql import JSONB

from core import bridge
from core.context import RequestContext
from core.errors import SpecError, StoreError, UnknownName
from core.legs.fulltext import FulltextLeg
from core.legs.trigram import TrigramLeg
from core.pipeline.retriever import search
from core.store import collections
from core.types import Item
from core.variant import Variant
from tests.store.making import FIXED, explain, fresh, ingest, make, tables, wrong

HOSTILE = [
    'it\'s "quoted"',
    'x"; DROP SCHEMA rankbook CASCADE; --',
    "🦊 emoji 💯",
    "per%cent %s %(name)s %%",
    ":colon ::text a:b",
    "{items} {0} {}",
    "[x] [y",
    "back\\slash \\: \\",
    "$1 $$body$$ ?",
    "Ünïcödé ZÜRICH",
    "public",
    "pg_catalog",
    "__none",
    "select",
    "dot.ted.name",
    "two  blanks",
    "é" * 20 + "x",
]


def unique(name: str) -> str:
    return f"{name} {uuid.uuid4().hex[:4]}"


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_a_hostile_name_goes_through_create_ingest_search_and_drop(store, embedder, hostile):
    name = unique(hostile)
    view = make(store, name, [embedder], {hostile: FIXED}, fields=[hostile])
    assert view.name == unicodedata.normalize("NFC", name)
    items = [Item("a", "the cat sat on a mat", metadata={hostile: "x"}), Item("b", "dogs bark")]
    assert ingest(store, name, items, [embedder]).added == 2
    assert wrong(store, name) == {}
    for chunks in ("items", hostile):
        for leg in (FulltextLeg(), TrigramLeg()):
            found = bridge.run(
                search(RequestContext(store, fresh(store, name)), "cat", Variant.of_leg(leg, chunks=chunks))
            )
            assert [hit.item_id for hit in found.hits] == ["a"]
    assert name in [row.name for row in bridge.run(collections.listed(store))]
    bridge.run(collections.drop(store, name))
    assert bridge.run(collections.find(store, name)) is None
    assert view.namespace not in schemas(store)
    assert "rankbook" in schemas(store)


def schemas(store) -> list[str]:
    async def work():
        async with store.begin() as connection:
            return await connection.run_sync(lambda sync: inspect(sync).get_schema_names())

    return bridge.run(work())


@pytest.mark.parametrize(
    "refused", ["", " ", " a", "a\n", "a\tb", "nul\x00", "esc\x1b[31m", "\u202eflipped", "half\ud800"]
)
def test_a_name_that_cannot_be_seen_is_refused_with_the_reason(store, refused):
    before = schemas(store)
    with pytest.raises(SpecError, match=r"blank|control"):
        bridge.run(collections.create(store, refused))
    assert schemas(store) == before


@pytest.mark.slow
@pytest.mark.parametrize("letter", ["a", "é", "漢", "🦊"])
def test_the_limit_is_counted_in_bytes_and_names_up_to_it_stay_apart(store, letter):
    room = 61 - 5
    longest = letter * (room // len(letter.encode()))
    longest += "a" * (room - len(longest.encode())) + uuid.uuid4().hex[:5]
    other = longest[:-1] + ("0" if longest[-1] != "0" else "1")
    for name in (longest, other):
        assert len(make(store, name, chunks={}).namespace.encode()) == 63
    ingest(store, longest, [Item("a", "text")])
    assert ingest(store, other, [Item("a", "text")]).added == 1
    with pytest.raises(SpecError, match="62 bytes"):
        bridge.run(collections.create(store, longest + "x"))
    for name in (longest, other):
        bridge.run(collections.drop(store, name))


@pytest.mark.parametrize("missing", ["no such", "nul\x00", "half\ud800", "x" * 5000, "'; --"])
def test_looking_for_a_name_that_is_not_there_says_so(store, missing):
    assert bridge.run(collections.find(store, missing)) is None
    with pytest.raises(UnknownName, match="No collection is called"):
        bridge.run(collections.get(store, missing))


def test_an_accent_typed_apart_names_the_same_collection(store):
    name = unique("cafe\u0301")
    make(store, name, chunks={})
    composed = unicodedata.normalize("NFC", name)
    assert fresh(store, name).name == fresh(store, composed).name == composed
    with pytest.raises(StoreError, match="already"):
        bridge.run(collections.create(store, composed))
    bridge.run(collections.drop(store, name))
    assert bridge.run(collections.find(store, composed)) is None


def test_two_names_that_differ_only_in_kind_of_bracket_stay_apart(store):
    square, round_ = unique("a[1]"), ""
    round_ = square.replace("[", "(").replace("]", ")")
    assert make(store, square, chunks={}).namespace != make(store, round_, chunks={}).namespace


def test_a_name_that_is_there_already_is_refused(store, name):
    make(store, name, chunks={})
    with pytest.raises(StoreError, match=r"already. Drop it first"):
        bridge.run(collections.create(store, name))


def test_of_two_that_create_the_same_collection_at_once_one_is_told_so(store, name):
    from core.tasks import side_by_side

    async def both():
        async def attempt():
            try:
                await collections.create(store, name)
            except StoreError as error:
                return str(error)
            return "made"

        return await side_by_side(attempt(), attempt())

    outcomes = sorted(bridge.run(both()))
    assert outcomes[1] == "made"
    assert "already" in outcomes[0]


def test_a_language_that_the_server_does_not_know_is_refused_with_the_nearest(store, name):
    with pytest.raises(UnknownName, match="Did you mean 'german'"):
        bridge.run(collections.create(store, name, language="germann"))
    with pytest.raises(UnknownName):
        bridge.run(collections.create(store, name, language="english'; DROP SCHEMA rankbook; --"))
    assert bridge.run(collections.find(store, name)) is None


def test_a_metadata_field_with_quotes_in_its_name_is_indexed_by_that_name(store, name):
    hostile = 'it\'s "a" field: %s {x} [y] \\'
    view = make(store, name, chunks={}, fields=[hostile])
    ingest(store, name, [Item(f"i{number}", "text", metadata={hostile: number}) for number in range(50)])

    async def plan():
        async with store.begin(view.namespace) as connection:
            await connection.execute(text("SET LOCAL enable_seqscan = off"))
            items = tables(view)["items"]
            wanted = select(items.c.id).where(items.c.metadata.op("->")(hostile) == cast(7, JSONB))
            assert list(await connection.scalars(wanted)) == ["i7"]
            return await explain(connection, wanted)

    assert "Index Cond" in (found := bridge.run(plan()))
    assert "items_field_0" in found


def test_the_same_chunk_set_again_is_what_there_is_and_another_chunker_under_its_name_is_refused(store, name):
    view = make(store, name)
    assert bridge.run(collections.add_chunk_set(store, view, "small", FIXED)) is view
    with pytest.raises(StoreError, match="another name"):
        bridge.run(collections.add_chunk_set(store, view, "small", {"kind": "sentences"}))
    with pytest.raises(SpecError, match="bytes"):
        bridge.run(collections.add_chunk_set(store, view, "é" * 40, FIXED))
