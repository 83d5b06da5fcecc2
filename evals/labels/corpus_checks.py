"""Checks over a whole corpus: queries that a document quotes word for word, and near-duplicate documents."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
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
# Chinese, Japanese and Korean have no blanks between words, so each character is a word.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
Hashes = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class NearDuplicate:
    """An earlier document that a new one repeats, and the estimated overlap of their shingles."""

    id: str
    similarity: float


class NearDuplicates:
    """Near-duplicates by MinHash and banding: documents are added one by one and compared with earlier ones.

    `threshold` is the least estimated overlap that counts, and `capacity` how many of the latest documents are kept.
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
        """The most similar earlier document, if it reaches the threshold. A text without words is like no other."""
        shingles = _shingles(text)
        if not len(shingles):
            return None
        lowest = np.full(HASHES, np.iinfo(np.uint64).max, dtype=np.uint64)
        for start in range(0, len(shingles), _BLOCK):
            hashed = shingles[start : start + _BLOCK, None] * self._multipliers + self._offsets
            lowest = np.minimum(lowest, hashed.min(axis=0))
        signature = (lowest >> np.uint64(32)).astype(np.uint32)
        bands = np.ascontiguousarray(signature.reshape(BANDS, -1))
        slots = np.array([zlib.crc32(row.tobytes(), band) for band, row in enumerate(bands)]) & (self._slots - 1)
        match = self._most_similar(signature, slots)
        place = self._count % self._capacity
        if place < len(self._ids):
            self._ids[place] = item_id
        else:
            self._ids.append(item_id)
        self._signatures[place] = signature
        self._table[np.arange(BANDS), slots] = place + 1
        self._count += 1
        return match

    def _most_similar(self, signature: NDArray[np.uint32], slots: NDArray[np.int64]) -> NearDuplicate | None:
        candidates = np.unique(self._table[np.arange(BANDS), slots])
        candidates = candidates[candidates > 0] - 1
        if not len(candidates):
            return None
        likeness = (self._signatures[candidates] == signature).mean(axis=1)
        best = int(likeness.argmax())
        if likeness[best] < self._threshold:
            return None
        return NearDuplicate(self._ids[int(candidates[best])], float(likeness[best]))


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


SHORTEST_COPY = 20  # characters of a query; a keyword that a text contains is no leak
ITEMS_A_PAGE = 500


async def queries_in_corpus(store: Store, view: CollectionView, queries: Iterable[Row[Query]]) -> list[Flaw]:
    """Queries that a document contains word for word: such a benchmark rewards whatever matches words."""
    rows = [row for row in queries if len(row.value.text.strip()) >= SHORTEST_COPY]
    flaws = []
    async with store.begin(view.namespace, read_only=True) as connection:
        for row in rows:
            text = row.value.text.strip()
            quoting = select(ItemRow.id).where(ItemRow.text.icontains(text, autoescape=True)).limit(1)
            if (item := await connection.scalar(quoting)) is not None:
                message = f"the query's own text stands in the document {item!r}"
                flaws.append(Flaw(row.place, message, "noted", subject=row.value.id))
    return flaws


async def near_duplicates(store: Store, view: CollectionView, listener: Listener = nobody) -> list[Flaw]:
    """Documents that nearly repeat an earlier one: where only one of them is labelled, the other counts as wrong."""
    detector = NearDuplicates()
    flaws, done, last = list[Flaw](), 0, 0
    columns = (ItemRow.key, ItemRow.id, ItemRow.title, ItemRow.text)
    async with store.begin(view.namespace, read_only=True) as connection:
        total = await connection.scalar(select(func.count()).select_from(ItemRow))
    while True:  # a page at a time, so that memory holds no more
        page = select(*columns).where(ItemRow.key > last).order_by(ItemRow.key).limit(ITEMS_A_PAGE)
        async with store.begin(view.namespace, read_only=True) as connection:
            rows = (await connection.execute(page)).all()
        if not rows:
            return flaws
        for row in rows:
            if match := detector.add(row.id, f"{row.title} {row.text}"):
                message = f"it repeats {match.id!r} to {match.similarity:.0%}"
                flaws.append(Flaw(Place(view.name), message, "noted", subject=row.id))
        done, last = done + len(rows), rows[-1].key
        if done % ITEMS_A_PAGE == 0:
            listener(Step("Looking for near-duplicates", done, total, "documents"))
