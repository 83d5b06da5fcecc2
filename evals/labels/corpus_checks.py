"""Checks over a whole corpus: queries that stand in it word for word, and documents that are near-duplicates."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select

from core.progress import Listener, Step, nobody
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import ItemRow
from core.types import Flaw, Place, Query, Row

HASHES = 64  # the estimate's standard error at an overlap of 0.85 is sqrt(0.85 * 0.15 / 64) = 0.045
BANDS = 16  # 16 bands of 4: a pair with an overlap of 0.8 is missed 2 times in 10,000
SHINGLE = 5
_BLOCK = 4096
# Chinese, Japanese and Korean do not set words apart, so each character stands as a word of its own.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """An earlier document that the new one repeats, and the estimated overlap of their shingles."""

    id: str
    similarity: float


class NearDuplicates:
    """Feed documents one by one; each answer names an earlier one that it nearly repeats. Deterministic.

    `threshold`: least estimated overlap that counts. `capacity`: how many documents are remembered, the latest ones.
    """

    def __init__(self, threshold: float = 0.85, capacity: int = 2**19) -> None:
        if not 0 < threshold <= 1 or capacity < 1:
            raise ValueError(f"threshold must be in (0, 1] and capacity positive, not {threshold} and {capacity}")
        self._threshold, self._capacity, self._count = threshold, capacity, 0
        random = np.random.Generator(np.random.PCG64(20240607))
        # Odd multipliers make x -> a*x + b (mod 2**64) a bijection; its high half is what is compared.
        self._multipliers = random.integers(0, 2**63, HASHES, dtype=np.uint64) * np.uint64(2) + np.uint64(1)
        self._offsets = random.integers(0, 2**63, HASHES, dtype=np.uint64)
        # np.zeros takes pages only when they are written, so a small collection costs little.
        self._signatures = np.zeros((capacity, HASHES), dtype=np.uint32)
        self._ids: list[str] = []
        self._slots = 1 << max(10, capacity.bit_length())
        self._table = np.zeros((BANDS, self._slots), dtype=np.int32)  # number in the ring, plus 1; 0 is free

    def add(self, item_id: str, text: str) -> NearDuplicate | None:
        """The likest remembered document at or above the threshold. A text without words is never like another."""
        shingles = _shingles(text)
        if not len(shingles):
            return None
        signature = self._signature(shingles)
        slots = self._slots_of(signature)
        match = self._likest(signature, slots)
        self._remember(item_id, signature, slots)
        return match

    def _signature(self, shingles: Hashes) -> NDArray[np.uint32]:
        lowest = np.full(HASHES, np.iinfo(np.uint64).max, dtype=np.uint64)
        for start in range(0, len(shingles), _BLOCK):
            hashed = shingles[start : start + _BLOCK, None] * self._multipliers + self._offsets
            lowest = np.minimum(lowest, hashed.min(axis=0))
        return (lowest >> np.uint64(32)).astype(np.uint32)

    def _slots_of(self, signature: NDArray[np.uint32]) -> NDArray[np.int64]:
        rows = np.ascontiguousarray(signature.reshape(BANDS, -1))
        return np.array([zlib.crc32(row.tobytes(), band) for band, row in enumerate(rows)]) & (self._slots - 1)

    def _likest(self, signature: NDArray[np.uint32], slots: NDArray[np.int64]) -> NearDuplicate | None:
        candidates = np.unique(self._table[np.arange(BANDS), slots])
        candidates = candidates[candidates > 0] - 1
        if not len(candidates):
            return None
        likeness = (self._signatures[candidates] == signature).mean(axis=1)
        best = int(likeness.argmax())
        if likeness[best] < self._threshold:
            return None
        return NearDuplicate(self._ids[int(candidates[best])], float(likeness[best]))

    def _remember(self, item_id: str, signature: NDArray[np.uint32], slots: NDArray[np.int64]) -> None:
        place = self._count % self._capacity
        if place < len(self._ids):
            self._ids[place] = item_id
        else:
            self._ids.append(item_id)
        self._signatures[place] = signature
        self._table[np.arange(BANDS), slots] = place + 1
        self._count += 1


def _shingles(text: str) -> Hashes:
    """A 64-bit hash for each run of five words; a shorter text is one shingle."""
    words = np.array(
        [zlib.crc32(word.encode("utf-8", "replace")) for word in _WORD.findall(text.lower())], dtype=np.uint64
    )
    width = min(SHINGLE, len(words))
    if not width:
        return words
    hashed = np.zeros(len(words) - width + 1, dtype=np.uint64)
    for offset in range(width):
        hashed = (hashed ^ words[offset : offset + len(hashed)]) * np.uint64(0x9E3779B97F4A7C15)
        hashed ^= hashed >> np.uint64(29)
    return hashed


SHORTEST_COPY = 20  # characters; a keyword that stands in a text is no leak
ITEMS_A_PAGE = 500


async def queries_in_corpus(store: Store, view: CollectionView, queries: Iterable[Row[Query]]) -> list[Flaw]:
    """Queries that stand in a document word for word: a benchmark that leaks rewards whatever matches words."""
    rows = [row for row in queries if len(row.value.text.strip()) >= SHORTEST_COPY]
    flaws = []
    async with store.begin(view.namespace, read_only=True) as connection:
        for row in rows:
            found = select(ItemRow.id).where(ItemRow.text.icontains(row.value.text.strip(), autoescape=True)).limit(1)
            if (item := await connection.scalar(found)) is not None:
                message = f"the query's own text stands in the document {item!r}"
                flaws.append(Flaw(row.place, message, "noted", subject=row.value.id))
    return flaws


async def near_duplicates(store: Store, view: CollectionView, listener: Listener = nobody) -> list[Flaw]:
    """Documents that nearly repeat an earlier one: labelled once, they make the other a wrong answer."""
    detector = NearDuplicates()
    flaws, done = [], 0
    async with store.begin(view.namespace, read_only=True) as connection:
        total = await connection.scalar(select(func.count()).select_from(ItemRow))
    async for item_id, text in _texts(store, view):
        if match := detector.add(item_id, text):
            message = f"it repeats {match.id!r} to {match.similarity:.0%}"
            flaws.append(Flaw(Place(view.name), message, "noted", subject=item_id))
        done += 1
        if done % ITEMS_A_PAGE == 0:
            listener(Step("Looking for near-duplicates", done, total, "documents"))
    return flaws


async def _texts(store: Store, view: CollectionView) -> AsyncIterator[tuple[str, str]]:
    """Every item, a page at a time: memory holds a page."""
    last = 0
    while True:
        page = (
            select(ItemRow.key, ItemRow.id, ItemRow.title, ItemRow.text).where(ItemRow.key > last).order_by(ItemRow.key)
        )
        async with store.begin(view.namespace, read_only=True) as connection:
            rows = (await connection.execute(page.limit(ITEMS_A_PAGE))).all()
        if not rows:
            return
        for row in rows:
            yield row.id, f"{row.title} {row.text}"
        last = rows[-1].key
