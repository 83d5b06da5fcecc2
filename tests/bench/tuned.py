"""scifact, tuned on its train split by the procedure in scifact.toml, and the test split asked once."""

from __future__ import annotations

from pathlib import Path

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.collections import load
from evals.evaluation.board import Board
from evals.schema import schema_chain
from evals.sources import guess
from evals.suites.run_suite import TargetResult, run_suite
from evals.suites.suite import Suite
from evals.tuning.tuner import fusion_label
from tests.bench.figures import SHARED, Figure

COLLECTION = "scifact"
SUITE = Path(__file__).with_name("scifact.toml")
METRIC = "ndcg@10"
PUBLISHED = "0.734"  # min-max at 0.5 / 0.5 of the same two models, untuned: the best that is published


def measure() -> list[Figure]:
    return figures(bridge.run(_measure()))


async def _measure() -> TargetResult:
    async with await Store.open(chains=[schema_chain]) as store:
        if await collections.find(store, COLLECTION) is None:
            await load.load_collection(
                store, COLLECTION, guess(SHARED / COLLECTION), load.LoadPlan(chunks={}, check=False)
            )
        result = await run_suite(store, Suite.from_file(SUITE))
    return result.results[0]


def figures(result: TargetResult) -> list[Figure]:
    """There is no target: what comes out is reported."""
    (made,) = result.tuned
    tuned, board = made.tuned, result.board
    weights = ", ".join(f"{leg} {weight:g}" for leg, weight in tuned.chosen.weights.items())
    finding = board.finding(METRIC, made.name) if made.variant else None
    return [
        Figure(f"{COLLECTION}, chosen on train", f"{weights} under {fusion_label(tuned.chosen.fusion)}"),
        Figure("train: nDCG@10 in-sample", f"{tuned.in_sample:.4f}"),
        Figure("train: nDCG@10 cross-fitted, to be expected of new queries", f"{tuned.cross_fitted:.4f}"),
        Figure("train: what tuning is worth", tuned.verdict),
        *(_of_test(board, name) for name in board.names),
        Figure("test: tuned against min-max at 0.5 / 0.5", finding.sentence if finding else "left out"),
        *(Figure("a note", note) for note in (*result.notes, *(each.message for each in board.warnings))),
    ]


def _of_test(board: Board, name: str) -> Figure:
    cell = board.cells(METRIC)[name]
    interval = "" if cell.low is None else f" [{cell.low:.4f}, {cell.high:.4f}]"
    beside = f"; published untuned: {PUBLISHED}" if name == "tuned" else ""
    return Figure(f"test: nDCG@10 of {name}", f"{cell.mean:.4f}{interval}{beside}")
