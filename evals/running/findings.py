"""What came of one variant, or of one leg, by query, and how two parts of it become one. Asks and keeps nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from evals.rankings import Ranked


@dataclass(slots=True)
class Found:
    """By query, as in a run. `remarks` are what stages passed over, each with its queries.

    `without` are legs that could not be asked, each with its queries and why.
    """

    rankings: dict[str, Ranked] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: dict[str, list[str]] = field(default_factory=dict)
    without: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, more: Found) -> None:
        """Everything of `more`, where both say something of a query in the place of what was there."""
        self.rankings |= more.rankings
        self.failures |= more.failures
        self.milliseconds |= more.milliseconds
        self.notes = tuple(dict.fromkeys((*self.notes, *more.notes)))
        for stage, spent in more.stages.items():
            self.stages.setdefault(stage, {}).update(spent)
        for remark, queries in more.remarks.items():
            self.remarks.setdefault(remark, []).extend(queries)
        for leg, told in more.without.items():
            self.without.setdefault(leg, {}).update(told)
