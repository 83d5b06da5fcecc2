"""Reads a chat endpoint's answer: the envelope, the text in it, and the JSON in that. Trusts none of it."""

from __future__ import annotations

import json
from typing import Any, TypeGuard

from core.llm.posting import NoAnswer
from core.llm.spending import Estimate, Prices

PLACES_TRIED = 20  # opening braces at which an object is looked for in free text
MOST_TOKENS = 10**8  # more than any call can take: above it a count is not believed


def content_of(answer: bytes) -> tuple[str, Any]:
    """The model's text, and the usage it reports. A cut or empty answer is no answer."""
    try:
        envelope = json.loads(answer)
        choice = envelope["choices"][0]
        text, ending = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise NoAnswer("the answer is not a chat completion", passes=True) from error
    if ending == "length":
        raise NoAnswer("the answer was cut at its token limit; allow it more")  # asked again, it would be as long
    if not isinstance(text, str) or not text.strip():
        raise NoAnswer("the answer is empty", passes=True)
    return text, envelope.get("usage")


def used(usage: Any, reserved: Estimate, prices: Prices | None) -> Estimate:
    """What the endpoint says was used; the estimate stays where it does not say so credibly."""
    if not isinstance(usage, dict):
        return reserved
    sent, answered = usage.get("prompt_tokens"), usage.get("completion_tokens")
    if _credible(sent) and _credible(answered):
        return Estimate(sent, answered, prices.of(sent, answered) if prices else None)
    return reserved


def _credible(count: Any) -> TypeGuard[int]:
    return isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= MOST_TOKENS


def strict_json(text: str) -> Any:
    """The text as JSON and nothing else."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise NoAnswer("the model's text is not JSON alone", passes=True) from error


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
    raise NoAnswer("no JSON object is in the model's text", passes=True)
