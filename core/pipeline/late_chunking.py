"""Evidence chunks of the items that were found: stored ones, kept ones, or ones made now; scored, capped, pooled.

An item's chunks are embedded by themselves, never in a batch with another's: in bfloat16 a text's vector depends on its
company in the last digits, and a warm cache must give the ranking that a cold one gave.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
from sqlalchemy import any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Integer

from core.chunking.base import CHUNKERS
from core.embedding import Embedder, Vectors
from core.errors import MissingCapability, SpecError, StoreError
from core.rerank.base import WORD
from core.rerank.local_models import TokenEmbedder
from core.store import db_errors
from core.store.chunk_and_embed import under_title
from core.store.schema import CachedChunks, any_id, chunk_id, chunk_table, passage_of, vector_table
from core.store.schema import ItemRow as StoredItem
from core.types import Chunk, EvidenceChunk, Hit, Item
from core.variant import LateChunking

if TYPE_CHECKING:
    from core.context import RequestContext


@dataclass(frozen=True, slots=True)
class LateChunks:
    """The evidence, best first, and what a reader should know of how it came about."""

    evidence: tuple[EvidenceChunk, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkPieces:
    """An item's chunks with their vectors."""

    chunks: Sequence[Chunk]
    vectors: Vectors


async def late_chunks(
    context: RequestContext, late: LateChunking, model: str, meaning: str, hits: Sequence[Hit]
) -> LateChunks:
    """The best chunks of the items found, at most `per_item_cap` of one, ranked over all of them."""
    work = _Late(context, late, model)
    items = await work.items(hits)
    pieces, notes = await work.pieces(items)
    query = (await work.embedder.embed([meaning], "query"))[0] if work.embeds else None
    scored = [
        chunk for item in items for chunk in work.scored(item, pieces[item.key], query, meaning)[: late.per_item_cap]
    ]
    place = {item.id: rank for rank, item in enumerate(items)}
    scored.sort(key=lambda chunk: (-chunk.score, place[chunk.item_id], chunk.start_idx))
    return LateChunks(tuple(scored[: late.top_k_chunks]), tuple(notes))


class _Late:
    """The steps of one request."""

    def __init__(self, context: RequestContext, late: LateChunking, model: str) -> None:
        self.context, self.late, self.model = context, late, model
        self.embedder: Embedder = context.embedder(model)
        self.view, self.store = context.view, context.store

    @property
    def embeds(self) -> bool:
        """Whether vectors have a say."""
        return self.late.text_share < 1

    @property
    def recipe(self) -> str:
        """What kept chunks were made by; with the item's content and the model it is their key."""
        spec = {
            **CHUNKERS.write(self.late.chunker),
            "pooling": self.late.pooling,
            "headers": self.late.include_headers,
            "vectors": self.embeds,
        }
        return hashlib.blake2b(json.dumps(spec, sort_keys=True).encode(), digest_size=16).hexdigest()

    async def items(self, hits: Sequence[Hit]) -> list[Any]:
        """The items' rows, in the order of the hits."""
        if self.view.row.attached is not None:
            raise MissingCapability(
                "Late chunks are made of our own items; an attached table's texts are not kept here."
            )
        ids = [hit.item_id for hit in hits]
        wanted = select(StoredItem.__table__).where(StoredItem.id == any_id(ids))
        async with self.store.begin(self.view.namespace, read_only=True) as connection:
            rows = {row.id: row for row in await connection.execute(wanted)}
        return [rows[each] for each in ids if each in rows]

    async def pieces(self, items: Sequence[Any]) -> tuple[dict[int, ChunkPieces], list[str]]:
        found: dict[int, ChunkPieces] = {}
        if self.late.strategy != "late":
            found = await self._stored(items)
        missing = [item for item in items if item.key not in found]
        notes: list[str] = []
        if self.late.strategy == "precomputed":
            if missing:
                notes.append(f"{len(missing)} of {len(items)} items have no stored chunks in {self.late.stored!r}.")
            return {**dict.fromkeys((item.key for item in missing), _NOTHING), **found}, notes
        kept = await self._kept(missing) if self.late.use_cache else {}
        made = {item.key: await self._make(item) for item in missing if item.key not in kept}
        if self.late.write_cache:
            notes += await self._try_to_keep([item for item in missing if item.key in made], made)
        return {**found, **kept, **made}, notes

    # -- where chunks come from --------------------------------------------------------------------------------------

    async def _stored(self, items: Sequence[Any]) -> dict[int, ChunkPieces]:
        chunk_set = self.view.chunk_set(self.late.stored)
        embedding_set = self.view.embedding_set(chunk_set, self.model)
        if embedding_set is None:
            raise SpecError(
                f"The chunk set {chunk_set.name!r} has no vectors of {self.model!r}, by which the query is embedded. "
                "Embed it with `rankbook data embed`, or choose strategy = 'late'."
            )
        chunks, vectors = chunk_table(chunk_set.key), vector_table(embedding_set.key, embedding_set.dimension)
        query = (
            select(chunks, vectors.c.embedding)
            .join(vectors, (vectors.c.item_key == chunks.c.item_key) & (vectors.c.key == chunks.c.key))
            .where(chunks.c.item_key == any_(literal([item.key for item in items], ARRAY(Integer))))
            .order_by(chunks.c.key)
        )
        async with self.store.begin(self.view.namespace, read_only=True) as connection:
            rows = (await connection.execute(query)).all()
        grouped: dict[int, list[Any]] = {}
        for row in rows:
            grouped.setdefault(row.item_key, []).append(row)
        return {
            key: ChunkPieces(
                [Chunk(ordinal=row.ordinal, **passage_of(row)) for row in own],
                np.array([row.embedding for row in own], dtype=np.float32),
            )
            for key, own in grouped.items()
        }

    async def _kept(self, items: Sequence[Any]) -> dict[int, ChunkPieces]:
        """Chunks made before, of the same content, not older than they may be."""
        query = select(CachedChunks.__table__).where(
            CachedChunks.item_key == any_(literal([item.key for item in items], ARRAY(Integer))),
            CachedChunks.chunker == self.recipe,
            CachedChunks.model == self.model,
        )
        if self.late.ttl_seconds is not None:
            # Nothing is from the future: such chunks were made before the clock was put back, nobody knows when.
            oldest = func.now() - timedelta(seconds=self.late.ttl_seconds)
            query = query.where(CachedChunks.created_at.between(oldest, func.now()))
        digests = {item.key: bytes(item.digest) for item in items}
        async with self.store.begin(self.view.namespace, read_only=True) as connection:
            rows = (await connection.execute(query)).all()
        return {row.item_key: _unpacked(row) for row in rows if bytes(row.digest) == digests[row.item_key]}

    async def _try_to_keep(self, items: Sequence[Any], made: Mapping[int, ChunkPieces]) -> list[str]:
        """A cache is a convenience: what cannot be kept is said, and the search goes on."""
        if not self.store.keeps:
            return []
        try:
            await self._keep(items, made)
        except (DBAPIError, StoreError) as error:
            return [f"Chunks could not be kept for next time: {db_errors.reason(error)}"]
        return []

    async def _keep(self, items: Sequence[Any], made: Mapping[int, ChunkPieces]) -> None:
        if not items:
            return
        rows = [
            {
                "item_key": item.key,
                "chunker": self.recipe,
                "model": self.model,
                "digest": bytes(item.digest),
                "chunks": [asdict(chunk) for chunk in made[item.key].chunks],
                "vectors": made[item.key].vectors.astype("<f4").tobytes(),
            }
            for item in sorted(items, key=lambda item: item.key)  # else two searches could deadlock
        ]
        statement = insert(CachedChunks)
        # The time by its column's default: Citus evaluates no now() beside a conflict.
        fresh = {name: statement.excluded[name] for name in ("digest", "chunks", "vectors", "created_at")}
        statement = statement.on_conflict_do_update(index_elements=["item_key", "chunker", "model"], set_=fresh)
        async with self.store.begin(self.view.namespace) as connection:
            await connection.execute(statement, rows)

    async def _make(self, row: Any) -> ChunkPieces:
        item = Item(row.id, row.text, row.title)
        chunks = await asyncio.to_thread(self.late.chunker.chunk, item, self.embedder.tokenize)
        chunks = [chunk for chunk in chunks if chunk.level != "parent"]
        if not chunks:
            return _NOTHING
        if not self.embeds:
            return ChunkPieces(chunks, np.empty((len(chunks), 0), dtype=np.float32))
        if self.late.pooling == "tokens":
            return ChunkPieces(chunks, await self._pooled(item, chunks))
        return ChunkPieces(chunks, await self.embedder.embed([self._embedded(item, chunk) for chunk in chunks]))

    def _embedded(self, item: Item, chunk: Chunk) -> str:
        if not self.late.include_headers:
            return chunk.text
        return under_title(" > ".join(dict.fromkeys((item.title, *chunk.heading_path))).strip(" >"), chunk.text)

    async def _pooled(self, item: Item, chunks: Sequence[Chunk]) -> Vectors:
        """The mean of a chunk's token vectors, which were made in the context of the whole text; unit length."""
        if not isinstance(self.embedder, TokenEmbedder):
            raise SpecError(f"The model {self.model!r} gives no token vectors. Choose pooling = 'chunk'.")
        (rows,) = await self.embedder.embed_tokens([item.text])
        starts = np.array([start for start, _ in self.embedder.tokenize(item.text)])
        pooled = []
        for chunk in chunks:
            first, last = np.searchsorted(starts, [chunk.start, chunk.end])
            mean = rows[first : max(last, first + 1)].mean(axis=0)
            pooled.append(mean / (np.linalg.norm(mean) or 1.0))
        return np.array(pooled, dtype=np.float32)

    # -- scoring -----------------------------------------------------------------------------------------------------

    def scored(self, item: Any, pieces: ChunkPieces, query: Vectors | None, asked: str) -> list[EvidenceChunk]:
        """An item's chunks, best first: vector similarity dominant, beside the share of the query's words."""
        if not len(pieces.chunks):
            return []
        words = set(WORD.findall(asked.lower()))
        cosines = [0.0] * len(pieces.chunks) if query is None else _cosines(pieces.vectors, query)
        made = []
        for chunk, cosine in zip(pieces.chunks, cosines, strict=True):
            overlap = len(words & set(WORD.findall(chunk.text.lower()))) / len(words) if words else 0.0
            made.append(self._evidence(item, chunk, float(cosine), overlap))
        return sorted(made, key=lambda chunk: (-chunk.score, chunk.start_idx))

    def _evidence(self, item: Any, chunk: Chunk, cosine: float, overlap: float) -> EvidenceChunk:
        share = self.late.text_share
        anchors = {"page_first": chunk.page_first, "page_last": chunk.page_last, **chunk.metadata}
        return EvidenceChunk(
            item_id=item.id,
            chunk_id=chunk_id(item.id, chunk.ordinal),
            text=chunk.text,
            start_idx=chunk.start,
            end_idx=chunk.end,
            token_count=len(self.embedder.tokenize(chunk.text)),
            score=(1 - share) * cosine + share * overlap,
            score_text=overlap,
            score_vec=cosine,
            heading_path=chunk.heading_path,
            anchors={name: value for name, value in anchors.items() if value is not None},
        )


def _cosines(vectors: Vectors, query: Vectors) -> Vectors:
    cosines: Vectors = vectors @ query / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(query) + 1e-12)
    return cosines


_NOTHING = ChunkPieces((), np.empty((0, 0), dtype=np.float32))


def _unpacked(row: Any) -> ChunkPieces:
    chunks = [Chunk(**{**chunk, "heading_path": tuple(chunk["heading_path"])}) for chunk in row.chunks]
    return ChunkPieces(
        chunks, np.frombuffer(row.vectors, dtype="<f4").reshape(len(chunks), -1) if chunks else _NOTHING.vectors
    )
