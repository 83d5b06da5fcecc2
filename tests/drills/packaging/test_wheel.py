"""A wheel, installed into an environment of its own, works the same from any folder, the demo collection included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import make_home

ROOT = Path(__file__).parents[3]
DOCUMENTS = 215


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel in it; the dependencies are those of the environment that runs the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "environment", with_pip=False)
    python = folder / "environment" / "bin" / "python"
    install = [sys.executable, "-m", "pip", f"--python={python}", "install", "--no-deps", "--quiet", str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    own = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    dependencies = sysconfig.get_path("purelib")
    # A path file below another's path is not read, so the checkout, which is installed by one, stays out of sight.
    (Path(own.stdout.strip()) / "dependencies.pth").write_text(f"{dependencies}\n")
    return folder / "environment" / "bin"


@pytest.fixture
def environment() -> dict[str, str]:
    home = make_home()
    return {**{name: os.environ[name] for name in ("PATH", "HOME")}, "RANKBOOK_HOME": str(home)}


def run(command: Path, *arguments: str, cwd: Path, environment: dict[str, str]) -> str:
    finished = subprocess.run(
        [command, *arguments], cwd=cwd, env=environment, check=False, capture_output=True, text=True, timeout=120
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


@pytest.mark.slow
def test_a_wheel_brings_the_demo_and_searches_it_from_any_folder(
    installed: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    rankbook = installed / "rankbook"
    where = run(installed / "python", "-c", "import core; print(core.__file__)", cwd=tmp_path, environment=environment)
    assert str(installed.parent) in where

    added = run(rankbook, "data", "add", "handbook", "--model", "none", "--json", cwd=tmp_path, environment=environment)
    assert json.loads(added)["report"]["added"] == DOCUMENTS
    found = run(rankbook, "search", "FL-4021", "--leg", "fulltext", "--json", cwd=tmp_path, environment=environment)
    assert json.loads(found)[0]["hits"][0]["item_id"] == "fix-fl-4021-uplink-certificate"
    assert "scifact" in run(rankbook, "data", "catalog", "--json", cwd=tmp_path, environment=environment)
