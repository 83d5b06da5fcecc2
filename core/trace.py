"""What happened on the way: every stage's ranking, what it dropped and why, how long it took, what it had to say."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from core.types import Hit


@dataclass(frozen=True, slots=True)
class Dropped:
    """A document that a stage left out, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stage:
    """One step. `ranking` is what it handed on: ids with their scores, best first."""

    name: str
    milliseconds: float
    ranking: tuple[tuple[str, float], ...] = ()
    dropped: tuple[Dropped, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class Record:
    """A stage as it is being written down."""

    ranking: tuple[tuple[str, float], ...] = ()
    dropped: list[Dropped] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def hand_on(self, hits: Sequence[Hit]) -> None:
        self.ranking = tuple((hit.id, hit.score) for hit in hits)

    def drop(self, ids: Iterable[str], reason: str) -> None:
        self.dropped += [Dropped(each, reason) for each in ids]

    def note(self, *sentences: str) -> None:
        self.notes += [sentence for sentence in sentences if sentence not in self.notes]


@dataclass(slots=True)
class Trace:
    """The stages so far, in order."""

    stages: list[Stage] = field(default_factory=list)
    begun: float = field(default_factory=time.perf_counter)
    milliseconds: float = 0.0

    def close(self) -> None:
        """The whole took this long: less than its stages together, where some ran side by side."""
        self.milliseconds = (time.perf_counter() - self.begun) * 1000

    @contextmanager
    def stage(self, name: str) -> Iterator[Record]:
        begun = time.perf_counter()
        record = Record()
        yield record
        spent = (time.perf_counter() - begun) * 1000
        self.stages.append(Stage(name, spent, record.ranking, tuple(record.dropped), tuple(record.notes)))

    def add(
        self, name: str, milliseconds: float, ranking: tuple[tuple[str, float], ...], notes: tuple[str, ...] = ()
    ) -> None:
        """A stage that was timed elsewhere: legs run side by side."""
        self.stages.append(Stage(name, milliseconds, ranking, notes=notes))

    def __getitem__(self, name: str) -> Stage:
        """The stage of that name; where it was done again, deeper, the last time is what counted."""
        for stage in reversed(self.stages):
            if stage.name == name:
                return stage
        raise KeyError(name)

    @property
    def notes(self) -> tuple[str, ...]:
        """Everything a reader of the result should know, once."""
        return tuple(dict.fromkeys(note for stage in self.stages for note in stage.notes))

    @property
    def timing_ms(self) -> dict[str, float]:
        """By stage; one that was done again counts with all its times."""
        spent: dict[str, float] = {}
        for stage in self.stages:
            spent[stage.name] = spent.get(stage.name, 0.0) + stage.milliseconds
        return spent
