"""The default model and its kind: found by id, refused in a sentence, and the same vector alone and in company."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from core import bridge
from core.embedding import DEFAULT_MODEL, backends, embedder, model_files, sentence_transformers_backend
from core.embedding.sentence_transformers_backend import TOKENS_A_BATCH, SentenceTransformersEmbedder, batches_of
from core.errors import EmbeddingError


def test_the_default_model_is_known_by_name_precision_and_dimension_without_loading_it() -> None:
    made = embedder()
    assert made.model == f"{DEFAULT_MODEL}@{sentence_transformers_backend.best()}"
    assert made.dimension == 384
    assert embedder(DEFAULT_MODEL) is embedder(DEFAULT_MODEL)
    assert embedder(f"{DEFAULT_MODEL}@fp32").model == "all-MiniLM-L6-v2@fp32"
    assert embedder(f"sentence-transformers:{DEFAULT_MODEL}@fp32").model == "all-MiniLM-L6-v2@fp32"
    assert set(backends) >= {"openai", "sentence-transformers"}


def test_a_colon_or_a_slash_in_a_models_name_is_no_backend() -> None:
    assert embedder("someone/model").model.startswith("someone/model@")
    assert embedder("C:/models/x").model.startswith("C:/models/x@")


@pytest.mark.parametrize("wrong", ["int8", "BF16", " "])
def test_an_unknown_precision_is_refused_with_the_choices(wrong: str) -> None:
    with pytest.raises(EmbeddingError, match="Choose bf16 or fp32"):
        embedder(f"{DEFAULT_MODEL}@{wrong}")


def test_the_weights_are_the_official_ones() -> None:
    assert (model_files.checked_folder() / "model.safetensors").is_file()


@pytest.mark.slow
def test_a_folder_that_holds_no_model_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"cannot be loaded.*needs no download"):
        bridge.run(SentenceTransformersEmbedder(str(tmp_path)).embed(["a"]))


def test_tokens_are_counted_without_loading_the_weights() -> None:
    made = SentenceTransformersEmbedder(DEFAULT_MODEL)
    text = "Über naïve tokens, e.g. ERR_4711 and 漢字 🦊."
    spans = made.tokenize(text)
    assert "_network" not in vars(made)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    assert [text[start:end] for start, end in spans][:2] == ["Über", "naïve"]
    assert made.tokenize("") == []
    assert len(made.tokenize("word " * 2000)) == 2000


def test_a_tokenizer_that_cannot_be_read_is_refused_in_a_sentence(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    for content in (b"{}", b"\xff", b"not json"):
        file.write_bytes(content)
        with pytest.raises(EmbeddingError, match="tokenizer"):
            sentence_transformers_backend.from_file(file)
    with pytest.raises(EmbeddingError, match="cannot be read"):
        sentence_transformers_backend.from_file(tmp_path / "none.json")


@pytest.fixture(scope="module")
def exact() -> SentenceTransformersEmbedder:
    return SentenceTransformersEmbedder(DEFAULT_MODEL, "fp32")


@pytest.mark.slow
def test_vectors_are_of_unit_length_in_the_order_of_the_texts_and_the_same_alone_and_in_company(
    exact: SentenceTransformersEmbedder,
) -> None:
    texts = ["a cat", "", "the dog barks " * 60, "a cat", "🦊", "word " * 900, "another cat"]
    together = bridge.run(exact.embed(texts))
    assert together.shape == (7, 384)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([bridge.run(exact.embed([text])) for text in texts])
    assert np.allclose(together, alone, atol=1e-5)
    assert together[0] @ together[6] > together[0] @ together[2]
    assert bridge.run(exact.embed([])).shape == (0, 384)


@pytest.mark.slow
def test_batches_hold_each_text_once_and_keep_to_their_size(exact: SentenceTransformersEmbedder) -> None:
    texts = [("word " * (number * 7 % 120)) for number in range(300)]
    lengths = [len(exact.tokenize(text)) + 2 for text in texts]
    batches = list(batches_of(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(300))
    longest = [max(lengths[index] for index in batch) * len(batch) for batch in batches]
    assert max(longest) <= TOKENS_A_BATCH + 256
    assert batches == list(batches_of(lengths))


@pytest.mark.slow
def test_the_quick_precision_agrees_with_the_exact_one(exact: SentenceTransformersEmbedder) -> None:
    texts = ["How do I reset my password?", "ERR_4711", "Invoices are sent on the first of the month.", "a"]
    quick = bridge.run(SentenceTransformersEmbedder(DEFAULT_MODEL, "bf16").embed(texts))
    assert np.all(np.sum(quick * bridge.run(exact.embed(texts)), axis=1) > 0.99)


@pytest.mark.slow
def test_a_query_has_one_vector_alone_and_among_others_so_that_what_is_scored_is_what_is_searched() -> None:
    quick = SentenceTransformersEmbedder(DEFAULT_MODEL, "bf16")
    queries = [f"{'why ' * (number % 9)}does the light of hub {number} blink" for number in range(40)]
    together = bridge.run(quick.embed(queries, "query"))
    alone = np.concatenate([bridge.run(quick.embed([query], "query")) for query in queries])
    assert np.allclose(together, alone, rtol=0, atol=1e-6)
