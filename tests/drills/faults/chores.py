"""Work for processes that are going to be killed. Each opens the store that the environment names, or the one given."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import event, text
from sqlalchemy.engine import Engine

from core import bridge
from core.embedding import Purpose, Vectors
from core.progress import Step
from core.store import collections
from core.store.engine import Store
from core.store.ingest import Ingest
from evals.schema import schema_chain
from tests.fakes import HashingEmbedder, rows
from tests.store.making import documents
from workbench.services.jobs import Job


class Slow(HashingEmbedder):
    """Embeds slowly, and writes down what it embeds before anybody can kill it."""

    def __init__(self, name: str, diary: str, seconds: float = 0.02) -> None:
        super().__init__(name=name)
        self.diary, self.seconds = diary, seconds

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        self._write_down(texts)
        await asyncio.sleep(self.seconds)
        return await super().embed(texts, purpose)

    def _write_down(self, texts: Sequence[str]) -> None:
        with Path(self.diary).open("a", encoding="utf-8") as diary:
            diary.write("".join(f"{text!r}\n" for text in texts))


async def opened(dsn: str | None = None) -> Store:
    return await Store.open(dsn, chains=[schema_chain])


def load(
    name: str, model: str, count: int, diary: str, seconds: float = 0.02, *, action: str = "run", dsn: str | None = None
) -> None:
    """Load so many documents into a collection, or complete what it has; the last step told stands in a file."""
    bridge.run(_load(name, model, count, diary, seconds, action, dsn))


async def _load(name: str, model: str, count: int, diary: str, seconds: float, action: str, dsn: str | None) -> None:
    def told(step: Step) -> None:
        Path(f"{diary}.step").write_text(step.name, encoding="utf-8")

    async with await opened(dsn) as store:
        told(Step("Opened", 0))
        view, slow = await collections.get(store, name), Slow(model, diary, seconds)
        ingest = Ingest(store, view, {slow.model: slow}, slow, told)
        await (ingest.run(rows(documents(count)), prune=True) if action == "run" else ingest.complete())


def make(name: str, dsn: str | None = None) -> None:
    """A collection with nothing in it."""

    async def work() -> None:
        async with await opened(dsn) as store:
            await collections.create(store, name)

    bridge.run(work())


def killed_at(statement: int, work: str, *given: Any) -> None:
    """Work of this module, killed before the nth statement that changes how something is stored."""
    seen = 0

    def count(connection: object, cursor: object, sent: str, *_: object) -> None:
        nonlocal seen
        if sent.lstrip().upper().startswith(("CREATE", "ALTER", "INSERT", "UPDATE", "DROP")):
            seen += 1
            if seen == statement:
                os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "before_cursor_execute", count)
    globals()[work](*given)


def commit_rows(first: int, count: int, diary: str) -> None:
    """Rows one by one; what is committed stands in the diary, by the number."""

    def write_down(number: int) -> None:
        with Path(diary).open("a", encoding="utf-8") as committed:
            committed.write(f"{number}\n")

    async def work() -> None:
        async with await opened() as store:
            async with store.begin() as connection:
                await connection.execute(text("CREATE TABLE IF NOT EXISTS committed (n int)"))
            for number in range(first, first + count):
                async with store.begin() as connection:
                    await connection.execute(text("INSERT INTO committed VALUES (:n)"), {"n": number})
                write_down(number)

    bridge.run(work())


def print_rows() -> None:
    """What was committed, as the next command finds it."""

    async def work() -> list[int]:
        async with await opened() as store, store.begin() as connection:
            return list(await connection.scalars(text("SELECT n FROM committed ORDER BY n")))

    print(*bridge.run(work()))


def open_store(dsn: str | None = None) -> None:
    """Bring the catalogue and the harness's tables up to date."""

    async def work() -> None:
        async with await opened(dsn):
            return

    bridge.run(work())


def look(name: str, dsn: str | None = None) -> None:
    """Find a collection, which brings its schema up to date."""

    async def work() -> None:
        async with await opened(dsn) as store:
            await collections.get(store, name)

    bridge.run(work())


def load_and_time(name: str, model: str, count: int, diary: str, seconds: float) -> None:
    """A load as a page begins it, which prints what its steps took, and how long the page says it was."""

    async def work(*_: object) -> list[float]:
        async with await opened() as store:
            slow = Slow(model, diary, seconds)
            ingest = Ingest(store, await collections.get(store, name), {slow.model: slow}, slow)
            report = await ingest.run(rows(documents(count)))
            return list(report.seconds.values())

    job = Job("a load", work)
    print(*job.result(), job.seconds, sep="\n")
