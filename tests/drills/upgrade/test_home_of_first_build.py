"""A home that the first build made is opened by this version: everything in it is listed, found, scored and judged."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text

from core import bridge
from core.store import collections
from core.store.engine import Store
from core.store.server.embedded import EmbeddedServer
from evals.labels import query_sets
from evals.schema import schema_chain
from tests.conftest import TEST_DSN, make_home, remove_home
from tests.evals.first_build import COMMIT, MAKE, usable

REPOSITORY = Path(__file__).parents[3]
PROGRAM = """
import json, sys
from tests.drills.help.examples import run
results = [run(f"rankbook {line}") for line in sys.argv[1:]]
json.dump([(each.line, each.code, each.said) for each in results], sys.stdout)
"""

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="the embedded server's own files are what is opened")


def checkout(folder: Path) -> Path:
    """That version out of this repository's own history."""
    if shutil.which("git") is None:
        pytest.skip("The first build is in this repository's history, which takes git to read.")
    packed = subprocess.run(["git", "archive", COMMIT], cwd=REPOSITORY, capture_output=True, check=False)
    if packed.returncode:
        pytest.skip(f"The first build, {COMMIT[:12]}, is not in this repository's history: it is a shallow clone.")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Made by that version in a process of its own, which has left when this one begins."""
    made, code = make_home(), checkout(tmp_path_factory.mktemp("first-build"))
    variables = {
        "RANKBOOK_HOME": str(made),
        "RANKBOOK_DSN": "",
        "PYTHONPATH": str(code),
        "NUMBA_DISABLE_JIT": "1",  # to compile what scores takes longer than all of this
    }
    try:
        command = [sys.executable, "-W", "ignore", str(MAKE)]
        subprocess.run(command, cwd=code, env={**os.environ, **variables}, check=True)
        yield made
    finally:
        remove_home(made)


@pytest.fixture(scope="module")
def store(home: Path) -> Iterator[Store]:
    before = revisions(home)
    opened = bridge.run(Store.open(home=home, chains=[schema_chain]))
    assert before == {"catalog": "c0002", "evals": "e0008"}
    yield opened
    bridge.run(opened.close())


def revisions(home: Path) -> dict[str, str]:
    """As the version that wrote them left them: no chain of migrations is opened."""
    with EmbeddedServer(home) as server, psycopg.connect(server.conninfo()) as connection:
        rows = connection.execute(
            "SELECT 'catalog', version_num FROM rankbook.revision_catalog "
            "UNION ALL SELECT 'evals', version_num FROM rankbook.revision_evals"
        )
        return dict(rows.fetchall())


def scalar(store: Store, statement: str) -> str:
    async def work() -> str:
        async with store.begin() as connection:
            return str(await connection.scalar(text(statement)))

    return bridge.run(work())


def test_everything_in_a_home_of_the_first_build_is_usable(home: Path, store: Store) -> None:
    assert scalar(store, "SELECT version_num FROM rankbook.revision_evals") == schema_chain.head, "migrations ran"
    assert {row.name for row in bridge.run(collections.listed(store))} == {"kettles", "faq"}
    usable.documents(store, "kettles")
    usable.labels(store, "kettles")
    usable.grades(store, "kettles")
    usable.runs(store, "kettles")
    usable.evaluation(store, "kettles")
    assert bridge.run(query_sets.count(store, "faq")) == 1
    assert bridge.run(collections.get(store, "faq")).row.attached is not None
    every_command_works(home)  # after the evaluation: what it compares is of what ships by then


def every_command_works(home: Path) -> None:
    """On kept variants and notebooks of the home, too."""
    lines = [words.replace("NOTEBOOKS", str(home / "notebooks")) for words in COMMANDS]
    variables = {**os.environ, "RANKBOOK_HOME": str(home), "RANKBOOK_DSN": "", "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, *lines]
    done = subprocess.run(command, cwd=REPOSITORY, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for wanted, (line, code, said) in zip(COMMANDS.values(), json.loads(done.stdout), strict=True):
        assert (code, wanted in said) == (0, True), f"{line}: {said}"


COMMANDS = {
    "data list": "kettles",
    "data verify kettles": "",
    "search vinegar -c kettles --variant words": "descale",
    "search vinegar -c faq --leg trigram": "Vinegar takes",
    "eval kettles words bm25 -m mrr@2": "words",
    "runs list -c kettles": "(deep)",
    "runs show main": "100 results, deep",
    "variant list": "words",
    "judge agreement kettles": "ada",
    "notebook check NOTEBOOKS/kettles.md": "",
    "queries list kettles": "default",
    "compare both words -c kettles -m mrr@2": "",
}
