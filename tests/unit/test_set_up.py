"""The set-up script, with a stand-in for the environment's Python that notes what it is asked."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci" / "set_up.py"


@pytest.fixture
def set_up(tmp_path: Path) -> ModuleType:
    """The script as a module of this test alone, so that its constants are its seams."""
    spec = importlib.util.spec_from_file_location("rankbook_set_up", SCRIPT)
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("tokenizers==0.23.3\ntorch==2.13.0\ntqdm==4.70.1\n")
    vars(made).update(CONSTRAINTS=constraints)
    return made


@pytest.fixture
def python(set_up: ModuleType, tmp_path: Path) -> Callable[..., Callable[[], list[str]]]:
    """Puts a Python in place that has torch in some version, or none; gives what pip was asked."""

    def stand_in(torch: str = "", *, otherwise: str = "exit 0") -> Callable[[], list[str]]:
        asked = tmp_path / "asked"
        asked.write_text("")
        program = tmp_path / "python"
        importing = f"echo {torch}" if torch else "exit 1"
        program.write_text(
            f'#!/bin/sh\nif [ "$1" = -c ]; then {importing}; exit $?; fi\necho "$@" >> {asked}\n{otherwise}\n'
        )
        program.chmod(0o755)
        vars(set_up).update(PYTHON=program)
        return lambda: asked.read_text().splitlines()

    return stand_in


@pytest.mark.parametrize("there", ["2.13.0", "2.13.0+cpu"])
def test_the_pinned_torch_is_left_alone_whatever_its_build(set_up, python, there):
    asked = python(there)
    set_up.install_torch()
    assert asked() == []


@pytest.mark.parametrize("there", ["", "2.12.1", "2.12.1+cpu", "2.13.1+cu130", "2.13.0rc1"])
def test_no_torch_or_another_version_is_replaced_by_the_pinned_one(set_up, python, there):
    asked = python(there)
    set_up.install_torch()
    (call,) = asked()
    assert call.startswith("-m pip install")
    assert call.endswith("--no-index --no-deps torch==2.13.0")


def test_without_a_wheel_at_hand_the_index_of_cpu_builds_is_asked(set_up, python):
    asked = python("2.12.1", otherwise='case "$*" in *--no-index*) exit 1;; esac')
    set_up.install_torch()
    assert set_up.PYTORCH_CPU_INDEX in asked()[-1]
    assert len(asked()) == 2


def test_a_browsers_download_that_hangs_is_given_up_quietly(set_up, python):
    python(otherwise="exec sleep 60")
    assert set_up.installed_by_playwright(patience=0.2) is False


def test_a_browsers_download_tells_whether_it_worked(set_up, python):
    asked = python()
    assert set_up.installed_by_playwright() is True
    assert asked() == ["-m playwright install chromium"]
    python(otherwise="exit 1")
    assert set_up.installed_by_playwright() is False
