"""Any endpoint that speaks OpenAI's `POST /v1/embeddings`. The key comes from the environment and goes nowhere else."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from core.embedding.base import Purpose, Vectors, backends
from core.errors import DimensionUnknown, EmbeddingError, SpecError
from core.http import EndpointFailure, RetryPolicy, client, post, with_retries

TEXTS_A_REQUEST = 64
ATTEMPTS = 5
LONGEST_WAIT = 30.0
TIMEOUT = 120.0  # seconds for a request, with its answer: such a server may have no graphics card
CHECK = "Check that RANKBOOK_EMBEDDING_URL is an embeddings API; what was embedded so far is kept."
LARGEST_ANSWER = 64 * 2**20  # bytes; 64 vectors of 4,096 numbers in JSON take some 6 MB
OPENAI = "api.openai.com"
SERVED = "openai:"  # how the id of a model begins that another server runs


@backends.register("openai")
class OpenAIEmbedder:
    """`name` is the endpoint's name for the model. URL: `RANKBOOK_EMBEDDING_URL`; key: `RANKBOOK_EMBEDDING_KEY`.

    Models of one name on two servers are two models, so the id says the server where that is not OpenAI's own, as
    `openai:bge-m3[localhost:8080]`. A name that says one is asked of that server only.
    """

    def __init__(
        self,
        name: str,
        number_format: str = "",
        *,
        base_url: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        pause: Callable[[float], Any] = asyncio.sleep,
        timeout: float = TIMEOUT,
    ) -> None:
        if number_format:
            raise EmbeddingError(
                f"{name!r} is served elsewhere, which decides its precision. Leave '@{number_format}' out."
            )
        self.base_url = (base_url or os.environ.get("RANKBOOK_EMBEDDING_URL") or f"https://{OPENAI}/v1").rstrip("/")
        self.where = re.sub(r"(?<=//)[^/@]*@", "", self.base_url)  # the address without the password that it may hold
        self.name, self.host = _split(name) or (name, _host(self.base_url))
        self._transport, self._pause, self._timeout = transport, pause, timeout
        self._dimension = 0

    @property
    def model(self) -> str:
        return f"{SERVED}{self.name}" + (f"[{self.host}]" if self.host not in {"", OPENAI} else "")

    @property
    def dimension(self) -> int:
        if not self._dimension:
            raise DimensionUnknown(f"The dimension of {self.model} is known once it has embedded a text.")
        return self._dimension

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        """Words and marks: the endpoint's own tokenizer is not here, and this over-counts rather than under-counts."""
        return [match.span() for match in re.finditer(r"\w{1,5}|[^\w\s]", text)]

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:  # noqa: ARG002
        parts = [texts[at : at + TEXTS_A_REQUEST] for at in range(0, len(texts), TEXTS_A_REQUEST)]
        if not parts:
            return np.empty((0, self._dimension), dtype=np.float32)
        if self.host != _host(self.base_url):
            address = f"Set it to the address at {self.host}, as http://{self.host}/v1"
            raise EmbeddingError(
                f"The model {self.model!r} is served by {self.host}, and RANKBOOK_EMBEDDING_URL points at "
                f"{_host(self.base_url) or 'no server'}. {'Unset it' if self.host == OPENAI else address}, or embed "
                f"once more with what is there: rankbook data embed COLLECTION openai:{self.name}"
            )
        own = os.environ.get("OPENAI_API_KEY", "") if self.host == OPENAI else ""  # it is for them alone
        key = os.environ.get("RANKBOOK_EMBEDDING_KEY") or own
        try:
            sender = client(key, "RANKBOOK_EMBEDDING_KEY", self._transport)
        except SpecError as error:
            raise EmbeddingError(str(error)) from None
        async with sender:
            return np.concatenate([await self._embed_part(sender, part) for part in parts])

    async def _embed_part(self, sender: httpx.AsyncClient, texts: Sequence[str]) -> Vectors:
        """The vectors of one request. Whatever is amiss is refused: a shifted vector would poison the index."""
        policy = RetryPolicy(self._timeout, ATTEMPTS, LONGEST_WAIT, LARGEST_ANSWER)
        body = {"model": self.name, "input": [text or " " for text in texts]}

        async def attempt() -> bytes:
            return await post(sender, f"{self.base_url}/embeddings", body, policy)

        try:
            answer = json.loads(await with_retries(policy, attempt, self._pause))
        except EndpointFailure as failed:
            raise EmbeddingError(
                f"{self.where}/embeddings did not embed with {self.name!r}: {failed.problem}. Check "
                "RANKBOOK_EMBEDDING_URL, the model's name and RANKBOOK_EMBEDDING_KEY; what was embedded so far is kept."
            ) from failed
        except (ValueError, RecursionError) as error:
            raise EmbeddingError(f"{self.where}/embeddings answered, and not with JSON. {CHECK}") from error
        try:
            by_index = {int(row["index"]): row["embedding"] for row in answer["data"]}
            with np.errstate(over="ignore"):  # an infinite part is refused below
                vectors = np.array([by_index[index] for index in range(len(texts))], dtype=np.float32)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise EmbeddingError(
                f"{self.where}/embeddings answered without one vector for each of the {len(texts)} texts. {CHECK}"
            ) from error
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise EmbeddingError(
                f"{self.where}/embeddings gave vectors that are empty, of unequal length or with infinite parts. "
                f"{CHECK}"
            )
        if self._dimension and vectors.shape[1] != self._dimension:
            raise EmbeddingError(
                f"{self.where} gave vectors of {vectors.shape[1]} dimensions after ones of {self._dimension}."
            )
        self._dimension = vectors.shape[1]
        return vectors


def is_served(model: str | None) -> bool:
    """Whether another server runs the model, which its id says."""
    return model is not None and model.startswith(SERVED)


def endpoint_of(model: str) -> OpenAIEmbedder | None:
    """The embedder of a model that another server runs; None for one that runs here."""
    return OpenAIEmbedder(model.removeprefix(SERVED)) if is_served(model) else None


def stored_as(model: str) -> str:
    """The id of stored vectors with its server: one that names no server means OpenAI, whatever is configured now."""
    return f"{model}[{OPENAI}]" if is_served(model) and not _split(model) else model


def _split(name: str) -> tuple[str, str] | None:
    """`bge-m3[localhost:8080]` as the model and the server; None where the name says no server."""
    found = re.fullmatch(r"([^\[]+)\[(.+)\]", name)
    return (found[1], found[2]) if found else None


def _host(url: str) -> str:
    """Host and port alone: an address may hold a password as well. Empty where it is no address."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return ""
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown
