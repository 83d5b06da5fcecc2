"""Stand-ins that come in through the seams the code has anyway: an embedder, rows, small collections."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

import numpy as np

from core.embedding import Purpose, Vectors
from core.types import Item, Place, Row


class HashingEmbedder:
    """A bag of hashed words, of unit length: instant, deterministic, and near for texts that share words."""

    def __init__(self, dimension: int = 16, name: str = "hashing") -> None:
        self.model = f"{name}-{dimension}"
        self.dimension = dimension
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        self.texts += texts
        return np.stack([self._vector(text) for text in texts]) if texts else np.empty((0, self.dimension), np.float32)

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return words(text)

    def _vector(self, text: str) -> Vectors:
        vector = np.full(self.dimension, 1e-3, dtype=np.float32)
        for word in re.findall(r"\w+", text.lower()):
            digest = hashlib.blake2b(word.encode(), digest_size=4).digest()
            vector[int.from_bytes(digest, "little") % self.dimension] += 1
        return vector / np.float32(np.linalg.norm(vector))


def words(text: str) -> Sequence[tuple[int, int]]:
    """A tokenizer: words and marks."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def rows(items: Sequence[Item], file: str = "corpus.jsonl") -> Iterator[Row[Item]]:
    """Items as a source would hand them over."""
    return (Row(item, Place(file, line)) for line, item in enumerate(items, start=1))
