"""Packed contexts of a variant over a split: searched once a query, packed once a budget, scored, with intervals.

Owns which queries take part and what becomes of one that fails: it counts as an empty context, and its reason is kept.
The scores of one context are `evals.context_scores`'s, packing is `core.packing`'s. Nothing is kept in the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np

from core.embedding import DEFAULT_MODEL
from core.errors import InputError, SpecError
from core.packing import ContextPack, Packing, PackTrace, TokenCounter, pack, token_counter
from core.retriever import RequestContext, guarded, search
from core.store.levels import Level, level
from core.store.progress import Listener, Step, nobody
from core.tasks import bounded
from core.variant import Variant
from evals.context_scores import ContextPoint, Places, mean_curve, scored
from evals.running.computed import described
from evals.running.leg_runs import CONNECTIONS, reason_of
from evals.splits import Split
from evals.statistics.mean_intervals import mean_intervals
from evals.statistics.significance import SAMPLES, finite

BUDGETS = (256, 512, 1024, 2048)
MEASURES: Mapping[str, str] = {
    "tokens": "Tokens that the context takes, marks and citations included.",
    "gain": "Grades of the relevant items in the context, each item once, added up.",
    "gain_share": "What that is of all labelled gain.",
    "span_recall": "Characters of the answers that the context holds / characters of the answers.",
    "span_precision": "Characters of the answers that it holds / characters of its passages.",
}
SHARES = ("gain_share", "span_recall", "span_precision")  # of 1 at most
NOTHING = ContextPack("", (), (), PackTrace(), "")


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over queries with its interval; None where there are too few queries for one."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class ContextRow:
    """One budget: estimates by measure, those of spans only where there are answers.

    `over` counts the contexts that take more than the budget, because their first hits stay whatever they take.
    """

    budget: int
    over: int
    estimates: Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class ContextRun:
    """A variant's contexts: each query's points, lowest budget first. `failures` says why a query has empty ones."""

    variant: Variant
    split: str
    budgets: tuple[int, ...]
    curves: Mapping[str, Sequence[ContextPoint]]
    weights: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def curve(self) -> tuple[ContextPoint, ...]:
        """The mean of every measure at each budget."""
        return mean_curve(self.curves, self.weights)

    def rows(self, *, samples: int = SAMPLES, level: float = 0.95, seed: int = 0) -> tuple[ContextRow, ...]:
        """The curve with its intervals."""
        by_measure = {name: self._estimates(name, samples, level, seed) for name in MEASURES}
        return tuple(
            ContextRow(
                budget,
                sum(points[at].tokens > budget for points in self.curves.values()),
                {name: found[at] for name, found in by_measure.items() if found},
            )
            for at, budget in enumerate(self.budgets)
        )

    def _estimates(self, measure: str, samples: int, level: float, seed: int) -> list[Estimate]:
        """One a budget; none where no query has the measure."""
        known = [query for query, points in self.curves.items() if getattr(points[0], measure) is not None]
        if not known:
            return []
        values = np.array([[getattr(point, measure) for point in self.curves[query]] for query in known]).T
        weights = np.array([self.weights.get(query, 1.0) for query in known])
        most = 1.0 if measure in SHARES else None
        low, high = mean_intervals(values, weights, most=most, samples=samples, level=level, seed=seed)
        means = [getattr(point, measure) for point in self.curve]
        return [Estimate(means[at], finite(low[at]), finite(high[at])) for at in range(len(self.budgets))]


async def context_run(
    context: RequestContext,
    variant: Variant,
    split: Split,
    budgets: Sequence[int] = BUDGETS,
    *,
    connections: int = CONNECTIONS,
    progress: Listener = nobody,
) -> ContextRun:
    """Every query's contexts, several queries at once. Stop it by the context's token.

    A query takes part that has a relevant item or an answer; one that has answers alone finds them in relevant items.
    """
    packings = _packings(variant, budgets)
    packer = _Packer(context, variant, _scorable(split), packings)
    split, chosen = packer.split, tuple(each.final_max_tokens for each in packings)
    curves: dict[str, Sequence[ContextPoint]] = {}

    async def one(query: str) -> None:
        curves[query] = await packer.curve(query)
        progress(Step(f"packing {variant.name}", len(curves), len(split.queries), "queries"))

    await bounded(connections, split.queries, one)
    ordered = {query: curves[query] for query in split.queries}
    weights = {query: each.weight for query, each in split.queries.items()}
    failures = dict(sorted(packer.failures.items()))
    return ContextRun(variant, split.name, chosen, ordered, weights, failures)


def _packings(variant: Variant, budgets: Sequence[int]) -> list[Packing]:
    """The variant's own, for each budget, lowest first."""
    usual = variant.pack
    if usual is None:
        raise SpecError(f"{variant.name!r} packs no context. Give it the usual packing: pack = {{}}.")
    if wrong := [budget for budget in budgets if budget < 1]:
        raise SpecError(f"A budget is {wrong[0]} tokens; it must be 1 or more.")
    if not budgets:
        raise SpecError("No budget is named. Say how many tokens a context may take, such as 1024.")
    return [usual.model_copy(update={"final_max_tokens": budget}) for budget in sorted(set(budgets))]


class _Packer:
    """One variant over one split; `curve` is the work for one query."""

    def __init__(self, context: RequestContext, variant: Variant, split: Split, packings: Sequence[Packing]) -> None:
        self.context, self.variant, self.split, self.packings = context, variant, split, packings
        self.failures: dict[str, str] = {}
        self._level: Level = level(context.store, context.view, variant.chunks, variant.model)
        self._asked = variant.but(pack=None)
        self._counter: TokenCounter | None = context.count_tokens

    async def curve(self, query: str) -> tuple[ContextPoint, ...]:
        """A point a budget. The search is made once; each budget is packed for, as cutting one pack is not the same."""
        try:
            packs = await guarded(self.context, self._packs(query))
            places = await self._places(query, packs)
        except Exception as error:
            self.failures[query] = reason_of(error)
            packs, places = [NOTHING] * len(self.packings), {}
        grades, answers = self.split.grades[query], self.split.spans.get(query, ())
        return tuple(
            scored(packed, packing.final_max_tokens, grades, answers, places)
            for packed, packing in zip(packs, self.packings, strict=True)
        )

    async def _packs(self, query: str) -> list[ContextPack]:
        text, context = self.split.queries[query].text, self.context
        excluded = self.split.excluded.get(query, frozenset())
        hits = (await search(context, text, self._asked, excluded=excluded)).hits
        view, counter = context.view, cache(self._count_tokens())  # budgets have texts in common
        chunk_set = None if view.row.attached is not None else view.chunk_set(self.variant.chunks)
        return [await pack(context.store, view, chunk_set, text, hits, packing, counter) for packing in self.packings]

    def _count_tokens(self) -> TokenCounter:
        """Made at the first context: a model that cannot be loaded fails queries as it does in a search."""
        if self._counter is None:
            self._counter = token_counter(self.context.embedder(self._level.model or DEFAULT_MODEL))
        return self._counter

    async def _places(self, query: str, packs: Sequence[ContextPack]) -> Places:
        """Where the passages stand, if there are answers to hold against them; a whole item is all of its text."""
        chunks = {chunk.id: chunk for packed in packs for chunk in packed.chunks}
        if query not in self.split.spans or not chunks:
            return {}
        units = await described(self.context.store, self._level, sorted(chunks))
        return {each: place or (0, len(chunks[each].text)) for each, (_, place) in units.items()}


def _scorable(split: Split) -> Split:
    """The queries with something to find. Where only answers are labelled, the items that hold them are relevant."""
    grades: dict[str, Mapping[str, int]] = {}
    for query in split.queries:
        given = split.grades.get(query, {})
        if not any(grade > 0 for grade in given.values()):
            given = {span.item_id: span.grade for span in sorted(split.spans.get(query, ()), key=lambda x: x.grade)}
        if any(grade > 0 for grade in given.values()):
            grades[query] = given
    if not grades:
        raise InputError(
            f"No query of the split {split.name!r} has a relevant item or an answer, so no context can be scored. "
            "Label some first, or take another split."
        )
    return replace(split.only(set(grades)), grades=grades)
