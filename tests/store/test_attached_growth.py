"""What was built aside from an attached table that was written to since: who notices, and what a refresh does."""

# mypy: disable-error-code="no-untyped-call"
# ruff: noqa: F401, F811 - fixtures are imported, and asked for by name

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg import sql
from sqlalchemy import text

from core import bridge, doctor
from core.context import RequestContext, Resources
from core.errors import StoreError
from core.pipeline.retriever import RetrievalResult, search
from core.sql_export import export_sql
from core.store import attached, collections
from core.store.attached import AttachedTable, Attachment, refresh_side_tables, side_tables
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.verify import verify
from core.variant import Variant
from evals.runs.provenance import content_of
from tests.fakes import HashingEmbedder
from tests.store.making import fresh
from tests.store.test_attached import Server, attach, server

READING = ("fulltext", "bm25", "fuzzy")
RESOURCES = Resources(embedder=lambda _: HashingEmbedder(16))
ROWS = {1: "A lazy dog sleeps", 2: "Foxes hunt at night", 3: "The dog and the fox"}

Write = Callable[..., None]


@pytest.fixture
def write(server: Server) -> Write:
    """Statements in one transaction, told to the server's counters at its end as they are at the end of a session."""

    async def work(statements: tuple[str, ...]) -> None:
        async with server.store.begin() as connection:
            for statement in statements:
                await connection.exec_driver_sql(statement.replace("%", "%%"))
            await connection.execute(text("SELECT pg_stat_force_next_flush()"))

    return lambda *statements: bridge.run(work(statements))


@pytest.fixture
def table(server: Server, write: Write) -> str:
    name = server.unique()
    rows = ", ".join(f"({key}, 'Title {key}', '{words}', 'a')" for key, words in ROWS.items())
    write(
        f"CREATE TABLE public.{name} (id int PRIMARY KEY, heading text, body text, kind text)",
        f"INSERT INTO public.{name} VALUES {rows}",
    )
    server.drop_later("TABLE", "public", name)
    return name


@pytest.fixture
def built(store: Store, table: str, attach: Callable[..., CollectionView]) -> CollectionView:
    mapping = AttachedTable(table=table, id="id", text="body", title="heading")
    return bridge.run(attached.build_side_tables(store, attach(mapping)))


def variant(*kinds: str, **options: Any) -> Variant:
    return Variant.from_data({"chunks": "items", "leg": [{"kind": kind} for kind in kinds], **options})


def found(store: Store, view: CollectionView, chosen: Variant, words: str = "dog") -> RetrievalResult:
    return bridge.run(search(RequestContext(store, fresh(store, view.name), RESOURCES), words, chosen))


def notes(store: Store, view: CollectionView, kind: str) -> tuple[str, ...]:
    (stage,) = (each for each in found(store, view, variant(kind)).trace.stages if each.name == f"leg {kind}")
    return tuple(note for note in stage.notes if "since its words" in note)


def checked(store: Store, view: CollectionView) -> dict[str, int]:
    return {each.check: each.wrong for each in bridge.run(verify(store, fresh(store, view.name))) if each.wrong}


def examined(store: Store, view: CollectionView) -> doctor.HealthCheck:
    return bridge.run(doctor.examine_collection(store, view.name))


def content(server: Server, view: CollectionView) -> list[Any]:
    """All that stands aside, told without its keys."""
    schema = view.namespace
    return [
        server.run("SELECT id, title, text, digest FROM {}.items ORDER BY id", schema),
        server.run("SELECT id, tsv::text, length, cut FROM {}.lexemes_0 ORDER BY id", schema),
        server.run("SELECT lexeme, documents FROM {}.terms_0 ORDER BY lexeme", schema),
        server.run(
            "SELECT items.id, lexeme, posting.length, frequency FROM {0}.postings_0 AS posting"
            " JOIN {0}.items ON items.key = posting.key JOIN {0}.terms_0 AS term ON term.key = term_key ORDER BY 1, 2",
            schema,
        ),
        server.run("SELECT units, length FROM {}.chunk_sets", schema),
    ]


# -- who notices -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", READING)
def test_every_leg_that_reads_what_stands_aside_notes_that_the_table_was_written_to(store, write, table, built, kind):
    assert notes(store, built, kind) == ()
    write(
        f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog', 'b')",
        f"UPDATE public.{table} SET body = 'no animal' WHERE id = 1",
        f"DELETE FROM public.{table} WHERE id = 2",
    )
    (said,) = notes(store, built, kind)
    assert said.startswith(f"public.{table} was written to since")
    assert "rows inserted 1, updated 1, deleted 1." in said
    assert f"`rankbook data aside '{built.name}' --refresh`" in said


def test_a_leg_that_reads_the_table_itself_says_nothing(store, write, table, built):
    write(f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog', 'b')")
    bundle = found(store, built, variant("trigram"))
    assert {hit.id for hit in bundle.hits} == {"1", "3", "4"}
    assert not [note for note in bundle.trace.notes if "since" in note]


def test_what_is_written_to_another_table_is_no_matter(server, store, write, table, built):
    other = server.unique()
    write(f"CREATE TABLE public.{other} (id int)", f"INSERT INTO public.{other} VALUES (1)")
    server.drop_later("TABLE", "public", other)
    assert [notes(store, built, kind) for kind in READING] == [(), (), ()]


def test_feedback_and_the_exported_statement_say_it_too(store, write, table, built):
    write(f"DELETE FROM public.{table} WHERE id = 1")
    expanded = found(store, built, variant("trigram", expand={"method": "feedback"}))
    (stage,) = (each for each in expanded.trace.stages if each.name == "expand")
    assert any("was written to since" in note for note in stage.notes)
    statement = bridge.run(export_sql(store, fresh(store, built.name), variant("bm25"))).statement
    assert f"public.{table} was written to since" in " ".join(statement.replace("--", " ").split())


def test_the_doctor_and_verify_notice_and_say_what_to_run(store, write, table, built):
    assert (examined(store, built).ok, checked(store, built)) == (True, {})
    write(
        f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog', 'b'), (5, NULL, NULL, 'b')",
        f"UPDATE public.{table} SET heading = 'Retitled' WHERE id = 3",
        f"DELETE FROM public.{table} WHERE id = 2",
    )
    unwell = examined(store, built)
    assert (unwell.ok, "is behind its table" in unwell.found) == (False, True)
    assert "--refresh" in unwell.way_out
    whose = f"public.{table}"
    assert checked(store, built) == {
        f"aside: rows of {whose} that are not there": 2,
        f"aside: rows of {whose} whose text was another": 1,
        f"aside: rows that {whose} no longer has": 1,
    }


@pytest.mark.slow
def test_verify_tells_a_write_that_changed_nothing_we_hold_from_one_that_did(store, write, table, built):
    write(f"UPDATE public.{table} SET kind = 'z'")
    assert len(notes(store, built, "bm25")) == 1, "the counters cannot tell"
    assert checked(store, built) == {}
    mark = fresh(store, built.name).version_key
    _, difference = bridge.run(refresh_side_tables(store, fresh(store, built.name)))
    assert not difference
    assert notes(store, built, "bm25") == ()
    assert fresh(store, built.name).version_key == mark, "whoever cached an answer need not ask again"


VIEWS = {
    "view": "CREATE VIEW public.{seen} AS SELECT upper.* FROM (SELECT * FROM public.{table}) AS upper",
    "materialized view": "CREATE MATERIALIZED VIEW public.{seen} AS SELECT * FROM public.{table}",
    "table": "CREATE TABLE public.{seen} AS SELECT * FROM public.{table}",
    "table with heirs": "CREATE TABLE public.{seen} AS SELECT * FROM public.{table};"
    " CREATE TABLE public.{seen}_b () INHERITS (public.{seen})",
    "partitioned table": "CREATE TABLE public.{seen} (id int, heading text, body text, kind text)"
    " PARTITION BY LIST (kind); CREATE TABLE public.{seen}_a PARTITION OF public.{seen} FOR VALUES IN ('a')",
}
CHANGES = {
    "view": ("INSERT INTO public.{table} VALUES (9, 't', 'dog', 'a')", "rows inserted 1"),
    "materialized view": ("REFRESH MATERIALIZED VIEW public.{seen}", "rows inserted 3"),
    "table": ("TRUNCATE public.{seen}", "emptied, refreshed or rewritten"),
    "table with heirs": ("INSERT INTO public.{seen}_b VALUES (9, 't', 'dog', 'a')", "rows inserted 1"),
    "partitioned table": ("INSERT INTO public.{seen} VALUES (9, 't', 'dog', 'a')", "rows inserted 1"),
}


@pytest.mark.parametrize("kind", list(VIEWS))
def test_writes_are_noticed_through_whatever_is_attached(server, store, write, table, attach, kind):
    seen = server.unique("seen")
    names = {"seen": seen, "table": table}
    write(*VIEWS[kind].format(**names).split("; "))
    server.drop_later(kind.replace("partitioned ", "").partition(" with")[0].upper(), "public", seen)
    view = bridge.run(attached.build_side_tables(store, attach(AttachedTable(table=seen, id="id", text="body"))))
    assert notes(store, view, "bm25") == ()
    change, says = CHANGES[kind]
    write(change.format(**names))
    (said,) = notes(store, view, "bm25")
    assert says in said


def test_a_server_that_counts_anew_is_not_taken_for_a_table_that_stayed_as_it_was(server, store, write, table, built):
    write(f"SELECT pg_stat_reset_single_table_counters('public.{table}'::regclass)")
    (said,) = notes(store, built, "bm25")
    assert "began anew to count" in said


# -- what a refresh does -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_refresh_takes_in_what_is_new_redoes_what_changed_and_removes_what_is_gone(
    store, server, write, table, built
):
    before = dict(server.run("SELECT id, key FROM {}.items", built.namespace))
    write(
        f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog barks', 'b')",
        f"UPDATE public.{table} SET body = 'no animal' WHERE id = 1",
        f"DELETE FROM public.{table} WHERE id = 2",
    )
    view, difference = bridge.run(refresh_side_tables(store, fresh(store, built.name)))
    assert (difference.new, difference.changed, difference.gone) == (1, 1, 1)
    assert {hit.id for hit in found(store, view, variant("bm25")).hits} == {"3", "4"}
    assert checked(store, view) == {}
    assert [notes(store, view, kind) for kind in READING] == [(), (), ()]
    assert (examined(store, view).ok, view.interrupted) == (True, False)
    after = dict(server.run("SELECT id, key FROM {}.items", built.namespace))
    assert after["3"] == before["3"], "what stayed is not done again"
    assert min(after["1"], after["4"]) > max(before.values()), "and no key is given twice"
    there = Attachment.of(view).aside
    assert there is not None
    first = Attachment.of(built).aside
    assert first is not None
    assert (there.rows, there.built_at > first.built_at) == (3, True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_refresh_leaves_what_a_build_from_nothing_leaves(store, server, write, table, built, seed):
    chance = random.Random(seed)
    words = ["dog", "fox", "night", "Hund", "über", "a-b-c", "%", "''", "\\", "sleeps", "the"]
    for _ in range(3):
        made = []
        for key in range(1, 40):
            said = " ".join(chance.choices(words, k=chance.randrange(1, 9)))
            upsert = f"ON CONFLICT (id) DO UPDATE SET body = E'{said.replace(chr(92), chr(92) * 2)}'"
            if (draw := chance.random()) < 0.4:
                made.append(f"INSERT INTO public.{table} VALUES ({key}, 'T', 'first {key}', 'a') {upsert}")
            elif draw < 0.6:
                made.append(f"DELETE FROM public.{table} WHERE id = {key}")
        write(*made)
        view, _ = bridge.run(refresh_side_tables(store, fresh(store, built.name)))
        assert checked(store, view) == {}
    refreshed = content(server, view)
    again = bridge.run(attached.build_side_tables(store, view))
    assert content(server, again) == refreshed


def test_a_refresh_that_was_stopped_is_told_and_goes_on_where_it_was(store, server, write, table, built):
    write(f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog', 'b')")
    view = fresh(store, built.name)
    bridge.run(side_tables._exchange(store, view, Attachment.of(view)))  # and the process is killed
    stopped = fresh(store, built.name)
    assert stopped.interrupted
    assert f"Run `rankbook data aside '{built.name}' --refresh` again." in examined(store, built).way_out
    assert len(notes(store, built, "fulltext")) == 1, "still: the row is in no index yet"
    assert any("not in the postings yet" in note for note in found(store, built, variant("bm25")).trace.notes)
    view, difference = bridge.run(refresh_side_tables(store, stopped))
    assert not difference, "the rows had been exchanged"
    assert (view.interrupted, checked(store, view)) == (False, {})
    assert {hit.id for hit in found(store, view, variant("bm25")).hits} == {"1", "3", "4"}
    assert server.run("SELECT count(*) FROM {}.items WHERE text <> ''", view.namespace) == [(0,)]


@pytest.mark.slow
def test_what_an_earlier_version_built_is_told_and_built_anew(store, server, write, table, built):
    kept = dict(fresh(store, built.name).row.attached or {})
    kept["aside"] = {name: value for name, value in kept["aside"].items() if name != "writes"}
    server.run("UPDATE {}.items SET digest = ''", built.namespace)
    _store_attachment(server, built.name, kept)
    (said,) = notes(store, built, "bm25")
    assert "cannot be told without comparing its rows" in said
    assert examined(store, built).ok, "as many rows as there were"
    assert list(checked(store, built).values()) == [3]
    write(f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog', 'b')")
    assert "has 4 rows, and 3 stand aside" in examined(store, built).way_out
    view, difference = bridge.run(refresh_side_tables(store, fresh(store, built.name)))
    assert difference.unknown == 3
    assert (checked(store, view), notes(store, view, "bm25")) == ({}, ())
    assert {hit.id for hit in found(store, view, variant("bm25")).hits} == {"1", "3", "4"}


def _store_attachment(server: Server, name: str, kept: dict[str, Any]) -> None:
    import json

    server.run("UPDATE rankbook.collections SET attached = %s::jsonb WHERE name = %s", values=(json.dumps(kept), name))


def test_a_table_that_is_gone_is_told_by_verify_and_the_doctor(server, store, write, table, built):
    write(f"ALTER TABLE public.{table} RENAME TO {table}_b")
    server.drop_later("TABLE", "public", f"{table}_b")
    server.made.pop(0)
    with pytest.raises(StoreError, match="cannot be read any more"):
        checked(store, built)
    assert not examined(store, built).ok


def test_a_table_that_is_gone_is_told_where_nothing_stands_aside_too(server, store, write, table, attach):
    view = attach(AttachedTable(table=table, id="id", text="body"))
    assert (checked(store, view), examined(store, view).ok) == ({}, True)
    write(f"ALTER TABLE public.{table} RENAME COLUMN body TO words")
    with pytest.raises(StoreError, match="cannot be read any more"):
        checked(store, view)
    finding = examined(store, view)
    assert not finding.ok
    assert "cannot be read any more" in finding.way_out


@pytest.mark.slow
def test_a_build_that_was_stopped_is_made_anew_by_a_refresh(store, table, attach):
    view = attach(AttachedTable(table=table, id="id", text="body"))
    bridge.run(side_tables._copy_table(store, view, Attachment.of(view)))  # and the process is killed
    assert fresh(store, view.name).interrupted
    done, difference = bridge.run(refresh_side_tables(store, fresh(store, view.name)))
    assert (difference.new, done.interrupted, checked(store, view)) == (3, False, {})


def test_nothing_is_refreshed_that_was_never_built(store, table, attach):
    view = attach(AttachedTable(table=table, id="id", text="body"))
    with pytest.raises(StoreError, match="Build it: rankbook data aside"):
        bridge.run(refresh_side_tables(store, view))
    assert checked(store, view) == {}


def test_rows_of_another_collection_in_the_same_table_are_left_alone(store, write, table, attach):
    view = attach(AttachedTable(table=table, id="id", text="body", where={"kind": "a"}))
    view = bridge.run(attached.build_side_tables(store, view))
    write(f"INSERT INTO public.{table} VALUES (4, 'New', 'another dog', 'b')")
    (said,) = notes(store, view, "bm25")
    assert "in the whole table" in said
    assert checked(store, view) == {}
    _, difference = bridge.run(refresh_side_tables(store, view))
    assert not difference


# -- what is stored ----------------------------------------------------------------------------------------------------


def test_what_is_kept_of_a_table_has_no_new_names_in_it_unless_they_say_something(store, table, attach):
    kept = attach(AttachedTable(table=table, id="id", text="body")).row.attached
    assert set(kept) == {"table", "facts", "aside"}
    names = {"table", "namespace", "id", "text", "title", "embedding", "model", "tsv", "metadata", "where", "language"}
    assert set(kept["table"]) == names
    old = {"rows": 3, "built_at": "2026-01-01T00:00:00Z"}
    assert Attachment.model_validate({**kept, "aside": old}).model_dump(mode="json") == {**kept, "aside": old}


def test_the_servers_counters_are_no_part_of_a_collections_content(store, built):
    before, kept = bridge.run(content_of(store, built)), built.row.attached
    writes = {**kept["aside"]["writes"], "inserted": 99}
    built.row.attached = {**kept, "aside": {**kept["aside"], "writes": writes}}
    assert bridge.run(content_of(store, built)) == before
    built.row.attached = {**kept, "aside": {**kept["aside"], "rows": 4}}
    assert bridge.run(content_of(store, built)) != before
