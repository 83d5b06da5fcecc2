"""What an embedding model is to the rest: an id, a dimension, vectors for texts, and where tokens begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, runtime_checkable

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


@runtime_checkable
class Loaded(Protocol):
    """An embedder that has something to load before it can embed."""

    async def warm_up(self) -> None:
        """Load the model and run it once, so that no query's time has that in it."""
        ...


async def warm_up(embedder: Embedder) -> None:
    """Of an embedder that loads nothing here there is nothing to do."""
    if isinstance(embedder, Loaded):
        await embedder.warm_up()


backends: Registry[Any] = Registry("embedding backend")
