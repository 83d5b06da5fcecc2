"""The evaluation harness: labelled collections in, scores with intervals and verdicts out. Knows nothing of screens.

The public names below are loaded when they are first used, so `import evals` stays cheap. The registry `sources` bears
its package's name: `from evals.sources import sources`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

# Each public name's module; after a colon, the name that it has there where that is another.
_HOME = {
    "Board": "evals.evaluation.board",
    "EvalContext": "evals.evaluation.context",
    "EvalOptions": "evals.evaluation.context",
    "Exclusion": "evals.types",
    "Finding": "evals.statistics.verdicts",
    "Gate": "evals.suites.gate",
    "Lab": "evals.lab",
    "Label": "evals.types",
    "LabelledQueries": "evals.types",
    "LoadPlan": "evals.collections.load",
    "LoadReport": "evals.collections.load_labels",
    "MEASURES": "evals.measures",
    "Metric": "evals.measures",
    "QuerySplit": "evals.types",
    "Ranking": "evals.runs.rankings",
    "Rules": "evals.statistics.verdicts",
    "Run": "evals.runs.types",
    "RunSubject": "evals.runs.types",
    "Source": "evals.sources.base",
    "Span": "evals.types",
    "Suite": "evals.suites.suite",
    "TuningRequest": "evals.tuning.workflow",
    "TuningResult": "evals.tuning.tuner",
    "Verdict": "evals.statistics.verdicts",
    "build_queue": "evals.judging.queue",
    "build_report": "evals.reports:report",
    "compare_runs": "evals.evaluation.compare_runs",
    "evaluate": "evals.evaluation.evaluate",
    "export_beir": "evals.collections.export_beir",
    "guess_source": "evals.sources.guess:guess",
    "hybrid_of": "evals.variants",
    "list_runs": "evals.runs.run_store:listed",
    "load_collection": "evals.collections.load",
    "load_run": "evals.runs.run_store:load",
    "merge_judgements": "evals.judging.merging",
    "open_eval": "evals.evaluation.context",
    "pin_run": "evals.runs.run_store:pin",
    "read_run": "evals.runs.exchange",
    "resolve_variant": "evals.variants",
    "restore_backup": "evals.backup.restore",
    "run_suite": "evals.suites.run_suite",
    "save_backup": "evals.backup.save",
    "save_judgements": "evals.judging.judgements",
    "save_variant": "evals.variants:keep",
    "schema_chain": "evals.schema",
    "score_rankings": "evals.metrics.scoring",
    "tune_weights": "evals.tuning.workflow",
    "write_report": "evals.reports:write",
    "write_run": "evals.runs.exchange",
}
__all__ = [
    "MEASURES",
    "Board",
    "EvalContext",
    "EvalOptions",
    "Exclusion",
    "Finding",
    "Gate",
    "Lab",
    "Label",
    "LabelledQueries",
    "LoadPlan",
    "LoadReport",
    "Metric",
    "QuerySplit",
    "Ranking",
    "Rules",
    "Run",
    "RunSubject",
    "Source",
    "Span",
    "Suite",
    "TuningRequest",
    "TuningResult",
    "Verdict",
    "build_queue",
    "build_report",
    "compare_runs",
    "evaluate",
    "export_beir",
    "guess_source",
    "hybrid_of",
    "list_runs",
    "load_collection",
    "load_run",
    "merge_judgements",
    "open_eval",
    "pin_run",
    "read_run",
    "resolve_variant",
    "restore_backup",
    "run_suite",
    "save_backup",
    "save_judgements",
    "save_variant",
    "schema_chain",
    "score_rankings",
    "tune_weights",
    "write_report",
    "write_run",
]

if TYPE_CHECKING:
    from evals.backup.restore import restore_backup
    from evals.backup.save import save_backup
    from evals.collections.export_beir import export_beir
    from evals.collections.load import LoadPlan, load_collection
    from evals.collections.load_labels import LoadReport
    from evals.evaluation.board import Board
    from evals.evaluation.compare_runs import compare_runs
    from evals.evaluation.context import EvalContext, EvalOptions, open_eval
    from evals.evaluation.evaluate import evaluate
    from evals.judging.judgements import save_judgements
    from evals.judging.merging import merge_judgements
    from evals.judging.queue import build_queue
    from evals.lab import Lab
    from evals.measures import MEASURES, Metric
    from evals.metrics.scoring import score_rankings
    from evals.reports import report as build_report
    from evals.reports import write as write_report
    from evals.runs.exchange import read_run, write_run
    from evals.runs.rankings import Ranking
    from evals.runs.run_store import listed as list_runs
    from evals.runs.run_store import load as load_run
    from evals.runs.run_store import pin as pin_run
    from evals.runs.types import Run, RunSubject
    from evals.schema import schema_chain
    from evals.sources.base import Source
    from evals.sources.guess import guess as guess_source
    from evals.statistics.verdicts import Finding, Rules, Verdict
    from evals.suites.gate import Gate
    from evals.suites.run_suite import run_suite
    from evals.suites.suite import Suite
    from evals.tuning.tuner import TuningResult
    from evals.tuning.workflow import TuningRequest, tune_weights
    from evals.types import Exclusion, Label, LabelledQueries, QuerySplit, Span
    from evals.variants import hybrid_of, resolve_variant
    from evals.variants import keep as save_variant
else:

    def __getattr__(name: str) -> Any:
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module, _, original = _HOME[name].partition(":")
        return getattr(import_module(module), original or name)
