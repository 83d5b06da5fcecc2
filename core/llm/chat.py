"""One prompt to a language model, and its answer read as JSON of a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

import httpx

from core.context import Resources
from core.errors import LanguageModelError
from core.http import EndpointFailure, RetryPolicy, client, post, with_retries
from core.llm.endpoint import KEY, MODEL, URL, Endpoint
from core.llm.session import CostEstimate, Dialect, Prices, Session, estimate, session

PLACES_TRIED = 20  # opening braces at which an object is looked for in free text
MOST_TOKENS = 10**8  # more than any call can take: above it a count is not believed


def content_of(answer: bytes) -> tuple[str, Any]:
    """The model's text, and the usage it reports. A cut or empty answer is no answer."""
    try:
        envelope = json.loads(answer)
        choice = envelope["choices"][0]
        text, ending = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise EndpointFailure("the answer is not a chat completion", passes=True) from error
    if ending == "length":
        raise EndpointFailure(
            "the answer was cut at its token limit; allow it more"
        )  # asked again, it would be as long
    if not isinstance(text, str) or not text.strip():
        raise EndpointFailure("the answer is empty", passes=True)
    return text, envelope.get("usage")


def used(usage: Any, reserved: CostEstimate, prices: Prices | None) -> CostEstimate:
    """What the endpoint says was used; the estimate stays where it does not say so credibly."""
    if not isinstance(usage, dict):
        return reserved
    sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if _credible(sent) and _credible(answered):
        return CostEstimate(sent, answered, prices.of(sent, answered) if prices else None)
    return reserved


def _credible(count: Any) -> TypeGuard[int]:
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS


def strict_json(text: str) -> Any:
    """The text as JSON and nothing else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EndpointFailure("the model's text is not JSON alone", passes=True) from error


def found_json(text: str) -> Any:
    """The first JSON object in the text, whatever stands around it."""
    at = -1
    for _ in range(PLACES_TRIED):
        at = text.find("{", at + 1)
        if at < 0:
            break
        try:
            return json.JSONDecoder().raw_decode(text, at)[0]
        except (ValueError, RecursionError):
            continue
    raise EndpointFailure("no JSON object is in the model's text", passes=True)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is asked: instructions and data kept apart, the shape of the answer, and how long it may be.

    `strict` wants JSON alone and asks the endpoint to enforce the schema; otherwise JSON is looked for in the text.
    """

    name: str
    instructions: str
    material: str
    schema: Mapping[str, Any]
    answer_tokens: int
    strict: bool = True

    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": self.material}]

    def estimate(self, endpoint: Endpoint) -> CostEstimate:
        """What one attempt may take. The schema is counted too, as some endpoints put it into the prompt."""
        texts = [self.instructions, self.material, str(self.schema)]
        return estimate(texts, self.answer_tokens, endpoint.prices)


async def ask_model(
    resources: Resources,
    endpoint: Endpoint,
    question: Prompt,
    read: Callable[[Any], T],
    patience: RetryPolicy | None = None,
) -> T:
    """What `read` makes of the answer's JSON. `read` raises `NoAnswer(..., passes=True)` to have it asked again."""
    patience = patience or RetryPolicy()
    try:
        async with client(endpoint.key, KEY, resources.transport) as sender:
            call = _Call(sender, endpoint, question, patience, session())
            return await with_retries(patience, lambda: call.attempt(read), resources.pause)
    except EndpointFailure as failed:
        raise LanguageModelError(
            f"The language model {endpoint.model!r} at {endpoint.url} did not answer as asked: {failed.problem}. "
            f"Check {URL}, {MODEL} and {KEY}, or try again later."
        ) from failed


@dataclass(frozen=True, slots=True)
class _Call:
    sender: httpx.AsyncClient
    endpoint: Endpoint
    question: Prompt
    patience: RetryPolicy
    session: Session

    async def attempt(self, read: Callable[[Any], T]) -> T:
        """One answer, read. A refused form of asking is followed by a simpler one at once."""
        key = (self.endpoint.url, self.endpoint.model)
        dialect = self.session.dialects.get(key, Dialect()) if self.question.strict else Dialect("plain")
        while True:
            try:
                text = await self._text(dialect)
            except EndpointFailure as refused:
                simpler = dialect.after(refused)
                if simpler is None:
                    raise
                dialect = simpler
            else:
                if self.question.strict:
                    self.session.dialects[key] = dialect
                return read(strict_json(text) if self.question.strict else found_json(text))

    async def _text(self, dialect: Dialect) -> str:
        asked = dialect.parameters(self.question.name, dict(self.question.schema), self.question.answer_tokens)
        body = {"model": self.endpoint.model, "messages": self.question.messages(), **asked}
        reserved = self.question.estimate(self.endpoint)
        spending = self.session.spending
        spending.reserve(reserved, self.endpoint.cap)
        try:
            answer = await post(self.sender, f"{self.endpoint.url}/chat/completions", body, self.patience)
        except EndpointFailure as failed:
            if failed.status is not None:  # refused, hence not billed; after a time-out nobody here can know
                spending.settle(reserved, CostEstimate(0, 0))
            raise
        text, usage = content_of(answer)
        spending.settle(reserved, used(usage, reserved, self.endpoint.prices))
        return text
