"""What a drill found: how often a fault was injected, what it cost, and whether the next command worked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from core import bridge
from core.store.engine import Store
from core.store.verify import verify
from tests.store.making import fresh, query

TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True, slots=True)
class Outcome:
    """`lost` and `doubled` count rows; `said` is what a person was told, one entry an injection that was noticed."""

    fault: str
    injected: int
    lost: int = 0
    doubled: int = 0
    works: bool = True
    said: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        return not self.lost and not self.doubled and self.works and all(map(is_sentence, self.said))


def is_sentence(said: str) -> bool:
    """Something to read that says what to do: no traceback, no driver's ramblings over many lines."""
    return bool(said.strip()) and TRACEBACK not in said and "\n" not in said.strip() and said.strip().endswith(".")


def account(store: Store, name: str, expected: Iterable[str]) -> tuple[int, int]:
    """Rows that are lost or doubled in a collection which should hold exactly these documents, and all that is
    derived of them."""
    wanted = list(expected)
    stored = [row[0] for row in query(store, fresh(store, name), "SELECT id FROM {items}")]
    findings = [each for each in bridge.run(verify(store, fresh(store, name))) if each.wrong]
    twice = sum(each.wrong for each in findings if "twice" in each.check)
    lost = len(set(wanted) - set(stored)) + sum(each.wrong for each in findings if "twice" not in each.check)
    return lost, len(stored) - len(set(stored)) + len(set(stored) - set(wanted)) + twice


def stands_twice(store: Store, name: str) -> int:
    """Rows that are doubled in a collection that may not be whole yet."""
    found = bridge.run(verify(store, fresh(store, name)))
    return sum(each.wrong for each in found if "twice" in each.check)
