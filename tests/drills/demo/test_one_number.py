"""What is scored is what ships: the best point of the demo's weight surface has one score, whoever tells it."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Iterator

import numpy as np
import pytest

from core import bridge
from core.fusion import fusions
from core.sql_export import export, vector_of
from core.store.engine import Store
from core.store.server.embedded import DATABASE, SUPERUSER
from core.variant import Variant
from evals import variants
from evals.collections import load
from evals.evaluation.context import EvalContext, open_eval
from evals.lab import Lab
from evals.metrics import scoring
from evals.sources import guess
from evals.tuning.tuner import TuningProcedure
from evals.tuning.workflow import TuningRequest, tune_weights
from evals.types import QuerySplit
from evals.variants import hybrid_of
from tests.app.test_command_line import data
from tests.conftest import TEST_DSN
from workbench.demo.answers import SHOWN, Answers
from workbench.services.weights import methods

MODEL = "hashing:64"  # a query has the same vector alone and in a batch, so that all is equal to the last bit
METRIC, STEPS = "ndcg@10", 10
LEGS = ("vector", "fulltext", "bm25")
QUERY, ROW, FIELD, ITEM = "\x1c", "\x1e", "\x1f", 4  # what parts psql's output; where a row has the document
IN_SQL = ("linear", "rrf")  # fusions that can be exported

pytestmark = pytest.mark.skipif(TEST_DSN is not None, reason="the psql that comes with the embedded server is used")


@pytest.fixture(scope="module")
def ground(store: Store) -> Iterator[EvalContext]:
    """The demo collection as it is loaded."""
    source, name = guess("handbook"), f"handbook {uuid.uuid4().hex[:6]}"
    bridge.run(load.load_collection(store, name, source, load.plan_for(source, models=(MODEL,), check=False)))
    yield bridge.run(open_eval(store, name))
    bridge.run(load.drop(store, name))


@pytest.fixture(scope="module")
def split(ground: EvalContext) -> QuerySplit:
    return ground.split("test")


@pytest.fixture(params=methods())
def promised(request: pytest.FixtureRequest, ground: EvalContext, split: QuerySplit) -> tuple[Variant, float]:
    """The best mix of three legs under a fusion, and the score that the surface has there."""
    base = hybrid_of(list(LEGS), "default").but(fusion=fusions[request.param]())
    looked = TuningRequest(base, METRIC, STEPS, (base.fusion,), False, TuningProcedure())
    tuned, _ = bridge.run(tune_weights(ground, split, looked))
    return base.weighted(tuned.chosen.weights, name=f"best by {request.param}"), tuned.in_sample


def test_the_best_point_has_one_score_by_eval_the_lab_sql_and_the_demo(
    ground: EvalContext, split: QuerySplit, promised: tuple[Variant, float]
) -> None:
    variant, score = promised
    kept = variants.keep(variant.to_toml())
    try:
        name = ground.view.name
        (told,) = data("eval", name, variant.name, "--metric", METRIC, "--split", "test", "--time-live", "0")["runs"]
        with Lab(name) as lab:
            board = lab.evaluate(variant.name, metrics=METRIC, split="test")
    finally:
        kept.path.unlink()
    scores = {
        "surface": score,
        "eval": told["metrics"][METRIC]["mean"],
        "lab": board.cells(METRIC)[variant.name].mean,
    }
    found = {query: list(ranked.item_ids) for query, ranked in board.run(variant.name).rankings.items()}
    if fusions.name_of(type(variant.fusion)) in IN_SQL:
        in_sql = bridge.run(_by_sql(ground, split, variant))
        scores["sql"] = scoring.score_rankings(split.grades, in_sql, [METRIC]).means()[METRIC]
        assert in_sql == found
    print(f"\n{variant.name}: {scores}")
    assert np.ptp(list(scores.values())) < 1e-9, scores
    in_demo = bridge.run(_by_demo(ground, split, variant))
    assert in_demo == {query: ids[:SHOWN] for query, ids in found.items()}


async def _by_sql(ground: EvalContext, split: QuerySplit, variant: Variant) -> dict[str, list[str]]:
    """The documents of each query as psql gives them, by the statement that ships."""
    context = ground.context
    made = await export(context.store, context.view, variant)
    script = [
        f"\\echo {QUERY}{query.id}{ROW}\n{made.filled(query.text, await vector_of(context, made, query.text))}"
        for query in split.queries.values()
    ]
    answers = (await asyncio.to_thread(_psql, ground.store, "\n".join(script))).split(QUERY)[1:]
    return dict(map(_documents, answers))


def _psql(store: Store, script: str) -> str:
    """What it prints: rows without heads, with characters between them that stand in no text."""
    assert store.server is not None
    program = store.server.programs.path("psql")
    place = f"host='{store.server.socket_folder}' user={SUPERUSER} dbname={DATABASE}"
    options = ["-X", "-qAt", "-v", "ON_ERROR_STOP=1", "-F", FIELD, "-R", ROW]
    return subprocess.run([program, *options, place], input=script, capture_output=True, text=True, check=True).stdout


def _documents(answer: str) -> tuple[str, list[str]]:
    """A query's id and the documents that were found, each once."""
    query, *rows = (row.strip("\n").split(FIELD) for row in answer.split(ROW))
    return query[0], list(dict.fromkeys(row[ITEM] for row in rows if len(row) > ITEM))


async def _by_demo(ground: EvalContext, split: QuerySplit, variant: Variant) -> dict[str, list[str]]:
    """The documents that visitors see."""
    answers = Answers(ground.store, ground.view, [variant])
    found = {}
    for query in split.queries.values():
        (column,) = (await answers.answer(query.text)).columns
        found[query.id] = [each.hit.item_id for each in column.found]
    return found
