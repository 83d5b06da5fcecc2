"""Kept variants as files: what stands in their folder delays no look-up, and only what changed is parsed again."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from core.errors import InputError
from core.toml_io import LARGEST_FILE
from evals import variants
from workbench.notebooks import files

VALID = 'name = "mine"\ntop_k = 5\n[[leg]]\nkind = "vector"\n'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    variants.folder().mkdir()
    (variants.folder() / "mine.toml").write_text(VALID)
    return variants.folder()


def problems() -> dict[str, str]:
    """Of all that are kept, in a thread of their own: a look-up that hangs is a failure, not a wait."""
    found: dict[str, str] = {}

    def look() -> None:
        found.update({each.name: each.problem for each in variants.listed()})

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return found


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_what_is_no_plain_file_is_neither_copied_nor_waited_for_by_the_trash(folder):
    os.mkfifo(folder / "pipe.toml")
    (folder / "endless.toml").symlink_to("/dev/zero")
    for name in ("pipe", "endless"):
        with pytest.raises(InputError, match="not a plain file"):
            variants.drop(name)
    entry = variants.drop("mine").trash_entry
    assert entry is not None
    os.mkfifo(variants.trash_folder() / f"{'0' * 16}.json")
    (variants.trash_folder() / f"{'0' * 16}.toml").write_text("")
    assert variants.in_trash() == [entry]
    assert variants.restore(entry).name == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_pipe_in_the_folder_delays_no_look_up(folder):
    os.mkfifo(folder / "pipe.toml")
    assert problems() == {"mine": "", "pipe": "It cannot be read (it is not a plain file)."}


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is no such device here")
def test_a_link_to_a_device_in_the_folder_delays_no_look_up(folder):
    (folder / "endless.toml").symlink_to("/dev/zero")
    assert problems() == {"mine": "", "endless": "It cannot be read (it is not a plain file)."}


def test_a_file_that_nobody_wrote_by_hand_is_not_read(folder):
    with (folder / "large.toml").open("wb") as large:
        large.truncate(62 * 2**20)
    assert problems() == {"mine": "", "large": f"It cannot be read (it has more than {LARGEST_FILE:,} bytes)."}


def test_a_look_up_parses_only_what_changed(folder):
    other = folder / "other.toml"
    other.write_text(VALID.replace("mine", "other"))
    for each in folder.iterdir():
        old(each)
    before = {each.name: each.variant for each in variants.listed()}
    assert all(each.variant is before[each.name] for each in variants.listed())
    other.write_text(VALID.replace("mine", "other").replace("5", "6"))  # as long as before
    after = {each.name: each.variant for each in variants.listed()}
    assert after["mine"] is before["mine"]
    assert after["other"] is not None
    assert after["other"].top_k == 6
    other.unlink()
    assert variants.names() == ["mine"]


def test_a_file_that_changed_a_moment_ago_is_read_again_whatever_the_disks_clock_says(folder):
    file = folder / "mine.toml"
    for top_k in (5, 6, 7):
        found = file.stat()
        file.write_text(VALID.replace("5", str(top_k)))
        os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert variants.get("mine").valid().top_k == top_k


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
def test_a_notebook_is_a_plain_file_of_bounded_size_too(tmp_path):
    os.mkfifo(tmp_path / "pipe.md")
    with pytest.raises(InputError, match="not a plain file"):
        files.read_notebook(tmp_path / "pipe.md")
    with (tmp_path / "large.md").open("wb") as large:
        large.truncate(files.LARGEST + 1)
    with pytest.raises(InputError, match="more than 16,777,216 bytes"):
        files.read_notebook(tmp_path / "large.md")


def old(file: Path) -> None:
    """So that it may be remembered: what changed within the last second is not."""
    os.utime(file, ns=(0, 0))
