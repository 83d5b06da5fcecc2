"""What calls of one process share: answers kept, what was spent, and what each endpoint was found to understand."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

from core.llm.dialect import Dialect
from core.llm.spending import Spending


class AnswerCache(Protocol):
    """Keeps answers by key. Asynchronous, so that a database may stand behind it."""

    async def get(self, key: str) -> str | None: ...

    async def put(self, key: str, value: str) -> None: ...


class RecentAnswers:
    """The most recently used answers, in memory."""

    def __init__(self, most: int = 2_000) -> None:
        self._most, self._lock = most, threading.Lock()
        self._answers: OrderedDict[str, str] = OrderedDict()

    async def get(self, key: str) -> str | None:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    async def put(self, key: str, value: str) -> None:
        with self._lock:
            self._answers[key] = value
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


@dataclass
class Session:
    """One total and one cache. `dialects` is by address and model."""

    cache: AnswerCache = field(default_factory=RecentAnswers)
    spending: Spending = field(default_factory=Spending)
    dialects: dict[tuple[str, str], Dialect] = field(default_factory=dict)


_PROCESS = Session()
_session: ContextVar[Session] = ContextVar("rankbook_llm_session", default=_PROCESS)


def session() -> Session:
    """The session in use: the process's, unless `using` set another."""
    return _session.get()


@contextmanager
def using(chosen: Session) -> Iterator[Session]:
    """Another session for what runs inside, tasks and the bridge included: contexts travel with both."""
    before = _session.set(chosen)
    try:
        yield chosen
    finally:
        _session.reset(before)
