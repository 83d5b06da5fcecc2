"""What calls cost: an estimate before each, a running total, and a cap that no call may pass.

Tokens are over-counted rather than under-counted; prices are the user's to give, as nothing here could know them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import BudgetError

BYTES_A_TOKEN = 3  # about 4 in English, 3 a character in Chinese
TOKENS_A_MESSAGE = 8


@dataclass(frozen=True, slots=True)
class Estimate:
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


def estimate(texts: Sequence[str], answered: int, prices: Prices | None = None) -> Estimate:
    sent = sum(math.ceil(len(text.encode(errors="replace")) / BYTES_A_TOKEN) + TOKENS_A_MESSAGE for text in texts)
    return Estimate(sent, answered, prices.of(sent, answered) if prices else None)


class Spending:
    """The running total of a session, shared by its threads. Estimates count until the endpoint says what was used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.tokens, self.cost, self.calls = 0, 0.0, 0

    def reserve(self, wanted: Estimate, cap: Cap) -> None:
        """Counts the estimate, or raises: two calls at once cannot both take what is left."""
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
            self.tokens, self.cost, self.calls = (
                self.tokens + wanted.tokens,
                self.cost + (wanted.cost or 0),
                self.calls + 1,
            )

    def settle(self, reserved: Estimate, used: Estimate) -> None:
        """Puts what was used in the place of what was reserved for it."""
        with self._lock:
            self.tokens += used.tokens - reserved.tokens
            self.cost += (used.cost or 0) - (reserved.cost or 0)
