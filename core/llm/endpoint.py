"""A language model's endpoint (address, model, key, prices), and the options of a spec that name one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from core.context import Resources
from core.errors import SpecError
from core.http import RetryPolicy, checked_url, key_for
from core.llm.session import Cap, Prices

URL, MODEL, KEY = "RANKBOOK_LLM_URL", "RANKBOOK_LLM_MODEL", "RANKBOOK_LLM_KEY"
MAX_TOKENS, MAX_COST = "RANKBOOK_LLM_MAX_TOKENS", "RANKBOOK_LLM_MAX_COST"
PRICE_SENT, PRICE_ANSWERED = "RANKBOOK_LLM_PRICE_IN", "RANKBOOK_LLM_PRICE_OUT"
DEFAULT_MAX_TOKENS = 1_000_000  # about 60 calls with 50 candidates of 1,200 characters


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An OpenAI-compatible chat endpoint; `url` ends before `/chat/completions`. No repr shows the key."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    cap: Cap = field(default_factory=lambda: Cap(DEFAULT_MAX_TOKENS))
    prices: Prices | None = None


def endpoint_from(environment: Mapping[str, str], *, url: str | None = None, model: str | None = None) -> Endpoint:
    """The endpoint that the options name, or else the environment. The key comes from the environment alone."""
    home = environment.get(URL, "")
    url, model = url or home, model or environment.get(MODEL, "")
    if not url or not model:
        missing = f"{URL} and {MODEL} are" if not (url or model) else f"{MODEL if url else URL} is"
        raise SpecError(
            f"No language model is configured: {missing} not set. Set {URL} to an OpenAI-compatible address such "
            f"as http://localhost:11434/v1, {MODEL} to a model there and, if it wants one, {KEY} to a key."
        )
    url = checked_url(url, URL if url == home else "The language model's url")
    sent, answered = _number(environment, PRICE_SENT), _number(environment, PRICE_ANSWERED)
    if (sent is None) != (answered is None):
        raise SpecError(f"A cost is made of both prices: set {PRICE_SENT} and {PRICE_ANSWERED}, or neither.")
    prices = None if sent is None or answered is None else Prices(sent, answered)
    tokens, cost = _number(environment, MAX_TOKENS), _number(environment, MAX_COST)
    if cost is not None and prices is None:
        raise SpecError(f"{MAX_COST} needs prices per million tokens: set {PRICE_SENT} and {PRICE_ANSWERED} too.")
    cap = Cap(DEFAULT_MAX_TOKENS if tokens is None else int(tokens), cost)
    return Endpoint(url, model, key_for(url, environment.get(KEY, ""), home, URL), cap, prices)


def _number(environment: Mapping[str, str], name: str) -> float | None:
    value = environment.get(name, "").strip()
    if not value:
        return None
    try:
        number = float(value.replace("_", ""))
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise SpecError(f"{name} is {value!r}. Give a number that is not negative.")
    return number


class LanguageModelOptions(BaseModel):
    """Fields that every spec inherits which asks a language model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        None, description="The endpoint's address before `/chat/completions`; else RANKBOOK_LLM_URL."
    )
    model: str | None = Field(None, description="The endpoint's name for the model; else RANKBOOK_LLM_MODEL.")
    strict_json_output: bool = Field(
        True, description="Ask for the schema and take JSON alone; otherwise JSON is looked for in the text."
    )
    timeout: float = Field(60.0, gt=0, le=600, description="Seconds that one attempt may take.")
    attempts: int = Field(4, ge=1, le=10, description="How often it is asked where asking again can help.")

    @property
    def policy(self) -> RetryPolicy:
        return RetryPolicy(timeout=self.timeout, attempts=self.attempts)

    def endpoint(self, resources: Resources) -> Endpoint:
        """The one that the options name, or else the environment."""
        return endpoint_from(resources.environment, url=self.url, model=self.model)
