"""Remedies: each proposed change is run, and is one only if the document then comes in. The smallest comes first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

from core.errors import Cancelled, DeadlineExceeded, RankbookError
from core.explain.account import Change, Remedy
from core.explain.changes import Known, Option, options
from core.explain.following import Way, followed
from core.explain.target import Target
from core.retriever import RequestContext, RetrievalBundle, search
from core.variant import Variant

MOST_RUNS: Final = 120
MOST_CHANGES: Final = 4  # together, where none suffices by itself

Study = Callable[[Variant], Awaitable[Known]]
Progress = tuple[bool, bool, int, bool]


@dataclass
class Bench:
    """Runs variants for one document, and counts the runs."""

    context: RequestContext
    query: str
    target: Target
    runs: int = 0
    ways: dict[str, Way | None] = field(default_factory=dict)

    @property
    def spent(self) -> bool:
        return self.runs >= MOST_RUNS

    def asked(self, variant: Variant) -> Variant:
        """Without what comes after the ranking and cannot change it."""
        update: dict[str, object] = {"pack": None}
        if self.target.kind != "late chunk":
            update["late"] = None
        return variant.model_copy(update=update)

    async def run(self, variant: Variant) -> RetrievalBundle:
        self.runs += 1
        return await search(self.context, self.query, self.asked(variant))

    async def way(self, variant: Variant) -> Way | None:
        """The document's way; None where the variant cannot be run here."""
        if variant.id not in self.ways:
            self.ways[variant.id] = await self._way(variant)
        return self.ways[variant.id]

    async def _way(self, variant: Variant) -> Way | None:
        if self.spent:
            return None
        try:
            return followed(await self.run(variant), self.target)
        except (Cancelled, DeadlineExceeded):
            raise
        except RankbookError:
            return None  # a change with which the variant cannot run is no remedy, and needs no word


@dataclass(frozen=True, slots=True)
class Tried:
    """An option at a value. `way` is what came of it."""

    option: Option
    value: Any
    variant: Variant
    way: Way

    @property
    def progress(self) -> Progress:
        return _progress(self.variant, self.way)

    @property
    def change(self) -> Change:
        return Change(self.option.name, self.option.was, self.value)

    def remedy(self, *before: Change) -> Remedy | None:
        end = self.way.end
        return Remedy((*before, self.change), end.rank, end.score, self.variant) if end else None


async def remedies(bench: Bench, known: Known, study: Study) -> tuple[Remedy, ...]:
    """Single changes, smallest first; where none suffices, one way by several."""
    before: list[Change] = []
    for _ in range(MOST_CHANGES):
        now = _progress(known.variant, known.way)
        tried = [each for option in options(known) for each in [await _tried(bench, option, now)] if each]
        tried.sort(key=lambda each: each.option.size(each.value))
        found = [remedy for each in tried if (remedy := each.remedy(*before))]
        further = [each for each in tried if each.option.first_step or each.progress > now]
        if found or not further or bench.spent:
            return tuple(found)
        best = max(further, key=lambda each: each.progress)  # of equals the first, which is the smallest change
        before.append(best.change)
        known = await study(best.variant)
    return ()


def _progress(variant: Variant, way: Way) -> Progress:
    """Whether it came in; whether a leg brought it up; how many stages it came through; whether its score suffices."""
    brought_up = way.loss is None or way.loss.stage != "recall"
    good_enough = way.waiting is not None and way.waiting.score >= variant.min_score
    return way.end is not None, brought_up, len(way.places), good_enough


async def _tried(bench: Bench, option: Option, now: Progress) -> Tried | None:
    """The first value that brings the document in, else the one that brings it furthest; the least that does so."""
    best, too_little, failed = None, option.least, option.least
    for value in option.values:
        made = await _run(bench, option, value)
        if made is not None and (best is None or made.progress > best.progress):
            best, too_little = made, failed
        if best is not None and best.way.end:
            break
        failed = value if option.least is not None else None
    if best is None or best.progress <= now:
        return best
    return await _least(bench, best, too_little)


async def _run(bench: Bench, option: Option, value: Any) -> Tried | None:
    variant = option.applied(value)
    way = await bench.way(variant) if variant is not None else None
    return Tried(option, value, variant, way) if variant is not None and way is not None else None


async def _least(bench: Bench, found: Tried, failed: int | None) -> Tried:
    """Between a number that is too small and one that does as well; the one stated was run."""
    while failed is not None and found.value - failed > 1:
        middle = (failed + found.value) // 2
        tried = await _run(bench, found.option, middle)
        if tried is not None and tried.progress >= found.progress:
            found = tried
        else:
            failed = middle
    return found
