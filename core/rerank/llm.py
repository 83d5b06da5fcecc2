"""A language model marks the candidates, all in one prompt, by one of two published rubrics.

Owns when it is asked, what is kept of its answers, and that its failure is seen. The exchange is core.llm's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from core.context import Resources
from core.errors import BudgetError, LanguageModelError, SpecError
from core.http import EndpointFailure
from core.llm import CostEstimate, Endpoint, LanguageModelOptions, Prompt, ask_model, session
from core.llm.rating import (
    RUBRICS,
    CandidateHandles,
    RelevanceRating,
    Rubric,
    candidates_json,
    candidates_of,
    parse_ratings,
    schema_of,
)
from core.rerank.base import Reranked, Reranker, rerankers
from core.types import Hit

ANSWER_FRAME = 100  # tokens around the marks


@rerankers.register("llm")
class LanguageModelReranker(LanguageModelOptions, Reranker):
    """Orders by a language model's marks, which become scores from 0 to 1. It sees the query and the texts.

    A failure passes results through, or raises. A missing endpoint and a spent budget raise unless `on_failure` says
    otherwise: a benchmark half of which was not reranked would look like one that was.
    """

    published_names: ClassVar = {"max_candidates_to_rerank": "depth", "return_top_n": "top_k"}

    depth: int = Field(50, ge=1, le=200, description="How many candidates the one prompt holds.")
    top_k: int | None = Field(15, ge=1, description="How many hits it returns.")
    rubric: Literal["ten", "hundred"] = Field(
        "hundred", description="Marks from 0 to 10, or from 0 to 100 with answerability and key evidence."
    )
    max_text_chars_per_candidate: int = Field(1200, ge=1, le=100_000, description="Where each text is cut.")
    answer_tokens: int | None = Field(
        None, ge=1, description="The most the answer may take; by default 120 a candidate, 40 with the rubric `ten`."
    )
    use_cache: bool = Field(True, description="Whether the same candidates for the same query are marked once only.")
    on_failure: Literal["pass", "raise", "always_pass"] = Field(
        "pass",
        description="Whether results pass through with a note, or the search fails, when the model does; always_pass "
        "also where none is configured, or the budget is spent.",
    )

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> Reranked:
        if not hits:
            return self.cut(hits)
        try:
            marks = await self._marks(resources, self.endpoint(resources), query, self._candidates(query, hits))
        except (LanguageModelError, SpecError, BudgetError) as error:
            passes = self.on_failure == "always_pass"
            if not passes and (self.on_failure == "raise" or not isinstance(error, LanguageModelError)):
                raise
            return Reranked.unchanged(hits, f"The language model did not mark: results passed through. {error}")
        scores = [mark.relevance_score / self._rubric.most for mark in marks]
        return self.reordered(hits, scores, marks=sorted(marks, key=lambda mark: -mark.relevance_score))

    def estimate(self, resources: Resources, query: str, hits: Sequence[Hit]) -> CostEstimate:
        """What one attempt may take, before anything is sent. Nothing at all where the answer is kept already."""
        return self._question(query, self._candidates(query, hits)).estimate(self.endpoint(resources))

    @property
    def _rubric(self) -> Rubric:
        return RUBRICS[self.rubric]

    def _candidates(self, query: str, hits: Sequence[Hit]) -> CandidateHandles:
        cut = self.max_text_chars_per_candidate
        return candidates_of(query, [(hit.id, hit.text[:cut]) for hit in hits[: self.depth]])

    def _question(self, query: str, candidates: CandidateHandles) -> Prompt:
        return Prompt(
            name="marks",
            instructions=self._rubric.instructions,
            material=candidates_json(query, candidates),
            schema=schema_of(self._rubric, candidates),
            answer_tokens=self.answer_tokens or ANSWER_FRAME + self._rubric.tokens_a_mark * len(candidates),
            strict=self.strict_json_output,
        )

    async def _marks(
        self, resources: Resources, endpoint: Endpoint, query: str, candidates: CandidateHandles
    ) -> list[RelevanceRating]:
        key = self._key(endpoint, query, candidates)
        kept = await session().cache.get(key) if self.use_cache else None
        if kept is not None and (known := self._kept(kept, candidates)) is not None:
            return known

        def read(answer: Any) -> tuple[Any, list[RelevanceRating]]:
            return answer, parse_ratings(answer, self._rubric, candidates, strict=self.strict_json_output)

        answer, marks = await ask_model(resources, endpoint, self._question(query, candidates), read, self.patience)
        if self.use_cache:
            await session().cache.put(key, json.dumps(answer))
        return marks

    def _kept(self, answer: str, candidates: CandidateHandles) -> list[RelevanceRating] | None:
        """What was kept goes through the same checks; what does not pass them is asked for anew."""
        try:
            return parse_ratings(json.loads(answer), self._rubric, candidates, strict=self.strict_json_output)
        except (ValueError, EndpointFailure):
            return None

    def _key(self, endpoint: Endpoint, query: str, candidates: CandidateHandles) -> str:
        """Query, candidates' ids and what their texts say, model, rubric, room: whatever could change the marks."""
        asked = self._question(query, candidates)
        texts = [
            (chunk_id, hashlib.sha256(text.encode(errors="replace")).hexdigest())
            for chunk_id, text in candidates.values()
        ]
        whole = [endpoint.url, endpoint.model, asked.instructions, asked.answer_tokens, asked.strict, query, texts]
        return "rerank:" + hashlib.sha256(json.dumps(whole).encode()).hexdigest()
