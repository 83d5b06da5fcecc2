"""Late interaction: every word of the query meets the word of the text that is most like it.

Owns MaxSim and the seam for token vectors; the model is core.embedding's, loaded once for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from core.embedding import DEFAULT_MODEL, Vectors, warm_up
from core.errors import EmbeddingError
from core.rerank.base import Reranked, Reranker, rerankers
from core.resources import Resources
from core.types import Hit


@runtime_checkable
class TokenEmbedder(Protocol):
    """An embedder that gives a vector for each token of a text, in the text's context."""

    async def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """For each text one unit-length row a token, special tokens left out. The same list gives the same bits."""
        ...


@rerankers.register("late_interaction")
class LateInteractionReranker(Reranker):
    """MaxSim over the token vectors of an embedding model, divided by the query's tokens: at most 1."""

    model: str = Field(DEFAULT_MODEL, description="The embedding model whose token vectors are compared.")
    max_chars: int = Field(20_000, ge=1, description="How much of each text is read, in characters.")

    async def warm_up(self, resources: Resources) -> None:
        await warm_up(resources.embedder(self.model))

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> Reranked:
        looked_at = hits[: self.depth]
        if not looked_at:
            return self.cut(hits)
        embedder = self._embedder(resources)
        (asked,) = await embedder.embed_tokens([query])
        if not len(asked):
            return self.cut(hits, notes=["The query holds no token, so nothing was reordered."])
        read = [hit.text[: self.max_chars] for hit in looked_at]
        distinct = sorted(set(read))  # so that neither the hits' order nor a repeated text changes a single bit
        rows = dict(zip(distinct, await embedder.embed_tokens(distinct), strict=True))
        return self.reordered(hits, [max_sim(asked, rows[text]) for text in read], notes=self._cut_texts(looked_at))

    def _embedder(self, resources: Resources) -> TokenEmbedder:
        embedder = resources.embedder(self.model)
        if not isinstance(embedder, TokenEmbedder):
            raise EmbeddingError(
                f"The model {self.model!r} gives one vector a text and none for its tokens. For late interaction "
                f"choose a sentence-transformers model, such as {DEFAULT_MODEL}."
            )
        return embedder

    def _cut_texts(self, hits: Sequence[Hit]) -> list[str]:
        cut = sum(len(hit.text) > self.max_chars for hit in hits)
        said = f"{cut} of {len(hits)} texts: only the first {self.max_chars:,} characters were read."
        return [said] if cut else []


def max_sim(query: Vectors, text: Vectors) -> float:
    """Mean over the query's tokens of the best cosine in the text (Khattab and Zaharia 2020, eq. 3, a sum there)."""
    if not len(text):
        return 0.0
    return float(np.mean(np.max(query @ text.T, axis=1), dtype=np.float64))
