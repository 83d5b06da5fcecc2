"""Near-duplicate documents in one pass and bounded memory: MinHash over word 5-shingles, found by banding (LSH).

MinHash and not SimHash: its estimate is the Jaccard overlap of shingles, a figure a person can set a threshold on and
read in a report, and it holds for short texts, where SimHash's few flipped bits mean little. Broder, "On the
resemblance and containment of documents", 1997; banding as in Leskovec, Rajaraman, Ullman, "Mining of Massive
Datasets", ch. 3.

Memory: 256 bytes a remembered document plus a fixed table, whatever streams through. Where two documents fall on one
slot of the table, the later is remembered; 16 bands make it unlikely that all of a pair's slots are lost.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
