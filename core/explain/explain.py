"""Why a document is or is not among the hits of a query, with changes of the variant that were really tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.context import RequestContext
from core.errors import Cancelled, DeadlineExceeded, RankbookError
from core.explain.document_path import ExplainedDocument, TracePath, failed_conditions, target_of, trace_path
from core.explain.explanation import Explanation, OptionChange, Remedy
from core.explain.leg_diagnosis import diagnose_legs
from core.explain.variant_changes import CandidateChange, Diagnosis, options
from core.pipeline.cost_estimate import sends_documents
from core.pipeline.postprocess import never_reached
from core.pipeline.retriever import RetrievalResult, search
from core.store.resolve_target import search_target
from core.tasks import run_cancellable
from core.variant import Variant

MOST_RUNS: Final = 120
MOST_CHANGES: Final = 4  # together, where none suffices by itself

Study = Callable[[Variant], Awaitable[Diagnosis]]
Progress = tuple[bool, bool, int, bool]


@dataclass
class TrialRunner:
    """Runs variants for one document, and counts the runs."""

    context: RequestContext
    query: str
    target: ExplainedDocument
    runs: int = 0
    ways: dict[str, TracePath | None] = field(default_factory=dict)

    @property
    def spent(self) -> bool:
        return self.runs >= MOST_RUNS

    def asked(self, variant: Variant) -> Variant:
        """Without what comes after the ranking and cannot change it."""
        update: dict[str, object] = {"pack": None}
        if self.target.kind != "late chunk":
            update["late"] = None
        return variant.model_copy(update=update)

    async def run(self, variant: Variant) -> RetrievalResult:
        self.runs += 1
        return await search(self.context, self.query, self.asked(variant))

    async def way(self, variant: Variant) -> TracePath | None:
        """The document's way; None where the variant cannot be run here."""
        if variant.id not in self.ways:
            self.ways[variant.id] = await self._way(variant)
        return self.ways[variant.id]

    async def _way(self, variant: Variant) -> TracePath | None:
        if self.spent:
            return None
        try:
            return trace_path(await self.run(variant), self.target)
        except (Cancelled, DeadlineExceeded):
            raise
        except RankbookError:
            return None  # a change with which the variant cannot run is no remedy, and needs no word


@dataclass(frozen=True, slots=True)
class Tried:
    """An option at a value. `way` is what came of it."""

    option: CandidateChange
    value: Any
    variant: Variant
    way: TracePath

    @property
    def progress(self) -> Progress:
        return _progress(self.variant, self.way)

    @property
    def change(self) -> OptionChange:
        return OptionChange(self.option.name, self.option.was, self.value)

    def remedy(self, *before: OptionChange) -> Remedy | None:
        end = self.way.end
        return Remedy((*before, self.change), end.rank, end.score, self.variant) if end else None


async def remedies(bench: TrialRunner, known: Diagnosis, study: Study) -> tuple[Remedy, ...]:
    """Single changes, smallest first; where none suffices, one way by several."""
    before: list[OptionChange] = []
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


def _progress(variant: Variant, way: TracePath) -> Progress:
    """Whether it came in; whether a leg brought it up; how many stages it came through; whether its score suffices."""
    brought_up = way.loss is None or way.loss.stage != "recall"
    good_enough = way.waiting is not None and way.waiting.score >= variant.min_score
    return way.end is not None, brought_up, len(way.places), good_enough


async def _tried(bench: TrialRunner, option: CandidateChange, now: Progress) -> Tried | None:
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


async def _run(bench: TrialRunner, option: CandidateChange, value: Any) -> Tried | None:
    variant = option.applied(value)
    way = await bench.way(variant) if variant is not None else None
    return Tried(option, value, variant, way) if variant is not None and way is not None else None


async def _least(bench: TrialRunner, found: Tried, failed: int | None) -> Tried:
    """Between a number that is too small and one that does as well; the one stated was run."""
    while failed is not None and found.value - failed > 1:
        middle = (failed + found.value) // 2
        tried = await _run(bench, found.option, middle)
        if tried is not None and tried.progress >= found.progress:
            found = tried
        else:
            failed = middle
    return found


async def explain(
    context: RequestContext, query: str, variant: Variant, document: str, *, costly: bool = False
) -> Explanation:
    """Why this item or chunk is among the results or not, and what would bring it in.

    Where a stage asks a paid endpoint, remedies are tried only with `costly`: each try asks it again.
    """
    inner = replace(context, cancellation=None, deadline=None)  # the guard around all of it stops every part
    explained = _explained(inner, query, variant, document, costly=costly)
    return await run_cancellable(explained, context.cancellation, context.deadline)


async def _explained(
    context: RequestContext, query: str, variant: Variant, document: str, *, costly: bool
) -> Explanation:
    target = await target_of(context, variant, document)
    bundle = await search(context, query, variant)
    known = await _known(context, variant, bundle, target)
    account = _account(known, bundle)
    if known.way.end:
        return account
    bench = TrialRunner(context, query, target)
    if not costly and sends_documents(context, bench.asked(variant)):
        why = "Remedies were not tried: each try would ask the endpoint that this variant pays for. Allow it to try."
        return replace(account, notes=(*account.notes, why))

    async def study(changed: Variant) -> Diagnosis:
        return await _known(context, changed, await bench.run(changed), target)

    return replace(account, remedies=await remedies(bench, known, study))


async def _known(
    context: RequestContext, variant: Variant, bundle: RetrievalResult, target: ExplainedDocument
) -> Diagnosis:
    verdict = await failed_conditions(context, variant.filter, target)
    everything = search_target(context.store, context.view, variant.chunks, variant.model)
    where = everything if verdict.failed else everything.filtered(variant.filter)
    stands = await diagnose_legs(context, where, bundle, target)
    return Diagnosis(variant, target, trace_path(bundle, target), stands, verdict)


def _account(known: Diagnosis, bundle: RetrievalResult) -> Explanation:
    way, late = known.way, known.target.kind == "late chunk"
    return Explanation(
        document=known.target.id,
        query=bundle.query,
        variant=bundle.variant,
        kind=known.target.kind,
        results=len(bundle.evidence if late else bundle.hits),
        rank=way.end.rank if way.end else None,
        score=way.end.score if way.end else None,
        shown_as=way.shown_as,
        standings=known.standings,
        filtered=known.verdict.failed,
        places=way.places,
        loss=way.loss,
        notes=(*bundle.trace.notes, *never_reached(bundle.variant)),
        title=" ".join(known.target.title.split()),
    )
