"""Embedding models: found by their id, loaded when first used, one of each in a process."""

from __future__ import annotations

from functools import lru_cache

from core.embedding import model_files, openai_backend, sentence_transformers_backend
from core.embedding.base import Embedder, Purpose, Vectors, backends, warm_up
from core.embedding.openai_backend import endpoint_of, is_served, stored_as

__all__ = [
    "DEFAULT_MODEL",
    "Embedder",
    "Purpose",
    "Vectors",
    "backends",
    "embedder",
    "endpoint_of",
    "is_served",
    "stored_as",
    "warm_up",
]

DEFAULT_MODEL = model_files.NAME
_BACKENDS = (sentence_transformers_backend, openai_backend)  # importing them registers them


@lru_cache(maxsize=8)
def embedder(model: str = DEFAULT_MODEL) -> Embedder:
    """The embedder of a model id: `[backend:]name[@precision]`.

    Without a backend it is a sentence-transformers name or folder, without a precision the best of this processor. Its
    own id says more: `/models/mine#1a2b3c4d@bf16` tells the folder's state, `openai:m[host]` who serves the model.
    """
    backend, separator, rest = model.partition(":")
    if not separator or backend not in backends:
        backend, rest = "sentence-transformers", model
    name, _, number_format = rest.rpartition("@")
    if not name or set("/\\") & set(number_format) or model_files.folder_of(rest):  # no precision: the @ is in the name
        name, number_format = rest, ""
    made: Embedder = backends[backend](name, number_format)
    return made
