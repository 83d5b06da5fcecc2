"""How legs are run over a split: in batches that grow where they are quick, on connections that are given back."""

# mypy: disable-error-code="arg-type, return-value, var-annotated, dict-item"

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from core import bridge
from core.context import RequestContext, Resources
from core.errors import EmbeddingError
from core.legs.vector import VectorLeg
from core.types import Query
from core.variant import Variant
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.runs.queries import BLOCK, QueryVectors
from evals.runs.query_runs import LARGEST_BATCH, LEG_BATCH, QUICK, next_batch
from evals.types import QuerySplit
from tests.fakes import HashingEmbedder
from tests.store.making import documents, fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder(64)


@pytest.mark.parametrize(
    ("size", "seconds", "next_size"),
    [(LEG_BATCH, QUICK / 2, 2 * LEG_BATCH), (LEG_BATCH, QUICK, LEG_BATCH), (LARGEST_BATCH, 0.0, LARGEST_BATCH)],
)
def test_a_quick_batch_is_followed_by_a_larger_one_up_to_a_limit(size, seconds, next_size):
    assert next_batch(size, seconds) == next_size


def test_a_worker_takes_the_vectors_that_it_was_handed_and_embeds_nothing():
    split = QuerySplit("test", {each: Query(each, each) for each in ("a", "b")})
    context = RequestContext(None, None, Resources(embedder=lambda _: pytest.fail("embedded"), environment={}))
    vectors = QueryVectors(context, split, {("m", "a"): [1.0]}, {("m", "b"): "Its text is empty."}, {("m", "a"): 3.0})
    assert bridge.run(vectors.of("m", "a")) == [1.0]
    assert (vectors.has("m", "a"), vectors.has("m", "b"), vectors.milliseconds["m", "a"]) == (True, False, 3.0)
    with pytest.raises(EmbeddingError, match="Its text is empty"):
        bridge.run(vectors.of("m", "b"))


@dataclass
class Slow:
    """An embedder that takes its time, and looks meanwhile who holds connections."""

    store: object
    held: list[int] = field(default_factory=list)
    model: str = EMBEDDER.model
    dimension: int = EMBEDDER.dimension

    async def embed(self, texts, purpose="document"):
        await asyncio.sleep(0.3)
        self.held.append(self.store.engine.pool.checkedout())  # type: ignore[attr-defined]
        return await EMBEDDER.embed(texts, purpose)


@pytest.mark.slow
def test_nobody_holds_a_connection_while_a_block_of_queries_is_embedded(store):
    """A server may end a transaction that does nothing, and the whole run with it."""
    name, split = some_name(), QuerySplit("test", {f"q{at}": Query(f"q{at}", f"word{at}") for at in range(BLOCK + 30)})
    make(store, name, [EMBEDDER])
    ingest(store, name, documents(20), [EMBEDDER])
    slow, steps = Slow(store), []
    context = RequestContext(store, fresh(store, name), Resources(embedder=lambda _: slow, environment={}))
    variant = Variant.of_leg(VectorLeg(), chunks="items")
    (run,) = bridge.run(
        runner.run(
            context, [variant], split, options=EvalOptions((), as_shipped=False, least_depth=10), progress=steps.append
        )
    )
    assert slow.held == [0, 0]
    assert {len(ranked.ids) for ranked in run.rankings.values()} == {10}, run.failures
    done = [step.done for step in steps if step.name.startswith("vector")]
    assert done == sorted(done)
    assert done[-1] == len(split.queries)
