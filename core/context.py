"""What a request works with: shared resources (models, caches, transports), and the context of one search."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import httpx

from core.embedding import Embedder, embedder, stored_as
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import TokenCounter


@dataclass(frozen=True, slots=True)
class Resources:
    """Models, network and environment. The defaults are the real ones; tests pass their own."""

    embedder: Callable[[str], Embedder] = embedder
    transport: httpx.AsyncBaseTransport | None = None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass(frozen=True, slots=True)
class RequestContext:
    """What a request runs with. `cancellation` is set to stop it; `deadline` is in seconds from its start.

    `count_tokens` counts for the budget of a packed context; by default the embedding model's own tokenizer does.
    """

    store: Store
    view: CollectionView
    resources: Resources = field(default_factory=Resources)
    cancellation: asyncio.Event | None = None
    deadline: float | None = None
    count_tokens: TokenCounter | None = None

    def embedder(self, model: str) -> Embedder:
        """The embedder of queries for stored vectors. An attached table's model is as somebody typed it."""
        return self.resources.embedder(model if self.view.row.attached is not None else stored_as(model))
