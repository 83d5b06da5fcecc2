"""What a run was made with, and whether what is kept may be used again."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from core.home import home
from core.store.engine import Capabilities
from core.variant import Variant
from evals.runs.provenance import (
    CHECKOUT,
    KEPT_DIGEST,
    MODELS_RUN_ON,
    NOT_RANKING,
    PACKAGES,
    RANKING,
    ranking_code,
    server_mark,
    syntax_of,
    variant_mark,
    vector_mark,
)

SERVER = Capabilities(180_006, {"vector": "0.8.6"})

# What the runner imports and what decides no ranking: labels, rows, metrics, and the rules of verdicts.
ELSEWHERE = {"label_checks", "measures", "schema", "types", "verdicts"}


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
    waiting = {CHECKOUT / "evals" / "runs" / "runner.py"}
    while waiting:
        reached |= waiting
        waiting = {each for path in waiting for each in imported(path)} - reached
    counted = [CHECKOUT / each for each in RANKING]
    assert all((CHECKOUT / each).exists() for each in NOT_RANKING)
    assert {path.stem for path in reached if not any(path.is_relative_to(each) for each in counted)} == ELSEWHERE
    assert all(path.exists() for path in counted)


CODE = """
# a reason
class Leg:
    "What it is."
    phrase: ClassVar[str] = "by words"
    uses_model: ClassVar[bool] = True
    weight: float = Field(1.0, description="How much it counts.")

    def recall(self) -> int:
        "How many."
        return 10
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# a reason\n", ""),
        ("What it is.", "A leg, as anybody would say it."),
        ('        "How many."\n', ""),
        ('"by words"', '"by the words of the query"'),
        ("How much it counts.", "Its weight."),
    ],
)
def test_another_wording_is_the_same_code(before, after):
    assert syntax_of(ast.parse(CODE.replace(before, after, 1))) == syntax_of(ast.parse(CODE))


@pytest.mark.parametrize(
    ("before", "after"), [("10", "11"), ("bool] = True", "bool] = False"), ("1.0", "2.0"), ("recall", "ask")]
)
def test_whatever_changes_what_is_done_is_other_code(before, after):
    assert syntax_of(ast.parse(CODE.replace(before, after, 1))) != syntax_of(ast.parse(CODE))


def test_the_digest_of_the_code_is_kept_for_these_files_alone():
    ranking_code.cache_clear()
    first, kept = ranking_code(), home() / KEPT_DIGEST
    written, digest = kept.read_text().split()
    assert digest == first
    for content in (f"{written} {'0' * 32}", f"{'0' * 32} {'0' * 32}", "neither", ""):
        kept.write_text(content)
        ranking_code.cache_clear()
        assert ranking_code() == ("0" * 32 if content.startswith(written) else first)
    ranking_code.cache_clear()
    assert ranking_code() == first


def test_the_digest_of_the_code_stays_while_the_code_does():
    first = ranking_code()
    ranking_code.cache_clear()
    assert ranking_code() == first
    assert len(first) == 32


def test_a_minor_version_of_the_server_makes_no_run_stale_and_a_major_one_does():
    assert server_mark(SERVER) == server_mark(Capabilities(180_007, {}))
    assert server_mark(SERVER) != server_mark(Capabilities(190_000, {}))


@pytest.mark.parametrize("package", MODELS_RUN_ON)
def test_vectors_of_queries_hang_on_what_the_model_runs_on_here(package):
    def versions(name):
        return "2.0" if name == package else "1.0"

    here, there = "all-MiniLM-L6-v2@bf16", "openai:bge-m3[localhost:8080]"
    assert vector_mark(SERVER, here, versions) != vector_mark(SERVER, here, lambda _: "1.0")
    assert vector_mark(SERVER, there, versions) == vector_mark(SERVER, there, lambda _: "1.0")
    assert vector_mark(SERVER, there) != vector_mark(Capabilities(180_006, {"vector": "0.8.7"}), there)
    assert package in PACKAGES


@pytest.mark.parametrize(
    ("options", "marked"),
    [
        ({"leg": [{"kind": "bm25"}, {"kind": "trigram"}]}, ""),
        ({"leg": [{"kind": "bm25"}], "rerank": {"method": "overlap"}}, ""),
        ({"leg": [{"kind": "bm25"}], "rerank": {"method": "cross_encoder", "model": "m"}}, "torch"),
        ({"leg": [{"kind": "bm25"}], "rerank": {"method": "late_interaction"}}, "torch"),
        ({"leg": [{"kind": "bm25"}, {"kind": "vector"}]}, "pgvector 0.8.6, sentence-transformers"),
    ],
)
def test_a_variant_hangs_on_the_versions_of_what_it_runs(options, marked):
    mark = variant_mark(SERVER, Variant.from_data(options), "all-MiniLM-L6-v2@bf16")
    assert marked in mark
    assert bool(mark) == bool(marked)
