"""What was deleted comes back as it was, until its time is over; meanwhile nothing finds it and its name is free."""

# mypy: disable-error-code="no-untyped-call, no-any-return, arg-type, union-attr"

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from core import bridge, doctor
from core.context import RequestContext, Resources
from core.errors import RankbookError, SpecError, StoreError, UnknownName
from core.legs import legs
from core.pipeline.retriever import search
from core.store import collections
from core.store import trash as core_trash
from core.store.attached import AttachedTable, attach_table, build_side_tables, discovery
from core.store.names import TRASH_MARK, trash_mark, trash_schema
from core.store.trash_entries import day, retention
from core.store.verify import verify
from core.types import Query
from core.variant import Variant
from evals import backup, trash, variants
from evals.collections import load, overview
from evals.judging import judgements
from evals.judging.judgements import Judgement
from evals.labels import query_sets
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.types import Label, LabelledQueries
from tests.fakes import HashingEmbedder
from tests.store.making import contents, documents, fresh, ingest, make, query, some_name

EMBEDDER = HashingEmbedder()
RESOURCES = Resources(embedder=lambda _: EMBEDDER)
LABELLED = LabelledQueries((Query("q1", "word3 unique7"), Query("q2", "word9")), (Label("q1", "d00007", 2),))
GIVEN = Judgement("q1", "d00003", "ada", 1, b"v", False, "a note")
MINE = '# kept as it was written\nname = "mine"\n\n[[leg]]\nkind = "bm25"\n'
VARIANTS = [Variant.of_leg(legs[kind](), chunks="small") for kind in ("bm25", "fulltext", "fuzzy", "trigram", "vector")]


def a_run(collection: str, name: str = "kept", **changes) -> Run:
    subject = RunSubject(collection, 1, "default", b"x", "test", "content")
    return replace(Run(name, subject, {"q1": Ranking(("d00007",), (0.5,))}, depth=10), **changes)


@pytest.fixture
def made(store, name):
    """A collection with labels in two sets, a run and a judgement."""
    make(store, name, [EMBEDDER])
    ingest(store, name, documents(12), [EMBEDDER])

    async def work():
        await query_sets.keep(store, name, LABELLED)
        await query_sets.keep(store, name, LABELLED, name="pilot")
        await run_store.save(store, a_run(name))
        await judgements.save_judgements(store, name, [GIVEN])

    bridge.run(work())
    return name


def everything(store, name):
    """All that somebody sees of a collection."""

    async def work():
        view = await collections.get(store, name)
        found = [await search(RequestContext(store, view, RESOURCES), "word3 unique7", each) for each in VARIANTS]
        sets = [each.name for each in await _sets(store, name)]
        return {
            "row": {column.name: getattr(view.row, column.name) for column in view.row.__table__.columns},
            "sets": {each: await query_sets.load(store, name, name=each) for each in sets},
            "runs": [await run_store.get(store, each.id) for each in await run_store.listed(store, collection=name)],
            "judgements": await judgements.load(store, name),
            "hits": [[(hit.id, hit.score) for hit in bundle.hits] for bundle in found],
            "wrong": [each for each in await verify(store, view) if each.wrong],
        }

    return bridge.run(work()) | {"contents": contents(store, name)}


async def _sets(store, name):
    return await query_sets.summaries(store, name)


def drop_collection(store, name, **options):
    return bridge.run(load.drop(store, name, **options))


def in_trash(store, name):
    return [each for each in bridge.run(trash.listed(store)) if each.collection == name]


def statement(store, said, **values):
    async def work():
        async with store.begin() as connection:
            found = await connection.execute(text(said), values)
            return [tuple(row) for row in found] if found.returns_rows else []

    return bridge.run(work())


def files_of(store, namespace):
    """Where each table's rows lie on disk: another place for each that was copied."""
    asked = "SELECT oid, relfilenode FROM pg_class WHERE relnamespace = CAST(:schema AS regnamespace) ORDER BY oid"
    return statement(store, asked, schema=f'"{namespace}"')


# -- collections -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_collection_comes_back_with_the_same_ids_labels_runs_judgements_and_results(store, made):
    before = everything(store, made)
    entry = drop_collection(store, made, by="grace")
    assert bridge.run(collections.find(store, made)) is None
    back = bridge.run(trash.restore(store, entry.id))
    assert back.sentence() == f"The collection {made} is back."
    assert everything(store, made) == before
    assert all(before["hits"])
    assert in_trash(store, made) == []


def test_dropping_and_bringing_back_copies_nothing(store, made):
    files = files_of(store, fresh(store, made).namespace)
    entry = drop_collection(store, made)
    assert files_of(store, trash_schema(entry.id)) == files
    bridge.run(trash.restore(store, entry.id))
    assert files_of(store, fresh(store, made).namespace) == files
    assert len(files) > 10


def test_an_entry_says_what_it_was_how_large_who_deleted_it_and_until_when(store, made):
    entry = drop_collection(store, made, by="grace")
    assert in_trash(store, made) == [entry]
    assert (entry.kind, entry.name, entry.deleted_by) == ("collection", made, "grace")
    assert entry.bytes > 100_000
    assert entry.until - entry.deleted_at == timedelta(days=30)
    assert entry.sentence() == (
        f"It is in the trash until {day(entry.until)}; bring it back: rankbook trash restore {entry.id}"
    )


@pytest.mark.slow
def test_nothing_that_looks_for_collections_finds_what_is_in_the_trash(store, made, tmp_path):
    entry = drop_collection(store, made)
    assert made not in [row.name for row in bridge.run(collections.listed(store))]
    assert made not in [row.name for row in bridge.run(overview.overview(store))]
    findings = {each.what: each.found for each in bridge.run(_examined(store))}
    assert f"Collection {made}" not in findings
    assert "to be brought back" in findings["Trash"]
    assert not [each for each in bridge.run(discovery.list_tables(store)) if trash_schema(entry.id) in each]
    saved = bridge.run(backup.save_backup(store, tmp_path / "all.tar"))
    assert not [each for each in saved.rows if each.startswith(TRASH_MARK)]
    assert "labels" not in saved.rows[made]
    assert saved.rows[made]["judgements"] == saved.rows[made]["runs"] == 1


async def _examined(store):
    rows = await collections.listed(store)
    return [*await doctor.examine_contents(store), *[await doctor.examine_collection(store, row.name) for row in rows]]


@pytest.mark.slow
def test_a_name_is_free_at_once_and_where_it_is_taken_the_old_one_comes_back_beside_it(store, made):
    before = everything(store, made)
    entry = drop_collection(store, made)
    make(store, made, [EMBEDDER])
    with pytest.raises(StoreError, match=rf"rankbook trash restore {entry.id} --as NEW"):
        bridge.run(trash.restore(store, entry.id))
    bridge.run(judgements.save_judgements(store, made, [replace(GIVEN, judge="late")]))
    bridge.run(run_store.save(store, a_run(made, "late")))
    other = some_name()
    bridge.run(trash.restore(store, entry.id, name=other))
    after = everything(store, other)
    assert after["judgements"] == before["judgements"], "without what was given since"
    assert [each.name for each in after["runs"]] == ["kept"]
    assert after["runs"][0].rankings == before["runs"][0].rankings
    for same in ("hits", "sets", "contents", "wrong"):
        assert after[same] == before[same]
    assert {each.judge for each in bridge.run(judgements.load(store, made))} == {"ada", "late"}
    assert len(bridge.run(run_store.listed(store, collection=made))) == 2
    assert contents(store, made) != contents(store, other)


def test_labels_of_a_backup_that_wait_for_a_collection_of_that_name_stay_and_the_old_one_comes_back_beside(store, made):
    entry = drop_collection(store, made)
    waiting = replace(LABELLED, labels=())
    bridge.run(query_sets.keep(store, made, waiting))
    with pytest.raises(StoreError, match=rf"wait here for a collection .* rankbook trash restore {entry.id} --as NEW"):
        bridge.run(trash.restore(store, entry.id))
    assert bridge.run(query_sets.load(store, made)) == waiting
    back = bridge.run(trash.restore(store, entry.id, name=some_name()))
    assert bridge.run(query_sets.load(store, back.name)) == LABELLED


def test_a_name_that_cannot_be_a_collections_is_refused_and_the_entry_stays(store, made):
    entry = drop_collection(store, made)
    with pytest.raises(SpecError, match="blank"):
        bridge.run(trash.restore(store, entry.id, name=" x"))
    assert in_trash(store, made) == [entry]


def test_a_collection_that_is_being_loaded_is_not_dropped(store, made):
    async def work():
        from core.store import locks

        async with locks.writer_lock(store, made):
            await load.drop(store, made)

    with pytest.raises(StoreError, match="Another process is loading"):
        bridge.run(work())
    assert fresh(store, made).namespace
    assert in_trash(store, made) == []


def test_one_that_never_held_anything_leaves_nothing_in_the_trash(store, name):
    make(store, name, chunks={})
    bridge.run(load.drop_if_empty(store, name))
    assert bridge.run(collections.find(store, name)) is None
    assert in_trash(store, name) == []


# -- attached tables ---------------------------------------------------------------------------------------------------


@pytest.fixture
def their_table(store):
    table = f"theirs_{some_name().split()[-1]}"
    statement(store, f"CREATE TABLE public.{table} (id int PRIMARY KEY, body text)")
    statement(store, f"INSERT INTO public.{table} VALUES (1, 'warm the pot'), (2, 'rinse twice')")
    yield table
    statement(store, f"DROP TABLE IF EXISTS public.{table}")


def test_of_an_attached_collection_the_mapping_alone_is_kept_and_it_is_attached_anew(store, name, their_table):
    async def work():
        view = await attach_table(store, name, AttachedTable(table=their_table, id="id", text="body"))
        await build_side_tables(store, view)
        return await load.drop(store, name)

    entry = bridge.run(work())
    aside = f"SELECT nspname FROM pg_namespace WHERE nspname IN ('c_{name}', '{trash_schema(entry.id)}')"
    assert statement(store, aside) == []
    statement(store, f"INSERT INTO public.{their_table} VALUES (3, 'dry the lid')")
    back = bridge.run(trash.restore(store, entry.id))
    assert "rankbook data aside" in back.note
    assert bridge.run(overview.summary(store, fresh(store, name))).items == 3


def test_an_attached_table_that_is_gone_meanwhile_is_refused_and_the_entry_stays(store, name, their_table):
    bridge.run(attach_table(store, name, AttachedTable(table=their_table, id="id", text="body")))
    entry = drop_collection(store, name)
    statement(store, f"ALTER TABLE public.{their_table} RENAME TO {their_table}_b")
    try:
        with pytest.raises(UnknownName, match=their_table):
            bridge.run(trash.restore(store, entry.id))
    finally:
        statement(store, f"ALTER TABLE public.{their_table}_b RENAME TO {their_table}")
    assert in_trash(store, name) == [entry]
    bridge.run(trash.restore(store, entry.id))


# -- query sets --------------------------------------------------------------------------------------------------------


def test_a_query_set_comes_back_and_where_its_name_is_taken_under_another(store, made):
    entry = bridge.run(query_sets.drop(store, made, "pilot"))
    assert (entry.title, entry.details) == (f"query set pilot of {made}", {"queries": 2, "labels": 1})
    assert [each.name for each in bridge.run(_sets(store, made))] == ["default"]
    bridge.run(query_sets.keep(store, made, LabelledQueries((Query("q9", "new"),)), name="pilot"))
    with pytest.raises(StoreError, match="--as NEW"):
        bridge.run(trash.restore(store, entry.id))
    bridge.run(trash.restore(store, entry.id, name="pilot before"))
    assert bridge.run(query_sets.load(store, made, name="pilot before")) == LABELLED
    assert len(bridge.run(query_sets.load(store, made, name="pilot")).queries) == 1


def test_a_query_set_whose_collection_is_gone_waits_for_it(store, made):
    entry = bridge.run(query_sets.drop(store, made, "pilot"))
    whole = drop_collection(store, made)
    said = f"No collection is called {made!r}.* waits in the trash .* rankbook trash restore ID --as '{made}'"
    with pytest.raises(UnknownName, match=said):
        bridge.run(trash.restore(store, entry.id))
    other = bridge.run(trash.restore(store, whole.id, name=some_name())).name
    with pytest.raises(UnknownName, match=said):
        bridge.run(trash.restore(store, entry.id))
    bridge.run(trash.restore(store, drop_collection(store, other).id, name=made))
    bridge.run(trash.restore(store, entry.id))
    assert {each.name for each in bridge.run(_sets(store, made))} == {"default", "pilot"}


# -- runs --------------------------------------------------------------------------------------------------------------


def test_a_deleted_run_is_in_no_list_and_comes_back_whole(store, made):
    (run,) = bridge.run(run_store.listed(store, collection=made))
    before = bridge.run(run_store.get(store, run.id))
    entry = bridge.run(run_store.remove(store, run.id))
    assert run.id not in [each.id for each in bridge.run(run_store.listed(store))]
    assert bridge.run(run_store.get(store, run.id)) is None
    with pytest.raises(UnknownName):
        bridge.run(run_store.find(store, run.id))
    bridge.run(trash.restore(store, entry.id))
    assert bridge.run(run_store.get(store, run.id)) == before
    assert bridge.run(run_store.find(store, run.id)) == run


def test_a_run_that_was_made_again_since_stays_and_so_does_the_old_one_in_the_trash(store, made):
    (run,) = bridge.run(run_store.listed(store, collection=made))
    entry = bridge.run(run_store.remove(store, run.id))
    again = bridge.run(run_store.save(store, a_run(made, notes=("again",))))
    assert again.id == run.id
    with pytest.raises(StoreError, match="runs delete"):
        bridge.run(trash.restore(store, entry.id))
    assert bridge.run(run_store.get(store, run.id)).notes == ("again",)
    assert in_trash(store, made) == [entry]


def test_pruned_runs_come_back_but_for_those_that_were_made_again(store, made):
    old = [bridge.run(run_store.save(store, a_run(made, str(at), variant=None))) for at in range(3)]
    bridge.run(run_store.pin(store, old[0].id, made))
    (entry,) = bridge.run(run_store.prune(store, keep=0, collection=made))
    assert entry.title == f"3 runs of {made}"
    assert [each.id for each in bridge.run(run_store.listed(store, collection=made))] == [old[0].id]
    assert bridge.run(run_store.prune(store, keep=0, collection=made)) == []
    bridge.run(run_store.save(store, a_run(made, "1", variant=None)))
    assert "1 of the 3 were evaluated again" in bridge.run(trash.restore(store, entry.id)).note
    assert len(bridge.run(run_store.listed(store, collection=made))) == 4
    assert [each.count for each in in_trash(store, made)] == [1]


# -- kept variants -----------------------------------------------------------------------------------------------------


@pytest.fixture
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))


@pytest.mark.usefixtures("own_home")
def test_a_kept_variant_comes_back_as_it_was_written_and_under_another_name_with_its_comments():
    kept = variants.keep(MINE)
    gone = variants.drop("mine", by="grace").trash_entry
    assert variants.names() == []
    (entry,) = variants.in_trash()
    assert entry == gone
    assert (entry.deleted_by, entry.bytes) == ("grace", len(MINE))
    variants.keep(MINE.replace("bm25", "fuzzy"))
    with pytest.raises(StoreError, match="--as NEW"):
        variants.restore(entry)
    assert variants.restore(entry, name="before").text == MINE.replace('"mine"', '"before"')
    assert variants.in_trash() == []
    again = variants.drop("mine").trash_entry
    variants.restore(again)
    assert variants.get("mine").path == kept.path


@pytest.mark.usefixtures("own_home")
def test_a_file_that_is_no_variant_can_be_deleted_and_comes_back_too():
    variants.keep(MINE)
    broken = variants.folder() / "broken.toml"
    broken.write_bytes(b"\xff top_k = ")
    entry = variants.drop("broken").trash_entry
    with pytest.raises(RankbookError, match="cannot be given another name"):
        variants.restore(entry, name="other")
    variants.restore(entry)
    assert broken.read_bytes() == b"\xff top_k = "


@pytest.mark.usefixtures("own_home")
def test_of_a_variant_that_is_a_link_the_file_stays_and_the_text_comes_back(tmp_path):
    file = tmp_path / "elsewhere.toml"
    file.write_text(MINE, encoding="utf-8")
    variants.folder().mkdir()
    (variants.folder() / "mine.toml").symlink_to(file)
    entry = variants.drop("mine").trash_entry
    assert file.read_text(encoding="utf-8") == MINE
    assert variants.names() == []
    assert variants.restore(entry).text == MINE


@pytest.mark.usefixtures("own_home")
def test_variants_whose_time_is_over_are_destroyed():
    variants.keep(MINE)
    entry = variants.drop("mine").trash_entry
    notes = variants.trash_folder() / f"{entry.id}.json"
    said = notes.read_text(encoding="utf-8")
    assert variants.expire() == []
    notes.write_text(re.sub(r'"until": ?"[^"]+"', '"until": "2026-01-01T00:00:00Z"', said), encoding="utf-8")
    assert [each.name for each in variants.expire()] == ["mine"]
    assert list(variants.trash_folder().iterdir()) == []
    with pytest.raises(StoreError, match="not in the trash any more"):
        variants.restore(entry)


@pytest.mark.usefixtures("own_home")
@pytest.mark.parametrize(
    ("written", "instead"),
    [
        *(("mine.toml", file) for file in ("../../outside.toml", "/etc/passwd", "mine.txt", "..", "a/../b.toml")),
        ('"count": 1', '"count": "many"'),
        ('"details"', '"other"'),
        ("{", "[" * 100_000),
        ("Z", ""),
    ],
)
def test_notes_that_lead_elsewhere_or_make_no_sense_are_no_entry(written, instead):
    variants.keep(MINE)
    entry = variants.drop("mine").trash_entry
    notes = variants.trash_folder() / f"{entry.id}.json"
    said = notes.read_text(encoding="utf-8")
    assert written in said
    notes.write_text(said.replace(written, instead), encoding="utf-8")
    assert variants.in_trash() == []


# -- judgements --------------------------------------------------------------------------------------------------------


def test_a_judgement_that_was_taken_back_is_given_again_with_its_note_and_time(store, made):
    (given,) = bridge.run(judgements.load(store, made))
    bridge.run(judgements.undo(store, made, "ada"))
    assert bridge.run(judgements.load(store, made)) == []
    (entry,) = in_trash(store, made)
    assert (entry.kind, entry.name, entry.deleted_by, entry.count) == ("judgements", "ada", "ada", 1)
    bridge.run(trash.restore(store, entry.id))
    assert bridge.run(judgements.load(store, made)) == [given]
    assert in_trash(store, made) == []


def test_a_pair_that_was_graded_again_since_keeps_the_later_grade(store, made):
    other = replace(GIVEN, item_id="d00004", grade=3)
    bridge.run(judgements.save_judgements(store, made, [other]))
    for _ in range(2):
        bridge.run(judgements.undo(store, made, "ada"))
    bridge.run(judgements.save_judgements(store, made, [replace(GIVEN, grade=0)]))
    (entry,) = in_trash(store, made)
    assert "1 of the 2 were graded again" in bridge.run(trash.restore(store, entry.id)).note
    assert {each.item_id: each.grade for each in bridge.run(judgements.load(store, made))} == {
        "d00003": 0,
        "d00004": 3,
    }
    assert [each.count for each in in_trash(store, made)] == [1]


# -- until when --------------------------------------------------------------------------------------------------------


def overdue(store, entry):
    statement(store, "UPDATE rankbook.trash SET until = now() - interval '1 second' WHERE id = :id", id=entry.id)


def test_what_has_lain_there_for_its_time_is_destroyed_and_told_and_the_rest_stays(store, made):
    younger = bridge.run(query_sets.drop(store, made, "pilot"))
    entry = drop_collection(store, made)
    overdue(store, entry)
    assert [each.id for each in bridge.run(trash.expire(store)) if each.collection == made] == [entry.id]
    assert in_trash(store, made) == [younger]
    schema = "SELECT 1 FROM pg_namespace WHERE nspname = :name"
    assert statement(store, schema, name=trash_schema(entry.id)) == []
    marked = "SELECT name FROM rankbook.query_sets WHERE collection = :mark"
    assert statement(store, marked, mark=f"{TRASH_MARK}{entry.id}") == []
    with pytest.raises(UnknownName, match="rankbook trash"):
        bridge.run(trash.restore(store, entry.id))


def test_emptying_takes_what_is_older_or_everything(store, made):
    bridge.run(run_store.prune(store, keep=0, collection=made))
    bridge.run(judgements.undo(store, made, "ada"))
    drop_collection(store, made)
    aged = "UPDATE rankbook.trash SET deleted_at = now() - interval '9 days' WHERE collection = :name AND kind = 'run'"
    statement(store, aged, name=made)
    gone = bridge.run(trash.empty(store, older_than=timedelta(days=7)))
    assert [each.kind for each in gone if each.collection == made] == ["run"]
    left = in_trash(store, made)
    assert {each.kind for each in left} == {"collection", "judgements"}
    bridge.run(trash.empty(store))
    assert bridge.run(trash.listed(store)) == []
    for table in ("runs", "query_sets"):
        for entry in (*gone, *left):
            of_entry = f"SELECT 1 FROM rankbook.{table} WHERE collection = :mark"
            assert statement(store, of_entry, mark=f"{TRASH_MARK}{entry.id}") == []


def test_the_setting_says_for_how_long_and_nonsense_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setenv("RANKBOOK_TRASH_DAYS", "7")
    assert retention() == timedelta(days=7)
    monkeypatch.setenv("RANKBOOK_TRASH_DAYS", "")
    assert retention() == timedelta(days=30)
    for wrong in ("0", "-1", "soon", "1.5", "99999999"):
        monkeypatch.setenv("RANKBOOK_TRASH_DAYS", wrong)
        with pytest.raises(SpecError, match=rf"RANKBOOK_TRASH_DAYS is {wrong!r}.*from 1 to.*rankbook trash empty"):
            retention()


def test_a_name_that_stands_for_several_things_is_refused_with_their_ids(store, made):
    first = drop_collection(store, made)
    make(store, made, chunks={})
    second = drop_collection(store, made)
    with pytest.raises(SpecError, match="stands for 2 things") as caught:
        bridge.run(trash.restore(store, made))
    assert first.id in str(caught.value)
    assert second.id in str(caught.value)
    bridge.run(trash.destroy(store, second))
    assert bridge.run(trash.restore(store, made)).entry == first


# -- at once -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["collection", "run", "query set"])
def test_of_bringing_back_and_destroying_at_once_one_happens_wholly_and_the_other_is_told(store, made, kind):
    before = everything(store, made)

    async def work():
        if kind == "collection":
            entry = await load.drop(store, made)
        elif kind == "run":
            entry = await run_store.remove(store, before["runs"][0].id)
        else:
            entry = await query_sets.drop(store, made, "pilot")
        return await asyncio.gather(trash.restore(store, entry.id), trash.destroy(store, entry), return_exceptions=True)

    back, destroyed = bridge.run(work())
    if destroyed is True:
        assert isinstance(back, RankbookError), "what was destroyed is not said to be back"
    else:
        assert (back.entry.kind, destroyed) == (kind, False)
        assert everything(store, made) == before
    assert in_trash(store, made) == []


async def _waited_for(store):
    said = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'DELETE FROM %trash%'"
    async with store.begin() as connection:
        return await connection.scalar(text(said))


def test_whoever_comes_second_waits_for_the_first_and_is_refused(store, made):
    """The first has claimed the entry and not committed: the second neither destroys nor brings back anything."""
    entry = drop_collection(store, made)

    async def work():
        async with store.begin() as connection:
            await core_trash.claim(connection, entry)
            second = asyncio.create_task(trash.destroy(store, entry))
            while not await _waited_for(store):  # noqa: ASYNC110 - the server tells nobody that it waits
                await asyncio.sleep(0)
            await core_trash.restore_collection(store, connection, entry, made, None)
            await query_sets.move_within(connection, trash_mark(entry.id), made)
        return await second

    assert bridge.run(work()) is False
    assert query(store, fresh(store, made), "SELECT count(*) FROM {items}") == [(12,)]


def test_days_are_written_out():
    assert day(datetime(2026, 12, 9, tzinfo=UTC)) == "9 Dec 2026"
