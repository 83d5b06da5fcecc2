"""Notebooks on disk: whole or not at all, and never over somebody else's change in silence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import InputError
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import (
    ChangedOnDisk,
    create_notebook,
    find_notebook,
    read_notebook,
    save_notebook,
    shipped,
)

REPOSITORY = Path(__file__).parents[2]
PROCESSES, SAVES = 3, 40
# Processes that write lines below whatever stands there, beginning anew where they were told of a conflict.
WRITERS = """
import os
import sys
from pathlib import Path
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import ChangedOnDisk, read_notebook, save_notebook

path, writers, saves = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
children = []
for writer in range(writers):
    child = os.fork()
    if child:
        children.append(child)
        continue
    for number in range(saves):
        while True:
            file = read_notebook(path)
            try:
                save_notebook(file, Notebook.parse(file.notebook.text + f"writer-{writer} {number}\\n"))
                break
            except ChangedOnDisk:
                pass
    os._exit(0)
sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
"""
TEXT = "# One\r\n\r\n```search\r\nquery = 'a'\r\n```\r\n"


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "book.md"
    made.write_bytes(TEXT.encode())
    return made


def test_a_file_is_read_as_it_is_and_saved_as_it_was_changed(path):
    file = read_notebook(path)
    assert file.notebook.text == TEXT
    after = save_notebook(file, file.notebook.replace(file.notebook.cells[0].id, "query = 'b'"))
    assert path.read_bytes() == TEXT.replace("'a'", "'b'").encode()
    assert read_notebook(path).digest == after.digest
    assert [each.name for each in path.parent.iterdir()] == ["book.md"]


def test_permissions_and_links_stay(path):
    path.chmod(0o640)
    link = path.with_name("link.md")
    link.symlink_to(path)
    file = read_notebook(link)
    save_notebook(file, Notebook.parse("other\n"))
    assert link.is_symlink()
    assert path.read_text() == "other\n"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_that_somebody_else_changed_is_noticed_and_left_alone(path):
    file = read_notebook(path)
    assert not file.changed_on_disk
    path.write_text("theirs\n")
    assert file.changed_on_disk
    with pytest.raises(ChangedOnDisk, match="was changed by somebody else") as refused:
        save_notebook(file, Notebook.parse("mine\n"))
    assert refused.value.text == "theirs\n"
    assert refused.value.unsaved.text == "mine\n"
    assert path.read_text() == "theirs\n"


def test_a_file_that_is_gone_is_not_made_anew_in_silence(path):
    file = read_notebook(path)
    path.unlink()
    with pytest.raises(ChangedOnDisk, match="was removed"):
        save_notebook(file, file.notebook)
    assert not path.exists()


def test_of_two_windows_the_second_is_told(path):
    one, other = read_notebook(path), read_notebook(path)
    one = save_notebook(one, Notebook.parse("one\n"))
    with pytest.raises(ChangedOnDisk):
        save_notebook(other, Notebook.parse("other\n"))
    assert save_notebook(one, Notebook.parse("one more\n")).notebook.text == path.read_text() == "one more\n"


def test_a_write_that_fails_leaves_the_old_file_whole(path):
    file = read_notebook(path)
    path.rename(path.with_name("away.md"))
    path.mkdir()  # nothing can be put in a folder's place
    with pytest.raises(InputError):
        save_notebook(file, Notebook.parse("x\n"))
    assert path.with_name("away.md").read_bytes() == TEXT.encode()


def test_a_new_file_never_takes_the_place_of_one_that_is_there(path):
    with pytest.raises(InputError, match="left alone"):
        create_notebook(path, Notebook.parse("mine\n"))
    assert path.read_bytes() == TEXT.encode()


def test_what_is_no_utf8_is_refused_with_its_line(path):
    path.write_bytes(b"one\ntwo \xff\n")
    with pytest.raises(InputError, match="line 2: The notebook is not UTF-8"):
        read_notebook(path)


def test_a_notebook_is_meant_by_its_file_without_its_ending_or_by_the_name_it_ships_under(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    assert find_notebook("book").name == "book.md"
    assert find_notebook("tour") == shipped("tour")
    path.rename("tour.md")
    assert find_notebook("tour").parent != shipped("tour").parent
    with pytest.raises(InputError, match="There is: chunking"):
        find_notebook("nothing")


@pytest.mark.slow
def test_processes_that_save_one_notebook_at_once_lose_no_save(path):
    path.write_text("")
    command = [sys.executable, "-c", WRITERS, str(path), str(PROCESSES), str(SAVES)]
    subprocess.run(command, cwd=REPOSITORY, check=True, timeout=120)
    expected = {f"writer-{writer} {number}" for writer in range(PROCESSES) for number in range(SAVES)}
    lines = path.read_text().splitlines()
    assert set(lines) == expected
    assert len(lines) == len(expected)
    assert [each.name for each in path.parent.iterdir()] == ["book.md"]
