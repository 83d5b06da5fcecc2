"""The embedded server killed with `kill -9` under a suite: it comes back by itself, the suite goes on where it was."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event, func, select

from core import bridge
from core.context import RequestContext, Resources
from core.errors import RankbookError
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.vector import VectorLeg
from core.rerank import OverlapReranker
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Query
from core.variant import Variant
from evals.runs import runner
from evals.runs.plan import EvalOptions
from evals.runs.types import Run
from evals.schema import RunRow
from evals.types import QuerySplit
from tests.drills.faults.outcome import Outcome
from tests.effort import TIMES, random_for
from tests.fakes import HashingEmbedder
from tests.store.making import FIXED, documents, fresh, ingest, make, some_name

KILLS, QUERIES = 3 * TIMES, 40
EMBEDDER = HashingEmbedder(64)
LEGS = (FulltextLeg(label="words", weight=0.5), VectorLeg(exact=True), Bm25Leg())
VARIANTS = [
    Variant(name="rrf", legs=LEGS, chunks="small"),
    Variant(name="linear", legs=LEGS, chunks="small", fusion=LinearFusion()),
    Variant(name="reranked", legs=LEGS[2:], chunks="small", rerank=OverlapReranker()),
]
SPLIT = QuerySplit("test", {f"q{at:03d}": Query(f"q{at:03d}", f"word{at} unique{at} common") for at in range(QUERIES)})


def searchable(store: Store, name: str) -> RequestContext:
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, documents(30), [EMBEDDER])
    return context_of(store, name)


def context_of(store: Store, name: str) -> RequestContext:
    return context_with(store, fresh(store, name))


def context_with(store: Store, view: CollectionView) -> RequestContext:
    return RequestContext(store, view, Resources(embedder=lambda _: EMBEDDER, environment={}))


def run(context: RequestContext, *, again: bool = False) -> list[Run]:
    return bridge.run(
        runner.run(context, VARIANTS, SPLIT, options=EvalOptions((), as_shipped=False, least_depth=20, again=again))
    )


@contextmanager
def killing(store: Store, after: int) -> Iterator[list[int]]:
    """The server's first process dies when so many statements that rank have been sent."""
    sent: list[int] = []

    def strike(connection: object, cursor: object, statement: str, *_: object) -> None:
        if "LIMIT" in statement:
            sent.append(len(sent))
            if len(sent) == after and store.server is not None and store.server.pid is not None:
                os.kill(store.server.pid, signal.SIGKILL)

    event.listen(store.engine.sync_engine, "before_cursor_execute", strike)
    try:
        yield sent
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", strike)


def tried(context: RequestContext, *, again: bool = False) -> tuple[list[Run], str]:
    """The runs, or what was said instead of them."""
    try:
        return run(context, again=again), ""
    except RankbookError as error:
        return [], str(error)


def rows_a_run(store: Store, name: str) -> Counter[str]:
    async def ask() -> Counter[str]:
        async with store.begin() as connection:
            counted = select(RunRow.name, func.count()).where(RunRow.collection == name).group_by(RunRow.name)
            return Counter({row[0]: row[1] for row in await connection.execute(counted)})

    return bridge.run(ask())


def compared(runs: list[Run], undisturbed: list[Run]) -> tuple[int, int]:
    """Rankings that are lost or wrong, and documents that stand twice in one."""
    twice = sum(len(ranked.ids) - len(set(ranked.ids)) for each in runs for ranked in each.rankings.values())
    lost = sum(
        after.rankings.get(query) != ranked
        for after, before in zip(runs, undisturbed, strict=True)
        for query, ranked in before.rankings.items()
    )
    return lost, twice


def drill(store: Store, kills: int = KILLS) -> Outcome:
    """A suite that ends before all kills were dealt is followed by another one."""
    moments, said, struck, lost, doubled = random_for("server killed"), list[str](), 0, 0, 0
    while struck < kills:
        context, ended = searchable(store, some_name()), list[Run]()
        while not ended:
            after = moments.randint(5, 40) if struck < kills else 0
            with killing(store, after) as sent:
                ended, complaint = tried(context)
            struck += 0 < after <= len(sent)
            said += [complaint] if complaint else []
            assert len(said) <= kills, said
        counted = rows_a_run(store, context.view.name)
        gone, twice = compared(ended, run(context, again=True))
        lost, doubled = lost + gone, doubled + twice + sum(counted.values()) - len(VARIANTS)
    return Outcome("kill -9 of the server under a suite", struck, lost, doubled, True, tuple(said))
