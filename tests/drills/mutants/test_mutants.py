"""A protection that is taken out is noticed: by the test that holds it, in a copy of the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.drills.mutants.protections import PROTECTIONS, Protection
from tests.effort import TIMES, random_for

ROOT = Path(__file__).parents[3]
COPIED = ("core", "evals", "workbench", "tests")
SAMPLE = 4
PATIENCE = 600
DRAWN = PROTECTIONS if TIMES > 1 else random_for("mutants").sample(PROTECTIONS, SAMPLE)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all that a test imports or reads; what no patch changes is linked."""
    for each in ROOT.iterdir():
        if each.name in COPIED:
            shutil.copytree(each, tmp_path / each.name, ignore=shutil.ignore_patterns("__pycache__"))
        elif not each.name.startswith(".") or each.name == ".ci":
            (tmp_path / each.name).symlink_to(each)
    return tmp_path


def outcomes(tree: Path, *tests: str) -> dict[str, set[str]]:
    """What became of each test, in all its cases: passed, failure, error, skipped."""
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    for name in ("RANKBOOK_HOME", "RANKBOOK_DSN"):  # as make a run of its own
        environment.pop(name, None)
    quiet = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--durations=0", "--junitxml=said.xml"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *quiet, *tests],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (tree / "said.xml").is_file(), done.stdout[-3000:] + done.stderr[-3000:]
    found: dict[str, set[str]] = {each.partition("::")[2]: set() for each in tests}
    for case in ElementTree.parse(tree / "said.xml").iter("testcase"):
        said = {each.tag for each in case} & {"failure", "error", "skipped"}
        found.setdefault(str(case.get("name")).partition("[")[0], set()).update(said or {"passed"})
    return found


@pytest.mark.parametrize("protection", DRAWN, ids=lambda each: each.name)
def test_a_protection_that_is_taken_out_is_noticed(protection: Protection, tree: Path) -> None:
    file = tree / protection.file
    text = file.read_text(encoding="utf-8")
    assert text.count(protection.text) == 1, f"{protection.file} has changed: {protection.text!r} stands there once"
    file.write_text(text.replace(protection.text, protection.instead), encoding="utf-8")
    said = outcomes(tree, protection.test, protection.stays)
    test, stays = (each.partition("::")[2] for each in (protection.test, protection.stays))
    if said[test] == {"skipped"}:
        pytest.skip(f"{test} is skipped here: it needs root, a browser or the like")
    assert said[stays] == {"passed"}, f"the patch breaks more: {said}"
    assert "failure" in said[test], f"nothing fails without this: {said}"
