"""An open notebook: its document, its queue of cells, and what came of each; one session for each notebook."""

from __future__ import annotations

import asyncio
import difflib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from core import bridge
from core.context import Resources
from core.errors import InputError, RankbookError
from core.progress import Listener
from core.store import roles
from core.store.engine import Store
from evals.evaluation.context import EvalContext
from workbench.notebooks import files, output_cache
from workbench.notebooks.cells.base import CellContext
from workbench.notebooks.document import Cell, Notebook
from workbench.notebooks.files import NotebookFolder, NotebookPath
from workbench.notebooks.history import Edit, EditHistory
from workbench.notebooks.output_cache import CELL, Contents, cache_key
from workbench.notebooks.parsing import Meaning, meaning
from workbench.notebooks.run_queue import QueuedCell, RunQueue
from workbench.notebooks.runner import CellResult, Grounds, Runner
from workbench.services.jobs import Job

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


_log = logging.getLogger("rankbook")


async def carry_out(
    runner: Runner, cell: Cell, number: int, *, again: bool, allowed: Collection[str] | None
) -> CellResult:
    """What the runner says, or that something went wrong which should not."""
    try:
        return await runner.cell(cell, number, again=again, allowed=allowed)
    except RankbookError:
        raise  # somebody stopped it: all else of ours the runner has put into the result
    except Exception as error:  # a mistake of ours is one cell's failure, and no reason to leave the others out
        _log.error("unexpected error in a cell", exc_info=error)
        said = f"Something unexpected went wrong: {type(error).__name__}. What exactly stands in the terminal."
        return CellResult(cell, number, problem=said)


T = TypeVar("T")
FRESH_FOR: Final = 15.0  # seconds after which it is looked whether a collection moved on
LOOKING: Final = 0.02  # the share of the time that may go into looking


class NotebookSession:
    """One notebook. All methods may be called from any thread."""

    def __init__(self, store: Store, found: NotebookPath, resources: Resources | None = None) -> None:
        self.store, self.name, self.path, self.shipped = store, found.name, found.path, found.shipped
        self.paper = EditHistory(files.opened(found.path))
        self.stamp = 0  # another number whenever anything that a page shows has changed
        self._lock = self.paper.lock  # one for all of it: a change touches file, queue and outputs
        self._resources = resources
        self._outcomes = Outcomes()
        self._unseen = {cell.id for cell in self.notebook.cells}  # not looked up yet
        key = ("notebook", str(self.path), store.role)
        self.turns = RunQueue(key, f"Notebook {self.name}", self._lock, self._carry_out, self._touch)
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
    def ground(self) -> EvalContext | None:
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

    def copied(self, shelf: NotebookFolder, name: str, notebook: Notebook | None = None) -> str:
        """The name of a new notebook like this one, with its outputs of today."""
        self._for_editors()
        file = shelf.create(name, notebook or self.notebook)
        bridge.run(self._carry(str(file.path.resolve())))
        return file.path.stem

    def adopt(self, other: NotebookSession) -> None:
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
            basis = await cache_key(context, result.spec, contents)
            await output_cache.keep(self.store, key, result.cell.id, basis, result.output, result.milliseconds)

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, cells: Iterable[str], *, again: bool = False, allowed: bool = False) -> None:
        """Put those cells into the queue, in the notebook's order. Whoever is in it already stays where it is."""
        if allowed:
            roles.refuse_reader(self.store, "ask a language model from a notebook, which may cost money")
        wanted = set(cells)
        with self._lock:
            turns = [QueuedCell(cell.id, again, allowed) for cell in self.notebook.cells if cell.id in wanted]
            for turn in self.turns.put(turns):
                said = self._outcomes.asks.pop(turn.cell, ())
                self._allowed.update(said if allowed else ())
            self._touch()

    def stop(self) -> None:
        """End what runs, on the server too, and forget what waits."""
        self.turns.stop()

    async def _carry_out(self, turn: QueuedCell, grounds: Grounds, listener: Listener, token: asyncio.Event) -> None:
        runner = self._runner(cancellation=token, listener=listener, grounds=grounds)
        found = next((each for each in enumerate(runner.notebook.cells, start=1) if each[1].id == turn.cell), None)
        if found is None:
            return
        number, cell = found
        allowed = None if turn.allowed else self._allowed
        result = await carry_out(runner, cell, number, again=turn.again, allowed=allowed)
        with self._lock:
            if result.asks:
                self._outcomes.asks[cell.id] = result.asks
            else:
                self._outcomes.ran(result, current=self._is_current(cell))
            self._touch()


_desks: dict[tuple[str, Path], NotebookSession] = {}
_opening = threading.Lock()


def at(store: Store, found: NotebookPath) -> NotebookSession:
    """The desk of that notebook, opened at the first call."""
    with _opening:
        key = (store.where, found.path.resolve())
        if key not in _desks:
            _desks[key] = NotebookSession(store, found)
        return _desks[key]


def copied(
    desk: NotebookSession, shelf: NotebookFolder, name: str, notebook: Notebook | None = None
) -> NotebookSession:
    """A new notebook of that name, like another one and with its outputs."""
    made = at(desk.store, shelf.find(desk.copied(shelf, name, notebook)))
    made.adopt(desk)
    return made


def forget(desk: NotebookSession) -> None:
    """So that it is opened anew, as it is on disk."""
    with _opening:
        for key in [key for key, each in _desks.items() if each is desk]:
            del _desks[key]
