"""Embedding models that run here by sentence-transformers, in the number format that suits the processor.

Heavy libraries are imported where they are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from core.embedding import model_files
from core.embedding.base import Purpose, Vectors, backends
from core.errors import EmbeddingError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

BF16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}  # Intel and AMD; Intel's matrix unit; ARM


@cache
def best() -> str:
    """bfloat16 where it is computed natively (3 to 5 times as fast at a cosine of 0.996 or more), else float32."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, flags = line.partition(":")
            if name.strip() in {"flags", "Features"}:
                return "bf16" if BF16_FLAGS & set(flags.split()) else "fp32"
    return "fp32"


def from_file(file: Path) -> Tokenizer:
    try:
        return from_json(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise EmbeddingError(f"The tokenizer {file} cannot be read: {error}") from error


def from_json(definition: str) -> Tokenizer:
    """A tokenizer that neither cuts nor pads: both are the model's business, not the counter's."""
    from tokenizers import Tokenizer

    try:
        made = Tokenizer.from_str(definition)
    except Exception as error:  # the library raises a bare Exception
        raise EmbeddingError(f"The tokenizer cannot be understood: {error}") from error
    made.no_truncation()
    made.no_padding()
    return made


def offsets(tokenizer: Tokenizer, text: str) -> Sequence[tuple[int, int]]:
    """Character ranges of the text's tokens, the special ones left out."""
    return tokenizer.encode(text, add_special_tokens=False).offsets


TOKENS_A_BATCH = 2048  # enough to keep the matrix units busy, little enough to stay in the cache


@backends.register("sentence-transformers")
class SentenceTransformersEmbedder:
    """`name` is the default model, another model's name, or a folder; `number_format` is bf16 or fp32.

    A folder's state is part of the id. Where the name has a state, the folder must be in it when vectors are made.
    """

    spreads: ClassVar[bool] = True  # the id is all that another machine needs to compute the same

    def __init__(self, name: str, number_format: str = "") -> None:
        self.name, self._state = model_files.split(name)
        self.number_format = number_format or best()
        if self.number_format not in {"bf16", "fp32"}:
            raise EmbeddingError(f"The precision {number_format!r} of model {name!r} is unknown. Choose bf16 or fp32.")
        self._one_at_a_time = threading.Lock()
        self._warm = False

    async def warm_up(self) -> None:
        if not self._warm:
            await self.embed(["warm up"], "query")
            self._warm = True

    @property
    def model(self) -> str:
        return f"{self._identity}@{self.number_format}"

    @cached_property
    def _identity(self) -> str:
        """Read once: what is loaded is in the state that the id names."""
        if self._state:
            return f"{self.name}#{self._state}"
        folder = self._local
        return f"{folder}#{model_files.state(folder)}" if folder else self.name

    @cached_property
    def _local(self) -> Path | None:
        return None if self.name == model_files.NAME else model_files.folder_of(self.name)

    @property
    def dimension(self) -> int:
        if self.name == model_files.NAME:
            return 384  # known without loading the model
        return int(self._network.get_embedding_dimension() or 0)

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        return await asyncio.to_thread(self._embed, list(texts), purpose)

    async def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        """A unit-length row for each token that `tokenize` gives, of texts of any length."""
        return await asyncio.to_thread(self._embed_tokens, list(texts))

    def tokenize(self, text: str) -> Sequence[tuple[int, int]]:
        return offsets(self._tokenizer, text)

    def _embed(self, texts: list[str], purpose: Purpose) -> Vectors:
        """Texts of like length go together, so that little is computed for padding.

        Queries have no padding at all: so one has the vector in an evaluation that it has in a search, where it comes
        alone.
        """
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        encode = self._network.encode_query if purpose == "query" else self._network.encode_document
        limit = int(self._network.max_seq_length or 512)
        lengths = [min(len(each.ids), limit) for each in self._tokenizer.encode_batch_fast(texts)]
        with self._one_at_a_time:
            for batch in batches_of(lengths, padded=purpose != "query"):
                vectors[batch] = encode(
                    [texts[index] for index in batch],
                    batch_size=len(batch),
                    show_progress_bar=False,
                    normalize_embeddings=True,
                )
        return vectors

    def _embed_tokens(self, texts: list[str]) -> list[Vectors]:
        """Long texts go in windows, cut between tokens, so that rows and `tokenize`'s ranges correspond."""
        # What the tokenizer puts around a text, such as [CLS] and [SEP].
        plain, framed = self._tokenizer.encode("a", add_special_tokens=False).ids, self._tokenizer.encode("a").ids
        at = next(at for at in range(len(framed)) if framed[at : at + len(plain)] == plain)
        before, after = framed[:at], framed[at + len(plain) :]
        room = max(1, int(self._network.max_seq_length or 512) - len(before) - len(after))
        encoded = [each.ids for each in self._tokenizer.encode_batch(texts, add_special_tokens=False)]
        windows = [(text, at) for text, ids in enumerate(encoded) for at in range(0, len(ids), room)]
        parts: dict[tuple[int, int], Vectors] = {}
        with self._one_at_a_time:
            for batch in batches_of([min(room, len(encoded[text]) - at) for text, at in windows]):
                chosen = [windows[index] for index in batch]
                inputs = [[*before, *encoded[text][at : at + room], *after] for text, at in chosen]
                for window, ids, rows in zip(chosen, inputs, _token_rows(self._network, inputs), strict=True):
                    parts[window] = rows[len(before) : len(ids) - len(after)]
        none = np.empty((0, self.dimension), np.float32)
        by_text: list[list[Vectors]] = [[] for _ in texts]
        for text, at in windows:
            by_text[text].append(parts[text, at])
        return [np.concatenate(rows) if rows else none for rows in by_text]

    @cached_property
    def _folder(self) -> Path | None:
        """The model's folder, in the state that its name says; None where the model is one of the hub."""
        if self.name == model_files.NAME:
            return model_files.checked_folder()
        if self._state:
            return model_files.check_folder(self._local, self.name, self._state)
        if self._local is None and model_files.looks_like_a_path(self.name):
            raise EmbeddingError(f"There is no folder {self.name!r}. {model_files.WAY_OUT}")
        return self._local

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        """Read beside the weights where that is possible, so that chunking need not load them."""
        folder = model_files.folder() if self.name == model_files.NAME else self._folder
        if folder and (folder / "tokenizer.json").exists():
            return from_file(folder / "tokenizer.json")
        return from_json(self._network.tokenizer.backend_tokenizer.to_str())

    @cached_property
    def _network(self) -> SentenceTransformer:
        if self._folder:
            return self._loaded(str(self._folder), here=True)
        if model_files.is_here(self.name):
            with contextlib.suppress(EmbeddingError):  # a download that was broken off: the hub has the rest
                return self._loaded(self.name, here=True)
        model_files.check_hub(self.name)
        return self._loaded(self.name, here=False)

    def _loaded(self, name: str, *, here: bool) -> SentenceTransformer:
        torch = runtime()
        from sentence_transformers import SentenceTransformer
        from transformers.utils import logging

        logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        model_files.quieten()
        number = torch.bfloat16 if self.number_format == "bf16" else torch.float32
        try:
            return SentenceTransformer(name, device="cpu", local_files_only=here, model_kwargs={"dtype": number})
        except Exception as error:  # a broken folder or a cut line raises whatever the reading library raises
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise EmbeddingError(f"The model {self.name!r} cannot be loaded: {why} {model_files.WAY_OUT}") from error


def runtime() -> Any:
    """torch, which reads these variables when it is first imported. It has as many threads as there are cores."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    # Threads that spin while they wait halve the speed as soon as anything else, such as PostgreSQL, wants a core.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    return torch


def batches_of(lengths: Sequence[int], *, padded: bool = True) -> Iterator[list[int]]:
    """Indexes of texts in batches of like length, the longest first; the same lengths give the same batches.

    Without padding all of a batch have one length.
    """
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda index: (-lengths[index], index)):
        if batch:
            full = lengths[batch[0]] * (len(batch) + 1) > TOKENS_A_BATCH
            if full or (lengths[batch[0]] != lengths[index] and not padded):
                yield batch
                batch = []
        batch.append(index)
    if batch:
        yield batch


def _token_rows(network: SentenceTransformer, inputs: Sequence[Sequence[int]]) -> Vectors:
    """Unit-length vectors of every token, padding included."""
    import torch

    longest, padding = max(map(len, inputs)), int(network.tokenizer.pad_token_id or 0)
    ids = torch.tensor([[*row, *[padding] * (longest - len(row))] for row in inputs])
    mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in inputs])
    with torch.inference_mode():
        made = network({"input_ids": ids, "attention_mask": mask})["token_embeddings"]
        rows: Vectors = torch.nn.functional.normalize(made.float(), dim=-1).numpy()
    return rows
