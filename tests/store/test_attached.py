"""Attaching somebody's table: what is refused, what the legs find in it, and that it stays as it was."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from psycopg import sql
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core import bridge
from core.errors import MissingCapability, RankbookError, SpecError, StoreError, UnknownName
from core.legs import Candidates, Leg, PreparedQuery
from core.legs.fulltext import FulltextLeg
from core.legs.trigram import TrigramLeg
from core.legs.vector import VectorLeg
from core.pipeline.recall import LegConnection
from core.store import attached, collections, locks
from core.store.attached import AttachedTable, mapped
from core.store.attached import attach as attached_attach
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.store.search_target import SearchTarget
from tests.fakes import HashingEmbedder

HOSTILE = 'we"ird; DROP TABLE x; --'
TEXTS = [
    "The quick brown fox jumps over the lazy dog",
    "A lazy dog sleeps all day",
    "Foxes hunt at night",
    "Nothing to see here",
]


class Server:
    """The test server as an owner of tables uses it: statements of its own, names quoted by the driver."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.made: list[sql.Composable] = []

    def run(self, template: str, *names: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        statement = sql.SQL(template).format(*map(sql.Identifier, names)).as_string()
        return bridge.run(self._run(statement, values))

    async def _run(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        async with self.store.begin() as connection:
            await connection.execute(text("SET LOCAL search_path = public"))
            if values:
                rows = await connection.exec_driver_sql(statement, values)
            else:
                rows = await connection.exec_driver_sql(statement.replace("%", "%%"))
            return [tuple(row) for row in rows] if rows.returns_rows else []

    def drop_later(self, kind: str, *name: str) -> None:
        self.made.append(sql.SQL("DROP {} {} CASCADE").format(sql.SQL(kind), sql.Identifier(*name)))

    def clean(self) -> None:
        for statement in reversed(self.made):
            bridge.run(self._run(statement.as_string(), ()))

    def unique(self, prefix: str = "their") -> str:
        return f"{prefix}_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def server(store: Store) -> Iterator[Server]:
    made = Server(store)
    yield made
    made.clean()


@pytest.fixture
def vector_of(embedder: HashingEmbedder) -> Callable[[str], str]:
    return lambda words: str([float(x) for x in bridge.run(embedder.embed([words]))[0]])


@pytest.fixture
def docs(server: Server, vector_of: Callable[[str], str]) -> str:
    """A product's own table: an integer key, a varchar text, a title, a vector, fields and JSON."""
    name = server.unique()
    server.run(
        "CREATE TABLE {} (id bigint PRIMARY KEY, heading text, body varchar(400), emb vector(16), tags text[],"
        " kind text, day date, meta jsonb, words tsvector GENERATED ALWAYS AS (to_tsvector('english', body)) STORED)",
        name,
    )
    server.drop_later("TABLE", name)
    for number, words in enumerate(TEXTS, start=1):
        server.run(
            "INSERT INTO {} (id, heading, body, emb, kind, day, meta) VALUES (%s, %s, %s, %s, %s, %s, %s)",
            name,
            values=(
                number,
                f"Title {number}",
                words,
                vector_of(words),
                "a" if number < 3 else "b",
                "2024-05-01",
                '{"n": 1}',
            ),
        )
    server.run("INSERT INTO {} (id, body) VALUES (5, 'A dog without vector'), (6, NULL)", name)
    return name


@pytest.fixture
def full(docs: str, embedder: HashingEmbedder) -> AttachedTable:
    return AttachedTable(
        table=docs, id="id", text="body", title="heading", embedding="emb", model=embedder.model, metadata="meta"
    )


@pytest.fixture
def attach(store: Store, name: str) -> Iterator[Callable[..., CollectionView]]:
    """Attaches under this test's name; the collection is dropped after it."""

    def work(mapping: AttachedTable, **options: Any) -> CollectionView:
        return bridge.run(attached.attach_table(store, name, mapping, **options))

    yield work
    if bridge.run(collections.find(store, name)):
        bridge.run(collections.drop(store, name))


@pytest.fixture
def recall(store: Store, embedder: HashingEmbedder) -> Callable[..., list[str]]:
    """The ids that a leg brings up, in order, as some role."""

    async def embed(model: str, words: str) -> Any:
        assert model == embedder.model
        return (await embedder.embed([words], "query"))[0]

    async def work(view: CollectionView, leg: Leg, words: str, role: str | None, depth: int) -> list[str]:
        where = search_target(store, view, "items")
        async with store.begin(where.namespace, read_only=True) as connection:
            if role:
                await connection.execute(text(f'SET LOCAL ROLE "{role}"'))
            found = await leg.recall(connection, where, PreparedQuery(words, embed=embed), depth)
            described = {row.id: row for row in await connection.execute(where.described([each.id for each in found]))}
            assert set(described) == {each.id for each in found}
            return [each.id for each in found]

    return lambda view, leg, words, role=None, depth=10: bridge.run(work(view, leg, words, role, depth))


def take(server: Server, given: list[attached.Advice]) -> None:
    """Follow the advice, inside a transaction, which is why not concurrently."""
    for each in given:
        assert each.statement
        server.run(each.statement.replace("CONCURRENTLY ", "").replace("{", "{{").replace("}", "}}"))


def described(store: Store, view: CollectionView, *ids: str) -> list[Any]:
    async def work() -> list[Any]:
        where = search_target(store, view, "items")
        async with store.begin(where.namespace, read_only=True) as connection:
            return list(await connection.execute(where.described(list(ids))))

    return sorted(bridge.run(work()), key=lambda row: str(row.id))


@pytest.fixture
def used(store: Store, embedder: HashingEmbedder) -> Callable[..., set[str]]:
    """The indexes that PostgreSQL counted as scanned when a leg, or the describing of ids, ran without table scans."""

    async def embed(model: str, words: str) -> Any:
        return (await embedder.embed([words], "query"))[0]

    async def work(view: CollectionView, what: Leg | list[str], off: Sequence[str]) -> set[str]:
        where, table = search_target(store, view, "items"), attached.Attachment.of(view).table
        counted = text(
            "SELECT indexrelname FROM pg_stat_user_indexes"
            " WHERE idx_scan > 0 AND relname = :name AND schemaname = :schema"
        )
        names = {"name": table.table, "schema": table.namespace}
        async with store.begin() as connection:
            before = set(await connection.scalars(counted, names))
        async with store.begin(where.namespace, read_only=True) as connection:
            for each in off:
                await connection.execute(text(f"SET LOCAL {each} = off"))
            if isinstance(what, list):
                await connection.execute(where.described(what))
            else:
                await what.recall(connection, where, PreparedQuery("lazy dog", embed=embed), 10)
            await connection.execute(text("SELECT pg_stat_force_next_flush()"))
        async with store.begin() as connection:
            return set(await connection.scalars(counted, names)) - before

    return lambda view, what, *off: bridge.run(work(view, what, ("enable_seqscan", *off)))


LEGS: list[Leg] = [
    VectorLeg(),
    VectorLeg(exact=True, distance="l2"),
    FulltextLeg(),
    FulltextLeg(mode="web"),
    TrigramLeg(),
]


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_leg_searches_the_attached_table(full, attach, recall):
    view = attach(full)
    assert recall(view, VectorLeg(), TEXTS[2])[0] == "3"
    assert sorted(recall(view, FulltextLeg(), "dog")) == ["1", "2", "5"]
    assert recall(view, TrigramLeg(threshold=0.6), "nothing to see")[0] == "4"


def test_rows_without_a_vector_are_found_by_words_alone(full, attach, recall):
    view = attach(full)
    assert sorted(recall(view, VectorLeg(), "dog")) == ["1", "2", "3", "4"]
    assert "5" in recall(view, FulltextLeg(), "vector")


def test_a_hit_is_described_like_any_other(store, full, attach):
    view = attach(full)
    first, last = described(store, view, "1", "6")
    assert (first.id, first.item_id, first.title, first.text) == ("1", "1", "Title 1", TEXTS[0])
    assert first.metadata == {"n": 1}
    assert (list(first.heading_path), first.page_first, first.page_last) == ([], None, None)
    assert (last.title, last.text, last.metadata) == ("", "", {})


@pytest.mark.parametrize("odd", ["x", "01", "1.0", "99999999999999999999999", "", "²", "'; DROP TABLE x; --"])
def test_an_id_that_no_row_can_have_describes_nothing(store, full, attach, odd):
    assert described(store, attach(full), odd) == []


def test_columns_can_serve_as_metadata(store, docs, full, attach):
    view = attach(full.model_copy(update={"metadata": ("kind", "day", "tags")}))
    assert described(store, view, "1")[0].metadata == {"kind": "a", "day": "2024-05-01", "tags": None}


def test_json_that_is_no_object_stands_under_its_columns_name(store, server, docs, full, attach):
    server.run("UPDATE {} SET meta = '[1, 2]' WHERE id = 1", docs)
    assert described(store, attach(full), "1")[0].metadata == {"meta": [1, 2]}


def test_plain_json_may_hold_what_jsonb_cannot(store, server, docs, full, attach):
    server.run("ALTER TABLE {} ADD COLUMN raw json", docs)
    server.run(
        'UPDATE {} SET raw = \'{"a": "\\u0000"}\' WHERE id = 1'.replace('{"', '{{"').replace("\"}'", "\"}}'"), docs
    )
    assert described(store, attach(full.model_copy(update={"metadata": "raw"})), "1", "2")[0].metadata == {"a": "\0"}


def test_conditions_share_a_table_between_collections(full, attach, recall):
    view = attach(full.model_copy(update={"where": {"kind": "b", "day": "2024-05-01"}}))
    assert sorted(recall(view, VectorLeg(), "dog")) == ["3", "4"]
    assert recall(view, FulltextLeg(), "dog") == []
    assert recall(view, TrigramLeg(), "foxes") == ["3"]


def test_ties_come_in_the_order_of_bytes(server, attach, recall):
    table = server.unique()
    server.run("CREATE TABLE {} (id text PRIMARY KEY, t text)", table)
    server.drop_later("TABLE", table)
    server.run(
        "INSERT INTO {} VALUES ('b', 'alike'), ('A', 'alike'), ('a', 'alike'), ('B', 'alike'), ('é', 'alike')", table
    )
    view = attach(AttachedTable(table=table, id="id", text="t"))
    assert recall(view, FulltextLeg(), "alike") == ["A", "B", "a", "b", "é"]


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("uuid", "6b1f3f4e-0000-4000-8000-000000000001", "6b1f3f4e-0000-4000-8000-000000000002"),
        ("integer", "7", "-7"),
        ("smallint", "7", "8"),
        ("numeric", "1.50", "2"),
        ("char(3)", "ab ", "cd"),
        ("timestamptz", "2024-01-01 00:00:00+00", "2024-01-02 00:00:00+00"),
    ],
)
def test_an_id_may_be_of_any_type(store, server, attach, recall, kind, one, other):
    table = server.unique()
    server.run("CREATE TABLE {} (id %s PRIMARY KEY, t text)".replace("%s", kind), table)
    server.drop_later("TABLE", table)
    server.run("INSERT INTO {} VALUES (%s, 'one'), (%s, 'other')", table, values=(one, other))
    view = attach(AttachedTable(table=table, id="id", text="t"))
    (found,) = recall(view, FulltextLeg(), "one")
    assert described(store, view, found)[0].text == "one"


def test_halfvec_columns_are_searched_as_they_are(server, docs, full, attach, recall, used):
    server.run("ALTER TABLE {} ALTER COLUMN emb TYPE halfvec(16)", docs)
    server.run("CREATE INDEX {} ON {} USING hnsw (emb halfvec_cosine_ops)", f"{docs}_h", docs)
    view = attach(full)
    assert recall(view, VectorLeg(), TEXTS[2])[0] == "3"
    assert f"{docs}_h" in used(view, VectorLeg())


def test_views_are_attached_like_tables(store, server, docs, full, attach, recall):
    shown = server.unique("shown")
    server.run("CREATE VIEW {} AS SELECT * FROM {} WHERE id <> 1", shown, docs)
    server.drop_later("VIEW", shown)
    view = attach(full.model_copy(update={"table": shown}))
    assert sorted(recall(view, FulltextLeg(), "dog")) == ["2", "5"]


def test_a_schema_called_as_our_placeholder_is_theirs(store, server, docs, full, attach, recall):
    server.run("CREATE SCHEMA collection")
    server.drop_later("SCHEMA", "collection")
    server.run("ALTER TABLE {} SET SCHEMA collection", docs)
    server.made.pop(0)
    assert sorted(recall(attach(full.model_copy(update={"namespace": "collection"})), FulltextLeg(), "dog")) == [
        "1",
        "2",
        "5",
    ]


@pytest.mark.slow
def test_hostile_names_are_only_names(store, server, embedder, vector_of, attach, recall):
    identifier, body, vector, title, json, kind = '"Id"', "Bo dy%s", "e:mb", "{ti}tle", "%(meta)s", "k'ind"
    server.run(
        "CREATE TABLE {} ({} int PRIMARY KEY, {} text, {} vector(16), {} text, {} jsonb, {} text)",
        HOSTILE, identifier, body, vector, title, json, kind,
    )  # fmt: skip
    server.drop_later("TABLE", HOSTILE)
    for number, words in enumerate(TEXTS):
        server.run(
            "INSERT INTO {} VALUES (%s, %s, %s::vector, 'T', %s::jsonb, %s)",
            HOSTILE,
            values=(number, words, vector_of(words), '{"%s": 1}', "it's; %s" if number else "other"),
        )
    mapping = AttachedTable(
        table=HOSTILE, id=identifier, text=body, embedding=vector, model=embedder.model, title=title,
        metadata=(json, kind), where={kind: "it's; %s"},
    )  # fmt: skip
    view = attach(mapping)
    for leg in LEGS:
        assert "1" in recall(view, leg, "lazy dog")
        assert "0" not in recall(view, leg, "lazy dog")
    assert described(store, view, "2")[0].metadata == {json: {"%s": 1}, kind: "it's; %s"}
    assert bridge.run(attached.count(store, mapping, attached.Attachment.of(view).facts)) == 3
    take(server, bridge.run(attached.advice(store, view)))
    assert bridge.run(attached.advice(store, view)) == []
    assert bridge.run(attached.build_side_tables(store, view)).chunk_sets[0].units == 3


def test_rows_that_came_without_an_id_are_no_units(server, docs, full, attach, recall):
    view = attach(full.model_copy(update={"id": "kind", "where": {"day": "1999-01-01"}}))
    server.run("UPDATE {} SET day = '1999-01-01', kind = nullif(kind, 'b') WHERE id > 1 AND id < 4", docs)
    for leg in LEGS:
        assert set(recall(view, leg, "lazy dog foxes")) <= {"a"}


# -- indexes of theirs -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trigrams")
def test_their_indexes_are_used(server, docs, full, attach, used):
    server.run("CREATE INDEX {} ON {} USING hnsw (emb vector_cosine_ops)", f"{docs}_v", docs)
    server.run("CREATE INDEX {} ON {} USING gin (to_tsvector('english', body))", f"{docs}_t", docs)
    server.run("CREATE INDEX {} ON {} USING gin (body gin_trgm_ops)", f"{docs}_g", docs)
    view = attach(full)
    assert f"{docs}_v" in used(view, VectorLeg())
    assert f"{docs}_t" in used(view, FulltextLeg())
    assert f"{docs}_g" in used(view, TrigramLeg())
    assert f"{docs}_pkey" in used(view, ["1", "2"])


def test_their_tsvector_is_used(server, docs, full, attach, recall, used):
    server.run("INSERT INTO {} (id, body) SELECT number, 'nothing' FROM generate_series(10, 2000) AS number", docs)
    server.run("CREATE INDEX {} ON {} USING gin (words)", f"{docs}_w", docs)
    server.run("ANALYZE {}", docs)
    view = attach(full.model_copy(update={"tsv": "words"}))
    assert f"{docs}_w" in used(view, FulltextLeg())
    assert sorted(recall(view, FulltextLeg(), "dog")) == ["1", "2", "5"]


@pytest.mark.usefixtures("trigrams")
def test_advice_is_to_the_point_until_it_was_taken(store, server, docs, full, attach):
    view = attach(full.model_copy(update={"metadata": ("kind", "day", "tags", "meta")}))
    given = bridge.run(attached.advice(store, view))
    assert [each.subject for each in given] == ["vector", "fulltext", "trigram", "filter", "filter", "filter", "filter"]
    assert given[0].statement == f'CREATE INDEX CONCURRENTLY ON "public"."{docs}" USING hnsw ("emb" vector_cosine_ops);'
    assert server.run("SELECT count(*) FROM pg_indexes WHERE tablename = %s", values=(docs,)) == [(1,)]
    take(server, given)
    assert bridge.run(attached.advice(store, view)) == []


@pytest.mark.usefixtures("trigrams")
def test_advice_for_a_view_points_below_it(store, server, docs, full, attach):
    shown = server.unique("shown")
    server.run("CREATE VIEW {} AS SELECT * FROM {}", shown, docs)
    server.drop_later("VIEW", shown)
    view = attach(full.model_copy(update={"table": shown, "metadata": None}))
    given = bridge.run(attached.advice(store, view))
    assert [each.statement for each in given] == [None] * 3
    assert all("belongs on the table under it" in each.why for each in given)
    server.run("CREATE INDEX ON {} USING hnsw (emb vector_cosine_ops)", docs)
    assert [each.subject for each in bridge.run(attached.advice(store, view))] == ["fulltext", "trigram"]


def test_advice_for_a_partitioned_table_does_without_concurrently(store, server, attach):
    table = server.unique()
    server.run("CREATE TABLE {} (id int PRIMARY KEY, t text) PARTITION BY RANGE (id)", table)
    server.drop_later("TABLE", table)
    server.run("CREATE TABLE {} PARTITION OF {} FOR VALUES FROM (0) TO (10)", f"{table}_1", table)
    view = attach(AttachedTable(table=table, id="id", text="t"))
    given = bridge.run(attached.advice(store, view))
    assert all(each.statement and each.statement.startswith(f'CREATE INDEX ON "public"."{table}"') for each in given)
    take(server, given)
    assert bridge.run(attached.advice(store, view)) == []


def test_advice_says_where_no_index_can_help(store, server, attach):
    table = server.unique()
    server.run("CREATE TABLE {} (id int PRIMARY KEY, t text, big vector(3072))", table)
    server.drop_later("TABLE", table)
    given = bridge.run(
        attached.advice(store, attach(AttachedTable(table=table, id="id", text="t", embedding="big", model="m")))
    )
    assert given[0].statement is None
    assert "3072 dimensions; pgvector indexes 2000" in given[0].why


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"text": "bdoy"}, UnknownName, "Did you mean 'body'"),
        ({"title": "x"}, UnknownName, "There is: body, day, emb, heading, id"),
        ({"text": "day"}, SpecError, "is date; `text` takes a text type. Such columns are: heading, body, kind."),
        ({"embedding": "body"}, SpecError, "takes vector or halfvec. Such columns are: emb."),
        ({"tsv": "body"}, SpecError, "takes tsvector. Such columns are: words."),
        ({"metadata": "kind"}, SpecError, "takes json or jsonb"),
        ({"where": {"knd": 1}}, UnknownName, "Did you mean 'kind'"),
        ({"where": {"day": "yesterdayish"}}, SpecError, "yesterdayish"),
        ({"namespace": "publik"}, UnknownName, "Did you mean 'public'"),
        ({"language": "englisch"}, UnknownName, "Did you mean 'english'"),
        ({"id": "kind"}, SpecError, "does not identify a row"),
        ({"id": "heading"}, SpecError, "there are NULLs in it"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(store, name, full, attach, change, error, says):
    with pytest.raises(error) as refused:
        attach(full.model_copy(update=change))
    assert says in str(refused.value)
    assert bridge.run(collections.find(store, name)) is None


def test_an_unknown_table_names_the_nearest(docs, full, attach):
    with pytest.raises(UnknownName, match=f"Did you mean '{docs}'"):
        attach(full.model_copy(update={"table": docs + "x"}))


def test_vectors_of_another_size_than_the_models_are_refused(full, attach):
    with pytest.raises(SpecError, match="have 16 dimensions, those of the model 'hashing-16' have 384"):
        attach(full, dimension=384)


def test_the_cache_of_embeddings_knows_a_models_size(store, server, full, attach):
    model = server.unique("model")
    values = (model, b"digest", bytes(4 * 8))
    server.run("INSERT INTO rankbook.embedding_cache VALUES (%s, %s, %s)", values=values)
    with pytest.raises(SpecError, match="have 8"):
        attach(full.model_copy(update={"model": model}))


def test_a_mapping_says_what_it_lacks():
    with pytest.raises(SpecError, match="needs `model`"):
        mapped(table="t", id="i", text="x", embedding="e")
    with pytest.raises(SpecError, match="no `embedding` column"):
        mapped(table="t", id="i", text="x", model="m")
    with pytest.raises(SpecError, match="txt"):
        mapped(table="t", id="i", text="x", txt="x")


def test_a_name_is_taken_once(full, attach):
    attach(full)
    with pytest.raises(StoreError, match="already"):
        attach(full)


def test_an_accent_typed_apart_attaches_under_the_same_name(store, name, full):
    apart = f"{name} cafe\u0301"
    view = bridge.run(attached.attach_table(store, apart, full))
    assert view.name == f"{name} caf\u00e9"
    assert not view.interrupted
    with pytest.raises(StoreError, match="already"):
        bridge.run(attached.attach_table(store, apart, full))
    with pytest.raises(StoreError, match="attached table"):
        bridge.run(collections.add_chunk_set(store, view, "small", {"kind": "sentences"}))
    bridge.run(collections.drop(store, apart))


def test_a_schema_that_dropping_would_take_along_is_refused(server, store, name, full, attach):
    server.run("CREATE SCHEMA {}", f"c_{name}")
    server.drop_later("SCHEMA", f"c_{name}")
    with pytest.raises(StoreError, match="There is a schema"):
        attach(full)


def test_a_model_that_is_not_theirs_leaves_vectors_out(store, full, attach):
    where = search_target(store, attach(full), "items", "another")
    assert where.model is None
    with pytest.raises(MissingCapability, match="made by the model 'hashing-16', not by 'another'"):
        where.column("vectors")


def test_a_column_that_is_not_mapped_is_missing_with_its_reason(store, docs, attach):
    where = search_target(store, attach(AttachedTable(table=docs, id="id", text="body")), "items")
    with pytest.raises(MissingCapability, match="No embedding column"):
        where.column("vectors")
    with pytest.raises(MissingCapability, match="rankbook data aside"):
        where.column("postings")


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        ("docs", ("public", "docs")),
        ("my.Docs", ("my", "Docs")),
        ('"a.b"."we""ird"', ("a.b", 'we"ird')),
        ("a.b.c", None),
        ("", None),
        ("a.", None),
        (".a", None),
        ('"a"b', None),
    ],
)
def test_a_relation_is_named_as_in_sql(written, parts):
    if parts is None:
        with pytest.raises(SpecError, match="does not name a table"):
            attached.relation_name(written)
    else:
        assert attached.relation_name(written) == parts


# -- never altered -----------------------------------------------------------------------------------------------------


def state_of(server: Server, table: str) -> list[Any]:
    """Rows, columns, indexes, and the catalogue's own version of the table."""
    return [
        server.run("SELECT md5(string_agg(t::text, '|' ORDER BY id)), count(*), max(xmin::text) FROM {} AS t", table),
        server.run(
            "SELECT xmin::text, relfilenode, relacl::text FROM pg_class WHERE oid = %s::regclass", values=(table,)
        ),
        server.run("SELECT attname, xmin::text FROM pg_attribute WHERE attrelid = %s::regclass", values=(table,)),
        server.run("SELECT indexdef FROM pg_indexes WHERE tablename = %s ORDER BY 1", values=(table,)),
        server.run("SELECT tgname FROM pg_trigger WHERE tgrelid = %s::regclass", values=(table,)),
    ]


@pytest.mark.slow
def test_a_role_that_may_only_read_can_search_and_nothing_is_altered(store, server, docs, full, attach, recall):
    role = server.unique("reader")
    server.run("CREATE ROLE {} NOLOGIN", role)
    server.made.append(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(sql.Identifier(role), sql.Identifier(role)))
    server.run("GRANT SELECT ON {} TO {}", docs, role)
    before = state_of(server, docs)
    view = attach(full)
    for leg in LEGS:
        assert recall(view, leg, "lazy dog", role)
    bridge.run(attached.advice(store, view))
    built = bridge.run(attached.build_side_tables(store, view))
    assert recall(built, FulltextLeg(), "dog")
    bridge.run(attached.difference(store, built.namespace, attached.Attachment.of(built)))
    built, _ = bridge.run(attached.refresh_side_tables(store, built))
    bridge.run(attached.drop_side_tables(store, built))
    bridge.run(collections.drop(store, view.name))
    assert state_of(server, docs) == before


def test_a_leg_that_would_write_to_the_table_is_refused_by_the_server(store, server, docs, full, attach):
    class Writing(Leg):
        async def recall(self, connection: AsyncConnection, _: SearchTarget, __: PreparedQuery, ___: int) -> Candidates:
            await connection.execute(text(f"DELETE FROM public.{docs}"))
            return Candidates()

    before, where = state_of(server, docs), search_target(store, attach(full), "items")

    async def ask() -> None:
        async with LegConnection(store, where) as line:
            await line.recall(PreparedQuery("lazy dog"), "writing", Writing(), 10)

    with pytest.raises(DBAPIError, match="read-only transaction"):
        bridge.run(ask())
    assert state_of(server, docs) == before


def test_a_table_that_may_not_be_read_says_what_to_grant(store, server, docs, full):
    role = server.unique("nobody")
    server.run("CREATE ROLE {} NOLOGIN", role)
    server.made.append(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(sql.Identifier(role), sql.Identifier(role)))

    async def work() -> None:
        async with store.begin(read_only=True) as connection:
            await connection.execute(text(f'SET LOCAL ROLE "{role}"'))
            found = await attached_attach.relation(connection, "public", docs)
            assert found
            await attached_attach._check_columns(connection, full, found)

    with pytest.raises(MissingCapability, match=f"GRANT SELECT ON public.{docs} TO {role};"):
        bridge.run(work())


def test_dropping_the_collection_leaves_the_table(store, server, docs, full, attach, name):
    bridge.run(attached.build_side_tables(store, attach(full)))
    bridge.run(collections.drop(store, name))
    assert server.run("SELECT count(*) FROM {}", docs) == [(6,)]


# -- aside -------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trigrams", "unaccented")
def test_what_is_built_aside_is_what_a_collection_of_our_own_has(store, server, docs, full, attach, recall):
    steps: list[str] = []
    view = bridge.run(attached.build_side_tables(store, attach(full), lambda step: steps.append(step.name)))
    assert [each.name for each in view.chunk_sets] == ["items"]
    assert (view.chunk_sets[0].units, view.chunk_sets[0].last_key) == (6, 6)
    aside = attached.Attachment.of(view).aside
    assert aside
    assert aside.rows == 6
    assert search_target(store, view, "items").missing == {}
    assert sorted(recall(view, FulltextLeg(), "dog")) == ["1", "2", "5"]
    assert sorted(recall(view, FulltextLeg(), "title")) == ["1", "2", "3", "4"], "titles are searched too"
    schema = view.namespace
    documents = "SELECT documents FROM {}.terms_0 WHERE lexeme = 'dog'"
    assert server.run(documents, schema) == [(3,)]
    assert server.run("SELECT string_agg(id, ',' ORDER BY key), max(text) FROM {}.items", schema) == [
        ("1,2,3,4,5,6", "")
    ]
    assert server.run("SELECT count(*) FROM pg_indexes WHERE schemaname = %s", values=(schema,))[0][0] > 5
    assert any("postings" in each for each in steps)


def test_a_collections_hostile_name_is_only_a_name(store, full, name):
    odd = f'{name} "; DROP SCHEMA x; -- {{y}}'
    bridge.run(attached.attach_table(store, odd, full))
    try:
        view = bridge.run(attached.build_side_tables(store, bridge.run(collections.get(store, odd))))
        assert view.chunk_sets[0].units == 6
    finally:
        bridge.run(collections.drop(store, odd))


@pytest.mark.slow
def test_building_aside_again_takes_in_what_changed(store, server, docs, full, attach, recall):
    view = bridge.run(attached.build_side_tables(store, attach(full)))
    server.run("INSERT INTO {} (id, body) VALUES (7, 'another dog')", docs)
    server.run("DELETE FROM {} WHERE id = 2", docs)
    assert "7" not in recall_ids(store, view)
    again = bridge.run(attached.build_side_tables(store, view))
    assert sorted(recall(again, FulltextLeg(), "dog")) == ["1", "5", "7"]
    assert again.row.version > view.row.version


def recall_ids(store: Store, view: CollectionView) -> list[str]:
    async def work() -> list[str]:
        where = search_target(store, view, "items")
        async with store.begin(where.namespace, read_only=True) as connection:
            return [each.id for each in await FulltextLeg().recall(connection, where, PreparedQuery("dog"), 10)]

    return bridge.run(work())


def test_dropping_the_aside_leaves_the_collection(store, full, attach, recall):
    view = bridge.run(attached.build_side_tables(store, attach(full)))
    without = bridge.run(attached.drop_side_tables(store, view))
    assert without.chunk_sets == ()
    assert "postings" in search_target(store, without, "items").missing
    assert sorted(recall(without, FulltextLeg(), "dog")) == ["1", "2", "5"]


def test_a_table_that_changed_its_shape_says_so_when_built(store, server, docs, full, attach):
    view = attach(full)
    server.run("ALTER TABLE {} RENAME COLUMN body TO bodytext", docs)
    with pytest.raises(UnknownName, match="Did you mean 'bodytext'"):
        bridge.run(attached.build_side_tables(store, view))


@pytest.mark.slow
def test_only_one_builds_at_a_time(store, full, attach):
    view = attach(full)

    async def beside_a_writer() -> None:
        async with store.connect(view.namespace) as writer:
            assert await locks.take_lock(writer, view.name)
            try:
                await attached.build_side_tables(store, view)
            finally:
                await locks.give_lock(writer)

    with pytest.raises(RankbookError, match="Another process"):
        bridge.run(beside_a_writer())
