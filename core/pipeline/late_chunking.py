"""Evidence chunks of the items in a result: stored ones, cached ones, or ones made now; scored and capped.

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
from typing import Any

import numpy as np
from sqlalchemy import any_, func, literal, select
from sqlalchemy.dialects.postgresql import ARRAY, insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import Integer

from core.chunking.base import CHUNKERS
from core.context import RequestContext
from core.embedding import Embedder, Vectors
from core.errors import MissingCapability, SpecError, StoreError
from core.rerank.base import WORD
from core.rerank.local_models import TokenEmbedder
from core.store import db_errors
from core.store.chunk_and_embed import under_title
from core.store.schema import CachedChunks, ItemRow, any_id, chunk_id, chunk_table, passage_of, vector_table
from core.types import Chunk, EvidenceChunk, Hit, Item, StageResult
from core.variant import LateChunking


@dataclass(frozen=True, slots=True)
class ChunkPieces:
    """An item's chunks with their vectors."""

    chunks: Sequence[Chunk]
    vectors: Vectors


_NOTHING = ChunkPieces((), np.empty((0, 0), dtype=np.float32))


async def late_chunks(
    context: RequestContext, late: LateChunking, model: str, meaning: str, hits: Sequence[Hit]
) -> StageResult:
    """The best chunks of the items among the hits, at most `per_item_cap` of one, ranked over all of them."""
    view = context.view
    if view.row.attached is not None:
        raise MissingCapability("Late chunks are made of our own items; an attached table's texts are not kept here.")
    ids = [hit.item_id for hit in hits]
    async with context.store.begin(view.namespace, read_only=True) as connection:
        rows = {
            row.id: row for row in await connection.execute(select(ItemRow.__table__).where(ItemRow.id == any_id(ids)))
        }
    items = [rows[each] for each in ids if each in rows]
    pieces, notes = await _Pieces(context, late, model).of(items)
    embedder = context.embedder(model)
    vector = (await embedder.embed([meaning], "query"))[0] if late.text_share < 1 else None
    evidence = [
        chunk
        for item in items
        for chunk in _scored(late, embedder, item, pieces[item.key], vector, meaning)[: late.per_item_cap]
    ]
    rank = {item.id: at for at, item in enumerate(items)}
    evidence.sort(key=lambda chunk: (-chunk.score, rank[chunk.item_id], chunk.start_idx))
    return StageResult(evidence=tuple(evidence[: late.top_k_chunks]), notes=tuple(notes))


class _Pieces:
    """Where the chunks of a request's items come from."""

    def __init__(self, context: RequestContext, late: LateChunking, model: str) -> None:
        self.late, self.model, self.view, self.store = late, model, context.view, context.store
        self.embedder: Embedder = context.embedder(model)
        self.embeds = late.text_share < 1
        recipe = {
            **CHUNKERS.write(late.chunker),
            "pooling": late.pooling,
            "headers": late.include_headers,
            "vectors": self.embeds,
        }
        # What cached chunks were made by; with the item's content and the model it is their key.
        self.recipe = hashlib.blake2b(json.dumps(recipe, sort_keys=True).encode(), digest_size=16).hexdigest()

    async def of(self, items: Sequence[Any]) -> tuple[dict[int, ChunkPieces], list[str]]:
        """Each item's chunks by its key, and what a reader should know of them."""
        pieces = await self._stored(items) if self.late.strategy != "late" else {}
        missing = [item for item in items if item.key not in pieces]
        if self.late.strategy == "precomputed":
            note = f"{len(missing)} of {len(items)} items have no stored chunks in {self.late.stored!r}."
            return {**dict.fromkeys((item.key for item in missing), _NOTHING), **pieces}, [note] if missing else []
        cached = await self._cached(missing) if self.late.use_cache else {}
        made = {item.key: await self._make(item) for item in missing if item.key not in cached}
        notes = []
        if made and self.late.write_cache and self.store.keeps:
            try:
                await self._keep([item for item in missing if item.key in made], made)
            except (DBAPIError, StoreError) as error:  # a cache is a convenience: the search goes on
                notes.append(f"Chunks could not be kept for next time: {db_errors.reason(error)}")
        return {**pieces, **cached, **made}, notes

    async def _stored(self, items: Sequence[Any]) -> dict[int, ChunkPieces]:
        chunk_set = self.view.chunk_set(self.late.stored)
        embedding_set = self.view.embedding_set(chunk_set, self.model)
        if embedding_set is None:
            raise SpecError(
                f"The chunk set {chunk_set.name!r} has no vectors of {self.model!r}, by which the query is embedded. "
                "Embed it with `rankbook data embed`, or choose strategy = 'late'."
            )
        chunks, vectors = chunk_table(chunk_set.key), vector_table(embedding_set.key, embedding_set.dimension)
        statement = (
            select(chunks, vectors.c.embedding)
            .join(vectors, (vectors.c.item_key == chunks.c.item_key) & (vectors.c.key == chunks.c.key))
            .where(chunks.c.item_key == any_(literal([item.key for item in items], ARRAY(Integer))))
            .order_by(chunks.c.key)
        )
        by_item: dict[int, list[Any]] = {}
        async with self.store.begin(self.view.namespace, read_only=True) as connection:
            for row in await connection.execute(statement):
                by_item.setdefault(row.item_key, []).append(row)
        return {
            key: ChunkPieces(
                [Chunk(ordinal=row.ordinal, **passage_of(row)) for row in rows],
                np.array([row.embedding for row in rows], dtype=np.float32),
            )
            for key, rows in by_item.items()
        }

    async def _cached(self, items: Sequence[Any]) -> dict[int, ChunkPieces]:
        """Chunks made before, of the same content, no older than they may be."""
        statement = select(CachedChunks.__table__).where(
            CachedChunks.item_key == any_(literal([item.key for item in items], ARRAY(Integer))),
            CachedChunks.chunker == self.recipe,
            CachedChunks.model == self.model,
        )
        if self.late.ttl_seconds is not None:
            oldest = func.now() - timedelta(seconds=self.late.ttl_seconds)
            statement = statement.where(CachedChunks.created_at >= oldest)
        digests = {item.key: bytes(item.digest) for item in items}
        pieces = {}
        async with self.store.begin(self.view.namespace, read_only=True) as connection:
            for row in await connection.execute(statement):
                if bytes(row.digest) != digests[row.item_key]:
                    continue
                chunks = [Chunk(**{**chunk, "heading_path": tuple(chunk["heading_path"])}) for chunk in row.chunks]
                vectors = np.frombuffer(row.vectors, dtype="<f4").reshape(len(chunks), -1) if chunks else None
                pieces[row.item_key] = _NOTHING if vectors is None else ChunkPieces(chunks, vectors)
        return pieces

    async def _keep(self, items: Sequence[Any], made: Mapping[int, ChunkPieces]) -> None:
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
        texts = [chunk.text for chunk in chunks]
        if self.late.include_headers:
            paths = [" > ".join(dict.fromkeys((item.title, *chunk.heading_path))).strip(" >") for chunk in chunks]
            texts = [under_title(path, text) for path, text in zip(paths, texts, strict=True)]
        return ChunkPieces(chunks, await self.embedder.embed(texts))

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


def _scored(
    late: LateChunking, embedder: Embedder, item: Any, pieces: ChunkPieces, vector: Vectors | None, query: str
) -> list[EvidenceChunk]:
    """An item's chunks, best first: mostly by vector similarity, and by the share of the query's words."""
    if not pieces.chunks:
        return []
    words = set(WORD.findall(query.lower()))
    cosines: Any = [0.0] * len(pieces.chunks)
    if vector is not None:
        lengths = np.linalg.norm(pieces.vectors, axis=1) * np.linalg.norm(vector)
        cosines = pieces.vectors @ vector / (lengths + 1e-12)
    scored = []
    for chunk, cosine in zip(pieces.chunks, map(float, cosines), strict=True):
        overlap = len(words & set(WORD.findall(chunk.text.lower()))) / len(words) if words else 0.0
        anchors = {"page_first": chunk.page_first, "page_last": chunk.page_last, **chunk.metadata}
        scored.append(
            EvidenceChunk(
                item_id=item.id,
                chunk_id=chunk_id(item.id, chunk.ordinal),
                text=chunk.text,
                start_idx=chunk.start,
                end_idx=chunk.end,
                token_count=len(embedder.tokenize(chunk.text)),
                score=(1 - late.text_share) * cosine + late.text_share * overlap,
                score_text=overlap,
                score_vec=cosine,
                heading_path=chunk.heading_path,
                anchors={name: value for name, value in anchors.items() if value is not None},
            )
        )
    return sorted(scored, key=lambda chunk: (-chunk.score, chunk.start_idx))
