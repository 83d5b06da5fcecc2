"""What stages work with and specs never hold: models, the network, the environment. Exchangeable in one place."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

import httpx

from core.embedding import Embedder, embedder


@dataclass(frozen=True, slots=True)
class Resources:
    """The defaults are the real things; a test passes its own."""

    embedder: Callable[[str], Embedder] = embedder
    transport: httpx.AsyncBaseTransport | None = None
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
