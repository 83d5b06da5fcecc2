"""An ingest that is killed with `kill -9` at seeded random moments: opening, chunking, embedding, indexes and all."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import uuid4

from core import bridge
from core.store import collections
from core.store.chunk_and_embed import TEXTS_A_STEP
from core.store.engine import Store
from tests.drills.faults.nursery import Nursery
from tests.drills.faults.outcome import Outcome, account, stands_twice
from tests.effort import TIMES, random_for
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, contents, documents, ids, make

KILLS, DOCUMENTS = 20 * TIMES, 300
CHUNKS = {"small": FIXED, "family": FAMILY}
LOAD = "tests.drills.faults.chores:load"


class Loads:
    """Loads of a collection in processes of their own, and what they embedded altogether."""

    def __init__(self, store: Store, nursery: Nursery, folder: Path) -> None:
        self.store, self.nursery = store, nursery
        self.name = self.model = f"test {uuid4().hex[:12]}"
        self.diary = folder / self.name.replace(" ", "-")
        self.make()

    def make(self) -> None:
        make(self.store, self.name, [HashingEmbedder(name=self.model)], CHUNKS)

    def drop(self) -> None:
        bridge.run(collections.drop(self.store, self.name))

    def finish(self) -> float:
        ended = self.nursery.run(LOAD, self.name, self.model, DOCUMENTS, str(self.diary))
        assert ended.well, ended.said
        return ended.seconds

    def kill_after(self, seconds: float) -> str | None:
        """The step that it was at; None where it had ended."""
        ended = self.nursery.killed_after(seconds, LOAD, self.name, self.model, DOCUMENTS, str(self.diary))
        assert ended.well or ended.killed, ended.said
        step = Path(f"{self.diary}.step")
        return None if ended.well else step.read_text() if step.exists() else "Opening"

    def embedded_again(self) -> int:
        counts = Counter(self.diary.read_text().splitlines())
        return sum(count - 1 for count in counts.values())


def drill(store: Store, folder: Path, kills: int = KILLS) -> Outcome:
    """Killed again and again, and made anew where it got through; in the end equal to one that was left alone."""
    moments = random_for("ingest killed")
    with Nursery() as nursery:
        whole = Loads(store, nursery, folder)
        duration = whole.finish()
        torn, struck, again, doubled = Loads(store, nursery, folder), list[str](), 0, 0
        while len(struck) < kills:
            step = torn.kill_after(moments.uniform(0.1, 1.0) * duration)
            if step is None:  # the machine may have more time for it by now
                duration *= 0.8
                torn.drop()
                torn.make()
                continue
            struck.append(step)
            doubled += stands_twice(store, torn.name)
        torn.finish()
    again = max(0, torn.embedded_again() - kills * TEXTS_A_STEP)
    lost, more = account(store, torn.name, ids(documents(DOCUMENTS)))
    same = contents(store, whole.name) == contents(store, torn.name)
    for each in (whole, torn):
        each.drop()
    said = tuple(f"Killed at: {step}." for step in struck)
    return Outcome("kill -9 of an ingest", kills, lost, doubled + more, same and again == 0, said)
