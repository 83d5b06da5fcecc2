"""A language model marks the candidates, all in one prompt, by one of two published rubrics.

Owns when it is asked, and that its failure is seen. The exchange is core.llm's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from core.context import Resources
from core.errors import BudgetError, LanguageModelError, SpecError
from core.llm import CostEstimate, LanguageModelOptions, Prompt, ask_cached
from core.llm.rating import (
    RUBRICS,
    CandidateHandles,
    candidates_json,
    candidates_of,
    parse_ratings,
    schema_of,
)
from core.rerank.base import Reranker, rerankers
from core.types import Hit, RelevanceRating, StageResult

ANSWER_FRAME = 100  # tokens around the marks


@rerankers.register("llm")
class LanguageModelReranker(LanguageModelOptions, Reranker):
    """Orders by a language model's marks, which become scores from 0 to 1. It sees the query and the texts.

    A failure passes results through, or raises. A missing endpoint and a spent budget raise unless `on_failure` says
    otherwise: a benchmark half of which was not reranked would look like one that was.
    """

    calls_endpoint = True
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

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:
        if not hits:
            return self.cut(hits)
        rubric, candidates = RUBRICS[self.rubric], self._candidates(query, hits)

        def read(answer: Any) -> list[RelevanceRating]:
            return parse_ratings(answer, rubric, candidates, strict=self.strict_json_output)

        try:
            endpoint, prompt = self.endpoint(resources), self._prompt(query, candidates)
            marks = await ask_cached(resources, endpoint, prompt, read, self.policy, use_cache=self.use_cache)
        except (LanguageModelError, SpecError, BudgetError) as error:
            passes = self.on_failure == "always_pass"
            if not passes and (self.on_failure == "raise" or not isinstance(error, LanguageModelError)):
                raise
            return StageResult.unchanged(hits, f"The language model did not mark: results passed through. {error}")
        scores = [mark.relevance_score / rubric.most for mark in marks]
        return self.reordered(hits, scores, ratings=sorted(marks, key=lambda mark: -mark.relevance_score))

    def estimate(self, resources: Resources, query: str, hits: Sequence[Hit]) -> CostEstimate:
        """What one attempt may take, before anything is sent. Nothing is spent where the answer is cached."""
        return self._prompt(query, self._candidates(query, hits)).estimate(self.endpoint(resources))

    def _candidates(self, query: str, hits: Sequence[Hit]) -> CandidateHandles:
        cut = self.max_text_chars_per_candidate
        return candidates_of(query, [(hit.id, hit.text[:cut]) for hit in hits[: self.depth]])

    def _prompt(self, query: str, candidates: CandidateHandles) -> Prompt:
        rubric = RUBRICS[self.rubric]
        return Prompt(
            name="marks",
            instructions=rubric.instructions,
            material=candidates_json(query, candidates),
            schema=schema_of(rubric, candidates),
            answer_tokens=self.answer_tokens or ANSWER_FRAME + rubric.tokens_a_mark * len(candidates),
            strict=self.strict_json_output,
        )
