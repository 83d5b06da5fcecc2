"""Notebooks carried out, cell by cell: what is there already is taken, what fails says why, and the others go on.

Owns the order and what counts as a failure of one cell. How anything is searched or scored is the cells' and evals'.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from core.context import Resources
from core.errors import Cancelled, RankbookError
from core.progress import Listener, nobody
from core.store.engine import Store
from core.tasks import run_cancellable
from evals.evaluation.context import EvalContext
from evals.presentation.types import Output
from workbench.behind.mishaps import sentence
from workbench.notebooks import output_cache
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext
from workbench.notebooks.cost_notice import announced, unallowed
from workbench.notebooks.document import Cell, Notebook
from workbench.notebooks.output_cache import Contents, cache_key
from workbench.notebooks.parsing import Meaning, meaning

Grounds = dict[tuple[str, str], EvalContext]  # by collection and query set


@dataclass(frozen=True, slots=True)
class CellResult:
    """What came of one cell: an output or a problem, or neither where it never ran. `kept` is an output from before.

    `stale` says what moved on since the output was made. `asks` is what is to be allowed before it runs.
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

    @property
    def title(self) -> str:
        """What it is called: its own title, its name, or its kind."""
        return (self.spec.title if self.spec else "") or self.cell.name or self.cell.kind


class Runner:
    """One notebook, to be run or looked up. `key` is under what its outputs are kept: its path, say."""

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
        grounds: Grounds | None = None,
    ) -> None:
        """`grounds` are collections opened before, to be shared with whoever runs another cell of the same notebook."""
        self.notebook, self.listener = notebook, listener
        self.key = key if key is not None else str(path.resolve()) if path else ""
        read = meaning(notebook, path)
        shared = read.shared.model_copy(update={"collection": collection}) if collection else read.shared
        self.meaning: Meaning = replace(read, shared=shared)
        folder = path.parent if path else Path()
        opened = {} if grounds is None else grounds
        self.context = CellContext(store, shared, folder, resources, cancellation, listener, opened)

    async def run(
        self,
        *,
        only: Collection[str] | None = None,
        again: bool = False,
        stop_on_error: bool = False,
        done: Callable[[CellResult], None] = lambda _: None,
    ) -> list[CellResult]:
        """The cells of those identities, or all, in the notebook's order. `done` is told of each as it ends."""
        results: list[CellResult] = []
        for number, cell in enumerate(self.notebook.cells, start=1):
            if only is not None and cell.id not in only:
                continue
            results.append(await self.cell(cell, number, again=again))
            done(results[-1])
            if results[-1].problem and stop_on_error:
                break
        return results

    async def cell(
        self, cell: Cell, number: int, *, again: bool = False, allowed: Collection[str] | None = None
    ) -> CellResult:
        """One cell, from the cache where nothing moved on. Stopping is not a failure: it ends the whole run.

        Of what it would ask and send, `allowed` was allowed before; None allows all.
        """
        spec = self.meaning.specs.get(cell.id)
        if spec is None:
            return CellResult(cell, number, problem=str(self.meaning.problems[cell.id]))
        empty, begun = CellResult(cell, number, spec), time.perf_counter()
        try:
            return await self._made(empty, spec, begun, again=again, allowed=allowed)
        except Cancelled:
            raise
        except (RankbookError, OSError, DBAPIError) as error:
            spent = (time.perf_counter() - begun) * 1000
            return replace(empty, problem=sentence(error) or str(error), milliseconds=spent)

    async def _made(
        self, empty: CellResult, spec: CellSpec, begun: float, *, again: bool, allowed: Collection[str] | None
    ) -> CellResult:
        if self.context.cancellation and self.context.cancellation.is_set():
            raise Cancelled("The notebook was stopped. What was done is kept: run it again, and it goes on.")
        ground = await self.context.ground(spec)
        basis = await run_cancellable(ground.context, cache_key(self.context, spec))
        found = None if again else await output_cache.find(self.context.store, self.key, empty.cell.id, basis)
        if found is not None and not found.stale:
            return _from(found, empty)
        told = await announced(self.context, spec)  # where that fails, so does the cell: unannounced it sends nothing
        if allowed is not None and (asks := unallowed(told, allowed)):
            return replace(empty, asks=asks)
        output = await spec.run(self.context)
        spent = (time.perf_counter() - begun) * 1000
        await output_cache.keep(self.context.store, self.key, empty.cell.id, basis, output, spent)
        shown = Output.model_validate(output.plain())  # as it will be read back, so that both are drawn alike
        return replace(empty, output=shown, milliseconds=spent)

    async def announced(self, only: Collection[str] | None = None, *, again: bool = False) -> list[str]:
        """What those cells, or all, would ask and send elsewhere; what has an output of today asks nobody."""
        said: list[str] = []
        for result in await self.kept(only):
            if result.spec is not None and (again or result.output is None or result.stale):
                said += [f"{result.title}: {each}" for each in await self._told(result.spec)]
        return said

    async def _told(self, spec: CellSpec) -> list[str]:
        try:
            return [each.text for each in await announced(self.context, spec)]
        except Cancelled:
            raise
        except RankbookError:
            return []  # it fails of the same when it is its turn, having sent nothing

    async def kept(self, only: Collection[str] | None = None) -> list[CellResult]:
        """What those cells, or all, showed last, stale or not; nothing is run."""
        cells = [each for each in enumerate(self.notebook.cells, start=1) if only is None or each[1].id in only]
        contents: Contents = {}
        return [await self._kept(cell, number, contents) for number, cell in cells]

    async def _kept(self, cell: Cell, number: int, contents: Contents) -> CellResult:
        spec = self.meaning.specs.get(cell.id)
        if spec is None:
            return CellResult(cell, number, problem=str(self.meaning.problems[cell.id]))
        try:
            basis = await cache_key(self.context, spec, contents)
            found = await output_cache.find(self.context.store, self.key, cell.id, basis)
        except (RankbookError, OSError, DBAPIError) as error:
            return CellResult(cell, number, spec, problem=sentence(error) or str(error))
        empty = CellResult(cell, number, spec)
        return empty if found is None else _from(found, empty)


def _from(found: output_cache.Kept, empty: CellResult) -> CellResult:
    return replace(
        empty,
        output=found.output,
        kept=True,
        stale=found.stale,
        made_at=found.made_at,
        milliseconds=found.milliseconds,
    )
