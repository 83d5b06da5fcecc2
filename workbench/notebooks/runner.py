"""Runs a notebook's cells: takes what is kept and still holds, and says of each cell that fails why it does.

Owns the order, and what counts as a failure of one cell. How anything is searched or scored is the cells' and evals'.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path

from core.context import Resources
from core.errors import Cancelled, RankbookError
from core.progress import Listener, nobody
from core.store.db_errors import DRIVER_ERRORS, error_sentence
from core.store.engine import Store
from core.tasks import run_cancellable
from evals.presentation.types import Output
from workbench.notebooks import output_cache
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells.base import CellContext, OpenCollections
from workbench.notebooks.cost_notice import for_cell, not_allowed
from workbench.notebooks.document import Cell, Notebook
from workbench.notebooks.output_cache import Contents, cache_key
from workbench.notebooks.parsing import parse_cells

FAILURES = (RankbookError, OSError, *DRIVER_ERRORS)  # of a cell; anything else is a mistake of ours


class Runner:
    """One notebook, to be run or looked up. Its outputs are kept under `key`: its path, say."""

    def __init__(  # noqa: PLR0913 - each of its own, and all but two may be left out
        self,
        store: Store,
        notebook: Notebook,
        *,
        path: Path | None = None,
        key: str | None = None,
        collection: str | None = None,
        resources: Resources | None = None,
        cancellation: asyncio.Event | None = None,
        listener: Listener = nobody,
        collections: OpenCollections | None = None,
    ) -> None:
        """`collections` were opened before, and are shared with whatever runs another cell of the same notebook."""
        self.notebook, self.listener = notebook, listener
        self.key = key if key is not None else str(path.resolve()) if path else ""
        parsed = parse_cells(notebook, path)
        shared = parsed.shared.model_copy(update={"collection": collection}) if collection else parsed.shared
        self.parsed = replace(parsed, shared=shared)
        folder = path.parent if path else Path()
        opened = {} if collections is None else collections
        self.context = CellContext(store, shared, folder, resources, cancellation, listener, opened)

    async def run(
        self,
        *,
        only: Collection[str] | None = None,
        again: bool = False,
        stop_on_error: bool = False,
        done: Callable[[CellState], None] = lambda _: None,
    ) -> list[CellState]:
        """The cells of those identities, or all, in the notebook's order. `done` is called as each ends."""
        states: list[CellState] = []
        for number, cell in self._numbered(only):
            states.append(await self.run_cell(cell, number, again=again))
            done(states[-1])
            if states[-1].problem and stop_on_error:
                break
        return states

    async def run_cell(
        self, cell: Cell, number: int, *, again: bool = False, allowed: Collection[str] | None = None
    ) -> CellState:
        """One cell, from the cache where nothing has changed. Being stopped is no failure: it ends the whole run.

        `allowed` are the sentences about cost that somebody has agreed to; None agrees to all.
        """
        state, begun, context = self._before(cell, number), time.perf_counter(), self.context
        if state.spec is None:
            return state
        if context.cancellation and context.cancellation.is_set():
            raise Cancelled("The notebook was stopped. What was done is kept: run it again, and it goes on.")
        try:
            opened = await context.open(state.spec)
            key = await run_cancellable(
                cache_key(context, state.spec), opened.context.cancellation, opened.context.deadline
            )
            found = None if again else await output_cache.find(context.store, self.key, cell.id, key)
            if found is not None and not found.stale:
                return _with_kept(state, found)
            notices = await for_cell(context, state.spec)  # where that fails, so does the cell: it sends nothing
            if allowed is not None and (asks := not_allowed(notices, allowed)):
                return replace(state, asks=asks)
            output = await state.spec.run(context)
            spent = (time.perf_counter() - begun) * 1000
            await output_cache.keep(context.store, self.key, cell.id, key, output, spent)
        except Cancelled:
            raise
        except FAILURES as error:
            spent = (time.perf_counter() - begun) * 1000
            return replace(state, problem=error_sentence(error) or str(error), milliseconds=spent)
        as_kept = Output.model_validate(output.plain())  # as it will be read back, so that both are drawn alike
        return replace(state, output=as_kept, milliseconds=spent)

    async def cost_notices(self, only: Collection[str] | None = None, *, again: bool = False) -> list[str]:
        """What those cells, or all, would ask and send elsewhere; none of a cell whose kept output still holds."""
        sentences: list[str] = []
        for state in await self.kept(only):
            if state.spec is None or not (again or state.output is None or state.stale):
                continue
            try:
                sentences += [f"{state.title}: {each.text}" for each in await for_cell(self.context, state.spec)]
            except Cancelled:
                raise
            except RankbookError:
                continue  # it fails of the same when it is run, having sent nothing
        return sentences

    async def kept(self, only: Collection[str] | None = None) -> list[CellState]:
        """What those cells, or all, showed last, stale or not. Runs nothing."""
        contents: Contents = {}
        states = []
        for number, cell in self._numbered(only):
            state = self._before(cell, number)
            if state.spec is not None:
                try:
                    key = await cache_key(self.context, state.spec, contents)
                    found = await output_cache.find(self.context.store, self.key, cell.id, key)
                except FAILURES as error:
                    state = replace(state, problem=error_sentence(error) or str(error))
                else:
                    state = state if found is None else _with_kept(state, found)
            states.append(state)
        return states

    def _numbered(self, only: Collection[str] | None) -> list[tuple[int, Cell]]:
        cells = enumerate(self.notebook.cells, start=1)
        return [(number, cell) for number, cell in cells if only is None or cell.id in only]

    def _before(self, cell: Cell, number: int) -> CellState:
        """The cell as it is before it was run or looked up."""
        if cell.id in self.parsed.specs:
            return CellState(cell, number, self.parsed.specs[cell.id])
        return CellState(cell, number, problem=str(self.parsed.problems[cell.id]))


def _with_kept(state: CellState, found: output_cache.Kept) -> CellState:
    return replace(
        state,
        output=found.output,
        kept=True,
        stale=found.stale,
        made_at=found.made_at,
        milliseconds=found.milliseconds,
    )
