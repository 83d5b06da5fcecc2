"""What an embedding model is to the rest: an id, a dimension, vectors for texts, and where tokens begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from core.registry import Registry

Vectors = NDArray[np.float32]
Purpose = Literal["document", "query"]


class Embedder(Protocol):
    """A model ready to embed. `model` names backend and precision too: embedders of one id agree on every vector."""

    @property
    def model(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        """One unit-length or raw vector a text, in the order given."""
        ...

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        """The character range of each token, for chunkers and token budgets."""
        ...


backends: Registry[Any] = Registry("embedding backend")
