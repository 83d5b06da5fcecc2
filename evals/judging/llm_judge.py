"""A language model as judge: opt-in, within a budget, and signed as what it is.

Owns what it is asked and what is believed. The exchange is core.llm's, the handles that keep text from steering it are
core.llm.rating's, and whether its grades count for anything is decided in `evals.judging.judgements`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from pydantic import Field

from core.context import Resources
from core.errors import LanguageModelError
from core.llm import CostEstimate, Endpoint, LanguageModelOptions, Prompt, ask_cached
from core.llm.rating import (
    EVERY_MARK,
    CandidateHandles,
    Rubric,
    TenMark,
    candidates_json,
    candidates_of,
    parse_ratings,
    schema_of,
)
from core.progress import Listener, Step, nobody
from core.store.engine import Store
from core.types import RelevanceRating
from evals.judging.judgements import MODEL_PREFIX, Judgement, Task, save_judgements

ANSWER_FRAME = 100  # tokens around the marks
HIGHEST = 3

# The scale of TREC's Deep Learning tracks, in the words of its guidelines; put to a language model by Thomas et al.,
# "Large language models can accurately predict searcher preferences" (2024) and Upadhyay et al., "UMBRELA" (2024).
SCALE = {
    0: "has nothing to do with the query",
    1: "seems related to the query but does not answer it",
    2: "has some answer for the query, but unclear or hidden amongst other information",
    3: "is dedicated to the query and contains the exact answer",
}
INSTRUCTIONS = (
    "You judge how relevant documents are to a query, on four grades, each document by itself:\n"
    + "\n".join(f"{grade}: it {meaning}." for grade, meaning in SCALE.items())
    + EVERY_MARK
    + f"chunk_id and relevance_score (a whole number, 0 to {HIGHEST})."
)


class GradeMark(TenMark):
    """A whole grade and nothing else."""

    relevance_score: int = Field(ge=0, le=HIGHEST)


RUBRIC = Rubric(INSTRUCTIONS, GradeMark, HIGHEST, 40)


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """The outcome of one prompt: a judgement for each of its tasks, or the reason why there is none."""

    tasks: tuple[Task, ...]
    judgements: tuple[Judgement, ...] = ()
    failure: str = ""


class ModelJudge(LanguageModelOptions):
    """The options of a language model as judge. Its endpoint and key are RANKBOOK_LLM_URL, _MODEL and _KEY."""

    batch: int = Field(10, ge=1, le=100, description="How many documents of one query a prompt holds.")
    max_text_chars: int = Field(4000, ge=1, le=100_000, description="Where each document's text is cut.")
    use_cache: bool = Field(True, description="Whether the same documents for the same query are judged once only.")

    def signature(self, resources: Resources) -> str:
        """The judge's name of its judgements."""
        return MODEL_PREFIX + self.endpoint(resources).model

    def estimate(self, resources: Resources, tasks: Sequence[Task]) -> CostEstimate:
        """The cost of judging if every prompt is answered at the first try. Nothing is sent."""
        endpoint = self.endpoint(resources)
        each = [self._question(batch).estimate(endpoint) for batch in self._batches(tasks)]
        cost = sum(part.cost or 0.0 for part in each) if endpoint.prices else None
        return CostEstimate(sum(part.sent for part in each), sum(part.answered for part in each), cost)

    async def judge(self, resources: Resources, tasks: Sequence[Task]) -> AsyncIterator[JudgedBatch]:
        """Batch by batch, so that each can be stored before the next is sent.

        A batch without a usable answer has the reason; a spent budget and a missing endpoint raise.
        """
        endpoint = self.endpoint(resources)
        for batch in self._batches(tasks):
            try:
                marks = await self._marks(resources, endpoint, batch)
            except LanguageModelError as error:
                yield JudgedBatch(batch, failure=str(error))
                continue
            yield JudgedBatch(batch, tuple(_judgement(*each, endpoint) for each in zip(batch, marks, strict=True)))

    def _batches(self, tasks: Sequence[Task]) -> list[tuple[Task, ...]]:
        """Tasks by query, in a fixed order, so that the same tasks make the same prompts for the cache."""
        ordered = sorted(tasks, key=lambda task: (task.query.id, task.item.id))
        batches = []
        for _, group in groupby(ordered, key=lambda task: task.query.id):
            several = tuple(group)
            batches += [several[at : at + self.batch] for at in range(0, len(several), self.batch)]
        return batches

    def _candidates(self, batch: Sequence[Task]) -> CandidateHandles:
        texts = [(task.item.id, f"{task.item.title}\n{task.item.text}".strip()) for task in batch]
        return candidates_of(batch[0].query.text, [(item, text[: self.max_text_chars]) for item, text in texts])

    def _question(self, batch: Sequence[Task]) -> Prompt:
        candidates = self._candidates(batch)
        return Prompt(
            name="grades",
            instructions=RUBRIC.instructions,
            material=candidates_json(batch[0].query.text, candidates),
            schema=schema_of(RUBRIC, candidates),
            answer_tokens=ANSWER_FRAME + RUBRIC.tokens_a_mark * len(candidates),
            strict=self.strict_json_output,
        )

    async def _marks(self, resources: Resources, endpoint: Endpoint, batch: Sequence[Task]) -> list[RelevanceRating]:
        candidates = self._candidates(batch)

        def read(answer: Any) -> list[RelevanceRating]:
            return parse_ratings(answer, RUBRIC, candidates, strict=self.strict_json_output)

        prompt = self._question(batch)
        return await ask_cached(resources, endpoint, prompt, read, self.policy, use_cache=self.use_cache)


def _judgement(task: Task, mark: RelevanceRating, endpoint: Endpoint) -> Judgement:
    grade, version = int(mark.relevance_score), task.item.version
    return Judgement(task.query.id, task.item.id, MODEL_PREFIX + endpoint.model, grade, version, is_model=True)


@dataclass(frozen=True, slots=True)
class JudgingOutcome:
    """The outcome of a model's judging. Each failure is the reason why a batch of pairs has no grade."""

    judge: str
    kept: int
    failures: tuple[str, ...]


async def grade(
    store: Store,
    collection: str,
    judge: ModelJudge,
    resources: Resources,
    tasks: Sequence[Task],
    listener: Listener = nobody,
) -> JudgingOutcome:
    """Judge the pairs and store each batch at once, so that what was paid for is not lost when the next one fails."""
    kept, done, failures = 0, 0, []
    async for batch in judge.judge(resources, tasks):
        await save_judgements(store, collection, batch.judgements)
        kept, done = kept + len(batch.judgements), done + len(batch.tasks)
        failures += [batch.failure] if batch.failure else []
        listener(Step("Judging", done, len(tasks), "pairs"))
    return JudgingOutcome(judge.signature(resources), kept, tuple(failures))
