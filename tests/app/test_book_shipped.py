"""The notebooks that ship, over the whole demo collection: each runs, says something, and runs as Python too."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from core import bridge
from evals.collections import load
from evals.lab import Lab
from evals.sources import guess
from tests.app.test_command_line import rankbook
from workbench.notebooks.files import shipped_names

pytestmark = pytest.mark.slow
MODEL = "hashing:64"  # meanings are not what is tried here: a real model would take minutes


@pytest.fixture(scope="module")
def handbook(store):
    """The demo collection as it is loaded, under a name of its own."""
    name, source = f"handbook {uuid.uuid4().hex[:6]}", guess("handbook")
    plan = load.plan_for(source, models=(MODEL,), check=False)
    bridge.run(load.load_collection(store, name, source, plan))
    yield name
    bridge.run(load.drop(store, name))


@pytest.mark.parametrize("name", shipped_names())
def test_a_notebook_that_ships_runs_and_runs_once_more_as_python(handbook, name, tmp_path):
    """In one test, so that Python finds the runs that the notebook made."""
    page, path = tmp_path / "page.html", tmp_path / f"{name}.ipynb"
    shown = rankbook("notebook", "run", name, "--collection", handbook, "--json", "--html", str(page), code=None)
    results = json.loads(shown.stdout)
    assert [each["problem"] for each in results] == [None] * len(results)
    assert all(each["output"]["blocks"] for each in results)
    assert all(each["title"] in page.read_text() for each in results)
    rankbook("notebook", "export", name, "--collection", handbook, "--ipynb", str(path))
    _execute(json.loads(path.read_text())["cells"])


def _execute(cells: list[dict[str, Any]]) -> None:
    names: dict[str, Any] = {"display": repr, "__name__": "notebook"}
    try:
        for cell in cells:
            if cell["cell_type"] == "code":
                exec(compile(cell["source"], "notebook", "exec"), names)
    finally:
        if "lab" in names:
            names["lab"].close()
    assert isinstance(names["lab"], Lab)
