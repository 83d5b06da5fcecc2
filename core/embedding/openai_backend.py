"""Any endpoint that speaks OpenAI's `POST /v1/embeddings`. The key comes from the environment and goes nowhere else."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np

from core.embedding.base import Purpose, Vectors, backends
from core.errors import DimensionUnknown, EmbeddingError

TEXTS_A_REQUEST = 64
ATTEMPTS = 5
WORTH_RETRYING = {408, 409, 425, 429, 500, 502, 503, 504}
LONGEST_WAIT = 30.0
OPENAI = "api.openai.com"


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
    ) -> None:
        if number_format:
            raise EmbeddingError(
                f"{name!r} is served elsewhere, which decides its precision. Leave '@{number_format}' out."
            )
        self.base_url = (base_url or os.environ.get("RANKBOOK_EMBEDDING_URL") or f"https://{OPENAI}/v1").rstrip("/")
        self.where = re.sub(r"(?<=//)[^/@]*@", "", self.base_url)  # the address without the password that it may hold
        self.name, self.host = _split(name) or (name, _host(self.base_url))
        self._transport, self._pause = transport, pause
        self._dimension = 0

    @property
    def model(self) -> str:
        return f"openai:{self.name}" + (f"[{self.host}]" if self.host not in {"", OPENAI} else "")

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
        async with self._client() as client:
            vectors = [await self._embed_part(client, part) for part in parts]
        return np.concatenate(vectors) if vectors else np.empty((0, self._dimension), dtype=np.float32)

    def _client(self) -> httpx.AsyncClient:
        if self.host != _host(self.base_url):
            raise EmbeddingError(
                f"The model {self.model!r} is served by {self.host}, and RANKBOOK_EMBEDDING_URL points at "
                f"{_host(self.base_url) or 'no server'}. {self._way_back()}, or embed once more with what is there: "
                f"rankbook data embed COLLECTION openai:{self.name}"
            )
        key = os.environ.get("RANKBOOK_EMBEDDING_KEY") or os.environ.get("OPENAI_API_KEY")
        if key and not (key.isascii() and key.isprintable()):
            raise EmbeddingError("The key in RANKBOOK_EMBEDDING_KEY holds what no header can. Copy it anew.")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return httpx.AsyncClient(headers=headers, timeout=httpx.Timeout(60, connect=10), transport=self._transport)

    def _way_back(self) -> str:
        return "Unset it" if self.host == OPENAI else f"Set it to the address at {self.host}, as http://{self.host}/v1"

    async def _embed_part(self, client: httpx.AsyncClient, texts: Sequence[str]) -> Vectors:
        answer = await self._post(client, {"model": self.name, "input": [text or " " for text in texts]})
        vectors = self._vectors(answer, len(texts))
        if self._dimension and vectors.shape[1] != self._dimension:
            raise EmbeddingError(
                f"{self.where} gave vectors of {vectors.shape[1]} dimensions after ones of {self._dimension}."
            )
        self._dimension = vectors.shape[1]
        return vectors

    async def _post(self, client: httpx.AsyncClient, body: dict[str, Any]) -> Any:
        problem = ""
        for attempt in range(ATTEMPTS):
            if attempt:
                await self._pause(min(LONGEST_WAIT, 0.5 * 2**attempt) * random.uniform(0.5, 1))  # noqa: S311 - jitter
            try:
                response = await client.post(f"{self.base_url}/embeddings", json=body)
            except (httpx.InvalidURL, httpx.UnsupportedProtocol, httpx.HTTPError) as error:
                problem = type(error).__name__
                if isinstance(error, httpx.TransportError) and not isinstance(error, httpx.UnsupportedProtocol):
                    continue
                break
            if response.is_success:
                return self._json(response)
            problem = f"status {response.status_code}"
            if response.status_code not in WORTH_RETRYING:
                break
        raise EmbeddingError(
            f"{self.where}/embeddings did not embed with {self.name!r}: {problem}. Check RANKBOOK_EMBEDDING_URL, "
            "the model's name and RANKBOOK_EMBEDDING_KEY; what was embedded so far is kept."
        )

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError) as error:
            raise EmbeddingError(f"{self.where}/embeddings answered with something that is not JSON.") from error

    def _vectors(self, answer: Any, expected: int) -> Vectors:
        """The answer's vectors by their index, or a refusal: a shifted vector would poison the index in silence."""
        try:
            by_index = {int(row["index"]): row["embedding"] for row in answer["data"]}
            with np.errstate(over="ignore"):  # an infinite part is refused below
                vectors = np.array([by_index[index] for index in range(expected)], dtype=np.float32)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise EmbeddingError(
                f"{self.where}/embeddings answered without one vector for each of the {expected} texts."
            ) from error
        if vectors.ndim != 2 or not vectors.shape[1] or not np.isfinite(vectors).all():
            raise EmbeddingError(
                f"{self.where}/embeddings gave vectors that are empty, of unequal length or with infinite parts."
            )
        return vectors


def stored_as(model: str) -> str:
    """The id of vectors that are stored, with its server: where it says none they are OpenAI's, whatever is set now."""
    return f"{model}[{OPENAI}]" if model.startswith("openai:") and not _split(model) else model


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
