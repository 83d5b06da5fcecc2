"""Rerankers whose model runs here: cross-encoders and late interaction."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from core.context import Resources
from core.embedding import DEFAULT_MODEL, Vectors, warm_up
from core.errors import EmbeddingError, RerankError
from core.rerank.base import Reranker, rerankers
from core.types import Hit, StageResult

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

PAIRS_A_BATCH = 32
_one_at_a_time = threading.Lock()  # loading as well as running: two at once only take each other's cores


@rerankers.register("cross_encoder")
class CrossEncoderReranker(Reranker):
    """Scores each pair of query and text with a sentence-transformers cross-encoder, from 0 to 1."""

    runs_model = True

    model: str = Field(min_length=1, description="A folder, or the name of a model in the local Hugging Face cache.")
    max_length: int | None = Field(None, ge=8, description="Tokens read of a pair; by default what the model can.")

    async def warm_up(self, resources: Resources) -> None:  # noqa: ARG002
        await asyncio.to_thread(_load, self.model, self.max_length)

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:  # noqa: ARG002
        candidates = hits[: self.depth]
        if not candidates:
            return self.cut(hits)
        distinct = sorted({hit.text for hit in candidates})  # so that neither order nor repetition changes a single bit
        scores = await asyncio.to_thread(_scores, self.model, self.max_length, query, distinct)
        by_text = dict(zip(distinct, scores, strict=True))
        cut = sum(by_text[hit.text][1] for hit in candidates)
        notes = [f"Cut to what the model reads: {cut} of {len(candidates)} texts."] if cut else []
        return self.reordered(hits, [by_text[hit.text][0] for hit in candidates], notes=notes)


def _scores(name: str, max_length: int | None, query: str, texts: Sequence[str]) -> list[tuple[float, bool]]:
    """The sigmoid of each pair's logit, and whether the pair was too long. Batches depend on the texts alone."""
    from torch.nn import Sigmoid

    pairs = [(query, text) for text in texts]
    with _one_at_a_time:
        model = _model(name, max_length)
        try:
            scores = model.predict(
                pairs, batch_size=PAIRS_A_BATCH, show_progress_bar=False, activation_fn=Sigmoid(), convert_to_numpy=True
            )
            tokens = model.tokenizer(pairs, truncation=False, verbose=False)["input_ids"]
        except Exception as error:  # whatever a foreign model's code raises
            raise RerankError(f"The cross-encoder {name!r} failed: {_first_line(error)} Choose another.") from error
    if not all(math.isfinite(score) for score in scores):
        raise RerankError(f"The cross-encoder {name!r} gave scores that are no numbers. Choose another.")
    room = model.max_seq_length or math.inf
    return [(float(score), len(pair) > room) for score, pair in zip(scores, tokens, strict=True)]


def _load(name: str, max_length: int | None) -> None:
    with _one_at_a_time:
        _model(name, max_length)


@lru_cache(maxsize=2)
def _model(name: str, max_length: int | None) -> CrossEncoder:
    from sentence_transformers import CrossEncoder
    from transformers.utils import logging

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        model: CrossEncoder = CrossEncoder(name, device="cpu", local_files_only=True, max_length=max_length)
    except Exception as error:  # the libraries below raise whatever they meet
        why = _first_line(error) if Path(name).is_dir() else "it is neither a folder nor in the Hugging Face cache."
        raise RerankError(
            f"The cross-encoder {name!r} cannot be loaded: {why} Give a folder that holds one; nothing is downloaded."
        ) from error
    if model.num_labels != 1:
        raise RerankError(f"The model {name!r} gives {model.num_labels} scores a pair. Choose one that gives one.")
    return model


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that gives a vector for each token of a text, in the text's context."""

    async def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """For each text one unit-length row a token, special tokens left out. The same list gives the same bits."""
        ...


@rerankers.register("late_interaction")
class LateInteractionReranker(Reranker):
    """MaxSim over the token vectors of an embedding model, divided by the query's tokens: at most 1."""

    runs_model = True

    model: str = Field(DEFAULT_MODEL, description="The embedding model whose token vectors are compared.")
    max_chars: int = Field(20_000, ge=1, description="How much of each text is read, in characters.")

    async def warm_up(self, resources: Resources) -> None:
        await warm_up(resources.embedder(self.model))

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> StageResult:
        candidates = hits[: self.depth]
        if not candidates:
            return self.cut(hits)
        embedder = resources.embedder(self.model)
        if not isinstance(embedder, TokenEmbedder):
            raise EmbeddingError(
                f"The model {self.model!r} gives one vector a text and none for its tokens. For late interaction "
                f"choose a sentence-transformers model, such as {DEFAULT_MODEL}."
            )
        (query_rows,) = await embedder.embed_tokens([query])
        if not len(query_rows):
            return self.cut(hits, notes=["The query holds no token, so nothing was reordered."])
        texts = [hit.text[: self.max_chars] for hit in candidates]
        distinct = sorted(set(texts))  # so that neither the hits' order nor a repeated text changes a single bit
        rows = dict(zip(distinct, await embedder.embed_tokens(distinct), strict=True))
        cut = sum(len(hit.text) > self.max_chars for hit in candidates)
        note = f"{cut} of {len(candidates)} texts: only the first {self.max_chars:,} characters were read."
        scores = [max_sim(query_rows, rows[text]) for text in texts]
        return self.reordered(hits, scores, notes=[note] if cut else [])


def max_sim(query: Vectors, text: Vectors) -> float:
    """Mean over the query's tokens of the best cosine in the text (Khattab and Zaharia 2020, eq. 3, a sum there)."""
    if not len(text):
        return 0.0
    return float(np.mean(np.max(query @ text.T, axis=1), dtype=np.float64))
