"""What `core` and `evals` offer to programs: the names, that each is there, and that asking for none loads nothing."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import pytest

import core
import evals

CORE = """
    AttachedTable Chunk Chunker CollectionView DEFAULT_MODEL Embedder EvidenceChunk Expansion Explanation ExportedSql
    Fusion Hit Ingest Item LateChunking Leg LegScore Query RankbookError RequestContext Reranker Resources
    RetrievalResult Rollup Store Trace Variant attach_table chunkers create_collection drop_collection embedder
    estimate_calls expansions export_sql find_collection fusions get_collection list_collections preset preset_names
    rerankers run_sync search
"""
EVALS = """
    Board EvalContext EvalOptions Exclusion Finding Gate Lab Label LabelledQueries LoadPlan LoadReport MEASURES Metric
    QuerySplit Ranking Rules Run RunSubject Source Span Suite TuningRequest TuningResult Verdict build_queue
    build_report compare_runs evaluate export_beir guess_source hybrid_of list_runs load_collection load_run
    merge_judgements open_eval pin_run read_run resolve_variant restore_backup run_suite save_backup save_judgements
    save_variant schema_chain score_rankings tune_weights write_report write_run
"""


@pytest.mark.parametrize(("package", "names"), [(core, CORE), (evals, EVALS)], ids=["core", "evals"])
def test_the_public_names_are_these_and_each_is_there(package: ModuleType, names: str) -> None:
    assert sorted(package.__all__) == sorted(package._HOME) == sorted(names.split())
    for name in package.__all__:
        value = getattr(package, name)
        assert not isinstance(value, ModuleType), f"a module hides {package.__name__}.{name}"


@pytest.mark.parametrize("package", [core, evals])
def test_another_name_is_refused(package: ModuleType) -> None:
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'serch'"):
        _ = package.serch


def test_importing_them_loads_no_library() -> None:
    heavy = ("streamlit", "ranx", "torch", "sqlalchemy", "pydantic", "numpy")
    program = f"import core, evals, sys; print(*(name for name in {heavy} if name in sys.modules))"
    root = Path(__file__).parents[2]
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=root)
    assert answer.stdout.split() == []


@pytest.mark.parametrize("package", ["core", "evals", "workbench"])
def test_type_checkers_may_read_the_annotations(package: str) -> None:
    assert files(package).joinpath("py.typed").is_file()
