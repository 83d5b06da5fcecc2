"""What a demo shows: variants under friendly names, examples, and whether it is blind. Plain values, and whose is on.

Owns the order of the columns, which for a visitor and a query is always the same. Knows neither Streamlit nor SQL.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import InputError
from core.store import gate
from core.store.collections import View
from core.store.engine import Store
from core.variant import Variant
from evals.judging.votes import LONGEST_QUERY, Contest
from workbench.demo.answers import Answers

FEWEST_BLIND: Final = 2
MOST: Final = 3
LETTERS: Final = "ABC"


@dataclass(frozen=True, slots=True)
class Entrant:
    """A variant, and what its column is called."""

    name: str
    variant: Variant


@dataclass(frozen=True, slots=True)
class Show:
    """A demo that is on. `store` is opened as the demo's own role; nothing here reaches further."""

    store: Store
    view: View
    title: str
    entrants: tuple[Entrant, ...]
    examples: tuple[str, ...]
    blind: bool
    seed: int
    answers: Answers
    contest: Contest

    def order(self, visitor: str, query: str) -> tuple[int, ...]:
        """Which entrant stands in which column: as they were given, or blind and shuffled."""
        places = list(range(len(self.entrants)))
        if self.blind:
            content = f"{self.seed}\0{visitor}\0{query}"
            random.Random(hashlib.sha256(content.encode()).digest()).shuffle(places)  # noqa: S311 - no secret
        return tuple(places)


def asked(text: str) -> str:
    """A visitor's query as it is searched and voted on: on one line, storable, and not endless."""
    return " ".join(gate.cleaned(text).split())[:LONGEST_QUERY].strip()


def entered(names: Sequence[str], variants: Sequence[Variant], *, blind: bool) -> tuple[Entrant, ...]:
    """The columns, or a refusal that says what to change."""
    if not 1 <= len(variants) <= MOST:
        raise InputError(f"A demo shows one to {MOST} variants side by side; {len(variants)} were given.")
    if blind and len(variants) < FEWEST_BLIND:
        raise InputError("A blind demo needs two variants to choose between. Give another with --variant.")
    if len(names) != len(variants):
        raise InputError(
            f"There are {len(variants)} variants and {len(names)} names. Give each a --name, in the same order."
        )
    cleaned = [" ".join(name.split()) for name in names]
    if "" in cleaned or len(set(cleaned)) < len(cleaned):
        raise InputError("Each variant needs a name of its own that visitors can tell from the others.")
    return tuple(Entrant(name, variant) for name, variant in zip(cleaned, variants, strict=True))


# -- the one that is on ----------------------------------------------------------------------------------------------

_on: list[Show] = []


def put_on(show: Show) -> None:
    """A process shows one demo."""
    _on[:] = [show]


def take_off() -> None:
    _on.clear()


def current() -> Show:
    """What the page shows."""
    if not _on:
        raise InputError("There is no demo here. Start one with `rankbook demo`.")
    return _on[0]
