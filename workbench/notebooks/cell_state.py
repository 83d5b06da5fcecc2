"""What is known of one cell: what it shows, whether that still holds, and what became of the last run. Runs nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from evals.presentation.types import Output
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.document import Cell
from workbench.notebooks.output_cache import CELL

State = Literal["never", "waiting", "running", "fresh", "stale", "failed", "asks"]
CHANGED: Final = (CELL,)


@dataclass(frozen=True, slots=True)
class CellState:
    """One cell: an output, a problem, both or, where it never ran, neither. `spec` is None where it is not valid.

    `kept` is an output from an earlier run, and `stale` says what has changed since it was made. `asks` is what would
    be sent or paid for, if somebody has to allow it before the cell runs.
    """

    cell: Cell
    number: int
    spec: CellSpec | None = None
    output: Output | None = None
    problem: str = ""
    kept: bool = False
    stale: tuple[str, ...] = ()
    made_at: datetime | None = None
    milliseconds: float = 0.0
    asks: tuple[str, ...] = ()
    queued: Literal["waiting", "running"] | None = None
    stopped: bool = False
    failed_lookup: bool = False  # the problem came up while its kept output was looked for, and not in a run

    @property
    def title(self) -> str:
        """The cell's own title, its name, or its kind."""
        return (self.spec.title if self.spec else "") or self.cell.name or self.cell.kind

    @property
    def state(self) -> State:
        if self.queued is not None:
            return self.queued
        if self.asks:
            return "asks"
        if self.problem:
            return "failed"
        if self.output is None:
            return "never"
        return "stale" if self.stale else "fresh"

    def showing(self, other: CellState) -> CellState:
        """This cell with the other's output."""
        return replace(
            self,
            output=other.output,
            kept=other.kept,
            stale=other.stale,
            made_at=other.made_at,
            milliseconds=other.milliseconds,
        )

    def after_lookup(self, found: CellState) -> CellState:
        """After a look at what is kept: its output, or why it cannot be looked up (the collection is gone, say)."""
        if found.problem:
            return replace(self, problem=found.problem, failed_lookup=True)
        state = replace(self, problem="", failed_lookup=False) if self.failed_lookup else self
        return state if found.output is None else state.showing(found)

    def after_run(self, result: CellState, *, is_current: bool) -> CellState:
        """After a run. The result is not current if the cell was changed meanwhile."""
        if result.asks:
            return replace(self, asks=result.asks)
        state = replace(self, asks=())
        if result.problem:
            return replace(state, problem=result.problem, failed_lookup=False) if is_current else state
        state = replace(state.showing(result), problem="", failed_lookup=False)
        state = state if state.made_at else replace(state, made_at=datetime.now(UTC))
        return state if is_current else replace(state, stale=CHANGED)

    def after_change(self) -> CellState:
        """After a change of its source, or of what all cells share."""
        stale = (self.stale or CHANGED) if self.output is not None else ()
        return replace(self, problem="", failed_lookup=False, asks=(), stale=stale)
