"""What a process remembers of language models: spending, recent answers, and how each endpoint wants to be asked."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from core.errors import BudgetError
from core.http import EndpointFailure

BYTES_A_TOKEN = 3  # about 4 in English, 3 a character in Chinese
TOKENS_A_MESSAGE = 8


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """Tokens sent, tokens at most in the answer, and what they cost where prices are known."""

    sent: int
    answered: int
    cost: float | None = None

    @property
    def tokens(self) -> int:
        return self.sent + self.answered


@dataclass(frozen=True, slots=True)
class Prices:
    """Per million tokens, in whatever currency the cap is in."""

    sent: float
    answered: float

    def of(self, sent: int, answered: int) -> float:
        return (sent * self.sent + answered * self.answered) / 1e6


@dataclass(frozen=True, slots=True)
class Cap:
    """What a session may spend in all."""

    tokens: int
    cost: float | None = None


def estimate(texts: Sequence[str], answered: int, prices: Prices | None = None) -> CostEstimate:
    sent = sum(math.ceil(len(text.encode(errors="replace")) / BYTES_A_TOKEN) + TOKENS_A_MESSAGE for text in texts)
    return CostEstimate(sent, answered, prices.of(sent, answered) if prices else None)


class Spending:
    """The running total of a session, shared by its threads. Estimates count until the endpoint says what was used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens, self.cost, self.calls = 0, 0.0, 0

    def reserve(self, wanted: CostEstimate, cap: Cap) -> None:
        """Count the estimate, or raise: two calls at once cannot both take what is left."""
        with self._lock:
            if self.tokens + wanted.tokens > cap.tokens:
                raise BudgetError(
                    f"This call may take {wanted.tokens:,} tokens; {self.tokens:,} of {cap.tokens:,} are spent. "
                    "It was not sent. Raise RANKBOOK_LLM_MAX_TOKENS, or send less."
                )
            if cap.cost is not None and self.cost + (wanted.cost or 0) > cap.cost:
                raise BudgetError(
                    f"This call may cost {wanted.cost or 0:.4f}; {self.cost:.4f} of {cap.cost:.4f} is spent. "
                    "It was not sent. Raise RANKBOOK_LLM_MAX_COST, or send less."
                )
            self.tokens += wanted.tokens
            self.cost += wanted.cost or 0
            self.calls += 1

    def settle(self, reserved: CostEstimate, used: CostEstimate) -> None:
        """Replace what was reserved by what was used."""
        with self._lock:
            self.tokens += used.tokens - reserved.tokens
            self.cost += (used.cost or 0) - (reserved.cost or 0)


Form = Literal["json_schema", "json_object", "plain"]
SIMPLER: dict[Form, Form] = {"json_schema": "json_object", "json_object": "plain"}
REFUSALS = {400, 422}  # OpenAI's own status, and that of servers which validate requests by a schema


@dataclass(frozen=True, slots=True)
class Dialect:
    """The answer form and the parameters that an endpoint accepts: some refuse the newer ones, some the older."""

    form: Form = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True

    def parameters(self, name: str, schema: dict[str, Any], answer_tokens: int) -> dict[str, Any]:
        parameters: dict[str, Any] = {self.limit: answer_tokens}
        if self.temperature:
            parameters["temperature"] = 0
        if self.form == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        if self.form == "json_schema":
            parameters["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": name, "strict": True, "schema": schema},
            }
        return parameters

    def after(self, refused: EndpointFailure) -> Dialect | None:
        """What to try next, or None where nothing simpler is left or the refusal is about something else."""
        if refused.status not in REFUSALS:
            return None
        if self.limit == "max_tokens" and "max_completion_tokens" in refused.refusal:
            return replace(self, limit="max_completion_tokens")
        if self.temperature and "temperature" in refused.refusal:
            return replace(self, temperature=False)
        return replace(self, form=SIMPLER[self.form]) if self.form in SIMPLER else None


class RecentAnswers:
    """The most recently used answers, in memory."""

    def __init__(self, most: int = 2_000) -> None:
        self._most, self._lock = most, threading.Lock()
        self._answers: OrderedDict[str, str] = OrderedDict()

    def get(self, key: str) -> str | None:
        with self._lock:
            if key in self._answers:
                self._answers.move_to_end(key)
            return self._answers.get(key)

    def put(self, key: str, value: str) -> None:
        with self._lock:
            self._answers[key] = value
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)


@dataclass
class Session:
    """One total and one cache. `dialects` is by address and model."""

    cache: RecentAnswers = field(default_factory=RecentAnswers)
    spending: Spending = field(default_factory=Spending)
    dialects: dict[tuple[str, str], Dialect] = field(default_factory=dict)


_PROCESS = Session()
_session: ContextVar[Session] = ContextVar("rankbook_llm_session", default=_PROCESS)


def session() -> Session:
    """The process's session, unless `using` set another."""
    return _session.get()


@contextmanager
def using(chosen: Session) -> Iterator[Session]:
    """Another session for what runs inside, tasks and the bridge included: contexts travel with both."""
    before = _session.set(chosen)
    try:
        yield chosen
    finally:
        _session.reset(before)
