"""Every leg and preset on labelled collections: quality and latency. With --markdown, their table.

Scored by the harness, items at their best chunk; some queries of each variant are timed one by one. What needs a
language model is left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from core import bridge
from core.context import RequestContext
from core.legs import Leg, legs
from core.presets import names, preset
from core.progress import Step
from core.store import collections
from core.store.engine import Store
from core.variant import Rollup, Variant
from evals.collections import load as collections_load
from evals.evaluation.board import Board
from evals.labels import query_sets
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.runs.types import Run
from evals.schema import schema_chain
from evals.sources import guess
from evals.types import ALL, QuerySplit
from tests.bench.figures import SHARED, Figure

COLLECTIONS = ("handbook", "cranfield", "scifact")
METRICS = ("ndcg@10", "recall@10")
TIMED = 50
NEEDS_A_LANGUAGE_MODEL = {"context-pack"}


def measure() -> list[Figure]:
    return bridge.run(_measure(os.environ.get("RANKBOOK_BENCH_COLLECTIONS", " ".join(COLLECTIONS)).split()))


async def _measure(chosen: list[str]) -> list[Figure]:
    async with await Store.open(chains=[schema_chain]) as store:
        return [figure for name in chosen for figure in await _of_collection(store, name)]


async def _of_collection(store: Store, name: str) -> list[Figure]:
    await load(store, name)
    labelled = await query_sets.load(store, name)
    split = QuerySplit.of(labelled, ALL if name == "handbook" else "test")
    context = RequestContext(store, await collections.get(store, name))
    options = EvalOptions(time_live=TIMED)
    board = Board(split, await runner.run(context, [*variants()], split, options=options, progress=_told), METRICS)
    section = f"{name}, {len(board.queries(METRICS[0])):,} queries"
    return [_figure(board, run, section) for run in board.runs]


async def load(store: Store, name: str) -> None:
    source = guess(name if name == "handbook" else SHARED / name)
    chunks = {"default": {"kind": "sentences", "max_tokens": 200}, "parents": {"kind": "parent_child"}}
    plan = (
        collections_load.plan_for(source)
        if name == "handbook"
        else collections_load.LoadPlan(chunks=chunks, check=False)
    )
    await collections_load.load_collection(store, name, source, plan)


def variants() -> Iterator[Variant]:
    """Each leg over whole documents and over chunks, then the presets."""
    for kind in sorted(legs):
        leg: Leg = legs[kind]()
        yield Variant.of_leg(leg, chunks="items").but(name=f"{kind}, documents")
        yield Variant.of_leg(leg, rollup=Rollup()).but(name=f"{kind}, chunks", overfetch=3)
    for name in names():
        if name not in NEEDS_A_LANGUAGE_MODEL:
            yield preset(name)


def _told(step: Step) -> None:
    if step.unit == "variants":
        sys.stderr.write(f"{step.done} of {step.total}: {step.name}\n")


def _figure(board: Board, run: Run, section: str) -> Figure:
    cells = {metric: f"{board.cells(metric)[run.name].mean:.3f}" for metric in METRICS}
    if run.latency:
        cells |= {"p50": f"{run.latency.p50:.0f} ms", "p95": f"{run.latency.p95:.0f} ms"}
    measured = "  ".join(f"{name} {value}" for name, value in cells.items())
    row = (("leg or preset", run.name), *cells.items())
    return Figure(f"{board.runs[0].subject.collection}: {run.name}", measured, section=section, row=row)
