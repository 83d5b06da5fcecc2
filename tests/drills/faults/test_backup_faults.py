"""Backups that something happens to: cut off, damaged, killed, out of room. Nothing is lost or half restored."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, arg-type, unused-ignore"

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from core import bridge
from core.errors import InputError, RankbookError
from core.store import collections
from evals import backup
from evals.backup.archive_writer import write_beside
from evals.judging import judgements as judging
from evals.labels import query_sets
from tests.conftest import TEST_DSN
from tests.effort import TIMES, random_for
from tests.evals.archives import LABELLED, back_up, fill_collection, repack, unpack
from tests.store.making import contents, documents, ingest, make, some_name, wrong

REPOSITORY = Path(__file__).parents[3]
FLIPS = 60 * TIMES
CUTS = 12
PATIENCE = 60

WORK = """
import os, resource, signal, sys
sys.path.insert(0, {repository!r})
from core import bridge
from core.store.engine import Store
from evals import backup
from evals import schema_chain

def listen(step):
    if step.name.startswith({at!r}):
        {then}

store = bridge.run(Store.open({dsn!r}, chains=[schema_chain]))
{before}
bridge.run(backup.{call}, listener=listen))
bridge.run(store.close())
"""
REGISTER = """
INSERT INTO rankbook.collections (name, namespace, language, card, origin, fields, version)
VALUES (%(name)s, %(name)s, 'english', '', '{}', '[]', 0)
"""
KILL = "os.kill(os.getpid(), signal.SIGKILL)"


def process(
    call: str, *, at: str = "nowhere", then: str = "pass", before: str = ""
) -> subprocess.CompletedProcess[str]:
    """That call in a process of its own, which something happens to at a step."""
    code = WORK.format(repository=str(REPOSITORY), at=at, then=then, before=before, call=call, dsn=TEST_DSN)
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, check=False, text=True, timeout=120
    )


@pytest.fixture(scope="module")
def donor(store, tmp_path_factory):
    """A collection that no test changes, and its backup."""
    name = some_name()
    fill_collection(store, name)
    return name, back_up(store, tmp_path_factory.mktemp("donor") / "a.tar", name).path


def gone(store, name):
    return bridge.run(collections.find(store, name)) is None


# -- the file ----------------------------------------------------------------------------------------------------------


def test_a_file_that_was_cut_off_is_refused_and_still_yields_its_labels(store, name, donor, tmp_path):
    path = donor[1]
    whole = path.read_bytes()
    labels_end = whole.index(b"/collections.00001")  # the first member after labels and judgements
    make(store, name, chunks={})
    ingest(store, name, documents(12))
    cut = tmp_path / "cut.tar"
    for at in range(labels_end + 600, len(whole) - 12_000, (len(whole) - labels_end) // CUTS):
        cut.write_bytes(whole[:at])
        with pytest.raises(InputError, match=r"cut off.*--labels-only"):
            bridge.run(backup.restore_backup(store, cut, name=f"{name} b"))
        assert gone(store, f"{name} b")
        (done,) = bridge.run(backup.restore_labels(store, cut, name=name))
        assert "may have been more" not in done.note
    after = bridge.run(query_sets.load(store, name))
    assert set(after.labels) == set(LABELLED.labels)
    assert len(bridge.run(judging.load(store, name))) == 2


def test_a_file_cut_off_within_its_labels_yields_what_is_whole_and_says_so(store, name, donor, tmp_path):
    whole = donor[1].read_bytes()
    cut = tmp_path / "cut.tar"
    cut.write_bytes(whole[: whole.index(b"/spans.00001")])
    make(store, name, chunks={})
    ingest(store, name, documents(12))
    (done,) = bridge.run(backup.restore_labels(store, cut, name=name))
    assert "judgements" in done.note
    assert done.added["labels"] == 3


def test_no_flipped_bit_gets_into_the_store(donor, tmp_path):
    """Refused, or in one of the few bytes that say nothing: the time of a heading, the padding behind a member."""
    whole, parts = bytearray(donor[1].read_bytes()), unpack(donor[1])
    flipped, refusals = tmp_path / "flipped.tar", 0
    chance = random_for("flipped bits")
    for _ in range(FLIPS):
        at, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
        whole[at] ^= bit
        flipped.write_bytes(whole)
        try:
            backup.check(flipped)
        except RankbookError:
            refusals += 1
        else:
            assert unpack(flipped) == parts
        whole[at] ^= bit
    assert refusals >= FLIPS // 4


def test_no_bit_flipped_before_packing_gets_into_the_store(donor, tmp_path):
    """Then every checksum of the packing fits, and the digests alone tell."""
    parts = unpack(donor[1])
    names = sorted(name for name in parts if name.endswith(".gz") and parts[name])
    chance = random_for("bits flipped before packing")
    for _ in range(FLIPS // 6):
        name = chance.choice(names)
        content = bytearray(parts[name])
        at = chance.choice([place for place, byte in enumerate(content) if byte not in b"\n"])
        content[at] ^= 2 if content[at] ^ 2 != ord("\n") else 4
        path = repack(tmp_path / "flipped.tar", {**parts, name: bytes(content)}, listed=False)
        with pytest.raises(InputError, match="digest differs"):
            backup.check(path)


# -- saving ------------------------------------------------------------------------------------------------------------


def test_a_backup_that_is_killed_leaves_the_older_one_and_the_next_one_is_whole(store, donor, tmp_path):
    name, path = donor[0], tmp_path / "mine.tar"
    path.write_bytes(donor[1].read_bytes())
    older = path.read_bytes()
    call = f"save_backup(store, __import__('pathlib').Path({str(path)!r}), collection={name!r}, overwrite=True"
    ended = process(call, at="Saving items", then=KILL)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert path.read_bytes() == older
    with path.with_name("mine.tar.part").open("ab") as left:  # it may have been a larger one
        left.write(b"x" * len(older))
    assert process(call).returncode == 0
    assert backup.check(path).collections[0].name == name
    assert path.stat().st_size < 2 * len(older)
    assert [each.name for each in tmp_path.iterdir()] == ["mine.tar"]


def test_a_disk_that_is_full_is_told_and_the_older_backup_stays(store, donor, tmp_path):
    name, path = donor[0], tmp_path / "mine.tar"
    path.write_text("older")
    call = f"save_backup(store, __import__('pathlib').Path({str(path)!r}), collection={name!r}, overwrite=True"
    limit = "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))"
    ended = process(call, before=limit)
    assert ended.returncode == 1
    assert "The backup cannot be written (File too large)" in ended.stderr
    assert path.read_text() == "older"
    assert [each.name for each in tmp_path.iterdir()] == ["mine.tar"]


def test_two_backups_to_one_place_do_not_mix(tmp_path):
    path = tmp_path / "mine.tar"
    with write_beside(path) as file:
        file.write(b"whole")
        with pytest.raises(InputError, match="being written there"), write_beside(path) as other:
            other.write(b"mixed")
    assert path.read_bytes() == b"whole"
    assert [each.name for each in tmp_path.iterdir()] == ["mine.tar"]


# -- restoring ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["Restoring vectors", "Index", "Restoring judgements"])
def test_a_restore_that_is_killed_leaves_nothing_and_the_next_one_is_whole(store, name, donor, at):
    call = f"restore_backup(store, __import__('pathlib').Path({str(donor[1])!r}), name={name!r}"
    ended = process(call, at=at, then=KILL)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert gone(store, name)
    assert bridge.run(query_sets.count(store, name)) == 0
    bridge.run(backup.restore_backup(store, donor[1], name=name))
    assert contents(store, name) == contents(store, donor[0])
    assert wrong(store, name) == {}


@pytest.mark.skipif(TEST_DSN is not None, reason="the command is given the embedded server")
def test_ctrl_c_ends_a_restore_in_good_order(store, name, donor):
    """Somebody else is about to register the same name, so that it waits in the middle of its transaction."""
    command = [sys.executable, "-W", "ignore", "-m", "workbench.cli", "restore", str(donor[1]), "--as", name]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
    with psycopg.connect(store.server.conninfo()) as other, psycopg.connect(store.server.conninfo()) as watching:
        watching.autocommit = True
        other.execute(REGISTER, {"name": name})
        restoring = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY)
        until(lambda: watching.execute(waiting, [other.info.backend_pid]).fetchone() == (1,), "the restore's waiting")
        restoring.send_signal(signal.SIGINT)
        _, said = restoring.communicate(timeout=PATIENCE)
        assert restoring.returncode == 130, said
        assert "Stopped. Nothing is half restored" in said
        assert "Traceback" not in said
        other.rollback()
    assert gone(store, name)
    assert bridge.run(query_sets.count(store, name)) == 0


def until(condition: Callable[[], bool], what: str) -> None:
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"{what} did not happen in {PATIENCE} s"
        time.sleep(0.02)
