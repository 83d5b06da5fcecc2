"""Whatever a person or a file can name, say or ask for, SQL takes as what it is: a value or a quoted name.

One table of attempts, one of places where text gets in. The text comes back as it was given, or is refused in a
sentence, and a table that each attempt tries to drop still stands.
"""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from psycopg import sql
from sqlalchemy import text

from core import bridge
from core.context import RequestContext
from core.errors import InputError, RankbookError
from core.filters import filter_from
from core.legs import legs
from core.legs.fulltext import FulltextLeg
from core.pipeline.retriever import search
from core.sql_export import export_sql
from core.store import collections
from core.store.attached import AttachedTable, attach_table
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Item, Query
from core.variant import Variant
from evals.judging import judgements, votes
from evals.judging.judgements import Judgement
from evals.judging.votes import Contest, Vote
from evals.labels import corrections, query_sets
from evals.labels.revisions import Cause
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.types import Exclusion, Label, LabelledQueries, Span
from tests.effort import examples
from tests.fakes import HashingEmbedder
from tests.store.exporting import RESOURCES, rows
from tests.store.making import FIXED, fresh, ingest, make, some_name

CANARY = "rankbook_canary"
ATTEMPTS = {
    "a quote": f"x'; DROP TABLE {CANARY}; --",
    "a doubled quote": f"x''; DROP TABLE {CANARY}; --",
    "an escaped quote": f"x\\'; DROP TABLE {CANARY}; --",
    "an identifier's quote": f'x"; DROP TABLE {CANARY}; --',
    "dollar quotes": f"$$; DROP TABLE {CANARY}; $$",
    "a comment": f"*/ DROP TABLE {CANARY}; /*",
    "the driver's marks": f"%s %(x)s %% ; DROP TABLE {CANARY}",
    "binds": f":name $1 ? ::text; DROP TABLE {CANARY}",
    "braces": "{0} {} {items} {x!r}",
    "a bracket": f"x]); DROP TABLE {CANARY}; --",
    "another quote": f"x\N{MODIFIER LETTER APOSTROPHE}; DROP TABLE {CANARY}; --",
    "a function": "' || (SELECT pg_sleep(30)) || '",
    "a second row": "x'), ('y'); --",
    "copy": "\\.\nDROP",
    "jsonpath": '$ ? (@ == "x")',
    "tsquery": "a' & !b <-> (c | 'd",
}
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Ground:
    """A collection with one document, and somewhere to try."""

    store: Store
    view: CollectionView

    @property
    def name(self) -> str:
        return self.view.name

    def found(self, query: str, variant: Variant) -> list[str]:
        context = RequestContext(self.store, self.view, RESOURCES)
        return [hit.item_id for hit in bridge.run(search(context, query, variant)).hits]


EMBEDDER = HashingEmbedder()
Mode = Literal["strict", "any", "web", "plain", "phrase"]


@pytest.fixture(scope="module")
def ground(store: Store) -> Iterator[Ground]:
    run(store, f"CREATE TABLE IF NOT EXISTS public.{CANARY} AS SELECT 1 AS sings")
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, [Item("d1", "the cat sat on a mat", metadata={"kind": "cat"})], [EMBEDDER])
    yield Ground(store, fresh(store, name))
    bridge.run(collections.drop(store, name))
    run(store, f"DROP TABLE public.{CANARY}")


def run(store: Store, statement: str) -> list[Any]:
    async def work() -> list[Any]:
        async with store.begin() as connection:
            found = await connection.execute(text(statement))
            return list(found) if found.returns_rows else []

    return bridge.run(work())


def assert_sings(store: Store) -> None:
    assert run(store, f"SELECT sings FROM public.{CANARY}") == [(1,)]


# -- places -----------------------------------------------------------------------------------------------------------
# Each puts the text somewhere and says what came back, or raises an error of ours.

Place = Callable[[Ground, str], object]
PLACES: dict[str, Place] = {}


def place(put: Place) -> Place:
    PLACES[put.__name__.replace("_", " ")] = put
    return put


@place
def the_query_of_every_leg(ground: Ground, hostile: str) -> str:
    for kind in legs:
        ground.found(hostile, Variant.of_leg(legs[kind](), chunks="small"))
    modes: tuple[Mode, ...] = ("any", "web", "plain", "phrase")
    for mode in modes:
        ground.found(hostile, Variant.of_leg(FulltextLeg(mode=mode), chunks="small"))
    return hostile


@place
def a_strict_query(ground: Ground, hostile: str) -> str:
    ground.found(hostile, Variant.of_leg(FulltextLeg(mode="strict"), chunks="small"))
    return hostile


@place
def every_operator_of_a_filter(ground: Ground, hostile: str) -> str:
    for operator in ("eq", "ne", "gt", "gte", "lt", "lte", "contains"):
        where = {"or": [{"field": hostile, operator: hostile}, {"field": "kind", operator: hostile}]}
        ground.found("cat", Variant.of_leg(legs["trigram"](), chunks="small", filter=filter_from(where)))
    other = filter_from({"not": {"field": hostile, "in": [hostile]}})
    assert ground.found("cat", Variant.of_leg(legs["trigram"](), chunks="small", filter=other)) == ["d1"]
    return hostile


@place
def the_configuration_of_a_language(ground: Ground, hostile: str) -> str:
    ground.found("cat", Variant.of_leg(FulltextLeg(config=hostile), chunks="small"))
    return hostile


@place
def the_chunk_set_or_the_model_that_is_searched(ground: Ground, hostile: str) -> str:
    for options in ({"chunks": hostile}, {"chunks": "small", "model": hostile}):
        try:
            ground.found("cat", Variant.of_leg(legs["vector"](), **options))
        except RankbookError:
            continue
    return hostile


@place
def queries_labels_spans_and_their_splits(ground: Ground, hostile: str) -> str:
    short = hostile.replace("\n", " ")
    labelled = LabelledQueries(
        (Query(hostile, hostile, hostile, (hostile,), 1.0, {hostile: hostile}),),
        (Label(hostile, hostile, 1, short),),
        (Span(hostile, hostile, 0, 1, hostile, short, 1),),
        (Exclusion(hostile, f"{hostile}2"),),
    )
    bridge.run(query_sets.keep(ground.store, ground.name, labelled, name=short[:40]))
    try:
        found = bridge.run(query_sets.load(ground.store, ground.name, name=short[:40]))
        assert found == labelled
        return hostile
    finally:
        bridge.run(query_sets.drop(ground.store, ground.name, short[:40]))


@place
def a_change_of_a_query_set_with_its_author_and_reason(ground: Ground, hostile: str) -> str:
    short = hostile.replace("\n", " ")
    before = LabelledQueries((Query(hostile, hostile),), (Label(hostile, hostile, 1, short),))
    cause = Cause(judgements.judge_name(short), hostile)
    try:
        for labelled in (before, LabelledQueries()):
            bridge.run(query_sets.keep(ground.store, ground.name, labelled, name=short[:40], cause=cause))
        done = bridge.run(corrections.undo(ground.store, ground.name, name=short[:40], author=cause.author))
        assert bridge.run(query_sets.load(ground.store, ground.name, name=short[:40])) == before
        return done.revision.reason
    finally:
        bridge.run(query_sets.drop(ground.store, ground.name, short[:40]))


@place
def a_judgement_with_its_judge_and_note(ground: Ground, hostile: str) -> str:
    made = Judgement(
        hostile, hostile, judgements.judge_name(hostile.replace("\n", " ")), 1, b"\x01", False, hostile, NOON
    )
    bridge.run(judgements.save_judgements(ground.store, ground.name, [made]))
    found = bridge.run(judgements.load(ground.store, ground.name))
    return next(each.note for each in found if each.query_id == hostile)


@place
def a_run_its_variant_and_its_pin(ground: Ground, hostile: str) -> str:
    subject = RunSubject(ground.name, 1, hostile, b"", hostile, hostile)
    variant = Variant.of_leg(legs["bm25"]()).but(name=hostile, description=hostile)
    made = Run(hostile, subject, {hostile: Ranking((hostile,), (1.0,))}, depth=10, variant=variant)
    saved = bridge.run(run_store.save(ground.store, made))
    try:
        bridge.run(run_store.pin(ground.store, saved.id, hostile.replace("\n", " ")))
        return bridge.run(run_store.load(ground.store, hostile.replace("\n", " "))).name
    finally:
        bridge.run(run_store.unpin(ground.store, hostile.replace("\n", " ")))
        bridge.run(run_store.remove(ground.store, saved.id))


@place
def a_vote_and_its_contest(ground: Ground, hostile: str) -> str:
    variants = {hostile: Variant.of_leg(legs["bm25"]()), "other": Variant.of_leg(legs["trigram"]())}
    contest = Contest.of(ground.name, variants)
    bridge.run(votes.announce(ground.store, contest))
    bridge.run(votes.cast(ground.store, contest, Vote(hostile, hostile, votes.BOTH)))
    with pytest.raises(RankbookError):
        bridge.run(votes.cast(ground.store, contest, Vote(hostile, hostile, hostile)))
    kept = {found.key: given for found, given in bridge.run(votes.contests(ground.store, ground.name))}
    return next(each.query for each in kept[contest.key] if each.visitor == hostile)


@place
def an_exported_statement(ground: Ground, hostile: str) -> str:
    where = {"or": [{"field": hostile, "eq": hostile}, {"field": "kind", "eq": "cat"}]}
    variant = Variant.from_data(
        {
            "name": hostile,
            "description": hostile,
            "chunks": "small",
            "leg": [{"kind": "fulltext"}, {"kind": "vector", "label": hostile}],
        }
    ).but(filter=filter_from(where))
    made = bridge.run(export_sql(ground.store, ground.view, variant))
    assert [row["id"] for row in rows(ground.store, made, f"cat {hostile}")]
    return hostile


@place
def the_table_and_the_columns_of_an_attached_collection(ground: Ground, hostile: str) -> str:
    short = hostile.replace("\n", " ")[:50]
    table, key, body, field = f"{short} {uuid.uuid4().hex[:6]}", f"k{short}", f"b{short}", f"f{short}"
    made = sql.SQL("CREATE TABLE public.{} ({} text PRIMARY KEY, {} text, {} text)").format(
        *map(sql.Identifier, (table, key, body, field))
    )
    row = sql.SQL("INSERT INTO public.{} VALUES ('d1', 'the cat', {})").format(
        sql.Identifier(table), sql.Literal(hostile)
    )
    name = some_name()
    raw(ground.store, made)
    raw(ground.store, row)
    try:
        mapping = AttachedTable(
            namespace="public", table=table, id=key, text=body, metadata=(field,), where={field: hostile}
        )
        bridge.run(attach_table(ground.store, name, mapping))
        attached = Ground(ground.store, fresh(ground.store, name))
        where = filter_from({"field": field, "eq": hostile})
        return (
            hostile
            if attached.found("cat", Variant.of_leg(legs["trigram"](), chunks="items", filter=where)) == ["d1"]
            else ""
        )
    finally:
        if bridge.run(collections.find(ground.store, name)):
            bridge.run(collections.drop(ground.store, name))
        raw(ground.store, sql.SQL("DROP TABLE public.{}").format(sql.Identifier(table)))


def raw(store: Store, statement: sql.Composed) -> None:
    async def work() -> None:
        async with store.begin() as connection:
            await connection.exec_driver_sql(statement.as_string().replace("%", "%%"))

    bridge.run(work())


REFUSED = {"a strict query", "the configuration of a language"}  # where not every text has a meaning


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_text_that_is_sql_is_taken_as_text_or_refused_and_runs_nowhere(ground: Ground, where: str) -> None:
    for attempt in ATTEMPTS.values():
        try:
            assert PLACES[where](ground, attempt) == attempt
        except RankbookError:
            assert where in REFUSED, attempt
    assert_sings(ground.store)


@pytest.mark.slow
@pytest.mark.parametrize("attempt", ["an identifier's quote", "the driver's marks"])
def test_names_that_are_sql_name_a_collection_its_chunk_set_and_its_field(ground: Ground, attempt: str) -> None:
    named = ATTEMPTS[attempt][:50]
    name = f"{named[:40]} {uuid.uuid4().hex[:6]}"
    make(ground.store, name, [EMBEDDER], {named: FIXED}, fields=[named])
    ingest(ground.store, name, [Item("d1", "the cat", metadata={named: "x"})], [EMBEDDER])
    made = Ground(ground.store, fresh(ground.store, name))
    asked = Variant.of_leg(legs["bm25"](), chunks=named, filter=filter_from({"field": named, "eq": "x"}))
    assert made.found("cat", asked) == ["d1"]
    assert [each.name for each in made.view.chunk_sets] == ["items", named]
    bridge.run(collections.drop(ground.store, name))
    assert_sings(ground.store)


@pytest.mark.slow
def test_ids_titles_texts_and_metadata_that_are_sql_come_back_as_they_are(ground: Ground) -> None:
    every = list(ATTEMPTS.values())
    items = [Item(each, f"{each} hostile", each, {each: each, "list": [each, {each: 1}]}) for each in every]
    name = some_name()
    make(ground.store, name, [EMBEDDER], {"small": FIXED}, fields=["list"])
    ingest(ground.store, name, items, [EMBEDDER])
    made = Ground(ground.store, fresh(ground.store, name))
    for each in every:
        where = {"and": [{"field": each, "eq": each}, {"field": "list", "contains": each}]}
        assert made.found("hostile", Variant.of_leg(legs["bm25"](), chunks="small", filter=filter_from(where))) == [
            each
        ]
    ingest(ground.store, name, items[:1], [EMBEDDER], prune=True)  # by their ids
    assert made.found("hostile", Variant.of_leg(legs["bm25"](), chunks="small")) == every[:1]
    bridge.run(collections.drop(ground.store, name))
    assert_sings(ground.store)


def test_an_attempt_would_succeed_where_text_is_put_into_a_statement_as_it_is(ground: Ground) -> None:
    """So that the canary is known to be one."""
    run(ground.store, f"CREATE TABLE public.{CANARY}2 AS SELECT 1")
    careless = f"SELECT 'x'; DROP TABLE public.{CANARY}2; --'"

    async def work() -> None:
        async with ground.store.begin() as connection:
            driver = (await connection.get_raw_connection()).driver_connection
            assert driver is not None
            await driver.execute(careless)

    bridge.run(work())
    assert run(ground.store, f"SELECT to_regclass('public.{CANARY}2') IS NULL") == [(True,)]


QUIET = examples(12)
PIECES = st.sampled_from(
    [
        "'",
        '"',
        "\\",
        ";",
        "--",
        "/*",
        "*/",
        "$$",
        "%s",
        "%",
        ":x",
        "{}",
        "(",
        ")",
        "&",
        "|",
        "!",
        "<->",
        ":*",
        "a",
        "\x00",
        "\ud800",
        "🦊",
        "\n",
    ]
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@pytest.mark.slow
@QUIET
@given(hostile=TEXTS)
@example(hostile="cat & 'mat")
@example(hostile="\x00")
def test_any_query_in_any_mode_finds_something_nothing_or_is_refused_in_a_sentence(
    ground: Ground, hostile: str
) -> None:
    modes: tuple[Mode, ...] = ("strict", "any", "web", "plain", "phrase")
    for mode in modes:
        malformed = suppress(InputError) if mode == "strict" else nullcontext()
        with malformed:
            ground.found(hostile, Variant.of_leg(FulltextLeg(mode=mode), chunks="small"))
    for kind in legs:
        ground.found(hostile, Variant.of_leg(legs[kind](), chunks="small"))


@pytest.mark.slow
@QUIET
@given(
    name=TEXTS,
    value=st.one_of(TEXTS, st.integers(), st.booleans(), st.floats()),
    operator=st.sampled_from(["eq", "ne", "gt", "lte", "contains", "in"]),
)
def test_any_filter_is_refused_or_asked_of_the_server_and_its_opposite_finds_the_rest(
    ground: Ground, name: str, value: Any, operator: str
) -> None:
    given_value = [value] if operator == "in" else value
    try:
        where = filter_from({"field": name, operator: given_value})
    except RankbookError:
        return
    variant = Variant.of_leg(legs["trigram"](), chunks="small")
    one = ground.found("cat", variant.but(filter=where))
    other = ground.found("cat", variant.but(filter=filter_from({"not": where})))
    assert sorted([*one, *other]) == ["d1"]
