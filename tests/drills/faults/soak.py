"""Eight hours in miniature: thousands of mixed operations, with memory and connections as flat as they began."""

from __future__ import annotations

import asyncio
import gc
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import text

from core import bridge
from core.context import RequestContext
from core.explain import explain
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.trigram import TrigramLeg
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.rerank import OverlapReranker
from core.store import collections
from core.store.engine import Store
from core.store.ingest import Ingest
from core.variant import Variant
from evals import backup
from evals.collections import load
from evals.judging import judgements
from evals.judging.judgements import Judgement
from evals.labels import query_generation, query_sets
from evals.runs import run_store, runner
from evals.runs.plan import EvalOptions
from evals.types import QuerySplit
from tests.drills.faults import server_killed
from tests.drills.faults.outcome import Outcome, account
from tests.effort import random_for
from tests.fakes import rows
from tests.store.making import documents, fresh, ids, some_name

OPERATIONS, WARM = 2_000, 0.3  # of all operations, before memory is first looked at
GROWN = 0.05  # at most, as a share
EMBEDDER = server_killed.EMBEDDER
LEGS = {"bm25": Bm25Leg(), "fulltext": FulltextLeg(), "trigram": TrigramLeg(), "vector": VectorLeg()}
VARIANTS = [
    *(Variant.of_leg(leg, chunks="small") for leg in LEGS.values()),
    Variant(name="all", legs=tuple(LEGS.values()), chunks="small"),
    Variant(name="reranked", legs=tuple(LEGS.values()), chunks="small", rerank=OverlapReranker()),
]
SPLIT = QuerySplit("test", dict(list(server_killed.SPLIT.queries.items())[:4]))
FIRST, TIMES = 30, 10  # documents there at the beginning; how often each is written again


@dataclass
class Soak:
    """The operations, drawn by a seed. `judged` and `asked` are what must stand in the end."""

    store: Store
    name: str
    drawn: random.Random = field(default_factory=lambda: random_for("soak"))
    judged: dict[tuple[str, str], int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    version: int = 0

    @property
    def mix(self) -> dict[Callable[[], Awaitable[object]], float]:
        return {
            self.search: 0.8,
            self.judge: 0.1,
            self.explain: 0.05,
            self.write: 0.03,
            self.ingest: 0.008,
            self.evaluate: 0.007,
            self.make_and_drop: 0.004,
            self.back_up: 0.001,
        }

    async def operations(self, count: int) -> None:
        mix = self.mix
        for each in self.drawn.choices(list(mix), list(mix.values()), k=count):
            await each()

    async def _context(self) -> RequestContext:
        view = await collections.get(self.store, self.name)
        return server_killed.context_with(self.store, view)

    async def search(self) -> None:
        query = f"word{self.drawn.randint(0, 96)} common"
        await search(await self._context(), query, self.drawn.choice(VARIANTS))

    async def judge(self) -> None:
        query, item = f"q{self.drawn.randint(0, 9)}", f"d{self.drawn.randint(0, 29):05d}"
        grade = self.drawn.randint(0, 3)
        await judgements.save_judgements(self.store, self.name, [Judgement(query, item, "soak", grade, b"1")])
        self.judged[query, item] = grade

    async def explain(self) -> None:
        """Why a document is where it is, or is not."""
        item = f"d{self.drawn.randint(0, FIRST - 1):05d}"
        await explain(await self._context(), "word3 common", self.drawn.choice(VARIANTS), item)

    async def write(self) -> None:
        query = f"where is word{self.drawn.randint(0, 40)}"
        await query_generation.add(self.store, self.name, query_generation.typed_queries(query))
        self.asked.add(query)

    async def back_up(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            await backup.save_backup(self.store, Path(folder) / "soak.tar", collection=self.name)

    async def ingest(self) -> None:
        """A document more and one that changed, of a number that does not grow."""
        self.version += 1
        new = documents(FIRST + self.version % TIMES)[-1:]
        view = await collections.get(self.store, self.name)
        await Ingest(self.store, view, {EMBEDDER.model: EMBEDDER}, EMBEDDER).run(rows(new))

    async def evaluate(self) -> None:
        variant = self.drawn.choice(VARIANTS)
        await runner.run(
            await self._context(),
            [variant],
            SPLIT,
            options=EvalOptions((), as_shipped=False, least_depth=10, again=True),
        )
        await run_store.prune(self.store, collection=self.name)

    async def make_and_drop(self) -> None:
        other = some_name()
        await collections.create(self.store, other)
        await load.drop(self.store, other)


def memory() -> int:
    """What this process holds, in kilobytes, as Linux tells it."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))


def connections(store: Store) -> int:
    async def ask() -> int:
        async with store.begin() as connection:
            counted = text("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'rankbook'")
            return int(await connection.scalar(counted) or 0)

    return bridge.run(ask())


def drill(store: Store, operations: int = OPERATIONS) -> Outcome:
    name = some_name()
    server_killed.searchable(store, name)
    soak, before, begun = Soak(store, name), (0, 0), time.monotonic()
    parts = [round(operations * WARM), operations - round(operations * WARM)]
    for part in parts:
        bridge.run(asyncio.wait_for(soak.operations(part), 3600))
        after = (memory(), connections(store))
        before = before if before[0] else after
    grown, more = after[0] / before[0] - 1, after[1] - before[1]
    held = store.engine.pool.checkedout()  # type: ignore[attr-defined]
    kept = {each.pair: each.grade for each in bridge.run(judgements.load(store, name))}
    there = fresh(store, name)
    lost, doubled = account(store, name, ids(documents(FIRST)) | _written(soak))
    lost += sum(kept.get(pair) != grade for pair, grade in soak.judged.items())
    lost += len(soak.asked ^ {query.text for query in bridge.run(query_sets.load(store, name)).queries})
    said = f"{operations:,} operations in {time.monotonic() - begun:.0f} s: memory {grown:+.1%}, connections {more:+d}."
    flat = grown <= GROWN and more <= 0 and held == 0
    return Outcome("soak of mixed operations", operations, lost, doubled, flat and there.name == name, (said,))


def _written(soak: Soak) -> set[str]:
    numbers = {FIRST + version % TIMES for version in range(1, soak.version + 1)}
    return {documents(number)[-1].id for number in numbers}


DRILLS = (drill,)
