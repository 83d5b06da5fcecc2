"""What each cell of an open notebook has come to: its last output, what it failed of, what it asks to be allowed.

Owns what makes an output of another day as soon as its cell changes. Runs nothing, looks nothing up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Literal

from workbench.book.basis import CELL
from workbench.book.running import CellResult

State = Literal["never", "waiting", "running", "fresh", "stale", "failed", "asks"]
CHANGED = (CELL,)


@dataclass(frozen=True, slots=True)
class Standing:
    """How a cell stands. `result` is what it shows, `asks` what is to be allowed before it runs."""

    state: State
    result: CellResult
    asks: tuple[str, ...] = ()
    stopped: bool = False


@dataclass(slots=True)
class Outcomes:
    """By the identity of the cell."""

    outputs: dict[str, CellResult] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    asks: dict[str, tuple[str, ...]] = field(default_factory=dict)
    looked: set[str] = field(default_factory=set)  # of whose failures nobody knows but a look at what is kept

    def of(self, blank: CellResult) -> CellResult:
        """The result that a cell shows now, for which `blank` stands."""
        found = self.outputs.get(blank.cell.id, blank)
        problem = self.failures.get(blank.cell.id, "")
        return replace(found, cell=blank.cell, number=blank.number, spec=blank.spec, problem=problem)

    def kept(self, result: CellResult) -> bool:
        """Take what was kept from before; whether that changes anything."""
        identity = result.cell.id
        if result.problem:  # the collection is gone, say
            changed = self.failures.get(identity) != result.problem
            self.failures[identity] = result.problem
            self.looked.add(identity)
            return changed
        mended = identity in self.looked
        if mended:
            self._forget_failure(identity)
        if result.output is None or self.outputs.get(identity) == result:
            return mended
        self.outputs[identity] = result
        return True

    def _forget_failure(self, identity: str) -> None:
        self.looked.discard(identity)
        self.failures.pop(identity, None)

    def ran(self, result: CellResult, *, current: bool) -> None:
        """Take what a run gave. It is not `current` if the cell was changed while it ran."""
        identity = result.cell.id
        self.asks.pop(identity, None)
        if result.problem:
            if current:
                self.looked.discard(identity)
                self.failures[identity] = result.problem
            return
        self._forget_failure(identity)
        made = result if result.made_at else replace(result, made_at=datetime.now(UTC))
        self.outputs[identity] = made if current else replace(made, stale=CHANGED)

    def changed(self, cells: Iterable[str]) -> None:
        """These say something else now."""
        for identity in cells:
            self._forget_failure(identity)
            self.asks.pop(identity, None)
            if (result := self.outputs.get(identity)) is not None:
                self.outputs[identity] = replace(result, stale=result.stale or CHANGED)
