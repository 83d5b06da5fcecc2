"""Rerankers with a model on this machine: late interaction and cross-encoders."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from core import bridge
from core.context import Resources
from core.embedding import Embedder, Vectors, embedder
from core.errors import EmbeddingError, RerankError
from core.rerank import CrossEncoderReranker, LateInteractionReranker, Reranker, TokenEmbedder
from core.rerank.local_models import max_sim
from core.types import Hit, StageResult
from tests.fakes import HashingEmbedder
from tests.unit.tiny_models import tiny_cross_encoder

TEXTS = [
    "The bread is baked at dawn.",
    "A feline rested on the rug.",
    "Stock prices fell.",
    "A feline rested on the rug.",
]


def hits(texts: Sequence[str] = TEXTS) -> list[Hit]:
    return [Hit(f"d{n}", f"i{n}", 1 - n / 100, n, "", text) for n, text in enumerate(texts, start=1)]


def run(reranker: Reranker, query: str, found: Sequence[Hit], resources: Resources | None = None) -> StageResult:
    return bridge.run(reranker.rerank(resources or Resources(), query, found))


def order(result: StageResult) -> list[str]:
    return [hit.id for hit in result.hits]


class LetterEmbedder(HashingEmbedder):
    """A token a letter, each along an axis of its own."""

    async def embed_tokens(self, texts: Sequence[str]) -> list[Vectors]:
        axes = np.eye(26, dtype=np.float32)
        return [axes[[ord(letter) - ord("a") for letter in text]] for text in texts]


def letters(_model: str) -> Embedder:
    return LetterEmbedder()


def test_max_sim_is_the_mean_of_the_best_cosines():
    query = np.array([[1, 0], [0, 1]], np.float32)
    text = np.array([[0.6, 0.8], [1, 0]], np.float32)
    assert max_sim(query, text) == pytest.approx((1 + 0.8) / 2)
    assert max_sim(query, np.empty((0, 2), np.float32)) == 0


def test_late_interaction_orders_by_it():
    result = run(LateInteractionReranker(), "ab", hits(["c", "axx", "ba", ""]), Resources(embedder=letters))
    assert [(hit.id, hit.score) for hit in result.hits] == [("d3", 1), ("d2", 0.5), ("d1", 0), ("d4", 0)]


def test_late_interaction_reads_texts_up_to_its_limit_and_says_so():
    found = hits(["cccca", "a"])
    resources = Resources(embedder=letters)
    assert order(run(LateInteractionReranker(), "a", found, resources)) == ["d1", "d2"]
    cut = run(LateInteractionReranker(max_chars=4), "a", found, resources)
    assert order(cut) == ["d2", "d1"]
    assert cut.notes == ("1 of 2 texts: only the first 4 characters were read.",)


def test_a_query_without_tokens_reorders_nothing_and_says_so():
    result = run(LateInteractionReranker(), "", hits(["a", "b"]), Resources(embedder=letters))
    assert order(result) == ["d1", "d2"]
    assert "no token" in result.notes[0]


def test_a_model_without_token_vectors_is_refused_with_the_way_out():
    with pytest.raises(EmbeddingError, match="choose a sentence-transformers model"):
        run(LateInteractionReranker(model="flat"), "a", hits(), Resources(embedder=lambda _: HashingEmbedder()))


def test_the_options_name_the_model():
    asked: list[str] = []

    def named(model: str) -> Embedder:
        asked.append(model)
        return LetterEmbedder()

    run(LateInteractionReranker(model="mine"), "a", hits(["a"]), Resources(embedder=named))
    assert asked == ["mine"]


@pytest.mark.slow
def test_the_default_model_finds_what_is_said_in_other_words():
    result = run(LateInteractionReranker(), "a cat lay on a carpet", hits())
    assert order(result)[:2] == ["d2", "d4"]
    assert result.hits[0].score == result.hits[1].score
    assert all(-1 <= hit.score <= 1.001 for hit in result.hits)


@pytest.mark.slow
def test_the_same_texts_give_the_same_bits_in_whatever_order():
    reranker = LateInteractionReranker()
    one = {hit.id: hit.score for hit in run(reranker, "a cat", hits()).hits}
    again = {hit.id: hit.score for hit in run(reranker, "a cat", hits()[::-1]).hits}
    assert one == again


@pytest.mark.slow
def test_token_vectors_are_one_a_token_of_unit_length_however_long_the_text():
    model = embedder()
    assert isinstance(model, TokenEmbedder)
    texts = ["Hello, world", "", "word " * 700]
    made = bridge.run(model.embed_tokens(texts))
    assert [len(rows) for rows in made] == [len(model.tokenize(text)) for text in texts] == [3, 0, 700]
    for rows in made:
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_token_vectors_are_those_of_the_librarys_own_encode():
    model = embedder()
    assert isinstance(model, TokenEmbedder)
    (ours,) = bridge.run(model.embed_tokens(["Hello, world"]))
    network = model._network  # type: ignore[attr-defined]
    theirs = network.encode(["Hello, world"], output_value="token_embeddings", show_progress_bar=False)[0]
    theirs = theirs[1:-1].float().numpy()
    assert ours == pytest.approx(theirs / np.linalg.norm(theirs, axis=1, keepdims=True), abs=1e-6)


@pytest.fixture(scope="module")
def cross_encoder(tmp_path_factory):
    return str(tiny_cross_encoder(tmp_path_factory.mktemp("tiny")))


@pytest.mark.slow
def test_a_cross_encoder_scores_pairs_from_0_to_1(cross_encoder):
    from sentence_transformers import CrossEncoder

    result = run(CrossEncoderReranker(model=cross_encoder), "a cat", hits())
    peer = CrossEncoder(cross_encoder, device="cpu").predict([("a cat", text) for text in TEXTS])
    expected = dict(zip(["d1", "d2", "d3", "d4"], peer, strict=True))
    assert {hit.id: hit.score for hit in result.hits} == pytest.approx(expected, abs=1e-6)
    assert [hit.score for hit in result.hits] == sorted((hit.score for hit in result.hits), reverse=True)
    assert len({round(hit.score, 6) for hit in result.hits}) == 3  # equal texts, equal scores
    assert result.notes == ()


@pytest.mark.slow
def test_a_cross_encoder_reads_up_to_its_length_and_says_so(cross_encoder):
    whole = run(CrossEncoderReranker(model=cross_encoder), "a cat", hits())
    short = run(CrossEncoderReranker(model=cross_encoder, max_length=12), "a cat", hits())
    assert short.notes == ("Cut to what the model reads: 4 of 4 texts.",)
    assert [hit.score for hit in whole.hits] != [hit.score for hit in short.hits]


@pytest.mark.slow
def test_two_calls_at_once_share_one_cross_encoder(cross_encoder):
    async def both() -> list[StageResult]:
        spec = CrossEncoderReranker(model=cross_encoder)
        return await asyncio.gather(*(spec.rerank(Resources(), "a cat", hits()) for _ in range(2)))

    one, other = bridge.run(both())
    assert one == other


@pytest.mark.slow
def test_a_cross_encoder_that_is_not_here_fails_with_a_sentence(tmp_path):
    with pytest.raises(RerankError, match="neither a folder nor in the Hugging Face cache"):
        run(CrossEncoderReranker(model="nobody/nothing"), "a", hits())
    with pytest.raises(RerankError, match="cannot be loaded"):
        run(CrossEncoderReranker(model=str(tmp_path)), "a", hits())


@pytest.mark.slow
def test_a_classifier_of_several_labels_is_refused(tmp_path):
    with pytest.raises(RerankError, match="3 scores a pair"):
        run(CrossEncoderReranker(model=str(tiny_cross_encoder(tmp_path, labels=3))), "a", hits())
