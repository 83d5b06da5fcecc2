"""What a run of the tests leaves behind: no home and no server, however its tests ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from core.store.server.embedded import EmbeddedServer
from tests.conftest import TEST_DSN
from tests.drills.faults.test_server import REPOSITORY, alive

FAILS = """
from core.store.server.embedded import EmbeddedServer
from tests.conftest import make_home

def test_that_fails_and_leaves_a_server_running():
    home = make_home()
    home.chmod(0o711)
    print("made:", home, EmbeddedServer(home / "with, comma").acquire().pid)
    raise AssertionError

def test_of_an_empty_home():
    print("made:", make_home(), 0)
"""


@pytest.mark.skipif(TEST_DSN is not None, reason="it is embedded servers that are left")
def test_homes_that_a_run_made_are_gone_after_it_with_their_servers(tmp_path: Path) -> None:
    (tmp_path / "test_left.py").write_text(FAILS)
    command = [sys.executable, "-m", "pytest", "-sq", "-p", "tests.conftest", "-p", "no:cacheprovider", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    ended = subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert "1 failed, 1 passed" in ended.stdout, ended.stdout + ended.stderr
    made = [line.partition("made: ")[2].split() for line in ended.stdout.splitlines() if "made: /" in line]
    assert len(made) == 2
    for home, pid in made:
        assert not Path(home).exists()
        assert pid == "0" or not alive(int(pid))
        assert not EmbeddedServer(Path(home) / "with, comma").socket_folder.exists()
