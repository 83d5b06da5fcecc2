"""Late chunking: the evidence for an answer, made of the items that were found, at query time.

Two published senses: chunks derived late from the candidates and embedded each by itself; and (`pooling = "tokens"`)
the whole text's token embeddings pooled per chunk, so that each chunk is embedded in its context (Günther et al. 2024,
arXiv 2409.04701). Derived chunks may be kept in a cache that is never authoritative: cold and warm give one ranking.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from core.chunking import Chunker
from core.chunking.sentences import SentenceChunker
from core.chunking.spec import CHUNKERS


class Late(BaseModel):
    """Which chunks are made of an item that was found, how they are embedded, and how many are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Literal["late", "precomputed", "mixed"] = Field(
        "late", description="Make chunks now, use the stored chunk set `stored`, or that where an item has such chunks."
    )
    chunker: Annotated[Chunker, CHUNKERS] = Field(
        default_factory=SentenceChunker, description="The chunker of chunks that are made now."
    )
    stored: str = Field("default", description="The chunk set that stored chunks are taken from.")
    pooling: Literal["chunk", "tokens"] = Field(
        "chunk", description="Embed each chunk, or pool the whole text's tokens."
    )
    include_headers: bool = Field(True, description="Whether title and heading path are embedded with a chunk.")
    text_share: float = Field(
        0.2, ge=0, le=1, description="What word overlap counts beside vector similarity; at 1 nothing is embedded."
    )
    per_item_cap: int = Field(3, ge=1, description="The most chunks of one item.")
    top_k_chunks: int = Field(12, ge=1, description="How many chunks of all items come out.")
    use_cache: bool = Field(True, description="Whether chunks made before may be used again.")
    write_cache: bool = Field(True, description="Whether chunks made now are kept.")
    ttl_seconds: float | None = Field(None, gt=0, description="How long kept chunks are believed.")
