"""The walk through the store on a real Citus cluster, where RANKBOOK_TEST_CITUS_DSN names one; else skipped.

    RANKBOOK_DB_PASSWORD=x docker compose --file docker/compose.citus.yaml up --build --detach
    RANKBOOK_TEST_CITUS_DSN=postgresql://rankbook:x@127.0.0.1:5432/rankbook pytest tests/store/test_citus.py

It makes collections of its own and drops them. Some tests lose a worker: they do so where RANKBOOK_TEST_CITUS_STOP and
RANKBOOK_TEST_CITUS_START are commands that stop and start one, such as `docker compose ... stop worker-2`, and
RANKBOOK_TEST_CITUS_FREEZE and RANKBOOK_TEST_CITUS_THAW such as `docker compose ... pause worker-2` and `unpause`.
"""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import asyncio
import os
import shlex
import subprocess
import time
import uuid

import pytest
from psycopg import conninfo
from sqlalchemy import text

from core import bridge
from core.context import RequestContext
from core.doctor import examine_cluster
from core.errors import ConnectionFailed, NotAllowed
from core.legs import legs
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.pipeline.retriever import search
from core.store import attached, collections, grants, indexes, roles
from core.store.engine import Store
from core.store.names import trash_schema
from core.store.roles import EDITOR, VIEWER
from core.types import Query
from core.variant import Variant
from evals import trash
from evals.backup import restore_backup, save_backup
from evals.collections import load
from evals.collections.overview import overview
from evals.runs import runner
from evals.schema import schema_chain as evals_chain
from evals.types import QuerySplit
from tests.fakes import HashingEmbedder
from tests.store import journey
from tests.store.making import complete, contents, documents, ingest, make, some_name, wrong
from workbench.server.access import JUDGES

DSN = os.environ.get("RANKBOOK_TEST_CITUS_DSN")
STOP, START, FREEZE, THAW = (
    os.environ.get(f"RANKBOOK_TEST_CITUS_{what}", "") for what in ("STOP", "START", "FREEZE", "THAW")
)
loses = pytest.mark.skipif(not (STOP and START), reason="loses a worker: give RANKBOOK_TEST_CITUS_STOP and ..._START")
freezes = pytest.mark.skipif(not (FREEZE and THAW), reason="freezes one: give RANKBOOK_TEST_CITUS_FREEZE and ..._THAW")
EMBEDDER = HashingEmbedder()
HOSTILE = ("word3'; DROP TABLE items; --", "word3' | 'word10", "\\' & !word3 <-> :*A", "$1 %(x)s :word3 {0}", "'" * 9)
pytestmark = pytest.mark.skipif(DSN is None, reason="asks a Citus cluster, which RANKBOOK_TEST_CITUS_DSN must name")


@pytest.fixture(scope="module")
def citus():
    opened = bridge.run(Store.open(DSN, chains=[evals_chain]))
    yield opened
    bridge.run(opened.close())


@pytest.fixture
def collection(citus):
    name = some_name()
    make(citus, name, [EMBEDDER])
    ingest(citus, name, documents(40), [EMBEDDER])
    yield name
    bridge.run(collections.drop(citus, name))


async def rows(store, statement, **values):
    async with store.begin() as connection:
        return (await connection.execute(text(statement), values)).all()


def found(store, name, leg, query=journey.QUERY):
    view = bridge.run(collections.get(store, name))
    return bridge.run(journey.hits(store, view, Variant.of_leg(leg, chunks="small"), query))


def test_it_is_a_cluster(citus):
    assert citus.capabilities.distributed


@pytest.mark.usefixtures("trigrams")
def test_everything_gives_what_it_gives_on_one_server(store, citus, tmp_path):
    assert journey.walk(citus, tmp_path) == journey.walk(store, tmp_path)


@pytest.mark.usefixtures("trigrams")
def test_everything_works_in_one_shard_where_each_statement_is_of_one_node(store, tmp_path):
    single = conninfo.make_conninfo(DSN or "", options="-c citus.shard_count=1")
    opened = bridge.run(Store.open(single, chains=[evals_chain]))
    try:
        assert journey.walk(opened, tmp_path) == journey.walk(store, tmp_path)
    finally:
        bridge.run(opened.close())


def test_documents_are_replaced_and_pruned_one_at_a_time(citus, collection):
    for number in range(8):  # in whichever shard it lies
        assert ingest(citus, collection, documents(1, words=5, first=number), [EMBEDDER]).changed == 1
    assert ingest(citus, collection, documents(39), [EMBEDDER], prune=True).removed == 1
    assert wrong(citus, collection) == {}


@pytest.mark.parametrize("query", HOSTILE)
def test_a_query_of_full_text_is_a_value_wherever_it_is_read(store, citus, collection, query):
    name = some_name()
    make(store, name, [EMBEDDER])
    ingest(store, name, documents(40), [EMBEDDER])
    for mode in ("any", "web", "plain", "phrase"):
        leg = FulltextLeg(mode=mode)
        assert found(citus, collection, leg, query) == found(store, name, leg, query)
    bridge.run(collections.drop(store, name))


def test_tables_are_distributed_by_document_side_by_side_and_in_few_shards(citus, collection):
    namespace = bridge.run(collections.get(citus, collection)).namespace
    placed = bridge.run(
        rows(
            citus,
            "SELECT relname, citus_table_type, distribution_column, colocation_id, shard_count FROM citus_tables "
            "JOIN pg_class ON pg_class.oid = table_name JOIN pg_namespace AS n ON n.oid = relnamespace "
            "WHERE nspname = :namespace",
            namespace=namespace,
        )
    )
    spread = {row.relname: row for row in placed if row.citus_table_type == "distributed"}
    assert {"items", "chunks_1", "lexemes_1", "postings_1", "vectors_1"} <= set(spread)
    assert len({row.colocation_id for row in spread.values()}) == 1
    assert {row.distribution_column for row in spread.values()} == {"key", "item_key"}
    assert max(row.shard_count for row in spread.values()) <= 16
    everywhere = {row.relname for row in placed if row.citus_table_type == "reference"}
    assert {"terms_0", "terms_1", "chunk_sets", "embedding_sets"} <= everywhere


def test_settings_reach_the_workers(citus, collection):
    """What a worker is asked to find must not be cut at its own default. Another process than ours says what it is."""
    namespace = bridge.run(collections.get(citus, collection)).namespace

    async def seen():
        async with citus.begin() as connection:
            await connection.execute(text("SET LOCAL work_mem TO '77MB'"))
            here = await connection.scalar(text("SELECT pg_backend_pid()"))
            set_there = f"current_setting('work_mem') || ' ' || (pg_backend_pid() <> {here}) || left(text, 0)"
            return set(await connection.scalars(text(f'SELECT DISTINCT {set_there} FROM "{namespace}".items')))

    assert bridge.run(seen()) == {"77MB true"}


def test_nothing_is_wrong_after_documents_changed_and_went(citus, collection):
    ingest(citus, collection, documents(30, words=22), [EMBEDDER], prune=True)
    assert wrong(citus, collection) == {}


def test_the_doctor_shows_nodes_and_shards(citus, collection):
    findings = {each.what: each for each in bridge.run(examine_cluster(citus))}
    assert f"Shards of {collection}" in findings
    assert any(what.startswith("Node ") and "pgvector" in each.found for what, each in findings.items())


def test_a_dropped_collection_leaves_no_shards(citus):
    name = some_name()
    namespace = make(citus, name, [EMBEDDER]).namespace
    bridge.run(collections.drop(citus, name))
    left = bridge.run(rows(citus, "SELECT 1 FROM pg_namespace WHERE nspname = :namespace", namespace=namespace))
    assert left == []
    assert on_workers(citus, has_schema(namespace)) == {"0"}


def on_workers(citus, question):
    """What each says that is different from the others."""
    answers = bridge.run(rows(citus, "SELECT result FROM run_command_on_workers(:question)", question=question))
    return {row.result for row in answers}


def has_schema(schema):
    return f"SELECT count(*) FROM pg_namespace WHERE nspname = '{schema}'"


def test_what_is_in_the_trash_keeps_its_shards_and_comes_back_under_another_name_or_goes_for_good(citus):
    name, other = f"{some_name()} ün'ï", some_name()
    make(citus, name, [EMBEDDER])
    ingest(citus, name, documents(40), [EMBEDDER])
    before, best = contents(citus, name), found(citus, name, Bm25Leg())
    entry = bridge.run(load.drop(citus, name))
    assert entry.bytes > 100_000  # of the shards, which are on the workers
    assert on_workers(citus, has_schema(trash_schema(entry.id))) == {"1"}
    bridge.run(trash.restore(citus, entry.id, name=other))
    assert contents(citus, other) == before
    assert found(citus, other, Bm25Leg()) == best
    assert ingest(citus, other, documents(45, words=5), [EMBEDDER], prune=True).added == 5
    assert wrong(citus, other) == {}
    entry = bridge.run(load.drop(citus, other))
    assert bridge.run(trash.destroy(citus, entry))
    assert on_workers(citus, has_schema(trash_schema(entry.id))) == {"0"}


def test_readers_search_what_an_editor_makes_and_brings_back_and_not_what_is_in_the_trash(citus):
    bridge.run(grants.set_up(citus, JUDGES))
    editor, viewer = (bridge.run(roles.opened(citus, role, [evals_chain])) for role in (EDITOR, VIEWER))
    name = some_name()
    make(editor, name, [EMBEDDER])
    ingest(editor, name, documents(40), [EMBEDDER])
    best = found(viewer, name, Bm25Leg())
    assert best == found(citus, name, Bm25Leg())
    entry = bridge.run(load.drop(editor, name))
    schema, (user,) = trash_schema(entry.id), bridge.run(rows(viewer, "SELECT current_user"))[0]
    with pytest.raises(NotAllowed, match="permission denied for schema"):
        bridge.run(rows(viewer, f'SELECT id FROM "{schema}".items'))
    assert on_workers(citus, f"SELECT has_schema_privilege('{user}', '{schema}', 'USAGE')") == {"f"}
    bridge.run(trash.restore(editor, entry.id))
    bridge.run(grants.refresh(citus))
    assert found(viewer, name, Bm25Leg()) == best
    bridge.run(collections.drop(citus, name))
    for each in (editor, viewer):
        bridge.run(each.close())


@pytest.mark.parametrize("there", ["from one server to a cluster", "from a cluster to one server"])
def test_a_backup_brings_a_collection(store, citus, tmp_path, there):
    source, target = (store, citus) if there.endswith("cluster") else (citus, store)
    name, path = some_name(), tmp_path / "saved.zip"
    make(source, name, [EMBEDDER])
    ingest(source, name, documents(40), [EMBEDDER])
    bridge.run(save_backup(source, path, collection=name))
    bridge.run(restore_backup(target, path, collection=name))
    assert contents(target, name) == contents(source, name)
    assert found(target, name, Bm25Leg()) == found(source, name, Bm25Leg())
    assert wrong(target, name) == {}
    for each in (store, citus):
        bridge.run(collections.drop(each, name))


def test_what_is_written_to_an_attached_table_is_counted_unless_its_rows_are_in_shards(citus):
    name, table = some_name(), f"their_{uuid.uuid4().hex[:12]}"

    def run(*statements):
        async def work():
            async with citus.begin() as connection:
                for each in (*statements, "SELECT pg_stat_force_next_flush()"):
                    await connection.execute(text(each))

        bridge.run(work())

    run(
        f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)",
        f"INSERT INTO public.{table} VALUES (1, 'a dog')",
    )
    mapping = attached.AttachedTable(table=table, id="id", text="body")
    view = bridge.run(attached.build_side_tables(citus, bridge.run(attached.attach_table(citus, name, mapping))))
    assert bridge.run(attached.staleness_sentence(citus, view)) == ""
    run(f"INSERT INTO public.{table} VALUES (2, 'a fox')")
    view = bridge.run(collections.get(citus, name))
    assert "rows inserted 1, updated 0, deleted 0" in bridge.run(attached.staleness_sentence(citus, view))
    run(f"SELECT create_distributed_table('public.{table}', 'id')")
    assert "cannot be told without comparing its rows" in bridge.run(attached.staleness_sentence(citus, view))
    view = bridge.run(attached.build_side_tables(citus, view))
    assert attached.Attachment.of(view).aside.writes is None
    assert [each.id for each in found_in(citus, view)] == ["2"]
    bridge.run(collections.drop(citus, name))
    run(f"DROP TABLE public.{table}")


def found_in(citus, view):
    variant = Variant.of_leg(FulltextLeg(), chunks="items")
    return bridge.run(search(RequestContext(citus, view, journey.RESOURCES), "fox", variant)).hits


@loses
def test_a_collection_is_dropped_and_brought_back_whole_or_not_at_all_while_a_worker_is_lost(citus, collection):
    before = contents(citus, collection)
    steps = (lambda: load.drop(citus, collection), lambda: trash.restore(citus, collection))
    for step in steps:
        ordered(STOP)
        try:
            with pytest.raises(ConnectionFailed, match="of the Citus cluster"):
                bridge.run(step())
        finally:
            ordered(START)
        journey.patiently(lambda step=step: bridge.run(step()))
    assert contents(citus, collection) == before
    assert wrong(citus, collection) == {}


@loses
def test_a_lost_worker_is_a_clear_sentence_and_what_was_asked_succeeds_when_it_is_back(citus, collection):
    before = found(citus, collection, Bm25Leg())
    ordered(STOP)
    try:
        with pytest.raises(ConnectionFailed, match="of the Citus cluster"):
            found(citus, collection, Bm25Leg())
        assert not all(each.ok for each in bridge.run(examine_cluster(citus)))
        listed = {each.name: each for each in bridge.run(overview(citus))}[collection]
        assert listed.items == 40
        assert "does not answer" in listed.state
    finally:
        ordered(START)
    assert tried(citus, collection) == before


@loses
def test_what_changes_tables_or_many_rows_works_at_once_after_a_worker_was_restarted(citus, collection, tmp_path):
    """Connections that were kept before have broken ones to the worker."""
    view = bridge.run(collections.get(citus, collection))
    hybrid = Variant(name="all", legs=tuple(legs[kind]() for kind in journey.HYBRID), chunks="small")

    async def searches():
        await asyncio.gather(*(journey.hits(citus, view, hybrid) for _ in range(4)))

    changes = (
        lambda: bridge.run(collections.add_chunk_set(citus, view, "more", {"kind": "sentences"})),
        lambda: complete(citus, collection, [EMBEDDER]),
        lambda: ingest(citus, collection, documents(40, words=7), [EMBEDDER], prune=True),
        lambda: bridge.run(indexes.analyze(citus, view)),
        lambda: bridge.run(save_backup(citus, tmp_path / "saved.zip", collection=collection)),
        lambda: bridge.run(collections.drop(citus, collection)),
    )
    for change in changes:
        bridge.run(searches())
        ordered(STOP)
        ordered(START)
        tried(citus, collection)  # until it is up
        bridge.run(searches())
        ordered(STOP)
        ordered(START)
        change()
    make(citus, collection, [EMBEDDER])  # for who drops it


@loses
def test_an_evaluation_ends_with_the_nodes_name_and_goes_on_from_there(citus, collection):
    context = RequestContext(citus, bridge.run(collections.get(citus, collection)), journey.RESOURCES)
    variants = [Variant.of_leg(legs[kind](), chunks="small") for kind in journey.HYBRID]
    queries = {f"q{at}": Query(f"q{at}", f"word{at} unique{at % 40} common {collection}") for at in range(60)}
    split = QuerySplit("test", queries, digest=collection.encode())
    steps = iter(range(1_000_000))

    def lose(_):
        if next(steps) == 5:
            ordered(STOP)

    try:
        with pytest.raises(ConnectionFailed, match=r"of the Citus cluster.*goes on from there"):
            bridge.run(runner.run(context, variants, split, progress=lose))
    finally:
        ordered(START)
    tried(citus, collection)
    runs = bridge.run(runner.run(context, variants, split))
    assert [dict(run.failures) for run in runs] == [{}] * len(variants)
    assert all(len(run.rankings) == len(queries) for run in runs)


@freezes
@pytest.mark.parametrize("work", ["search", "load", "doctor"])
def test_a_frozen_worker_is_named_within_a_minute_and_nothing_is_lost(citus, collection, work):
    before = found(citus, collection, Bm25Leg())
    ordered(FREEZE)
    begun = time.monotonic()
    try:
        if work == "doctor":
            assert [each.found for each in bridge.run(examine_cluster(citus)) if not each.ok] == ["does not answer"]
        else:
            with pytest.raises(ConnectionFailed, match=r"The node \S+:\d+ of the Citus cluster at .* is silent"):
                found(citus, collection, Bm25Leg()) if work == "search" else reload(citus, collection)
        assert time.monotonic() - begun < 60
    finally:
        ordered(THAW)
    assert tried(citus, collection) == before
    assert reload(citus, collection).changed == 9
    assert wrong(citus, collection) == {}


def reload(citus, collection):
    return ingest(citus, collection, documents(9, words=5), [EMBEDDER])


def ordered(command):
    subprocess.run(shlex.split(command), check=True)


def tried(citus, collection):
    return journey.patiently(lambda: found(citus, collection, Bm25Leg()))
