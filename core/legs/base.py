"""What a leg is: options as data, and one way to recall candidates from a level."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy.ext.asyncio import AsyncConnection

from core.embedding import Vectors, embedder
from core.errors import InputError
from core.registry import Registry
from core.store.gate import cleaned
from core.store.levels import Level

LONGEST_QUERY = 20_000  # characters: a long page


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a leg found: the unit's id and the leg's own score, higher is better."""

    id: str
    score: float


class PreparedQuery:
    """A query's text, and its vector, which is made once however many legs ask for it."""

    def __init__(self, text: str, embed: Callable[[str, str], Awaitable[Vectors]] | None = None) -> None:
        self.text = checked_text(text)
        self._embed = embed or _embed_query
        self._vectors: dict[str, asyncio.Future[Vectors]] = {}

    async def vector(self, model: str) -> Vectors:
        if model not in self._vectors:
            self._vectors[model] = asyncio.ensure_future(self._embed(model, self.text))
        return await self._vectors[model]


def checked_text(text: str) -> str:
    """What PostgreSQL can be asked: no NUL, no half of a surrogate pair, no end of words."""
    if len(text) > LONGEST_QUERY:
        raise InputError(f"The query has {len(text):,} characters, and at most {LONGEST_QUERY:,} are read. Shorten it.")
    return cleaned(text)


async def _embed_query(model: str, text: str) -> Vectors:
    vectors = await embedder(model).embed([text], "query")
    first: Vectors = vectors[0]
    return first


class Leg(BaseModel, ABC):
    """One way to recall candidates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: float = Field(1.0, ge=0, description="This leg's share in the fusion.")
    depth: int | None = Field(
        None, ge=1, le=10_000, description="How many candidates to recall; by default top_k x overfetch."
    )

    @abstractmethod
    async def recall(
        self, connection: AsyncConnection, level: Level, query: PreparedQuery, depth: int
    ) -> list[Candidate]:
        """At most `depth` candidates, best first, ties by id."""


legs: Registry[type[Leg]] = Registry("leg")


def candidates(rows: Any) -> list[Candidate]:
    return [Candidate(row.id, float(row.score)) for row in rows]
