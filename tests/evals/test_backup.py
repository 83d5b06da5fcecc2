"""Backups: all of it comes back, nothing that is here is written over, and a hostile file gets nowhere."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc, operator"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore, index"

from __future__ import annotations

import asyncio
import errno
import gzip
import io
import json
import os
import re
import stat
import tarfile
import tracemalloc
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import text
from typer.testing import CliRunner

from core import bridge
from core.errors import Cancelled, InputError, RankbookError, SpecError, StoreError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.store import attached, collections, locks, readable_tables
from core.store.engine import Store
from core.store.schema import HERE, Base
from core.types import Place, Query, Row
from core.variant import Variant
from evals import backup
from evals.backup import archive_reader, file_format, restore, save
from evals.collections import load
from evals.judging import judgements as judging
from evals.labels import corrections, query_sets
from evals.labels.label_checks import CheckedLabels
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.schema import schema_chain as evals_chain
from evals.types import Exclusion, Label, LabelledQueries
from tests.conftest import TEST_DSN, make_home, remove_home
from tests.evals.archives import (
    LABELLED,
    NOON,
    back_up,
    everything,
    fill_collection,
    judgement,
    member_of,
    modify,
    repack,
    sorted_parts,
    unpack,
)
from tests.fakes import HashingEmbedder
from tests.store.making import contents, documents, fresh, ingest, make, some_name, wrong
from workbench.cli import app


@pytest.fixture
def saved(store, name, tmp_path):
    """A collection and its backup."""
    fill_collection(store, name)
    return back_up(store, tmp_path / "a.tar", name).path


@pytest.fixture(scope="module")
def donor(store, tmp_path_factory):
    """A backup of a collection that every test leaves alone: its path."""
    name = some_name()
    fill_collection(store, name)
    return back_up(store, tmp_path_factory.mktemp("donor") / "a.tar", name).path


def restore_from(store, path, **options):
    return bridge.run(backup.restore_backup(store, path, **options))


def merge_from(store, path, **options):
    return bridge.run(backup.restore_labels(store, path, **options))


def drop_all(store, name):
    return bridge.run(collections.find(store, name)) is None


# -- there and back ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_collection_comes_back_under_another_name_with_all_that_was_in_it(store, name, saved):
    other = f"{name} again"
    back = restore_from(store, saved, collection=name, name=other).collections[0]
    assert everything(store, other) == everything(store, name)
    assert wrong(store, other) == {}
    assert back.rows["items"] == 13
    assert back.merged.added == {"queries": 2, "labels": 3, "spans": 1, "exclusions": 1, "judgements": 2}
    assert back.results["runs"] == 1


@pytest.mark.slow
def test_a_collection_that_was_dropped_comes_back_as_the_same_one(store, name, saved):
    before = everything(store, name)
    bridge.run(load.drop(store, name))
    back = restore_from(store, saved).collections[0]
    assert everything(store, name) == before
    assert (back.merged.added["judgements"], back.results["runs"]) == (0, 0)  # these a drop leaves here


@pytest.mark.slow
def test_what_was_pinned_is_found_by_its_pin_again(store, name, saved):
    async def forget():
        async with store.begin() as connection:
            await connection.execute(text("DELETE FROM rankbook.pins WHERE name = :name"), {"name": f"pin of {name}"})
            await connection.execute(text("DELETE FROM rankbook.runs WHERE collection = :name"), {"name": name})

    before = bridge.run(run_store.load(store, f"pin of {name}"))
    bridge.run(forget())
    bridge.run(load.drop(store, name))
    restore_from(store, saved)
    assert bridge.run(run_store.load(store, f"pin of {name}")) == before


@pytest.mark.slow
def test_a_backup_holds_what_was_committed_when_it_began(store, name, tmp_path):
    fill_collection(store, name)
    before = everything(store, name)
    steps = []

    def listen(step):
        if not steps:  # something was read, and most was not
            with psycopg.connect(TEST_DSN or store.server.conninfo(), autocommit=True) as other:
                other.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(fresh_namespace, "items")))
                other.execute("DELETE FROM rankbook.judgements WHERE collection = %s", (name,))
        steps.append(step.name)

    fresh_namespace = fresh(store, name).namespace
    bridge.run(backup.save_backup(store, tmp_path / "a.tar", collection=name, listener=listen))
    assert steps[0].startswith("Saving query_sets")
    assert everything(store, name) != before
    restore_from(store, tmp_path / "a.tar", collection=name, name=f"{name} b")
    assert everything(store, f"{name} b") == before


@pytest.mark.slow
def test_an_interrupted_load_is_still_one_when_it_comes_back(store, name, tmp_path):
    fill_collection(store, name)

    async def interrupt():
        async with store.begin() as connection:
            await collections.mark_loading(connection, name)

    bridge.run(interrupt())
    path = back_up(store, tmp_path / "a.tar", name).path
    restore_from(store, path, collection=name, name=f"{name} b")
    assert fresh(store, f"{name} b").interrupted


@pytest.mark.slow
def test_an_empty_collection_comes_back_too(store, name, tmp_path):
    make(store, name, chunks={})
    path = back_up(store, tmp_path / "a.tar", name).path
    restore_from(store, path, name=f"{name} b")
    assert contents(store, f"{name} b") == contents(store, name)
    assert wrong(store, f"{name} b") == {}


@pytest.mark.slow
def test_a_table_larger_than_a_piece_is_cut_between_rows(store, name, tmp_path, monkeypatch):
    fill_collection(store, name, count=60)
    monkeypatch.setattr("evals.backup.archive_writer.PIECE", 2000)
    monkeypatch.setattr("evals.backup.save.BLOCK", 300)
    path = back_up(store, tmp_path / "a.tar", name).path
    pieces = [each for each in unpack(path) if "/items." in each]
    assert len(pieces) > 3
    restore_from(store, path, name=f"{name} b")
    assert contents(store, f"{name} b") == contents(store, name)


@pytest.mark.slow
@pytest.mark.skipif(TEST_DSN is not None, reason="it is the embedded server that is filled and emptied")
def test_the_whole_store_comes_back_with_notebooks_and_variants_into_an_empty_one(tmp_path):
    folders = {"notebooks": tmp_path / "notebooks", "variants": tmp_path / "variants"}
    other = {name: tmp_path / "other" / name for name in folders}
    for folder, file in (("notebooks", "tour.md"), ("variants", "mine.toml")):
        folders[folder].mkdir()
        (folders[folder] / file).write_text(f"my {folder}")
    path = tmp_path / "all.tar"

    async def empty(store):
        for row in await collections.listed(store):
            await load.drop(store, row.name)
        async with store.begin() as connection:
            for table in ("pins", "runs", "judgements", "outputs"):
                await connection.execute(text(f"DELETE FROM rankbook.{table}"))

    home = make_home()
    store = bridge.run(Store.open(home=home, chains=[evals_chain]))
    try:
        fill_collection(store, "one")
        fill_collection(store, "two ü")
        bridge.run(judging.save_judgements(store, "dropped long ago", [judgement("q9", "d9", 3)]))
        bridge.run(
            judging.save_judgements(store, " \n", [judgement("q9", "d9", 3)])
        )  # a name that no collection could have
        before = {name: everything(store, name) for name in ("one", "two ü")}
        done = bridge.run(backup.save_backup(store, path, folders=folders))
        assert done.files == 2
        assert done.rows["dropped long ago"] == {"judgements": 1}
        bridge.run(empty(store))
        back = restore_from(store, path, folders=other)
        assert {each.name for each in back.collections} == {"one", "two ü", "dropped long ago", " \n"}
        assert {name: everything(store, name) for name in before} == before
        assert len(bridge.run(judging.load(store, "dropped long ago"))) == 1
        assert (other["notebooks"] / "tour.md").read_text() == "my notebooks"
        assert (other["variants"] / "mine.toml").read_text() == "my variants"
        bridge.run(load.drop(store, "one"))  # as if it had been interrupted before it
        (other["notebooks"] / "tour.md").write_text("changed since")
        again = restore_from(store, path, folders=other)
        assert again.there == ("two ü",)
        assert [file.name for file in again.files] == ["tour-restored.md"]
        assert (other["notebooks"] / "tour.md").read_text() == "changed since"
        assert everything(store, "one") == before["one"]
    finally:
        bridge.run(store.close())
        remove_home(home)


# -- the file ----------------------------------------------------------------------------------------------------------


def test_labels_and_judgements_come_before_everything_else(donor):
    order = list(unpack(donor))
    labels = [at for at, each in enumerate(order) if re.search("/(query_sets|queries|labels|spans|judgements)", each)]
    assert order[0] == "manifest.json"
    assert labels == list(range(1, len(labels) + 1)) or max(labels) < order.index(member_of("collections", order))
    assert order.index(member_of("runs", order)) < order.index(member_of("items", order))
    assert order[-1] == "contents.json"


def test_a_backup_is_for_its_owners_eyes_and_read_by_common_tools(donor):
    assert stat.S_IMODE(donor.stat().st_mode) == 0o600
    with tarfile.open(donor) as tar:
        labels = next(each for each in tar if "/labels." in each.name)
        table = gzip.decompress(tar.extractfile(labels).read()).decode()
    assert table.splitlines()[0].split("\t")[1:] == ["split", "query_id", "item_id", "grade"]
    assert "\ttest\tq1\td00001\t2" in table


@pytest.mark.slow
def test_what_somebody_left_at_its_place_does_not_open_it_to_others(store, name, tmp_path):
    fill_collection(store, name)
    left = tmp_path / "a.tar.part"
    left.touch()
    left.chmod(0o666)
    assert stat.S_IMODE(back_up(store, tmp_path / "a.tar", name).path.stat().st_mode) == 0o600


@pytest.mark.slow
def test_what_another_account_left_at_its_place_is_refused_and_stays(store, name, tmp_path, monkeypatch):
    fill_collection(store, name)
    left = tmp_path / "a.tar.part"
    left.write_bytes(b"theirs")
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    with pytest.raises(InputError, match=r"another account's, left by its backup\. Remove it"):
        back_up(store, tmp_path / "a.tar", name)
    assert left.read_bytes() == b"theirs"


@pytest.mark.slow
def test_where_new_files_are_anothers_a_backup_is_made(store, name, tmp_path, monkeypatch):
    """As on a share that gives all of them to one account, and lets nobody change that."""
    fill_collection(store, name)
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    monkeypatch.setattr(os, "fchmod", failing(errno.EPERM))
    assert backup.check(back_up(store, tmp_path / "a.tar", name).path).collections[0].name == name


@pytest.mark.slow
@pytest.mark.parametrize(("number", "left"), [(errno.ENOLCK, []), (errno.EWOULDBLOCK, ["a.tar.part"])])
def test_a_file_that_cannot_be_locked_goes_unless_another_backup_has_it(
    store, name, tmp_path, monkeypatch, number, left
):
    fill_collection(store, name)
    monkeypatch.setattr("fcntl.flock", failing(number))
    with pytest.raises(InputError, match=r"cannot be written|is being written"):
        back_up(store, tmp_path / "a.tar", name)
    assert [each.name for each in tmp_path.iterdir()] == left


def failing(number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    return refuse


def folders_answer(monkeypatch, number):
    """Folders cannot be told to keep a name, with that number; the descriptors of those that were."""
    keep, refused = os.fsync, []

    def fsync(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            refused.append(descriptor)
            raise OSError(number, os.strerror(number))
        keep(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP, errno.EACCES])
def test_a_folder_that_cannot_be_told_to_keep_a_name_fails_no_backup(store, name, tmp_path, monkeypatch, number):
    fill_collection(store, name)
    refused = folders_answer(monkeypatch, number)
    assert backup.check(back_up(store, tmp_path / "a.tar", name).path).collections[0].name == name
    assert refused


@pytest.mark.slow
def test_a_disk_that_fails_to_keep_a_name_is_told(store, name, tmp_path, monkeypatch):
    fill_collection(store, name)
    folders_answer(monkeypatch, errno.EIO)
    with pytest.raises(InputError, match="the disk failed to keep its name"):
        back_up(store, tmp_path / "a.tar", name)
    assert backup.check(tmp_path / "a.tar").collections[0].name == name


@pytest.mark.slow
def test_a_file_that_is_there_is_not_written_over_unless_asked(store, name, saved):
    with pytest.raises(InputError, match="--overwrite"):
        back_up(store, saved, name)
    bridge.run(backup.save_backup(store, saved, collection=name, overwrite=True))
    assert backup.check(saved).collections[0].name == name


@pytest.mark.slow
def test_a_stopped_backup_leaves_no_file(store, name, tmp_path):
    fill_collection(store, name)

    async def work():
        token = asyncio.Event()
        await backup.save_backup(
            store, tmp_path / "a.tar", collection=name, listener=lambda _: token.set(), cancellation=token
        )

    with pytest.raises(Cancelled):
        bridge.run(work())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_stopped_restore_leaves_nothing_of_the_collection(store, name, saved):
    async def work():
        token = asyncio.Event()

        def listen(step):
            if step.unit == "indexes":
                token.set()

        await backup.restore_backup(store, saved, name=f"{name} b", listener=listen, cancellation=token)

    with pytest.raises(Cancelled):
        bridge.run(work())
    assert drop_all(store, f"{name} b")
    restore_from(store, saved, name=f"{name} b")
    assert contents(store, f"{name} b") == contents(store, name)


def test_every_table_is_saved_or_known_to_be_derived():
    known = {part.table.name for part in (file_format.REGISTER, *file_format.OF_COLLECTIONS)}
    known |= {file_format.OUTPUTS.name, *(table.name for table in (*file_format.DERIVED, *file_format.NOT_SAVED))}
    own = {"items", "chunk_sets", "embedding_sets"}
    for table in Base.metadata.tables.values():
        assert table.name in (own | known if table.schema == HERE else known), f"{table.name}: saved or derived?"


# -- nothing is written over -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_collection_of_that_name_is_not_written_over(store, name, saved):
    ingest(store, name, documents(2, first=900), [HashingEmbedder()])
    before = everything(store, name)
    with pytest.raises(StoreError, match=r"--as NAME.*--labels-only"):
        restore_from(store, saved, collection=name)
    assert restore_from(store, saved).there == (name,)  # the very one that was saved: the rest would be restored
    assert everything(store, name) == before


@pytest.mark.slow
def test_another_collection_of_that_name_is_in_the_way_of_the_whole(store, name, saved):
    bridge.run(load.drop(store, name))
    make(store, name, chunks={})
    with pytest.raises(StoreError, match="nothing is written over"):
        restore_from(store, saved)
    assert contents(store, name)["items: items"] == []


def test_names_that_are_not_there_are_told(store, donor):
    with pytest.raises(UnknownName, match="collection of this backup"):
        restore_from(store, donor, collection="no such")


# -- labels alone ------------------------------------------------------------------------------------------------------


def with_documents(store, name, count):
    make(store, name, chunks={})
    ingest(store, name, documents(count))


@pytest.mark.slow
def test_labels_are_merged_into_what_is_here(store, name, donor):
    here = LabelledQueries(
        (Query("q1", "another question altogether"), Query("q2", "word2"), Query("q3", "new here")),
        (Label("q1", "d00005", 1), Label("q2", "d00002", 3)),
        (),
        (Exclusion("q2", "d00004"),),
    )
    with_documents(store, name, 3)
    bridge.run(query_sets.keep(store, name, here))
    (done,) = merge_from(store, donor, name=name)
    after = bridge.run(query_sets.load(store, name))
    assert {each.id: each.text for each in after.queries} == {each.id: each.text for each in here.queries}
    assert set(after.labels) == set(here.labels)  # q1's are of another question, q2's third of no document here
    assert done.left["of queries that read otherwise here"] == 4  # a label, a span, two judgements
    assert done.left["labels graded otherwise here"] == 1
    assert done.left["for documents that are not here"] == 2


@pytest.mark.slow
def test_what_is_new_comes_in_and_the_sets_digest_follows(store, name, donor):
    with_documents(store, name, 12)
    bridge.run(
        query_sets.keep(
            store, name, LabelledQueries((LABELLED.queries[1], Query("q7", "mine")), (Label("q7", "d1", 1),))
        )
    )
    (done,) = merge_from(store, donor, name=name)
    after = bridge.run(query_sets.load(store, name))
    assert {each.id for each in after.queries} == {"q1", "q2", "q7"}
    assert set(after.labels) == {*LABELLED.labels, Label("q7", "d1", 1)}
    assert set(after.spans) == set(LABELLED.spans)
    assert done.added == {"queries": 1, "labels": 3, "spans": 1, "exclusions": 1, "judgements": 2}
    assert bridge.run(query_sets.keep(store, name, as_checked(after).labelled_queries())) is False, (
        "its digest is another's"
    )
    assert merge_from(store, donor, name=name)[0].added["labels"] == 0


@pytest.mark.slow
def test_what_a_backup_brought_into_a_set_can_be_undone(store, name, donor):
    with_documents(store, name, 12)
    here = LabelledQueries((LABELLED.queries[1], Query("q7", "mine")), (Label("q7", "d1", 1),))
    bridge.run(query_sets.keep(store, name, here))
    merge_from(store, donor, name=name)
    after = bridge.run(query_sets.load(store, name))
    done = bridge.run(corrections.undo(store, name))
    assert done.revision.reason == "merged from a backup"
    assert bridge.run(query_sets.load(store, name)) == here
    bridge.run(corrections.redo(store, name))
    assert bridge.run(query_sets.load(store, name)) == after
    merge_from(store, donor, name=name)
    assert len(bridge.run(corrections.changes(store, name))) == 1, "nothing came in, so nothing changed"


@pytest.mark.slow
def test_a_restored_set_has_its_labels_as_corrected_and_begins_without_a_past(store, name, saved, tmp_path):
    bridge.run(corrections.relabel(store, fresh(store, name), "q1", "d00001", 0))
    path = back_up(store, tmp_path / "b.tar", name).path
    bridge.run(load.drop(store, name))
    restore_from(store, path)
    assert Label("q1", "d00001", 0) in bridge.run(query_sets.load(store, name)).labels
    assert bridge.run(corrections.changes(store, name)) == []


def as_checked(labelled):
    rows = [tuple(Row(each, Place("")) for each in part) for part in sorted_parts(labelled).values()]
    return CheckedLabels(*rows, (), ())


def test_of_two_grades_by_one_judge_the_newer_holds(store, name, donor):
    with_documents(store, name, 3)
    newer, older = (
        judgement("q1", "d00001", 0, when=NOON + timedelta(days=1)),
        judgement("q1", "d00002", 9, "llm:m", NOON - timedelta(days=1)),
    )
    bridge.run(judging.save_judgements(store, name, [newer, older]))
    (done,) = merge_from(store, donor, name=name)
    kept = {(each.item_id, each.judge): each.grade for each in bridge.run(judging.load(store, name))}
    assert kept == {("d00001", "ada"): 0, ("d00002", "llm:m"): 1}
    assert done.added["judgements"] == 1


def test_labels_can_go_into_another_collection(store, name, donor):
    with_documents(store, f"{name} b", 12)
    (done,) = merge_from(store, donor, name=f"{name} b")
    assert done.added["labels"] == 3
    assert sorted_parts(bridge.run(query_sets.load(store, f"{name} b"))) == sorted_parts(LABELLED)


# -- files that somebody else wrote ------------------------------------------------------------------------------------


def assert_refused(store, path, name, match):
    """Refused before anything was written."""
    with pytest.raises(RankbookError, match=match):
        restore_from(store, path, name=f"{name} b")
    assert drop_all(store, f"{name} b")


@pytest.mark.parametrize("member", ["../evil", "/etc/passwd", "collections/0001/../x.00001.tsv.gz", "x.py"])
def test_members_that_lead_elsewhere_are_refused(store, name, donor, member):
    def change(members):
        rest = {each: members.pop(each) for each in list(members)[1:]}
        members.update({member: b"x", **rest})

    assert_refused(store, modify(donor, change), name, "it was not touched")


def test_nothing_can_be_added_after_the_end(store, name, donor):
    path = modify(donor, lambda members: members.update({"files/0009": b"x"}))
    assert_refused(store, path, name, "after its end")


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_SPARSE]
)
def test_members_that_are_no_plain_files_are_refused(store, name, tmp_path, kind):
    path = tmp_path / "links.tar"
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        info = tarfile.TarInfo("manifest.json")
        info.type, info.linkname = kind, "/etc/passwd"
        tar.addfile(info)
    assert_refused(store, path, name, "nothing that a backup holds|not a backup|nothing of it is left")


def test_a_heading_that_claims_to_be_endless_is_not_read_into_memory(store, name, tmp_path):
    path = tmp_path / "huge.tar"
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, file_format.LARGEST_LIST + 2**20
    with path.open("wb") as file:
        file.write(info.tobuf(tarfile.USTAR_FORMAT))
        file.truncate(2 * file_format.LARGEST_LIST)  # a hole, which takes no room
    tracemalloc.start()
    try:
        assert_refused(store, path, name, "not a backup")
        assert tracemalloc.get_traced_memory()[1] < file_format.LARGEST_LIST // 4
    finally:
        tracemalloc.stop()


def test_a_part_that_is_not_what_was_written_is_refused(store, name, donor):
    def change(members):
        members[member_of("labels", members)] = members[member_of("labels", members)].replace(b"\t2\n", b"\t0\n")

    assert_refused(store, modify(donor, change, listed=False), name, "digest differs")


def test_a_part_that_unpacks_to_more_than_it_says_is_left_at_that_point(store, name, donor, tmp_path):
    members = unpack(donor)
    piece = member_of("items", members)
    lists = {**members, piece: members[piece] + b"0" * 50_000_000}
    path = repack(tmp_path / "bomb.tar", lists, listed=False)
    assert_refused(store, path, name, "unpacks to more than")


def test_a_part_that_is_missing_or_not_listed_is_refused(store, name, donor):
    path = modify(donor, lambda members: members.pop(member_of("items", members)), listed=False)
    assert_refused(store, path, name, "differ, in .*items")
    path = modify(donor, lambda members: members.pop("manifest.json"), listed=False)
    assert_refused(store, path, name, "not a backup")


@pytest.mark.parametrize(
    "heading", [b"id) FROM PROGRAM 'true'; --", b'key"; DROP SCHEMA rankbook CASCADE; --', b"key\tkey", b""]
)
def test_columns_are_those_of_the_table_and_no_statement(store, name, donor, heading):
    def change(members):
        piece = member_of("items", members)
        members[piece] = heading + b"\n" + members[piece].partition(b"\n")[2]

    assert_refused(store, modify(donor, change), name, "has a column|does not begin")


@pytest.mark.parametrize(
    ("table", "old", "new", "told"),
    [
        ("embedding_sets", b"\t16\t", b"\t99999999\t", "do not fit together"),
        ("embedding_sets", b"\tvector\t", b"\t'); DROP\t", "do not fit together"),
        ("chunk_sets", b"\n0\titems\t", b"\n-7\titems\t", "do not fit together"),
        ("collections", b"\tenglish\t", b"\tklingon\t", "klingon"),
        ("items", b"\n1\t", b"\n\\N\t", "does not fit into the store: (null value|the partition column)"),
        ("judgements", b"\tllm:m\t", b"\tada 2\t", "nobody can have given"),
        ("vectors_1", b"\t[", b"\t[1,", "expected 16 dimensions"),
        ("items", b"\n2\t", b"\n\\.\n2\t", "does not fit|rows"),
    ],
)
def test_values_that_do_not_fit_are_refused_and_leave_nothing(store, name, donor, table, old, new, told):
    def change(members):
        piece = member_of(table, members)
        assert old in members[piece]
        members[piece] = members[piece].replace(old, new, 1)

    assert_refused(store, modify(donor, change), name, told)


@pytest.mark.parametrize("file", ["../../evil.md", "/tmp/evil.md", ".hidden.md", "a/b.md", "x.py", "nul\x00.md"])
def test_a_files_name_never_leads_out_of_its_folder(store, name, donor, tmp_path, file):
    def change(members):
        manifest = json.loads(members["manifest.json"])
        manifest["files"] = [{"number": 1, "folder": "notebooks", "name": file}]
        members["manifest.json"] = json.dumps(manifest).encode()

    with pytest.raises(InputError, match="no name for a file"):
        restore_from(store, modify(donor, change), folders={"notebooks": tmp_path / "notebooks"})
    assert not (tmp_path / "notebooks").exists()


def manifest_with(donor, **changes):
    def change(members):
        members["manifest.json"] = json.dumps(json.loads(members["manifest.json"]) | changes).encode()

    return modify(donor, change)


def test_what_a_newer_rankbook_wrote_is_refused_in_a_sentence(store, name, donor):
    assert_refused(store, manifest_with(donor, format=2), name, "a newer one reads it")
    assert_refused(store, manifest_with(donor, revisions={"evals": "e9999"}), name, "Upgrade Rankbook")


@pytest.mark.slow
def test_a_column_that_is_newer_than_the_backup_takes_its_default(store, name, donor):
    """As if it had been donor before runs had a `latency`."""

    def change(members):
        piece = member_of("runs", members)
        lines = [line.split(b"\t") for line in members[piece].splitlines()]
        at = lines[0].index(b"latency")
        members[piece] = b"".join(b"\t".join(line[:at] + line[at + 1 :]) + b"\n" for line in lines)

    restore_from(store, modify(donor, change), name=f"{name} b")
    assert [each.name for each in bridge.run(run_store.listed(store, collection=f"{name} b"))] == ["main"]


@pytest.mark.slow
def test_a_backup_of_before_brings_runs_with_excluded_documents_back_as_deep_ones(store, name, tmp_path):
    """As a store of that version marks them when it is opened: they are of fewer results than ship."""
    fill_collection(store, name)
    subject, variant = RunSubject(name, 1, "default", LABELLED.digest(), "test", "content"), Variant.of_leg(Bm25Leg())
    bridge.run(run_store.save(store, Run("ships", subject, {"q1": Ranking(("d00001",), (0.5,))}, variant)))
    path = back_up(store, tmp_path / "a.tar", name).path
    for file, version, depth in ((path, "now", 0), (manifest_with(path, revisions={"evals": "e0010"}), "before", 10)):
        restore_from(store, file, name=f"{name} {version}")
        runs = bridge.run(run_store.listed(store, collection=f"{name} {version}"))
        assert {each.name: each.depth for each in runs} == {"main": 10, "ships": depth}


def test_a_name_in_the_list_twice_is_refused(store, name, donor):
    kept = json.loads(unpack(donor)["manifest.json"])["collections"]
    assert_refused(store, manifest_with(donor, collections=[*kept, *kept]), name, "twice")


def with_list(members, **changes):
    """The one collection of the list, told otherwise."""
    manifest = json.loads(members["manifest.json"])
    manifest["collections"][0] |= changes
    members["manifest.json"] = json.dumps(manifest).encode()


def with_member(members, name, content=b"x"):
    end = members.pop("contents.json")
    members.update({name: content, "contents.json": end})


def with_renamed_row(members):
    piece = member_of("collections", members)
    name = json.loads(members["manifest.json"])["collections"][0]["name"]
    members[piece] = members[piece].replace(b"\n" + name.encode(), b"\nanother")


@pytest.mark.parametrize(
    ("called", "kind", "told"),
    [
        (" trash/0123456789abcdef", "gone", "as what lies in the trash"),
        (" trash/0123456789abcdef", "own", "as what lies in the trash"),
        ("", "own", "as none can be called"),
        ("a\x00b", "own", "as none can be called"),
        ("x" * 62, "attached", "as none can be called"),
        ("cafe\u0301", "own", "no form of a name"),
    ],
)
def test_a_name_that_no_collection_has_is_refused_of_labels_too(store, name, donor, called, kind, told):
    path = modify(donor, lambda members: with_list(members, name=called, kind=kind))
    for work in (restore_from, merge_from):
        with pytest.raises(InputError, match=told):
            work(store, path)


@pytest.mark.parametrize(
    ("table", "old", "new", "told"),
    [
        ("pins", rb"\t[0-9a-f]{32}\t", b"\tanother\t", "pins of runs that it does not hold"),
        ("votes", rb"\n", b"\nx\tv\tq\ta\t2026-01-01\n", "votes of contests that it does not hold"),
        ("labels", rb"\t2\n", b"\t-2\n", "labels that nobody can have given"),
        ("queries", rb"0\.3\d+", b"NaN", "queries that nobody can have given"),
        ("queries", rb"0\.3\d+", b"-1", "queries that nobody can have given"),
        ("queries", rb"\{a,", b"{NULL,", "queries that nobody can have given"),
        ("spans", rb"\t0\t5\t", b"\t-1\t5\t", "spans that nobody can have given"),
        ("spans", rb"\t0\t5\t", b"\t9\t5\t", "spans that nobody can have given"),
        ("labels", rb"\n([^\n]+)\n", rb"\n\1\n\1\n", "do not fit together"),
    ],
)
def test_rows_that_belong_together_are_all_there_and_could_have_been_given(store, name, donor, table, old, new, told):
    def change(members):
        piece = member_of(table, members)
        members[piece], count = re.subn(old, new, members[piece], count=1)
        assert count

    assert_refused(store, modify(donor, change), name, told)


@pytest.mark.parametrize("fields", [b"null", b"7", b"[1]", b'{"a": 1}'])
def test_fields_that_are_no_names_are_refused_before_anything_is_written(store, name, donor, fields):
    def change(members):
        piece = member_of("collections", members)
        members[piece] = members[piece].replace(b'["kind"]', fields)

    assert_refused(store, modify(donor, change), name, "fields of .* are no list of names")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda members: with_list(members, kind="gone"), "by its own list has no documents here"),
        (lambda members: with_list(members, kind="attached"), "by its own list has no documents here"),
        (lambda members: with_list(members, created_at="2026-01-01T00:00:00Z"), "differ in what the collection"),
        (lambda members: with_list(members, number=7), "its own list does not know"),
        (lambda members: members.pop(member_of("chunk_sets", members)), "should hold chunk_sets of"),
        (lambda members: members.pop(member_of("judgements", members)), "should hold judgements of"),
        (lambda members: with_member(members, "files/0001"), "holds files/0001, which its own list does not know"),
        (lambda members: with_member(members, "store/runs.00001.tsv.gz", b"id\n"), "which its own list does not know"),
        (with_renamed_row, "differ in what the collection"),
    ],
)
def test_what_its_own_list_does_not_say_is_refused_before_anything_is_written(store, name, donor, change, told):
    assert_refused(store, modify(donor, change), name, told)


@pytest.mark.slow
def test_one_collection_that_is_not_as_listed_keeps_all_others_out(store, name, saved):
    def add_another(members):
        manifest = json.loads(members["manifest.json"])
        manifest["collections"].append({**manifest["collections"][0], "number": 2, "name": f"{name} b"})
        members["manifest.json"] = json.dumps(manifest).encode()
        for member in [each for each in members if each.startswith("collections/0001/")]:
            with_member(members, member.replace("/0001/", "/0002/"), members[member])

    bridge.run(load.drop(store, name))
    with pytest.raises(InputError, match=r"differ in what the collection .* b"):
        restore_from(store, modify(saved, add_another))
    assert drop_all(store, name)


def test_bytes_of_any_kind_are_no_backup(tmp_path):
    for content in (b"", b"x" * 5000, gzip.compress(b"y" * 3000), b"PK\x03\x04" + b"\0" * 600):
        path = tmp_path / "strange"
        path.write_bytes(content)
        with pytest.raises(InputError, match="not a backup"):
            backup.read_manifest(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_is_no_backup_and_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)  # else a reader that should not be there would wait for ever
    try:
        with pytest.raises(InputError, match="from a plain file"):
            backup.read_manifest(tmp_path / "pipe")
    finally:
        os.close(writer)


def test_the_names_of_members_leave_no_room(donor):
    assert file_format.NAME.fullmatch("collections/0001/items.00001.tsv.gz")
    for name in ("collections/0001/items.00001.tsv.gz\n", "store/../x.00001.tsv.gz", "files/0001/x", "files/1"):
        assert file_format.NAME.fullmatch(name) is None
    with archive_reader.open_archive(donor) as archive:
        assert archive.whole
        assert io.BytesIO(archive.file("manifest.json")).read(1) == b"{"


# -- the commands ------------------------------------------------------------------------------------------------------


def said(*words, code=0):
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == code, result.output + str(result.exception)
    return result.output if code == 0 else str(result.exception)


@pytest.mark.slow
@pytest.mark.skipif(TEST_DSN is not None, reason="commands are given the embedded server")
def test_the_commands_tell_what_was_saved_restored_and_left_out(store, name, tmp_path):
    fill_collection(store, name)
    path = str(tmp_path / "a.tar")
    saved = said("backup", path, "--collection", name)
    assert "13 documents" in saved
    assert "3 labels" in saved
    assert "Written and read back" in saved
    back = said("restore", path, "--as", f"{name} b")
    assert "2 queries, 3 labels, 1 spans, 1 exclusions, 2 judgements, 1 runs" in back
    assert "1 pins are here already" in back
    assert "left as it is" in said("restore", path)
    assert "left out: 2 judgements that are here already" in said("restore", path, "--labels-only")
    assert json.loads(said("backup", path, "--collection", name, "--overwrite", "--json"))["rows"][name]["items"] == 13
    assert "There is a file already" in said("backup", path, code=1)


@pytest.mark.skipif(TEST_DSN is not None, reason="commands are given the embedded server")
def test_nothing_is_moved_aside_for_a_backup_of_one_collection_or_for_a_part_of_one(store, donor):
    assert "and --fresh would put everything else aside" in said("restore", "--fresh", str(donor), code=1)
    assert "leave the other options out" in said("restore", "--fresh", str(donor), "--labels-only", code=1)
    assert store.server.data.is_dir()


@pytest.mark.skipif(TEST_DSN is not None, reason="commands are given the embedded server")
def test_a_table_to_attach_is_named_with_its_collection(store, donor):
    assert "Write NAME=TABLE, such as docs=public.docs" in said("restore", str(donor), "--attach", "docs", code=1)
    assert "does not name a table" in said("restore", str(donor), "--attach", "docs=a.b.c", code=1)
    words = ("restore", str(donor), "--labels-only", "--attach", "docs=public.docs")
    assert "leave --attach out" in said(*words, code=1)


# -- attached ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def theirs(store, name):
    """A table of somebody's, attached, with labels."""
    table = f"their {name}"

    async def run(*statements):
        async with store.begin() as connection:
            for each in statements:
                await connection.execute(text(each))

    bridge.run(
        run(
            f'CREATE TABLE public."{table}" (nr int PRIMARY KEY, body text)',
            f"INSERT INTO public.\"{table}\" VALUES (1, 'one'), (2, 'two')",
        )
    )
    mapping = attached.AttachedTable(table=table, id="nr", text="body")
    bridge.run(attached.attach_table(store, name, mapping))
    bridge.run(query_sets.keep(store, name, LabelledQueries((Query("q", "one"),), (Label("q", "1", 1),))))
    yield lambda: bridge.run(run(f'DROP TABLE public."{table}"'))
    bridge.run(run(f'DROP TABLE IF EXISTS public."{table}"'))


def test_an_attached_collection_comes_back_as_what_it_was_attached_to(store, name, theirs, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    before = fresh(store, name).row.attached
    bridge.run(load.drop(store, name))
    restore_from(store, path, tables={name: f"their {name}"})
    assert fresh(store, name).row.attached == before
    assert bridge.run(query_sets.count(store, name)) == 1


@pytest.mark.slow
def test_a_file_attaches_no_table_that_no_option_names(store, name, theirs, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    bridge.run(load.drop(store, name))
    (back,) = restore_from(store, path).collections
    assert drop_all(store, name)
    assert bridge.run(query_sets.count(store, name)) == 1
    assert f"--attach '{name}=public.their {name}'" in back.note
    assert (name, "public", f"their {name}") not in leaves(store)
    (again,) = restore_from(store, path, tables={name: f"their {name}"}).collections
    assert (again.note, again.merged.added["labels"]) == ("", 0)
    assert fresh(store, name).row.attached["table"]["table"] == f"their {name}"
    assert (name, "public", f"their {name}") in leaves(store)


@pytest.mark.slow
def test_a_rewritten_entry_attaches_nothing_but_what_was_named(store, name, theirs, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    bridge.run(load.drop(store, name))

    def change(members):
        piece = member_of("collections", members)
        members[piece] = members[piece].replace(b'"namespace": "public"', b'"namespace": "pg_catalog"')
        assert b"pg_catalog" in members[piece]

    (back,) = restore_from(store, modify(path, change)).collections
    assert "pg_catalog" in back.note
    assert drop_all(store, name)
    restore_from(store, modify(path, change), tables={name: f"public.their {name}"})
    assert fresh(store, name).row.attached["table"]["namespace"] == "public"


@pytest.mark.parametrize("table", ["pg_catalog.pg_authid", "information_schema.tables", "pg_authid"])
def test_tables_of_the_system_are_never_attached(store, name, theirs, tmp_path, table):
    path = back_up(store, tmp_path / "a.tar", name).path
    bridge.run(load.drop(store, name))
    if "." in table:
        with pytest.raises(SpecError, match="is the system's own"):
            restore_from(store, path, tables={name: table})
        namespace, relation = attached.relation_name(table)
        mapping = attached.AttachedTable(namespace=namespace, table=relation, id="oid", text="rolname")
        with pytest.raises(SpecError, match="is the system's own"):
            bridge.run(attached.attach_table(store, name, mapping))
    else:  # a name alone is one of the schema public
        (back,) = restore_from(store, path, tables={name: table}).collections
        assert "No table or view in the schema 'public'" in back.note
    assert drop_all(store, name)


def test_a_table_is_named_for_an_attached_collection_of_the_file_and_no_other(store, name, theirs, donor, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    with pytest.raises(UnknownName, match=f"No attached collection of this backup is called 'docs'.*{name}"):
        restore_from(store, path, tables={"docs": "public.docs"})
    with pytest.raises(UnknownName, match="There is none yet"):
        restore_from(store, donor, name=f"{name} b", tables={"docs": "public.docs"})


def leaves(store):
    """The tables that the owner lets others read."""

    async def work():
        async with store.begin() as connection:
            return await readable_tables.allowed(connection)

    return bridge.run(work())


def test_the_labels_of_an_attached_table_that_is_lost_come_back_all_the_same(store, name, theirs, tmp_path):
    path = back_up(store, tmp_path / "a.tar", name).path
    bridge.run(load.drop(store, name))
    theirs()
    (back,) = restore_from(store, path, tables={name: f"their {name}"}).collections
    assert "Attach it again" in back.note
    assert drop_all(store, name)
    assert bridge.run(query_sets.count(store, name)) == 1


def test_what_a_file_says_of_an_attached_tables_types_is_not_believed(store, name, theirs, tmp_path):
    """The types that the server spelled stand in statements as they are."""
    path = back_up(store, tmp_path / "a.tar", name).path

    def change(members):
        piece = member_of("collections", members)
        assert b'"nr": "integer"' in members[piece]
        members[piece] = members[piece].replace(b'"nr": "integer"', b'"nr": "text); DROP SCHEMA rankbook; --"')

    restore_from(store, modify(path, change), name=f"{name} b", tables={name: f"their {name}"})
    assert fresh(store, f"{name} b").row.attached["facts"]["types"]["nr"] == "integer"


@pytest.mark.slow
@pytest.mark.skipif(TEST_DSN is not None, reason="only the embedded server's disk is looked at")
def test_room_is_needed_for_what_is_to_come_back_and_for_nothing_else_in_the_file(store, name, saved):
    huge = file_format.Member.model_construct(name="", size=2**60, rows=0, sha256="")
    with archive_reader.open_archive(saved) as archive:
        archive._listed["another's"] = huge.model_copy(update={"name": "collections/0002/items.00001.tsv.gz"})
        plan = bridge.run(restore.plan_restore(store, archive, None, f"{name} b", {}))
        assert [each.name for each in plan.targets] == [f"{name} b"]
        archive._listed["its own"] = huge.model_copy(update={"name": "collections/0001/items.00002.tsv.gz"})
        with pytest.raises(StoreError, match=r"Restoring takes about .* Make room"):
            bridge.run(restore.plan_restore(store, archive, None, f"{name} b", {}))


def as_a_cluster(store):
    extensions = {**store.capabilities.extensions, "citus": "13.2"}
    return Store(store.engine, None, replace(store.capabilities, extensions=extensions))


@pytest.mark.parametrize("distributed", [True, False])
def test_on_a_cluster_which_has_no_common_snapshot_nobody_loads_while_it_is_saved(store, name, distributed):
    make(store, name)
    seen = as_a_cluster(store) if distributed else store

    async def work():
        async with save.without_writers(seen, name):
            return await locks.is_being_loaded(store, name)

    assert bridge.run(work()) is seen.capabilities.distributed
    assert not bridge.run(locks.is_being_loaded(store, name))


def test_one_connection_holds_all_collections_of_which_there_may_be_more_than_connections(store):
    names = [make(store, some_name(), chunks={}).name for _ in range(3)]

    async def work():
        before = store.engine.pool.checkedout()
        async with save.without_writers(as_a_cluster(store), None):
            taken = store.engine.pool.checkedout() - before
            return taken, [await locks.is_being_loaded(store, each) for each in names]

    assert bridge.run(work()) == (1, [True, True, True])
    assert not any(bridge.run(locks.is_being_loaded(store, each)) for each in names)
