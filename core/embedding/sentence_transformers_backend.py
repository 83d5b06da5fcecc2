"""Any sentence-transformers model, by name or path, on this machine."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from core.embedding import minilm, precision, tokens
from core.embedding.base import Purpose, Vectors, backends
from core.errors import EmbeddingError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

TOKENS_A_BATCH = 2048  # enough to keep the matrix units busy, little enough to stay in the cache


@backends.register("sentence-transformers")
class SentenceTransformersEmbedder:
    """`name` is the default model, another model's name, or a folder; `number_format` is bf16 or fp32."""

    def __init__(self, name: str, number_format: str = "") -> None:
        self.name = name
        self.number_format = number_format or precision.best()
        if self.number_format not in {"bf16", "fp32"}:
            raise EmbeddingError(f"The precision {number_format!r} of model {name!r} is unknown. Choose bf16 or fp32.")
        self._one_at_a_time = threading.Lock()

    @property
    def model(self) -> str:
        return f"{self.name}@{self.number_format}"

    @property
    def dimension(self) -> int:
        if self.name == minilm.NAME:
            return 384  # known without loading the model
        return int(self._network.get_embedding_dimension() or 0)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        return await asyncio.to_thread(self._embed, list(texts), purpose)

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return tokens.offsets(self._tokenizer, text)

    def _embed(self, texts: list[str], purpose: Purpose) -> Vectors:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        encode = self._network.encode_query if purpose == "query" else self._network.encode_document
        with self._one_at_a_time:
            for batch in self._batches(texts):
                made = encode(
                    [texts[index] for index in batch],
                    batch_size=len(batch),
                    show_progress_bar=False,
                    normalize_embeddings=True,
                )
                vectors[batch] = made
        return vectors

    def _batches(self, texts: list[str]) -> Iterator[list[int]]:
        """Texts of like length together, so that little is computed for padding; the order is fixed by the texts."""
        limit = int(self._network.max_seq_length or 512)
        lengths = [min(len(each.ids), limit) for each in self._tokenizer.encode_batch_fast(texts)]
        batch: list[int] = []
        for index in sorted(range(len(texts)), key=lambda index: (-lengths[index], index)):
            if batch and lengths[batch[0]] * (len(batch) + 1) > TOKENS_A_BATCH:
                yield batch
                batch = []
            batch.append(index)
        if batch:
            yield batch

    @cached_property
    def _folder(self) -> str:
        return str(minilm.checked_folder()) if self.name == minilm.NAME else self.name

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """Read beside the weights where that is possible, so that chunking need not load them."""
        beside = (minilm.folder() if self.name == minilm.NAME else Path(self.name)) / "tokenizer.json"
        if beside.exists():
            return tokens.from_file(beside)
        return tokens.from_json(self._network.tokenizer.backend_tokenizer.to_str())

    @cached_property
    def _network(self) -> SentenceTransformer:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
        # Threads that spin while they wait halve the speed as soon as anything else, such as PostgreSQL, wants a core.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        import torch
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        number = torch.bfloat16 if self.number_format == "bf16" else torch.float32
        try:
            return SentenceTransformer(
                self._folder,
                device="cpu",
                local_files_only=self.name == minilm.NAME or Path(self.name).is_dir(),
                model_kwargs={"dtype": number},
            )
        except (OSError, ValueError) as error:
            raise EmbeddingError(
                f"The model {self.name!r} cannot be loaded: {str(error).splitlines()[0]} "
                f"Give a folder that holds it, or use the default, {minilm.NAME}, which needs no download."
            ) from error
