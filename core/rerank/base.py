"""What a reranker is: options as data, and a new order for the best hits of a ranking.

Owns the order (total: new score, then the rank before, then id), the cut, and how a failure passes results through.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from core.registry import Registry
from core.resources import Resources
from core.specs import Tagged
from core.trace import Dropped
from core.types import Hit


@dataclass(frozen=True, slots=True)
class Mark:
    """What a language model says of one candidate, in the rubric's own scale."""

    chunk_id: str
    relevance_score: float
    answerable: bool | None = None
    key_evidence: str = ""


@dataclass(frozen=True, slots=True)
class Reranked:
    """Hits in their new order. Those beyond the depth stand last, with the scores they had.

    `notes` are for the trace and the screen: whatever kept the method from doing all that it was asked to.
    """

    hits: tuple[Hit, ...]
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()
    marks: tuple[Mark, ...] = ()

    @classmethod
    def unchanged(cls, hits: Sequence[Hit], *notes: str) -> Reranked:
        """Results passed through, and why."""
        return cls(tuple(hits), notes=notes)


class Reranker(BaseModel, ABC):
    """One way to reorder hits."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    published_names: ClassVar[Mapping[str, str]] = {}  # other names under which options are published

    depth: int = Field(20, ge=1, le=10_000, description="How many hits it looks at; the others keep their order.")
    top_k: int | None = Field(None, ge=1, description="How many hits it returns; all, where it is left out.")

    @pydantic.model_validator(mode="before")
    @classmethod
    def _by_our_names(cls, options: Any) -> Any:
        if not isinstance(options, Mapping):
            return options
        named = {cls.published_names.get(name, name): value for name, value in options.items()}
        if len(named) < len(options):
            raise ValueError("an option is given under two of its names")
        return named

    async def warm_up(self, resources: Resources) -> None:
        """Load what runs here, so that no query's time has it in it."""

    @abstractmethod
    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> Reranked:
        """The hits, best first, in a total order."""

    def reordered(
        self,
        hits: Sequence[Hit],
        scores: Sequence[float],
        *,
        becomes_score: bool = True,
        notes: Sequence[str] = (),
        marks: Sequence[Mark] = (),
    ) -> Reranked:
        """Hits by the scores of the first `depth` of them, the others behind, cut to `top_k`."""
        marked = [
            replace(hit, rerank_score=score, score=score if becomes_score else hit.score)
            for hit, score in zip(hits[: self.depth], scores, strict=True)
        ]
        marked.sort(key=lambda hit: (-(hit.rerank_score or 0.0), hit.rank, hit.id))
        return self.cut([*marked, *hits[self.depth :]], notes=notes, marks=marks)

    def cut(
        self,
        hits: Sequence[Hit],
        *,
        dropped: Sequence[Dropped] = (),
        notes: Sequence[str] = (),
        marks: Sequence[Mark] = (),
    ) -> Reranked:
        """Hits in this order, numbered from 1, at most `top_k` of them."""
        stop = len(hits) if self.top_k is None else self.top_k
        beyond = [Dropped(hit.id, f"place {place} is beyond top_k {stop}") for place, hit in _places(hits)[stop:]]
        kept = tuple(replace(hit, rank=place) for place, hit in _places(hits)[:stop])
        return Reranked(kept, (*dropped, *beyond), tuple(notes), tuple(marks))


def _places(hits: Sequence[Hit]) -> list[tuple[int, Hit]]:
    return list(enumerate(hits, start=1))


rerankers: Registry[type[Reranker]] = Registry("reranker")


RERANKERS = Tagged(rerankers, "method")
reranker_from, spec_of = RERANKERS.read, RERANKERS.write
