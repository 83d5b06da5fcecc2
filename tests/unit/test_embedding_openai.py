"""An OpenAI-compatible endpoint that behaves, and one that misbehaves in every way."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import numpy as np
import pytest

from core import bridge
from core.embedding import Vectors, embedder
from core.embedding.openai_backend import ATTEMPTS, LONGEST_WAIT, TEXTS_A_REQUEST, OpenAIEmbedder
from core.errors import EmbeddingError

SECRET = "sk-s3cr3t"
Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKBOOK_EMBEDDING_KEY", SECRET)


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.5]


def good(request: httpx.Request) -> httpx.Response:
    texts = json.loads(request.content)["input"]
    rows = [{"index": index, "embedding": vector_of(text)} for index, text in enumerate(texts)]
    return httpx.Response(200, json={"data": rows[::-1]})  # nothing promises an order


class Endpoint:
    """Answers with each of its answers in turn, the last one for ever; and remembers what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return (self.answers.pop(0) if len(self.answers) > 1 else self.answers[0])(request)

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def embedder(self, url: str = "https://endpoint.test/v1/") -> OpenAIEmbedder:
        return OpenAIEmbedder("m", base_url=url, transport=httpx.MockTransport(self), pause=self.pause)

    def embed(self, *texts: str) -> Vectors:
        return bridge.run(self.embedder().embed(texts))


def status(code: int) -> Answer:
    return lambda _: httpx.Response(code, text="an explanation that repeats " + SECRET)


def data(rows: Any) -> Answer:
    return lambda _: httpx.Response(200, json={"data": rows})


def body(content: bytes) -> Answer:
    return lambda _: httpx.Response(200, content=content)


def broken(error: type[httpx.TransportError]) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        raise error("the line is cut, and the key was " + SECRET, request=request)

    return answer


def test_vectors_come_in_the_order_of_the_texts_whatever_the_answers_order() -> None:
    endpoint = Endpoint(good)
    vectors = endpoint.embed("a", "bbb", "")
    assert vectors.dtype == np.float32
    assert vectors.tolist() == [[1, 1, 0.5], [3, 1, 0.5], [1, 1, 0.5]]
    (request,) = endpoint.requests
    assert str(request.url) == "https://endpoint.test/v1/embeddings"
    assert request.headers["Authorization"] == f"Bearer {SECRET}"
    assert json.loads(request.content) == {"model": "m", "input": ["a", "bbb", " "]}


def test_many_texts_are_sent_in_batches_and_put_together_again() -> None:
    endpoint = Endpoint(good)
    texts = ["x" * (1 + number % 50) for number in range(2 * TEXTS_A_REQUEST + 3)]
    assert endpoint.embed(*texts)[:, 0].tolist() == [len(text) for text in texts]
    assert [len(json.loads(each.content)["input"]) for each in endpoint.requests] == [TEXTS_A_REQUEST] * 2 + [3]


def test_no_texts_ask_nothing() -> None:
    endpoint = Endpoint(good)
    assert len(endpoint.embed()) == 0
    assert endpoint.requests == []


def test_the_dimension_is_known_after_the_first_text() -> None:
    made = Endpoint(good).embedder()
    with pytest.raises(EmbeddingError, match="known once it has embedded a text"):
        _ = made.dimension
    bridge.run(made.embed(["a"]))
    assert made.dimension == 3
    assert made.model == "openai:m[endpoint.test]"


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Sets the endpoint's address, as a person does."""

    def set_url(url: str) -> None:
        monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", url)
        embedder.cache_clear()

    yield set_url
    embedder.cache_clear()


def test_the_id_says_who_serves_the_model_unless_openai_does(at: Callable[[str], None]) -> None:
    at("")
    assert embedder("openai:text-embedding-3-small").model == "openai:text-embedding-3-small"
    for url, model in {
        "https://api.openai.com/v1/": "openai:bge-m3",
        "http://localhost:8080/v1": "openai:bge-m3[localhost:8080]",
        "http://[::1]:8080/v1": "openai:bge-m3[[::1]:8080]",
        f"https://user:{SECRET}@Some.Host/v1": "openai:bge-m3[some.host]",
        "http://[bad": "openai:bge-m3",
    }.items():
        at(url)
        assert embedder("openai:bge-m3").model == model
        assert embedder(model).model == model
        assert SECRET not in model
    assert embedder("openai:@cf/baai/bge").model == "openai:@cf/baai/bge"


def test_a_model_of_one_server_is_not_asked_of_another(at: Callable[[str], None]) -> None:
    at(f"http://user:{SECRET}@localhost:9090/v1")
    made = embedder("openai:bge-m3[localhost:8080]")
    with pytest.raises(EmbeddingError, match=r"served by localhost:8080, and .* points at localhost:9090") as caught:
        bridge.run(made.embed(["a"]))
    assert SECRET not in str(caught.value)


def test_a_password_in_the_address_stands_in_no_message() -> None:
    endpoint = Endpoint(status(401))
    with pytest.raises(EmbeddingError, match=r"https://endpoint\.test/v1/embeddings did not embed") as caught:
        bridge.run(endpoint.embedder(f"https://user:{SECRET}@endpoint.test/v1").embed(["a"]))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_with_growing_pauses(code: int) -> None:
    endpoint = Endpoint(status(code), broken(httpx.ReadTimeout), broken(httpx.ConnectError), good)
    assert endpoint.embed("a").shape == (1, 3)
    assert len(endpoint.requests) == 4
    assert len(endpoint.pauses) == 3
    assert all(0.5 * 2**attempt * 0.5 <= pause <= LONGEST_WAIT for attempt, pause in enumerate(endpoint.pauses, 1))


def test_it_gives_up_after_a_few_attempts() -> None:
    endpoint = Endpoint(status(503))
    with pytest.raises(EmbeddingError, match=r"did not embed with 'm': status 503.*what was embedded so far is kept"):
        endpoint.embed("a")
    assert len(endpoint.requests) == ATTEMPTS


@pytest.mark.parametrize("code", [301, 400, 401, 403, 404, 413, 422])
def test_what_will_not_pass_is_not_tried_again(code: int) -> None:
    endpoint = Endpoint(status(code))
    with pytest.raises(EmbeddingError, match=f"status {code}"):
        endpoint.embed("a")
    assert len(endpoint.requests) == 1
    assert endpoint.pauses == []


MISBEHAVIOUR: dict[str, Answer] = {
    "no JSON": body(b"<html>"),
    "nothing": body(b""),
    "JSON cut short": body(b'{"data": [{"index": 0, "embedding": [1.0, 2'),
    "JSON nested without end": body(b"[" * 100_000),
    "no text": body(b"\xff\xfe\x00"),
    "a list": body(b"[]"),
    "null": body(b"null"),
    "no data": body(b"{}"),
    "too few": data([{"index": 0, "embedding": [1.0]}]),
    "an index twice": data([{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}]),
    "indexes from one": data([{"index": 1, "embedding": [1.0]}, {"index": 2, "embedding": [2.0]}]),
    "index of another kind": data([{"index": "first", "embedding": [1.0]}, {"index": None, "embedding": [2.0]}]),
    "no index": data([{"embedding": [1.0]}, {"embedding": [2.0]}]),
    "unequal lengths": data([{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]),
    "empty vectors": data([{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]),
    "base64": data([{"index": 0, "embedding": "AACAPw=="}, {"index": 1, "embedding": "AACAPw=="}]),
    "nested vectors": data([{"index": 0, "embedding": [[1.0]]}, {"index": 1, "embedding": [[1.0]]}]),
    "strings": data([{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": ["y"]}]),
    "null in a vector": data([{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [None]}]),
    "too large for a float": data([{"index": 0, "embedding": [1e300]}, {"index": 1, "embedding": [1.0]}]),
    "endless integer": data([{"index": 0, "embedding": [10**400]}, {"index": 1, "embedding": [1]}]),
    "not a number": body(b'{"data": [{"index": 0, "embedding": [NaN]}, {"index": 1, "embedding": [1.0]}]}'),
    "rows of another kind": data(["x", "y"]),
    "data of another kind": data("xy"),
}


@pytest.mark.parametrize("kind", MISBEHAVIOUR)
def test_every_wrong_answer_is_an_embedding_error_and_never_a_shifted_vector(kind: str) -> None:
    endpoint = Endpoint(MISBEHAVIOUR[kind])
    with pytest.raises(EmbeddingError, match=r"endpoint.test/v1/embeddings") as caught:
        endpoint.embed("a", "b")
    assert SECRET not in str(caught.value)


def test_vectors_of_another_dimension_than_before_are_refused() -> None:
    made = Endpoint(good, data([{"index": 0, "embedding": [1.0, 2.0]}])).embedder()
    bridge.run(made.embed(["a"]))
    with pytest.raises(EmbeddingError, match="2 dimensions after ones of 3"):
        bridge.run(made.embed(["b"]))


@pytest.mark.parametrize("answer", [status(401), status(500), broken(httpx.ConnectError), body(b"x")])
def test_the_key_stands_in_no_message(answer: Answer) -> None:
    with pytest.raises(EmbeddingError) as caught:
        Endpoint(answer).embed("a")
    assert SECRET not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("bad", ["sk-ümlaut", "sk-line\nbreak", "sk-\x00"])
def test_a_key_that_no_header_can_hold_is_refused_without_repeating_it(
    monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    if "\x00" in bad:
        pytest.skip("the environment itself holds no NUL")
    monkeypatch.setenv("RANKBOOK_EMBEDDING_KEY", bad)
    with pytest.raises(EmbeddingError, match="RANKBOOK_EMBEDDING_KEY") as caught:
        Endpoint(good).embed("a")
    assert bad not in "".join(traceback.format_exception(caught.value))


def test_without_a_key_none_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKBOOK_EMBEDDING_KEY")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    endpoint = Endpoint(good)
    endpoint.embed("a")
    assert "Authorization" not in endpoint.requests[0].headers


@pytest.mark.parametrize(
    ("url", "sent"), [("https://api.openai.com/v1", "Bearer sk-theirs"), ("http://localhost:8080/v1", None)]
)
def test_openais_key_goes_to_openai_alone(monkeypatch: pytest.MonkeyPatch, url: str, sent: str | None) -> None:
    monkeypatch.delenv("RANKBOOK_EMBEDDING_KEY")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-theirs")
    endpoint = Endpoint(good)
    bridge.run(endpoint.embedder(url).embed(["a"]))
    assert endpoint.requests[0].headers.get("Authorization") == sent


@pytest.mark.parametrize("url", ["http://[bad", "http://a\x00b", "no-scheme", "ftp://host/v1", "http://"])
def test_an_address_that_is_none_is_refused_in_a_sentence(url: str) -> None:
    endpoint = Endpoint(good)
    made = OpenAIEmbedder("m", base_url=url, pause=endpoint.pause)
    with pytest.raises(EmbeddingError, match="Check RANKBOOK_EMBEDDING_URL"):
        bridge.run(made.embed(["a"]))
    assert url.startswith("http://[") or endpoint.pauses == []


def test_a_precision_is_the_endpoints_own_business() -> None:
    with pytest.raises(EmbeddingError, match="Leave '@bf16' out"):
        embedder("openai:m@bf16")


def test_its_tokens_cover_every_visible_character_in_order() -> None:
    spans: Sequence[tuple[int, int]] = Endpoint(good).embedder().tokenize("Hello, wörld! supercalifragilistic")
    assert "".join("Hello, wörld! supercalifragilistic"[start:end] for start, end in spans) == (
        "Hello,wörld!supercalifragilistic"
    )
    assert all(end - start <= 5 for start, end in spans)
