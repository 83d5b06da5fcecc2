"""An open notebook: its document, its queue of cells, and the state of each; one session for each notebook."""

from __future__ import annotations

import asyncio
import difflib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from core import bridge
from core.context import Resources
from core.errors import RankbookError
from core.progress import Listener
from core.store import roles
from core.store.engine import Store
from evals.evaluation.context import EvalContext
from workbench.notebooks import files, output_cache
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells.base import CellContext, OpenCollections
from workbench.notebooks.document import Cell, Notebook
from workbench.notebooks.files import NotebookFolder, NotebookPath
from workbench.notebooks.history import Edit, EditHistory
from workbench.notebooks.output_cache import Contents, cache_key
from workbench.notebooks.parsing import ParsedCells, parse_cells
from workbench.notebooks.run_queue import QueuedCell, RunQueue
from workbench.notebooks.runner import Runner
from workbench.services.jobs import Job

T = TypeVar("T")
CHECK_EVERY: Final = 15.0  # seconds between two checks whether collections have changed
CHECKING: Final = 0.02  # the share of the time that may go into these checks

_log = logging.getLogger("rankbook")


class NotebookSession:
    """One notebook. All methods may be called from any thread."""

    def __init__(self, store: Store, notebook: NotebookPath, resources: Resources | None = None) -> None:
        self.store, self.name, self.path, self.shipped = store, notebook.name, notebook.path, notebook.shipped
        self.history = EditHistory(files.read_notebook(notebook.path))
        self.stamp = 0  # another number whenever anything that a page shows has changed
        self._lock = self.history.lock  # one for all of it: a change touches file, queue and states
        self._resources = resources
        self._states: dict[str, CellState] = {}  # by the identity of the cell, which may have changed since
        self._not_looked_up = {cell.id for cell in self.notebook.cells}
        key = ("notebook", str(self.path), store.role)
        self.queue = RunQueue(key, f"Notebook {self.name}", self._lock, self._run, self._touch)
        self._collections: OpenCollections = {}
        self._allowed: set[str] = set()  # the sentences about cost that somebody has agreed to
        self._next_check = time.monotonic() + CHECK_EVERY
        self._parsed: tuple[Notebook, ParsedCells] | None = None

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def notebook(self) -> Notebook:
        return self.history.notebook

    @property
    def job(self) -> Job[None] | None:
        """What runs its cells right now."""
        return self.queue.job

    @property
    def parsed(self) -> ParsedCells:
        notebook, parsed = self.notebook, self._parsed
        if parsed is None or parsed[0] is not notebook:
            self._parsed = parsed = notebook, parse_cells(notebook, self.path)
        return parsed[1]

    @property
    def context(self) -> CellContext:
        """For what a page asks for beside a cell's output."""
        folder, resources = self.path.parent, self._resources
        return CellContext(self.store, self.parsed.shared, folder, resources, collections=self._collections)

    @property
    def collection(self) -> EvalContext | None:
        """The collection that the cells share; None where none is named, or it is not there."""
        try:
            return bridge.run(self.context.open(self.parsed.shared))
        except RankbookError:
            return None  # every cell that needs it says so

    @property
    def model(self) -> str:
        """The model that embedded the shared collection's texts; empty where there is none."""
        opened = self.collection
        return next((each.model for each in opened.view.embedding_sets), "") if opened is not None else ""

    def state(self, cell: Cell) -> CellState:
        """The cell as it is now, with what it shows, what is wrong with it, and its place in the queue."""
        with self._lock:
            numbers = {each.id: number for number, each in enumerate(self.notebook.cells, start=1)}
            now = CellState(cell, numbers.get(cell.id, 0), self.parsed.specs.get(cell.id))
            state = replace(self._states.get(cell.id, now), cell=cell, number=now.number, spec=now.spec)
            if (error := self.parsed.problems.get(cell.id)) is not None:
                line = (error.line or 0) - self.notebook.line_of(cell.id)  # as one sees it in the cell
                problem = f"Line {line} of this cell: {error.message}" if line > 0 else error.message
                state = replace(state, problem=problem)
            return replace(state, queued=self.queue.state(cell.id), stopped=cell.id in self.queue.stopped)

    def states(self) -> list[CellState]:
        """Of every cell, in order."""
        with self._lock:
            return [self.state(cell) for cell in self.notebook.cells]

    @property
    def stale(self) -> list[str]:
        """The cells without an up-to-date output."""
        return [each.cell.id for each in self.states() if each.state in ("never", "stale", "failed", "asks")]

    def _touch(self) -> None:
        self.stamp += 1

    # -- outputs from before -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Look up the outputs that are kept for its cells.

        Waits only where a cell was never looked up. Whether collections have changed is checked in the background.
        """
        if self.history.last is None and self.history.unsaved is None and self.changed_on_disk and self.path.is_file():
            self._changed(self.history.follow)  # nothing was changed here, so nothing is lost by reading it again
        with self._lock:
            due = time.monotonic() > self._next_check
            new, busy = set(self._not_looked_up), self.job is not None
        if new:
            bridge.run(self._look_up(new))
        elif due and not busy:
            self._next_check = time.monotonic() + CHECK_EVERY
            asyncio.run_coroutine_threadsafe(self._check(), bridge.loop())

    async def _check(self) -> None:
        """Look whether collections have changed. The longer this takes, as it does of large ones, the rarer it is."""
        begun, self._collections = time.monotonic(), {}
        try:
            await self._look_up(None)
        except Exception as error:  # nobody waits for it to whom it could be shown
            _log.error("could not check whether the notebook's collections have changed", exc_info=error)
        now = time.monotonic()
        self._next_check = now + max(CHECK_EVERY, (now - begun) / CHECKING)

    async def _look_up(self, only: Collection[str] | None) -> None:
        looked_up = await self._runner().kept(only)
        with self._lock:
            self._not_looked_up -= {each.cell.id for each in looked_up}
            for each in looked_up:
                identity = each.cell.id
                if self._is_current(each.cell) and not self.queue.state(identity) and identity in self.parsed.specs:
                    before = self._states.get(identity, CellState(each.cell, each.number))
                    self._states[identity] = after = before.after_lookup(each)
                    if after != before:
                        self._touch()

    def _is_current(self, cell: Cell) -> bool:
        return any(each.id == cell.id and each.source == cell.source for each in self.notebook.cells)

    def _runner(self, **options: Any) -> Runner:
        options = {"collections": self._collections, "resources": self._resources, **options}
        return Runner(self.store, self.notebook, path=self.path, **options)

    # -- changes -----------------------------------------------------------------------------------------------------

    def change(self, label: str, edit: Edit) -> str:
        """Save a change, and give the part that is to be shown. Undo will call it by that label."""
        self._refuse_reader()
        return self._changed(lambda: self.history.write(label, edit))

    def undo(self, number: int) -> None:
        self._refuse_reader()
        self._changed(lambda: self.history.undo(number))

    def read_again(self) -> None:
        self._refuse_reader()
        self._changed(self.history.read_again)

    def write_over(self, seen: bytes | None) -> None:
        """Save what is here over what another program wrote, if that is still what was seen."""
        self._refuse_reader()
        self._changed(lambda: self.history.write_over(seen))

    def _refuse_reader(self) -> None:
        """Notebooks are files, which the database does not guard."""
        roles.refuse_reader(self.store, "change notebooks")

    def differences(self, on_disk: Notebook) -> str:
        """What is here against what is on disk, line by line."""
        before, after = on_disk.text.splitlines(), (self.history.unsaved or self.notebook).text.splitlines()
        return "\n".join(difflib.unified_diff(before, after, "on disk", "here", lineterm=""))

    @property
    def changed_on_disk(self) -> bool:
        return not self.shipped and self.history.file.changed_on_disk

    def _changed(self, change: Callable[[], T]) -> T:
        """Make the change. It makes outputs stale if the cell's source, or what all cells share, was changed."""
        with self._lock:
            before = self.notebook
            try:
                return change()
            finally:
                self._touch()
                after = self.notebook
                sources = {cell.id: cell.source for cell in before.cells}
                if [cell.source for cell in before.headers] != [cell.source for cell in after.headers]:
                    sources = {}
                changed = {cell.id for cell in after.cells if sources.get(cell.id) != cell.source}
                for identity in changed & self._states.keys():
                    self._states[identity] = self._states[identity].after_change()
                self._not_looked_up = (self._not_looked_up | changed) & {cell.id for cell in after.cells}
                self.queue.stopped -= changed
                self.queue.keep_only({cell.id for cell in after.cells})

    def copy(self, folder: NotebookFolder, name: str, notebook: Notebook | None = None) -> str:
        """The name of a new notebook like this one, with its up-to-date outputs."""
        self._refuse_reader()
        file = folder.create(name, notebook or self.notebook)
        bridge.run(self._keep_outputs(str(file.path.resolve())))
        return file.path.stem

    def adopt(self, other: NotebookSession) -> None:
        """Show what the same cells show there, even if it is stale."""
        shown = {each.cell.source: each for each in other.states() if each.output is not None}
        with self._lock:
            for number, cell in enumerate(self.notebook.cells, start=1):
                if cell.source in shown:
                    before = self._states.get(cell.id, CellState(cell, number))
                    self._states[cell.id] = before.showing(shown[cell.source])
            self._touch()

    async def _keep_outputs(self, notebook: str) -> None:
        """Keep the up-to-date outputs for another notebook too, under its path."""
        context, contents = self.context, Contents()
        for state in self.states():
            if state.spec is None or state.output is None or state.stale or state.problem:
                continue
            key = await cache_key(context, state.spec, contents)
            await output_cache.keep(self.store, notebook, state.cell.id, key, state.output, state.milliseconds)

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, cells: Iterable[str], *, again: bool = False, allowed: bool = False) -> None:
        """Put those cells into the queue, in the notebook's order. One that is in it already keeps its place."""
        if allowed:
            roles.refuse_reader(self.store, "ask a language model from a notebook, which may cost money")
        wanted = set(cells)
        with self._lock:
            queued = [QueuedCell(cell.id, again, allowed) for cell in self.notebook.cells if cell.id in wanted]
            for each in self.queue.put(queued):
                if (state := self._states.get(each.cell)) is not None:
                    self._allowed.update(state.asks if allowed else ())
                    self._states[each.cell] = replace(state, asks=())
            self._touch()

    def stop(self) -> None:
        """End what runs, on the server too, and forget what waits."""
        self.queue.stop()

    async def _run(
        self, queued: QueuedCell, collections: OpenCollections, listener: Listener, token: asyncio.Event
    ) -> None:
        runner = self._runner(cancellation=token, listener=listener, collections=collections)
        found = [each for each in enumerate(runner.notebook.cells, start=1) if each[1].id == queued.cell]
        if not found:
            return
        number, cell = found[0]
        allowed = None if queued.allowed else self._allowed
        try:
            result = await runner.run_cell(cell, number, again=queued.again, allowed=allowed)
        except RankbookError:
            raise  # it was stopped: every other error of the tree is a problem of the result
        except Exception as error:  # a mistake of ours is one cell's failure, and no reason to leave the others out
            _log.error("unexpected error in a cell", exc_info=error)
            problem = f"Something unexpected went wrong: {type(error).__name__}. What exactly stands in the terminal."
            result = CellState(cell, number, problem=problem)
        with self._lock:
            before = self._states.get(cell.id, CellState(cell, number))
            self._states[cell.id] = before.after_run(result, is_current=self._is_current(cell))
            self._touch()


_sessions: dict[tuple[str, Path], NotebookSession] = {}
_opening = threading.Lock()


def session_for(store: Store, notebook: NotebookPath) -> NotebookSession:
    """The session of that notebook, opened at the first call."""
    with _opening:
        key = (store.where, notebook.path.resolve())
        if key not in _sessions:
            _sessions[key] = NotebookSession(store, notebook)
        return _sessions[key]


def copy_session(
    session: NotebookSession, folder: NotebookFolder, name: str, notebook: Notebook | None = None
) -> NotebookSession:
    """A new notebook of that name, like another one and with its outputs."""
    copy = session_for(session.store, folder.find(session.copy(folder, name, notebook)))
    copy.adopt(session)
    return copy


def forget(session: NotebookSession) -> None:
    """So that it is opened anew, as it is on disk."""
    with _opening:
        for key in [key for key, each in _sessions.items() if each is session]:
            del _sessions[key]
