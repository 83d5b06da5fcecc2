"""The shape of the house: what may import what, what stays light, and that data folders hold data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("streamlit", "ranx", "torch", "pandas", "transformers", "sentence_transformers", "numba")


def loaded_by(statement: str) -> set[str]:
    """Which heavy packages a fresh interpreter holds after a statement."""
    question = f"{statement}; import sys; print(*(name for name in {HEAVY} if name in sys.modules))"
    answer = subprocess.run([sys.executable, "-c", question], check=True, capture_output=True, text=True, cwd=ROOT)
    return set(answer.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import core",
        "import core.pipeline.retriever, core.store.ingest, core.embedding, core.chunking",
        "import evals.collections.load, evals.sources",
        "import workbench.cli",
    ],
)
def test_importing_the_packages_loads_nothing_heavy(statement: str) -> None:
    assert loaded_by(statement) == set()


def test_the_command_line_loads_no_database_before_a_command_needs_it() -> None:
    question = "import workbench.cli, sys; print('sqlalchemy' in sys.modules, 'pydantic' in sys.modules)"
    answer = subprocess.run([sys.executable, "-c", question], check=True, capture_output=True, text=True, cwd=ROOT)
    assert answer.stdout.split() == ["False", "False"]


def test_datasets_holds_no_python() -> None:
    assert list((ROOT / "datasets").rglob("*.py")) == []


def test_nothing_in_workbench_bears_the_name_of_an_installed_package() -> None:
    """Streamlit puts that folder first on the import path."""
    from importlib.metadata import packages_distributions

    names = {path.stem for path in (ROOT / "workbench").iterdir() if path.suffix == ".py" or path.is_dir()}
    assert names & (set(packages_distributions()) | set(sys.stdlib_module_names)) == set()
