"""Notebooks that are open in this process, each shared by all windows that show it.

Joins the file (`paper`), the queue (`turns`) and what cells came to (`outcomes`), and says how every cell stands. Knows
no Streamlit.
"""

from __future__ import annotations

import asyncio
import difflib
import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Any, Final, TypeVar

from core import bridge
from core.errors import InputError, RankbookError
from core.resources import Resources
from core.store import roles
from core.store.engine import Store
from core.store.progress import Listener
from evals.evaluation import Opened
from workbench.behind.jobs import Job
from workbench.book import cache, carrying_out, files
from workbench.book.basis import Contents, basis_of
from workbench.book.context import CellContext
from workbench.book.document import Notebook
from workbench.book.outcomes import Outcomes, Standing
from workbench.book.paper import Edit, Paper
from workbench.book.parts import Cell
from workbench.book.reading import Meaning, meaning
from workbench.book.running import CellResult, Grounds, Runner
from workbench.book.shelf import Found, Shelf
from workbench.book.turns import Turn, Turns

T = TypeVar("T")
FRESH_FOR: Final = 15.0  # seconds after which it is looked whether a collection moved on
LOOKING: Final = 0.02  # the share of the time that may go into looking
_log = logging.getLogger("rankbook")


class Desk:
    """One notebook. All methods may be called from any thread."""

    def __init__(self, store: Store, found: Found, resources: Resources | None = None) -> None:
        self.store, self.name, self.path, self.shipped = store, found.name, found.path, found.shipped
        self.paper = Paper(files.opened(found.path))
        self.stamp = 0  # another number whenever anything that a page shows has changed
        self._lock = self.paper.lock  # one for all of it: a change touches file, queue and outputs
        self._resources = resources
        self._outcomes = Outcomes()
        self._unseen = {cell.id for cell in self.notebook.cells}  # not looked up yet
        key = ("notebook", str(self.path), store.role)
        self.turns = Turns(key, f"Notebook {self.name}", self._lock, self._carry_out, self._touch)
        self._grounds: Grounds = {}
        self._allowed: set[str] = set()  # what somebody has let be sent
        self._due = time.monotonic() + FRESH_FOR
        self._meant: tuple[Notebook, Meaning] | None = None

    # -- what there is -----------------------------------------------------------------------------------------------

    @property
    def notebook(self) -> Notebook:
        return self.paper.notebook

    @property
    def job(self) -> Job[None] | None:
        """What runs its cells right now."""
        return self.turns.job

    @property
    def meaning(self) -> Meaning:
        notebook, meant = self.notebook, self._meant
        if meant is None or meant[0] is not notebook:
            self._meant = meant = notebook, meaning(notebook, self.path)
        return meant[1]

    @property
    def context(self) -> CellContext:
        """For what is asked beside a cell's output."""
        resources, folder = self._resources, self.path.parent
        return CellContext(self.store, self.meaning.shared, folder, resources, grounds=self._grounds)

    @property
    def ground(self) -> Opened | None:
        """The collection that the cells share; none where none is named, or it is not there."""
        try:
            return bridge.run(self.context.ground(self.meaning.shared))
        except RankbookError:
            return None  # every cell that needs it says so

    @property
    def model(self) -> str:
        """By what the shared collection's texts are embedded; empty where they are not."""
        ground = self.ground
        return next((each.model for each in ground.view.embedding_sets), "") if ground is not None else ""

    def standing(self, cell: Cell) -> Standing:
        """How that cell stands now."""
        with self._lock:
            result, state = self._shown(cell), self.turns.state(cell.id)
            asks = self._outcomes.asks.get(cell.id, ())
            stopped = cell.id in self.turns.stopped
        if state is not None:
            return Standing(state, result)
        if asks:
            return Standing("asks", result, asks)
        if result.problem:
            return Standing("failed", result)
        if result.output is None:
            return Standing("never", result, stopped=stopped)
        return Standing("stale" if result.stale else "fresh", result, stopped=stopped)

    def _shown(self, cell: Cell) -> CellResult:
        """Its output with the cell as it is now, and what is wrong with it."""
        numbers = {each.id: number for number, each in enumerate(self.notebook.cells, start=1)}
        blank = CellResult(cell, numbers.get(cell.id, 0), self.meaning.specs.get(cell.id))
        result = self._outcomes.of(blank)
        if cell.id in self.meaning.problems:
            return replace(result, problem=self._mistake(cell, self.meaning.problems[cell.id]))
        return result

    def _mistake(self, cell: Cell, error: InputError) -> str:
        """With the line as one sees it in the cell."""
        line = (error.line or 0) - self.notebook.line_of(cell.id)
        return f"Line {line} of this cell: {error.message}" if line > 0 else error.message

    def results(self) -> list[CellResult]:
        """What every cell shows, for an export."""
        with self._lock:
            return [self._shown(cell) for cell in self.notebook.cells]

    @property
    def stale(self) -> list[str]:
        """The cells that have no output of today."""
        standings = [(cell.id, self.standing(cell).state) for cell in self.notebook.cells]
        return [identity for identity, state in standings if state in ("never", "stale", "failed", "asks")]

    def _touch(self) -> None:
        self.stamp += 1

    # -- outputs from before -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """See to it that every cell has the output that is kept for it.

        Waits only where a cell was never looked up; whether a collection moved on is found out behind the scenes.
        """
        self._follow_disk()
        with self._lock:
            due = time.monotonic() > self._due
            unseen, busy = set(self._unseen), self.job is not None
        if unseen:
            bridge.run(self._look(unseen))
        elif due and not busy:
            self._due = time.monotonic() + FRESH_FOR
            asyncio.run_coroutine_threadsafe(self._look_again(), bridge.loop())

    async def _look_again(self) -> None:
        """Of a big collection it takes long to say whether it moved on: it is asked the more rarely."""
        begun, self._grounds = time.monotonic(), {}
        try:
            await self._look(None)
        except Exception as error:  # nobody waits for it who could be told
            _log.error("could not look whether the notebook's collections moved on", exc_info=error)
        now = time.monotonic()
        self._due = now + max(FRESH_FOR, (now - begun) / LOOKING)

    async def _look(self, only: Collection[str] | None) -> None:
        found = await self._runner().kept(only)
        with self._lock:
            self._unseen -= {result.cell.id for result in found}
            current = [each for each in found if self._is_current(each.cell) and not self.turns.state(each.cell.id)]
            valid = [each for each in current if each.cell.id not in self.meaning.problems]
            news = [self._outcomes.kept(each) for each in valid]
            if any(news):
                self._touch()

    def _is_current(self, cell: Cell) -> bool:
        return any(each.id == cell.id and each.source == cell.source for each in self.notebook.cells)

    def _runner(self, **options: Any) -> Runner:
        options = {"grounds": self._grounds, "resources": self._resources, **options}
        return Runner(self.store, self.notebook, path=self.path, **options)

    # -- changes -----------------------------------------------------------------------------------------------------

    def change(self, label: str, edit: Edit) -> str:
        """Save a change, and say what part is to be looked at. The label is what Undo will call it."""
        self._for_editors()
        return self._changed(lambda: self.paper.write(label, edit))

    def _for_editors(self) -> None:
        """Notebooks are files, which the database does not guard."""
        roles.refuse_reader(self.store, "change notebooks")

    def undo(self, number: int) -> None:
        self._for_editors()
        self._changed(lambda: self.paper.undo(number))

    def read_again(self) -> None:
        self._for_editors()
        self._changed(self.paper.read_again)

    def write_over(self, seen: bytes | None) -> None:
        """Save what is here over what another program wrote, if that is still what was seen."""
        self._for_editors()
        self._changed(lambda: self.paper.write_over(seen))

    def differences(self, on_disk: Notebook) -> str:
        """What is here against what is on disk, line by line."""
        before, after = on_disk.text.splitlines(), (self.paper.unsaved or self.notebook).text.splitlines()
        return "\n".join(difflib.unified_diff(before, after, "on disk", "here", lineterm=""))

    @property
    def changed_on_disk(self) -> bool:
        return not self.shipped and self.paper.file.changed_on_disk

    def _follow_disk(self) -> None:
        """Where nothing was changed here, there is nothing to lose by reading the file again."""
        if self.paper.last is None and self.paper.unsaved is None and self.changed_on_disk and self.path.is_file():
            self._changed(self.paper.follow)

    def _changed(self, do: Callable[[], T]) -> T:
        with self._lock:
            before = self.notebook
            try:
                part = do()
            finally:
                self._touch()
            self._compare(before, self.notebook)
            return part

    def _compare(self, before: Notebook, after: Notebook) -> None:
        """What a cell showed is of another day as soon as its source, or what all share, is another."""
        there = {cell.id for cell in after.cells}
        was = {cell.id: cell.source for cell in before.cells}
        if [cell.source for cell in before.headers] != [cell.source for cell in after.headers]:
            was = {}
        changed = {cell.id for cell in after.cells if was.get(cell.id) != cell.source}
        self._outcomes.changed(changed)
        self._unseen = (self._unseen | changed) & there
        self.turns.stopped -= changed
        self.turns.only(there)

    def copied(self, shelf: Shelf, name: str, notebook: Notebook | None = None) -> str:
        """The name of a new notebook like this one, with its outputs of today."""
        self._for_editors()
        file = shelf.create(name, notebook or self.notebook)
        bridge.run(self._carry(str(file.path.resolve())))
        return file.path.stem

    def adopt(self, other: Desk) -> None:
        """Show what the same cells show there, even if it is of another day."""
        found = {result.cell.source: result for result in other.results() if result.output is not None}
        with self._lock:
            for cell in self.notebook.cells:
                if (result := found.get(cell.source)) is not None:
                    self._outcomes.outputs[cell.id] = result
            self._touch()

    async def _carry(self, key: str) -> None:
        """Outputs are kept by the notebook's path: those of today go along."""
        context, contents = self.context, Contents()
        for result in self.results():
            if result.spec is None or result.output is None or result.stale or result.problem:
                continue
            basis = await basis_of(context, result.spec, contents)
            await cache.keep(self.store, key, result.cell.id, basis, result.output, result.milliseconds)

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, cells: Iterable[str], *, again: bool = False, allowed: bool = False) -> None:
        """Put those cells into the queue, in the notebook's order. Whoever is in it already stays where it is."""
        if allowed:
            roles.refuse_reader(self.store, "ask a language model from a notebook, which may cost money")
        wanted = set(cells)
        with self._lock:
            turns = [Turn(cell.id, again, allowed) for cell in self.notebook.cells if cell.id in wanted]
            for turn in self.turns.put(turns):
                said = self._outcomes.asks.pop(turn.cell, ())
                self._allowed.update(said if allowed else ())
            self._touch()

    def stop(self) -> None:
        """End what runs, on the server too, and forget what waits."""
        self.turns.stop()

    async def _carry_out(self, turn: Turn, grounds: Grounds, listener: Listener, token: asyncio.Event) -> None:
        runner = self._runner(cancellation=token, listener=listener, grounds=grounds)
        found = next((each for each in enumerate(runner.notebook.cells, start=1) if each[1].id == turn.cell), None)
        if found is None:
            return
        number, cell = found
        allowed = None if turn.allowed else self._allowed
        result = await carrying_out.result(runner, cell, number, again=turn.again, allowed=allowed)
        with self._lock:
            if result.asks:
                self._outcomes.asks[cell.id] = result.asks
            else:
                self._outcomes.ran(result, current=self._is_current(cell))
            self._touch()
