"""Work over real Dask workers on loopback: equal results, and a worker or a cluster that dies costs time only."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, call-overload, unused-ignore"

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import typer
from distributed import Client
from sqlalchemy import func, select
from typer.testing import CliRunner

from core import bridge, doctor
from core.context import RequestContext, Resources
from core.embedding import embedder
from core.errors import Cancelled, ClusterFailed, EmbeddingError, UnknownName
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.rerank import OverlapReranker
from core.spread import ADDRESS, Cluster, Patience
from core.spread.cluster import WorkerError, returns_errors
from core.spread.embedding import TOLERANCE, SpreadEmbedder
from core.store.chunk_and_embed import TEXTS_A_STEP, EmbeddingCache
from core.types import Item, Query
from core.variant import Variant
from evals.runs import runner
from evals.runs.dask_runs import LEG_SLICE, BatchOrigin, DaskWorkers, context_on_worker
from evals.runs.plan import EvalOptions
from evals.schema import RankingBatch
from evals.types import QuerySplit
from tests.conftest import TEST_DSN
from tests.dask_clusters import machine
from tests.fakes import HashingEmbedder, rows
from tests.store.making import FIXED, contents, documents, fresh, ingest, loader, make, wrong
from tests.unit.tiny_models import tiny_embedder
from workbench.commands.runtime import Dask

ENVIRONMENT = {"RANKBOOK_DSN": TEST_DSN} if TEST_DSN else {}
DOCUMENTS = 3 * TEXTS_A_STEP
QUERIES = 3 * LEG_SLICE + 5
SPLIT = QuerySplit("test", {f"q{at:03d}": Query(f"q{at:03d}", f"word{at} unique{at} common") for at in range(QUERIES)})
LEGS = (FulltextLeg(label="words", weight=0.5), VectorLeg(exact=True), Bm25Leg())
FUSED = [
    Variant(name="rrf", legs=LEGS, chunks="small"),
    Variant(name="linear", legs=LEGS, chunks="small", fusion=LinearFusion()),
]
RERANKED = Variant(name="reranked", legs=LEGS[1:], chunks="small", rerank=OverlapReranker())
ANEW = EvalOptions((), as_shipped=False, least_depth=20, again=True)
SOON = Patience(without_workers=0.5, looks=0.1)
PARTS = {"parts": {"kind": "fixed", "max_tokens": 60, "overlap": 0}}


@pytest.fixture(scope="module")
def cluster():
    with machine(2, ENVIRONMENT) as made:
        yield made


@pytest.fixture
def workers(cluster):
    """Two of them at least: a test before this one may have killed some."""
    cluster.grown_to(2)
    return cluster


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return embedder(f"{tiny_embedder(tmp_path_factory.mktemp('model'))}@fp32")


@pytest.fixture
def spread(workers, monkeypatch):
    monkeypatch.setenv(ADDRESS, workers.address)
    return workers


def papers(count: int) -> list[Item]:
    """No text twice, nor a part of one: what a batch holds does not hang on which came first."""
    return [Item(f"d{at:04d}", " ".join(f"n{at}x{word}" for word in range(20))) for at in range(count)]


def texts(count: int) -> list[str]:
    return [f"unique{at} word{at % 97} and more of it" * (1 + at % 5) for at in range(count)]


async def over(address: str, work, patience: Patience = SOON):
    async with Cluster.opened(address, patience) as cluster:
        return await work(cluster)


class Stopped:
    """A worker that holds on to what it is given, until it is killed with it."""

    def __init__(self, machine) -> None:
        self.machine, self.name = machine, machine.living[0]

    async def killed_over_its_work(self, work):
        """What the work comes to, where the worker dies with a part of it."""
        async with Client(self.machine.address, asynchronous=True, set_as_default=False) as watching:
            known = (await watching.scheduler.identity(n_workers=-1))["workers"]
            (address,) = [where for where, about in known.items() if about["name"] == self.name]
            self.machine.signal(self.name, signal.SIGSTOP)
            try:
                doing = asyncio.ensure_future(work)
                while not (await watching.processing()).get(address):
                    assert not doing.done(), await doing
                    await asyncio.sleep(0.01)
            finally:
                self.machine.kill(self.name)
            return await doing


# -- embedding ---------------------------------------------------------------------------------------------------------


def test_an_ingest_over_two_workers_stores_what_one_without_them_does(store, name, model, spread, monkeypatch):
    told = []
    for each in (f"{name} far", f"{name} near"):
        make(store, each, [model], PARTS)
    bridge.run(forgotten(store, model))
    load = loader(store, f"{name} far", [model])
    load.listener = told.append
    bridge.run(load.run(rows(papers(DOCUMENTS))))
    assert load.report.embedded == load.caches[model.model].computed > DOCUMENTS
    steps = [step.done for step in told if step.name == "Embedding"]
    assert steps == sorted(steps)
    assert steps[-1] == load.report.embedded
    assert bridge.run(forgotten(store, model)) == load.report.embedded, "each text was made and kept once"
    monkeypatch.delenv(ADDRESS)
    ingest(store, f"{name} near", papers(DOCUMENTS), [model])
    assert wrong(store, f"{name} far") == {}
    assert contents(store, f"{name} far") == contents(store, f"{name} near")


async def forgotten(store, model) -> int:
    from core.store.chunk_and_embed import forget

    return await forget(store, model.model)


@pytest.mark.parametrize("purpose", ["document", "query"])
def test_workers_vectors_are_ours_within_the_tolerance(workers, model, purpose):
    given = texts(100)
    far = bridge.run(over(workers.address, lambda cluster: SpreadEmbedder(model, cluster).embed(given, purpose)))
    near = bridge.run(model.embed(given, purpose))
    assert (near * far).sum(axis=1).min() >= TOLERANCE
    if purpose == "document":
        assert np.array_equal(near, far), "on one processor the same batch gives the same"
    else:  # of one length, and so in batches as small as threads tell on
        assert np.allclose(near, far, rtol=0, atol=1e-6)


def test_a_worker_takes_as_many_threads_as_it_was_given_and_this_process_all(workers, model):
    import torch

    async def threads(cluster):
        await SpreadEmbedder(model, cluster).embed(texts(4))
        return await asyncio.gather(*(cluster.ask(torch.get_num_threads) for _ in range(4)))

    assert 1 in bridge.run(over(workers.address, threads))
    assert torch.get_num_threads() == len(os.sched_getaffinity(0))


def test_a_worker_killed_in_the_middle_of_an_ingest_costs_nothing_but_time(store, name, model, spread, monkeypatch):
    for each in (f"{name} torn", f"{name} whole"):
        make(store, each, [model], PARTS)
    bridge.run(forgotten(store, model))
    load = loader(store, f"{name} torn", [model])
    report = bridge.run(Stopped(spread).killed_over_its_work(load.run(rows(papers(DOCUMENTS)))))
    assert bridge.run(forgotten(store, model)) == report.embedded, "nothing was made twice, and nothing is missing"
    monkeypatch.delenv(ADDRESS)
    ingest(store, f"{name} whole", papers(DOCUMENTS), [model])
    assert wrong(store, f"{name} torn") == {}
    assert contents(store, f"{name} torn") == contents(store, f"{name} whole")


def test_a_cluster_that_goes_away_ends_an_ingest_in_a_sentence_and_the_next_goes_on(store, name, model, monkeypatch):
    make(store, name, [model], PARTS)
    bridge.run(forgotten(store, model))
    with machine(1) as lost:
        monkeypatch.setenv(ADDRESS, lost.address)
        load = loader(store, name, [model])

        def gone(step):
            if step.name == "Embedding" and step.done:
                lost.scheduler.kill()

        load.listener = gone
        with pytest.raises(ClusterFailed, match=r"is gone\..*What was done until then is kept: run it again"):
            bridge.run(load.run(rows(papers(DOCUMENTS))))
    monkeypatch.delenv(ADDRESS)
    kept = bridge.run(_cached(store, model))
    assert kept >= TEXTS_A_STEP
    report = ingest(store, name, papers(DOCUMENTS), [model])
    assert bridge.run(_cached(store, model)) == kept + report.embedded
    assert wrong(store, name) == {}


async def _cached(store, model) -> int:
    from core.store.schema import CachedEmbedding

    async with store.begin() as connection:
        counted = select(func.count()).select_from(CachedEmbedding).where(CachedEmbedding.model == model.model)
        return await connection.scalar(counted)


def test_what_is_not_of_this_machine_stays_here(store, name, spread):
    """An endpoint's key is in this process's environment and goes nowhere; what nobody knows by its id neither."""
    hashing = HashingEmbedder(name=name)
    make(store, name, [hashing])
    ingest(store, name, documents(10), [hashing])
    assert len(hashing.texts) > 10
    assert not hasattr(embedder("openai:some"), "spreads")


def test_a_model_that_a_worker_has_not_got_is_refused_in_its_own_sentence(workers):
    strange = SpreadEmbedder(HashingEmbedder(), None)
    strange.here.model = "/nowhere/at/all#01234567@fp32"

    async def embed(cluster):
        strange.cluster = cluster
        return await strange.embed(["text"])

    with pytest.raises(EmbeddingError, match="There is no folder '/nowhere/at/all'"):
        bridge.run(over(workers.address, embed))


def test_a_text_that_is_being_embedded_is_waited_for_and_not_embedded_twice(store, name):
    """Batches under way at once hold the same texts now and then."""
    hashing = HashingEmbedder(name=name)
    cache = EmbeddingCache(store, hashing)
    given = texts(6)

    async def at_once():
        return await asyncio.gather(cache.embed(given[:4]), cache.embed(given[2:]), cache.embed(given[2:4]))

    first, second, third = bridge.run(at_once())
    assert sorted(hashing.texts) == sorted(given)
    assert cache.computed == len(given)
    assert np.array_equal(first[2:], second[:2])
    assert np.array_equal(third, first[2:])


def test_whoever_waits_for_a_text_whose_embedding_fails_is_told_the_same(store, name):
    class Failing(HashingEmbedder):
        async def embed(self, texts, purpose="document"):
            await asyncio.sleep(0)
            raise EmbeddingError("nothing to be had")

    cache = EmbeddingCache(store, Failing(name=name))

    async def at_once():
        return await asyncio.gather(cache.embed(["a", "b"]), cache.embed(["b"]), return_exceptions=True)

    assert [str(each) for each in bridge.run(at_once())] == ["nothing to be had"] * 2


# -- suites ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def context(store, name, model):
    make(store, name, [model], {"small": FIXED})
    ingest(store, name, documents(40), [model])
    return RequestContext(store, fresh(store, name), Resources(environment={}))


def far(context, cluster):
    return replace(context, resources=Resources(environment={ADDRESS: cluster.address}))


def run(context, variants=(*FUSED, RERANKED), options=ANEW, **given):
    return bridge.run(runner.run(context, variants, SPLIT, options=options, **given))


def rankings(runs):
    return [(each.name, each.rankings, each.failures, each.notes) for each in runs]


async def kept_queries(store, context) -> int:
    asked = select(func.coalesce(func.sum(RankingBatch.queries), 0)).where(RankingBatch.collection == context.view.name)
    async with store.begin() as connection:
        return await connection.scalar(asked)


def test_a_suite_over_workers_finds_what_one_here_does_to_the_last_bit(store, context, workers):
    steps = []
    spread = run(far(context, workers), progress=steps.append)
    assert bridge.run(kept_queries(store, context)) == len(LEGS) * QUERIES
    words = [step.done for step in steps if step.name.startswith("fulltext")]
    assert words == sorted(words)
    assert words[-1] == QUERIES
    assert len(set(words)) > 3, "slices are told as they come"
    assert all(len(each.milliseconds) == QUERIES for each in spread)
    here = run(context)
    assert rankings(spread) == rankings(here)
    assert all(ranked.ids for each in here for ranked in each.rankings.values())


def test_a_worker_killed_in_the_middle_of_a_suite_costs_nothing_but_time(store, context, workers):
    asked = runner.run(far(context, workers), FUSED, SPLIT, options=ANEW)
    torn = bridge.run(Stopped(workers).killed_over_its_work(asked))
    assert bridge.run(kept_queries(store, context)) == len(LEGS) * QUERIES, "nothing doubled, nothing missing"
    assert rankings(torn) == rankings(run(context, FUSED))


def test_a_suite_that_is_stopped_keeps_what_workers_answered_and_goes_on_from_there(store, context, workers):
    async def stopped():
        token = asyncio.Event()

        def listener(step):
            if step.name.startswith("fulltext") and step.done:
                token.set()

        given = replace(far(context, workers), cancellation=token)
        await runner.run(
            given, FUSED, SPLIT, options=EvalOptions((), as_shipped=False, least_depth=20), progress=listener
        )

    with pytest.raises(Cancelled):
        bridge.run(stopped())
    kept = bridge.run(kept_queries(store, context))
    assert LEG_SLICE <= kept <= QUERIES
    run(far(context, workers), FUSED, EvalOptions((), as_shipped=False, least_depth=20))
    assert bridge.run(kept_queries(store, context)) == len(LEGS) * QUERIES, "none was asked twice"


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"rerank": {"method": "cross_encoder", "model": "some"}}, True),
        ({"expand": {"method": "feedback"}}, True),
        ({"rerank": {"method": "api", "base_url": "http://localhost:1", "model": "some"}}, False),
        ({"rerank": {"method": "llm"}}, False),
        ({"expand": {"method": "llm"}}, False),
    ],
)
def test_searches_that_ask_nobody_outside_go_to_workers_and_others_stay(context, change, goes):
    variant = Variant.from_data({**RERANKED.to_data(), **change})
    assert DaskWorkers(None, context, SPLIT).can_run(variant) is goes
    stand_ins = replace(context, resources=Resources(embedder=lambda _: HashingEmbedder(), environment={}))
    assert DaskWorkers(None, stand_ins, SPLIT).can_run(variant) is False


def test_the_option_holds_for_its_command_and_no_longer(monkeypatch):
    monkeypatch.delenv(ADDRESS, raising=False)
    app, seen = typer.Typer(), []

    @app.command()
    def work(_dask: Dask = None) -> None:
        seen.append(os.environ.get(ADDRESS))

    for given in (["--dask", "tcp://host:8786"], []):
        assert CliRunner().invoke(app, given).exit_code == 0
    assert seen == ["tcp://host:8786", None]
    assert ADDRESS not in os.environ


def test_a_worker_with_another_state_code_or_database_is_refused(store, context):
    origin = BatchOrigin.of(context)
    assert bridge.run(context_on_worker(origin)).view.row.version == origin.version
    for change, said in [
        ({"code": "other"}, "has another version of Rankbook"),
        ({"collection": "nowhere"}, "has another database"),
        ({"version": origin.version + 1}, "was changed while it was being evaluated"),
        ({"conninfo": "", "socket": ""}, "Start it with RANKBOOK_DSN in its environment"),
        ({"socket": "/nowhere"}, "cannot reach the embedded server, whose socket is in /nowhere"),
    ]:
        if TEST_DSN and {"conninfo", "socket"} & set(change):
            continue
        with pytest.raises(Exception, match=said):
            bridge.run(context_on_worker(replace(origin, **change)))


# -- clusters that are not there ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense", "tcp://no.such.host.invalid:8786"])
def test_a_wrong_address_is_told_within_seconds(address):
    async def nothing(_):
        return None

    begun = time.monotonic()
    with pytest.raises(ClusterFailed, match=r"No Dask scheduler answers at .*tcp://host:8786"):
        bridge.run(over(address, nothing, Patience(connecting=2)))
    assert time.monotonic() - begun < 15


def test_a_suite_is_refused_by_a_wrong_address_before_anything_is_asked(store, context):
    at = replace(context, resources=Resources(environment={ADDRESS: "tcp://127.0.0.1:1"}))
    with pytest.raises(ClusterFailed, match="No Dask scheduler answers"):
        run(at, FUSED)
    assert bridge.run(kept_queries(store, context)) == 0


def test_without_the_package_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)

    async def nothing(_):
        return None

    with pytest.raises(ClusterFailed, match="pip install distributed"):
        bridge.run(over("tcp://127.0.0.1:1", nothing))


def test_a_cluster_without_a_worker_is_told_and_so_is_one_whose_last_worker_died():
    async def ask(cluster):
        return await cluster.ask(time.sleep, 60)

    with machine() as alone:
        with pytest.raises(ClusterFailed, match=r"has had no worker for 0.3 s\. Start one with `dask worker"):
            bridge.run(over(alone.address, ask, Patience(connecting=0.3, looks=0.1)))
        last = alone.worker()

        async def killed(cluster):
            asked = asyncio.ensure_future(cluster.ask(time.sleep, 60))
            await asyncio.sleep(0)
            alone.kill(last)
            return await asked

        with pytest.raises(ClusterFailed, match=r"has had no worker for 0.5 s"):
            bridge.run(over(alone.address, killed))


def test_work_that_kills_its_workers_is_given_up_in_a_sentence():
    with machine(1, {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}) as frail:

        async def kill(cluster):
            return await cluster.ask(os._exit, 1)

        with pytest.raises(ClusterFailed, match="died over one piece of work"):
            bridge.run(over(frail.address, kill, Patience(without_workers=20)))


def test_what_goes_wrong_on_a_worker_is_a_sentence(workers):
    async def ask(cluster):
        return await cluster.ask(int, "no number")

    with pytest.raises(ClusterFailed, match=r"could not do its work \(ValueError: invalid literal"):
        bridge.run(over(workers.address, ask))


def test_cancelled_work_that_has_not_begun_is_not_begun(workers, tmp_path):
    async def cancelled(cluster):
        asked = [asyncio.ensure_future(cluster.ask(time.sleep, 0.2)) for _ in range(cluster.lines - 1)]
        asked.append(asyncio.ensure_future(cluster.ask(os.mkdir, str(tmp_path / "begun"))))
        await asyncio.sleep(0)
        for each in asked:
            each.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        return await asyncio.gather(*(cluster.ask(int, "7") for _ in range(3)))

    assert bridge.run(over(workers.address, cancelled)) == [7, 7, 7]
    assert not (tmp_path / "begun").exists()


@pytest.mark.parametrize(
    ("error", "kind"), [(EmbeddingError("so"), EmbeddingError), (UnknownName("leg", "x", ["y"]), "RankbookError")]
)
def test_a_refusal_comes_back_as_what_it_was_or_as_the_plainest_kind(error, kind):
    @returns_errors
    def refuse():
        raise error

    refused = refuse()
    assert isinstance(refused, WorkerError)
    assert str(refused.error()) == str(error)
    assert type(refused.error()).__name__ == (kind if isinstance(kind, str) else kind.__name__)


# -- what the doctor says of it ----------------------------------------------------------------------------------------


def test_the_doctor_tells_of_the_cluster_that_is_named_and_of_no_other(spread, monkeypatch):
    (found,) = bridge.run(doctor.examine_workers())
    assert (found.ok, found.found) == (True, f"{spread.address}, {len(spread.living)} workers")
    monkeypatch.setenv(ADDRESS, "tcp://127.0.0.1:1")
    (found,) = bridge.run(doctor.examine_workers(Patience(connecting=0.3)))
    assert not found.ok
    assert "No Dask scheduler answers at tcp://127.0.0.1:1" in found.way_out
    monkeypatch.delenv(ADDRESS)
    assert bridge.run(doctor.examine_workers()) == []
