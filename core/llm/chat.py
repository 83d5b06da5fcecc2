"""One prompt to a language model, and its answer read as JSON of a schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeGuard, TypeVar

from core.context import Resources
from core.errors import LanguageModelError
from core.http import EndpointFailure, RetryPolicy, client, post, with_retries
from core.llm.endpoint import KEY, MODEL, URL, Endpoint
from core.llm.session import CostEstimate, Dialect, Prices, estimate, session

PLACES_TRIED = 20  # opening braces at which an object is looked for in free text
MOST_TOKENS = 10**8  # more than any call can take: above it a count is not believed
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Prompt:
    """Instructions and data kept apart, the shape of the answer, and how long it may be.

    `strict` wants JSON alone and asks the endpoint to enforce the schema; otherwise JSON is looked for in the text.
    """

    name: str
    instructions: str
    material: str
    schema: Mapping[str, Any]
    answer_tokens: int
    strict: bool = True

    def estimate(self, endpoint: Endpoint) -> CostEstimate:
        """What one attempt may take. The schema is counted too, as some endpoints put it into the prompt."""
        texts = [self.instructions, self.material, str(self.schema)]
        return estimate(texts, self.answer_tokens, endpoint.prices)


async def ask_model(
    resources: Resources,
    endpoint: Endpoint,
    prompt: Prompt,
    read: Callable[[Any], T],
    policy: RetryPolicy | None = None,
) -> T:
    """What `read` makes of the answer's JSON. `read` raises `EndpointFailure(..., passes=True)` to have it asked again.

    A refused form of asking is followed by a simpler one at once.
    """
    policy, now = policy or RetryPolicy(), session()
    messages = [{"role": "system", "content": prompt.instructions}, {"role": "user", "content": prompt.material}]
    reserved = prompt.estimate(endpoint)

    async def attempt() -> T:
        key = (endpoint.url, endpoint.model)
        dialect = now.dialects.get(key, Dialect()) if prompt.strict else Dialect("plain")
        while True:
            parameters = dialect.parameters(prompt.name, dict(prompt.schema), prompt.answer_tokens)
            body = {"model": endpoint.model, "messages": messages, **parameters}
            now.spending.reserve(reserved, endpoint.cap)
            try:
                answer = await post(sender, f"{endpoint.url}/chat/completions", body, policy)
            except EndpointFailure as failed:
                if failed.status is not None:  # refused, hence not billed; after a time-out nobody here can know
                    now.spending.settle(reserved, CostEstimate(0, 0))
                if (simpler := dialect.after(failed)) is None:
                    raise
                dialect = simpler
                continue
            text, usage = content_of(answer)
            now.spending.settle(reserved, used(usage, reserved, endpoint.prices))
            if not prompt.strict:
                return read(found_json(text))
            now.dialects[key] = dialect
            return read(strict_json(text))

    try:
        async with client(endpoint.key, KEY, resources.transport) as sender:
            return await with_retries(policy, attempt, resources.pause)
    except EndpointFailure as failed:
        raise LanguageModelError(
            f"The language model {endpoint.model!r} at {endpoint.url} did not answer as asked: {failed.problem}. "
            f"Check {URL}, {MODEL} and {KEY}, or try again later."
        ) from failed


async def ask_cached(
    resources: Resources,
    endpoint: Endpoint,
    prompt: Prompt,
    read: Callable[[Any], T],
    policy: RetryPolicy | None = None,
    *,
    use_cache: bool = True,
) -> T:
    """Like `ask_model`, but the same prompt is sent once only. A cached answer is read, and so checked, like any."""
    if not use_cache:
        return await ask_model(resources, endpoint, prompt, read, policy)
    parts = [endpoint.url, endpoint.model, prompt.name, prompt.instructions, prompt.material]
    key = hashlib.sha256(json.dumps([*parts, prompt.answer_tokens, prompt.strict]).encode()).hexdigest()
    cache = session().cache
    if (cached := cache.get(key)) is not None:
        with suppress(EndpointFailure):  # what does not pass the checks is asked for anew
            return read(json.loads(cached))
    answer, value = await ask_model(resources, endpoint, prompt, lambda answer: (answer, read(answer)), policy)
    cache.put(key, json.dumps(answer))
    return value


def content_of(answer: bytes) -> tuple[str, Any]:
    """The model's text, and the usage it reports. A cut or empty answer is no answer."""
    try:
        envelope = json.loads(answer)
        choice = envelope["choices"][0]
        text, ending = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise EndpointFailure("the answer is not a chat completion", passes=True) from error
    if ending == "length":
        # Asked again, it would be as long.
        raise EndpointFailure("the answer was cut at its token limit; allow it more")
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
