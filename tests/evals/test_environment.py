"""What a run was made with, and whether what is kept may be used again."""

from __future__ import annotations

import ast
from pathlib import Path

from evals.running.environment import CHECKOUT, RANKING, ranking_code

# What the runner imports and what decides no ranking: labels and rows, and what is said of a run.
ELSEWHERE = {"labels", "query_sets", "runs", "splits", "store"}


def imported(module: Path) -> set[Path]:
    """The modules of evals that this one imports."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "evals":
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            found |= {CHECKOUT / f"{name.replace('.', '/')}.py" for name in names}
    return {path for path in found if path.is_file()}


def test_kept_rankings_hang_on_all_the_code_that_they_come_of():
    """A change in a module that is not counted would leave old rankings in the place of new ones."""
    reached: set[Path] = set()
    waiting = {CHECKOUT / "evals" / "running" / "runner.py"}
    while waiting:
        reached |= waiting
        waiting = {each for path in waiting for each in imported(path)} - reached
    counted = [CHECKOUT / each for each in RANKING]
    assert {path.stem for path in reached if not any(path.is_relative_to(each) for each in counted)} == ELSEWHERE
    assert all(path.exists() for path in counted)


def test_the_digest_of_the_code_stays_while_the_code_does():
    first = ranking_code()
    ranking_code.cache_clear()
    assert ranking_code() == first
    assert len(first) == 32
