"""The contract of rerankers and their registry; and the two that need no model: word overlap and a score filter."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from core.context import Resources
from core.registry import Registry, Tagged
from core.types import Dropped, Hit, RelevanceRating, StageResult


class Reranker(BaseModel, ABC):
    """One way to reorder hits."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    published_names: ClassVar[Mapping[str, str]] = {}  # other names under which options are published
    calls_endpoint: ClassVar[bool] = False  # whether it sends the texts to a server
    runs_model: ClassVar[bool] = False  # whether it runs a model here, whose version may change its results

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
    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:
        """The hits, best first, in a total order. Those beyond the depth stand last, with the scores they had."""

    def reordered(
        self,
        hits: Sequence[Hit],
        scores: Sequence[float],
        *,
        becomes_score: bool = True,
        notes: Sequence[str] = (),
        ratings: Sequence[RelevanceRating] = (),
    ) -> StageResult:
        """Hits by the scores of the first `depth` of them, the others behind, cut to `top_k`."""
        marked = [
            replace(hit, rerank_score=score, score=score if becomes_score else hit.score)
            for hit, score in zip(hits[: self.depth], scores, strict=True)
        ]
        marked.sort(key=lambda hit: (-(hit.rerank_score or 0.0), hit.rank, hit.id))
        return self.cut([*marked, *hits[self.depth :]], notes=notes, ratings=ratings)

    def cut(
        self,
        hits: Sequence[Hit],
        *,
        dropped: Sequence[Dropped] = (),
        notes: Sequence[str] = (),
        ratings: Sequence[RelevanceRating] = (),
    ) -> StageResult:
        """Hits in this order, numbered from 1, at most `top_k` of them."""
        numbered = [replace(hit, rank=place) for place, hit in enumerate(hits, start=1)]
        stop = len(numbered) if self.top_k is None else self.top_k
        beyond = [
            Dropped(hit.id, f"place {hit.rank} is beyond top_k {stop}", "rerank top_k", str(stop))
            for hit in numbered[stop:]
        ]
        return StageResult(tuple(numbered[:stop]), (*dropped, *beyond), tuple(notes), tuple(ratings))


rerankers: Registry[type[Reranker]] = Registry("reranker")


RERANKERS = Tagged(rerankers, "method")
reranker_from, spec_of = RERANKERS.read, RERANKERS.write

WORD = re.compile(r"\w+")


@rerankers.register("overlap")
class OverlapReranker(Reranker):
    """Orders by the query's words found in the text, each word once; ties keep their order, and scores stay."""

    whole_words: bool = Field(True, description="Whether a word must stand by itself: `cat` is not found in `concat`.")

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:  # noqa: ARG002
        wanted = list(dict.fromkeys(WORD.findall(query.lower())))
        if hits and not wanted:
            return self.cut(hits, notes=["The query holds no word, so nothing was reordered."])
        scores = []
        for hit in hits[: self.depth]:
            text = hit.text.lower()
            held = set(WORD.findall(text)) if self.whole_words else text
            scores.append(sum(word in held for word in wanted) / len(wanted))
        return self.reordered(hits, scores, becomes_score=False)


@rerankers.register("score")
class ScoreReranker(Reranker):
    """Drops hits below a minimum score and sorts the rest by score."""

    depth: int = Field(10_000, ge=1, le=10_000, description="How many hits it looks at; the others keep their order.")
    min_score: float = Field(
        0.0, allow_inf_nan=False, description="The least normalised score that stays; 1 is the most a fusion gives."
    )

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:  # noqa: ARG002
        candidates, least = hits[: self.depth], f"{self.min_score:g}"
        kept = sorted(
            (hit for hit in candidates if hit.score >= self.min_score), key=lambda hit: (-hit.score, hit.rank, hit.id)
        )
        dropped = [
            Dropped(hit.id, f"score {hit.score:.4g} is below the minimum {least}", "rerank min_score", least)
            for hit in candidates
            if not hit.score >= self.min_score  # so that a score that is no number goes too
        ]
        notes: tuple[str, ...] = ()
        if candidates and not kept:
            # By the scores that are there, and not by the option: those of legs alone may be above 1.
            best = max(hit.score for hit in candidates)
            notes = (f"No hit reaches the minimum {least}: the best score is {best:.4g}.",)
            if self.min_score > 1:
                notes = (f"No normalised score can reach the minimum {least}: scores end at 1.",)
        return self.cut([*kept, *hits[self.depth :]], dropped=dropped, notes=notes)
