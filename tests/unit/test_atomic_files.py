"""Files are whole or not there: a disk without room leaves what was, and of two writers none is lost."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from core.atomic_files import create_whole, locked, replacing, write_whole
from core.errors import InputError
from evals import variants
from evals.suites import gate
from workbench.notebooks import files
from workbench.notebooks.document import Notebook

LARGEST = 4096  # bytes that a file may have while the disk is "full"
TOO_LONG = "x" * (3 * LARGEST)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows beyond a few blocks: the kernel refuses the write in the middle, as it does where room ends."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def saved_notebook(folder: Path) -> None:
    path = folder / "old"
    files.save_notebook(files.read_notebook(path), Notebook.parse(TOO_LONG))


def kept_variant(folder: Path) -> None:
    variants.put_back(variants.SavedVariant("a", folder / "new.toml", TOO_LONG, None))


def written_run(folder: Path) -> None:
    with replacing(folder / "new.run", ending="-.run") as part:
        part.write_text(TOO_LONG)


WRITERS: list[Callable[[Path], Any]] = [
    lambda folder: write_whole(folder / "new", TOO_LONG),
    lambda folder: write_whole(folder / "old", TOO_LONG),
    lambda folder: create_whole(folder / "new", TOO_LONG.encode()),
    lambda folder: files.create_notebook(folder / "new.md", Notebook.parse(TOO_LONG)),
    saved_notebook,
    kept_variant,
    lambda folder: gate.write(folder / "new.xml", TOO_LONG),
    written_run,
]


@pytest.mark.parametrize("write", WRITERS)
def test_a_disk_without_room_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path, write: Callable[[Path], Any]):
    (tmp_path / "old").write_text("old\n")
    with full_disk(), pytest.raises((OSError, InputError)):
        write(tmp_path)
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"old": "old\n"}


def test_mode_and_links_stay(tmp_path: Path):
    there, link = tmp_path / "there", tmp_path / "link"
    there.write_text("old")
    there.chmod(0o640)
    link.symlink_to(there)
    write_whole(link, "ü")
    assert link.is_symlink()
    assert there.read_bytes() == "ü".encode()
    assert there.stat().st_mode & 0o777 == 0o640
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "there"]


def test_a_link_that_leads_to_itself_gives_way_to_the_file(tmp_path: Path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    write_whole(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes into somebody else's file and gives it back")
def test_the_owner_stays(tmp_path: Path):
    there = tmp_path / "there"
    there.write_text("old")
    os.chown(there, 65534, 65534)
    write_whole(there, "new")
    assert (there.stat().st_uid, there.stat().st_gid) == (65534, 65534)


def test_a_new_file_has_the_mode_that_the_umask_leaves(tmp_path: Path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "open", "x")
        write_whole(tmp_path / "private", "x", mode=0o600)
    finally:
        os.umask(before)
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("open", "private")] == [0o640, 0o600]


def test_what_is_no_plain_file_is_written_to_and_stays_what_it_is(tmp_path: Path):
    pipe, read = tmp_path / "pipe", list[str]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "through")
    reader.join()
    assert read == ["through"]
    assert pipe.is_fifo()


def test_a_new_file_leaves_what_is_there_alone(tmp_path: Path):
    (tmp_path / "there").write_text("old")
    with pytest.raises(FileExistsError):
        create_whole(tmp_path / "there", b"new")
    assert [each.read_text() for each in tmp_path.iterdir()] == ["old"]


def test_of_many_writers_under_the_lock_each_sees_what_the_last_one_wrote(tmp_path: Path):
    counter = tmp_path / "counter"
    counter.write_text("0")

    def count() -> None:
        for _ in range(10):
            with locked(counter):
                write_whole(counter, str(int(counter.read_text()) + 1))

    writers = [threading.Thread(target=count) for _ in range(6)]
    for each in writers:
        each.start()
    for each in writers:
        each.join()
    assert counter.read_text() == "60"


def test_a_file_that_is_not_there_is_nobodys_to_lock(tmp_path: Path):
    with locked(tmp_path / "nothing"):
        assert not list(tmp_path.iterdir())
