"""Endpoints that misbehave in every way: of language models, of rerankers and of embedders, over real sockets.

Each is asked as the product asks it. What must come of it: the project's own error in a sentence, in bounded time, and
never a byte more than is allowed.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core import bridge
from core.context import Resources
from core.embedding.openai_backend import LARGEST_ANSWER, OpenAIEmbedder
from core.errors import RankbookError
from core.llm import Session, using
from core.rerank import ApiReranker, LanguageModelReranker
from core.types import Hit
from tests.drills.faults.outcome import Outcome, is_sentence
from tests.unit.misbehaving import Endpoint, Pauses, Reply, completion, serving

WITHIN = 0.3  # seconds for an attempt
AT_MOST = 20.0  # seconds for all attempts, on a machine that has other things to do
HITS = [Hit(f"d{n}", f"i{n}", 1 - n / 100, n, "", f"text {n}") for n in range(1, 4)]
ELSEWHERE = "http://169.254.169.254/latest/meta-data/"
BROKEN = b'{"choices": [{"message": {"content": "'
Ask = Callable[[Endpoint, Pauses, float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Kind:
    """An endpoint of one kind: how it is asked, what it may say at most, and what it gets wrong in its own way."""

    name: str
    ask: Ask
    largest: int
    own: Mapping[str, Reply]


async def _embed(endpoint: Endpoint, pauses: Pauses, within: float) -> object:
    made = OpenAIEmbedder("m", base_url=endpoint.url, pause=pauses, timeout=within)
    return await made.embed(["one", "two"])


async def _rerank(endpoint: Endpoint, pauses: Pauses, within: float) -> object:
    spec = ApiReranker(base_url=endpoint.url, model="m", timeout=within, on_failure="raise")
    return await spec.rerank(Resources(pause=pauses, environment={}), "which?", HITS)


async def _mark(endpoint: Endpoint, pauses: Pauses, within: float) -> object:
    spec = LanguageModelReranker(url=endpoint.url, model="m", timeout=within, on_failure="raise")
    with using(Session()):
        return await spec.rerank(Resources(pause=pauses, environment={}), "which?", HITS)


def _vectors(*given: Any) -> Reply:
    return Reply({"data": [{"index": index, "embedding": vector} for index, vector in enumerate(given)]})


def _ranking(*given: tuple[Any, Any]) -> Reply:
    return Reply({"results": [{"index": index, "relevance_score": score} for index, score in given]})


NAN = float("nan")
KINDS = (
    Kind(
        "embedding",
        _embed,
        LARGEST_ANSWER,
        {
            "too few": _vectors([1.0, 2.0]),
            "NaN": _vectors([1.0, NAN], [1.0, 2.0]),
            "unequal lengths": _vectors([1.0], [1.0, 2.0]),
            "infinite": _vectors([1e300, 1.0], [1.0, 2.0]),
            "texts": _vectors("one", "two"),
        },
    ),
    Kind(
        "rerank",
        _rerank,
        1_000_000,
        {
            "too few": _ranking((0, 0.1)),
            "NaN": _ranking((0, NAN), (1, 0.2), (2, 0.3)),
            "one twice": _ranking((0, 0.1), (0, 0.2), (1, 0.3)),
            "one that was not sent": _ranking((0, 0.1), (7, 0.2), (1, 0.3)),
            "texts": _ranking((0, "best"), (1, "good"), (2, "bad")),
        },
    ),
    Kind(
        "language model",
        _mark,
        1_000_000,
        {
            "too few": completion({"marks": []}),
            "prose": completion("All of them are relevant."),
            "cut at its limit": completion({"marks": []}, finish_reason="length"),
            "no choices": Reply({"choices": []}),
            "a list": completion([1, 2, 3]),
        },
    ),
)

EVERYWHERE: dict[str, Reply] = {
    "silence": Reply(silent=True),
    "closed in the middle": Reply(BROKEN, closed=True),
    "status 500": Reply(b"oops", 500),
    "status 429 with Retry-After": Reply(b"", 429, {"Retry-After": "1"}),
    "status 429 with a Retry-After of a year": Reply(b"", 429, {"Retry-After": "31536000"}),
    "status 401": Reply(b"", 401),
    "a refusal without end": Reply(b"no " * 10_000, 400, endless=True),
    "no JSON": Reply(b"<html>It works!</html>", headers={"Content-Type": "text/html"}),
    "JSON cut short": Reply(BROKEN),
    "JSON nested without end": Reply(b"[" * 100_000),
    "no text": Reply(b"\xff\xfe\x00"),
    "nothing": Reply(b""),
    "null": Reply(b"null"),
    "an answer without end": Reply(b" " * 2**16, endless=True),
    "a slow drip": Reply(b" " * 1_000, drip=0.05),
    "a redirect elsewhere": Reply(b"", 307, {"Location": ELSEWHERE}),
    "compressed": Reply(gzip.compress(b" " * 10_000_000), headers={"Content-Encoding": "gzip"}),
}


def wrongs(kind: Kind) -> dict[str, Reply]:
    return {**EVERYWHERE, **kind.own}


@dataclass(frozen=True, slots=True)
class Met:
    """What came of asking an endpoint: what was said, how long it took, what it had to send and was asked."""

    said: str
    seconds: float
    sent: int
    asked: int
    pauses: tuple[float, ...]


def meet(kind: Kind, reply: Reply, within: float = WITHIN) -> Met:
    pauses, said = Pauses(), ""
    with serving(reply) as endpoint:
        begun = time.monotonic()
        try:
            bridge.run(kind.ask(endpoint, pauses, within))  # type: ignore[arg-type]
        except RankbookError as error:
            said = str(error)
        taken = time.monotonic() - begun
    return Met(said, taken, endpoint.sent, len(endpoint.asked), tuple(pauses))


def well_met(kind: Kind, met: Met) -> bool:
    """A sentence, in time, within bounds. What a socket holds before it blocks is beyond anybody's bounds."""
    held = 32 * 2**20
    return is_sentence(met.said) and met.seconds < AT_MOST and met.sent <= met.asked * (kind.largest + held)


def of_kind(kind: Kind) -> Outcome:
    met = [meet(kind, reply) for reply in wrongs(kind).values()]
    said = tuple(dict.fromkeys(each.said for each in met))
    works = all(well_met(kind, each) for each in met)
    return Outcome(f"{kind.name} endpoint that misbehaves", len(met), 0, 0, works, said)


def embedding() -> Outcome:
    return of_kind(KINDS[0])


def rerank() -> Outcome:
    return of_kind(KINDS[1])


def language_model() -> Outcome:
    return of_kind(KINDS[2])


DRILLS = (embedding, rerank, language_model)
