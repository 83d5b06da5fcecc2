"""What a run was made with, and whether what is kept may be used again."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from core.store.engine import Capabilities
from core.variant import Variant
from evals.runs.code_digest import APART, CHECKOUT, KEPT, RANKING, ranking_code, ranking_files, tree_digest
from evals.runs.provenance import (
    MODELS_RUN_ON,
    PACKAGES,
    server_mark,
    variant_mark,
    vector_mark,
)

SERVER = Capabilities(180_006, {"vector": "0.8.6"})

# What the runner imports and what decides no ranking: labels, rows, metrics, and the rules of verdicts.
ELSEWHERE = {"schema", "types", "verdicts"}


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
    assert {path.stem for path in reached if not any(path.is_relative_to(each) for each in counted)} == ELSEWHERE
    assert all(path.exists() for path in counted)


def test_the_packages_that_decide_rankings_are_these():
    assert (
        *("core/chunking", "core/context.py", "core/embedding", "core/expansion", "core/filters.py", "core/fusion"),
        *("core/legs", "core/llm", "core/packing", "core/pipeline", "core/rerank", "core/routing.py", "core/store"),
        *("core/types.py", "core/variant.py", "evals/runs"),
    ) == RANKING
    assert all((CHECKOUT / each).exists() for each in (*RANKING, *APART))
    stems = {path.stem for path in ranking_files()}
    assert {"bm25", "retriever", "search_target", "runner", "variant"} <= stems
    assert not {"grants", "roles", "verify", "index_advice", "embedded", "explanation", "doctor"} & stems


@pytest.mark.slow
def test_the_digest_of_the_code_stays_while_the_code_does(tmp_path, monkeypatch):
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path))
    ranking_code.cache_clear()
    first = ranking_code()
    assert len(first) == 32
    kept = (tmp_path / KEPT).read_text()
    assert first in kept
    for content in (kept, "", "[]", '{"another state": "another digest"}'):
        (tmp_path / KEPT).write_text(content)
        ranking_code.cache_clear()
        assert ranking_code() == first
    assert (tmp_path / KEPT).read_text() == kept, "made anew"
    (tmp_path / KEPT).write_text(kept.replace(first, "what was kept is believed"))
    ranking_code.cache_clear()
    assert ranking_code() == "what was kept is believed"
    monkeypatch.setenv("RANKBOOK_HOME", str(tmp_path / "nowhere"))
    ranking_code.cache_clear()
    assert ranking_code() == first
    assert not (tmp_path / "nowhere").exists()


BM25 = (CHECKOUT / "core" / "legs" / "bm25.py").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ('phrase="by its rare words"', 'phrase="by the words that few have"'),
        ("long units are not favoured.", "long units gain nothing."),
        ('description="How much repeats of a word add; 0 counts its presence alone."', 'description="Repeats."'),
        ("class Bm25Leg(Leg):", "class Bm25Leg(Leg):  # a remark"),
        ("from core.legs.base import", "\n\nfrom core.legs.base import"),
    ],
)
def test_a_change_of_wording_keeps_kept_runs(was, becomes):
    assert BM25.count(was) == 1
    assert tree_digest(BM25.replace(was, becomes).encode()) == tree_digest(BM25.encode())


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("Field(1.2, ge=0", "Field(1.5, ge=0"),
        ("ge=0, le=1, description", "ge=0, le=2, description"),
        ("uses_model: ClassVar[bool] = False", "uses_model: ClassVar[bool] = True"),
        ("literal(UNIT, Double)", "literal(-UNIT, Double)"),
        ("(0.0, math.inf)", "(math.inf, 0.0)"),
    ],
)
def test_a_change_of_the_code_makes_them_stale(was, becomes):
    assert BM25.count(was) == 1
    assert tree_digest(BM25.replace(was, becomes).encode()) != tree_digest(BM25.encode())


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
