"""context-pack: dense candidates, marked by a language model, packed with parents and neighbours into a token budget.

Owns its configuration, from code and from the environment, and what it tells beyond the pipeline's own pack.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import pydantic
from pydantic import Field

from core.context import RequestContext
from core.embedding import Embedder, Purpose, Vectors
from core.errors import SpecError
from core.filters import filter_of_fields
from core.legs.base import checked_text
from core.packing import Packing
from core.packing.types import PREFIX, PackedChunk, PackTrace
from core.pipeline.retriever import RetrievalResult, search
from core.presets import preset
from core.registry import Options, in_a_sentence
from core.rerank import LanguageModelReranker
from core.store.resolve_target import search_target
from core.tasks import side_by_side
from core.types import RelevanceRating
from core.variant import Variant


class Config(Options, Packing):
    """What may be chosen. Each can also be set by the environment, as RANKBOOK_PACK_ and its name in capitals."""

    chunks: str = Field("parents", description="Which chunk set is searched.")
    embedding_model: str | None = Field(None, description="Which embedding set of it; by default the first there is.")
    top_k_dense: int = Field(50, ge=1, le=10_000, description="How many dense candidates are taken.")
    max_candidates_to_rerank: int = Field(50, ge=1, le=200, description="How many of them the language model marks.")
    return_top_n: int = Field(15, ge=1, le=10_000, description="How many of the marked ones are packed.")
    max_text_chars_per_candidate: int = Field(1200, ge=1, le=100_000, description="Where each text is cut for it.")
    model_name: str | None = Field(None, description="The language model's name; else RANKBOOK_LLM_MODEL.")
    strict_json_output: bool = Field(True, description="Ask for the schema, and take JSON alone.")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **options: Any) -> Self:
        """Options given in code; else those of the environment; else the defaults."""
        named = {name: environment.get(PREFIX + name.upper(), "").strip() for name in cls.model_fields}
        given = {name: value for name, value in named.items() if value and name not in options}
        try:
            return cls(**{**given, **options})
        except SpecError as error:
            if not isinstance(error.__cause__, pydantic.ValidationError):
                raise
            names = ", ".join(PREFIX + name.upper() for name in given)
            where = f"The configuration, with {names} from the environment," if given else "The configuration"
            raise SpecError.from_pydantic(where, error.__cause__) from error

    @in_a_sentence("The configuration of context-pack")
    def variant(self, filters: Mapping[str, Any] | None = None) -> Variant:
        """`filters` are metadata fields with their values, `doc_id` being the document's own id; or a whole filter."""
        base = preset("context-pack")
        return base.but(
            chunks=self.chunks,
            model=self.embedding_model,
            top_k=self.return_top_n,
            filter=filter_of_fields(filters, "doc_id") if filters else None,
            legs=tuple(leg.model_copy(update={"depth": self.top_k_dense}) for leg in base.legs),
            rerank=self._reranker(),
            pack=Packing(**self.model_dump(include=set(Packing.model_fields))),
        )

    def _reranker(self) -> LanguageModelReranker:
        return LanguageModelReranker(
            rubric="hundred",
            depth=self.max_candidates_to_rerank,
            top_k=self.return_top_n,
            max_text_chars_per_candidate=self.max_text_chars_per_candidate,
            model=self.model_name,
            strict_json_output=self.strict_json_output,
        )


@dataclass(frozen=True, slots=True)
class Trace(PackTrace):
    """Beside what packing tells: every candidate's mark, with answerability and key evidence, best first.

    Here `dense_candidates` are all that the vector search brought up, and `notes` are those of every stage.
    """

    marks: tuple[RelevanceRating, ...] = ()

    @property
    def final_token_count(self) -> int:
        return self.tokens

    @property
    def expansion_counts(self) -> Mapping[str, int]:
        return self.expansions


@dataclass(frozen=True, slots=True)
class ContextPack:
    """Under their published names: query, selected chunks, citations as they are written, trace, the context string."""

    query: str
    selected_chunks: tuple[PackedChunk, ...]
    citations: tuple[str, ...]
    trace: Trace
    context_pack: str


class ContextPackRetriever:
    """The system. What it is to search, and with what, is the context's; without a config, the environment's counts."""

    def __init__(self, context: RequestContext) -> None:
        self.context = context

    async def retrieve(
        self, query: str, filters: Mapping[str, Any] | None = None, config: Config | None = None
    ) -> ContextPack:
        (pack,) = await self.retrieve_all([query], filters, config)
        return pack

    async def retrieve_all(
        self, queries: Sequence[str], filters: Mapping[str, Any] | None = None, config: Config | None = None
    ) -> list[ContextPack]:
        """A pack for each query; all queries are embedded in one batch."""
        variant = (config or Config.from_environment(self.context.resources.environment)).variant(filters)
        context = await self._with_batch(queries, variant)
        found: list[RetrievalResult] = await side_by_side(*(search(context, query, variant) for query in queries))
        return [_told(bundle) for bundle in found]

    async def _with_batch(self, queries: Sequence[str], variant: Variant) -> RequestContext:
        context = self.context
        if len(queries) < 2:
            return context
        model = search_target(context.store, context.view, variant.chunks, variant.model).model
        if model is None:
            return context
        batched = _Batched(context.embedder(model), [checked_text(query) for query in queries])
        return replace(context, resources=replace(context.resources, embedder=lambda _: batched))


class _Batched:
    """An embedder that embeds the queries it was made with all at once, when the first of them is asked for.

    A search that is cancelled leaves the batch to the others; with the last of them it ends.
    """

    def __init__(self, embedder: Embedder, queries: Sequence[str]) -> None:
        self._embedder, self._queries = embedder, list(dict.fromkeys(queries))
        self._vectors: asyncio.Task[Vectors] | None = None
        self._waiting = 0
        self.model = embedder.model

    @property
    def dimension(self) -> int:
        return self._embedder.dimension

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        if purpose != "query" or not set(texts) <= set(self._queries):
            return await self._embedder.embed(texts, purpose)
        made = await self._batch()
        rows: Vectors = made[[self._queries.index(text) for text in texts]]
        return rows

    async def _batch(self) -> Vectors:
        if self._vectors is None:
            self._vectors = asyncio.create_task(self._all())
        batch, self._waiting = self._vectors, self._waiting + 1
        try:
            return await asyncio.shield(batch)
        finally:
            self._waiting -= 1
            if not self._waiting and not batch.done():
                self._vectors = None  # who comes later begins anew
                await _stopped(batch)

    async def _all(self) -> Vectors:
        return await self._embedder.embed(self._queries, "query")

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return self._embedder.tokenize(text)


async def _stopped(task: asyncio.Task[Any]) -> None:
    """Cancelled, and over; if it failed while it was being stopped, nobody is left to be told."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _told(bundle: RetrievalResult) -> ContextPack:
    """The pipeline's pack with the whole of the trace."""
    if bundle.pack is None:
        raise SpecError("This variant packs nothing. Give it `pack`.")
    told = {field.name: getattr(bundle.pack.trace, field.name) for field in fields(PackTrace)}
    told["dense_candidates"] = bundle.trace[f"leg {bundle.variant.leg_names[0]}"].ranking
    told["notes"] = bundle.trace.notes
    pack, trace = bundle.pack, Trace(**told, marks=bundle.ratings)
    return ContextPack(pack.query, pack.chunks, tuple(map(str, pack.citations)), trace, pack.context)
