"""Why a document is or is not among the hits of a query, with changes of the variant that were really tried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from core.context import RequestContext
from core.errors import Cancelled, DeadlineExceeded, RankbookError
from core.explain.document_path import ExplainedDocument, TracePath, failed_conditions, find_document, trace_path
from core.explain.explanation import Explanation, OptionChange, Remedy
from core.explain.leg_diagnosis import diagnose_legs
from core.explain.variant_changes import CandidateChange, Diagnosis, propose_changes
from core.pipeline.cost_estimate import sends_documents
from core.pipeline.postprocess import never_reached
from core.pipeline.retriever import RetrievalResult, search
from core.store.resolve_target import search_target
from core.tasks import run_cancellable
from core.variant import Variant

MOST_RUNS: Final = 120
MOST_CHANGES: Final = 4  # together, where none suffices by itself

Progress = tuple[bool, bool, int, bool]


async def explain(
    context: RequestContext, query: str, variant: Variant, document: str, *, costly: bool = False
) -> Explanation:
    """Why this item or chunk is among the results or not, and what would bring it in.

    Where a stage asks a paid endpoint, remedies are tried only with `costly`: each try asks it again.
    """
    # Cancelling all of it stops every part, so no part has a deadline of its own.
    inner = replace(context, cancellation=None, deadline=None)
    work = _explain(inner, query, variant, document, costly=costly)
    return await run_cancellable(work, context.cancellation, context.deadline)


async def _explain(
    context: RequestContext, query: str, variant: Variant, document_id: str, *, costly: bool
) -> Explanation:
    document = await find_document(context, variant, document_id)
    trials = TrialRunner(context, query, document)

    async def diagnose(variant: Variant, result: RetrievalResult) -> Diagnosis:
        verdict = await failed_conditions(context, variant.filter, document)
        everything = search_target(context.store, context.view, variant.chunks, variant.model)
        target = everything if verdict.failed else everything.filtered(variant.filter)
        legs = await diagnose_legs(context, target, result, document)
        return Diagnosis(variant, document, trace_path(result, document), legs, verdict)

    result = await search(context, query, variant)
    known = await diagnose(variant, result)
    end = known.path.end
    explanation = Explanation(
        document=document.id,
        query=result.query,
        variant=variant,
        kind=document.kind,
        results=len(result.evidence if document.kind == "late chunk" else result.hits),
        rank=end.rank if end else None,
        score=end.score if end else None,
        shown_as=known.path.shown_as,
        standings=known.legs,
        filtered=known.verdict.failed,
        places=known.path.places,
        loss=known.path.loss,
        notes=(*result.trace.notes, *never_reached(variant)),
        title=" ".join(document.title.split()),
    )
    if end:
        return explanation
    if not costly and sends_documents(context, trials.shortened(variant)):
        why = "Remedies were not tried: each try would ask the endpoint that this variant pays for. Allow it to try."
        return replace(explanation, notes=(*explanation.notes, why))

    async def diagnose_anew(changed: Variant) -> Diagnosis:
        return await diagnose(changed, await trials.search(changed))

    return replace(explanation, remedies=await find_remedies(trials, known, diagnose_anew))


@dataclass
class TrialRunner:
    """Runs variants for one document, and counts the runs."""

    context: RequestContext
    query: str
    document: ExplainedDocument
    runs: int = 0
    paths: dict[str, TracePath | None] = field(default_factory=dict)  # by the variant's id

    def shortened(self, variant: Variant) -> Variant:
        """Without what comes after the ranking and cannot change it."""
        update: dict[str, object] = {"pack": None}
        if self.document.kind != "late chunk":
            update["late"] = None
        return variant.model_copy(update=update)

    async def search(self, variant: Variant) -> RetrievalResult:
        self.runs += 1
        return await search(self.context, self.query, self.shortened(variant))

    async def run(self, change: CandidateChange, value: Any) -> Trial | None:
        """The variant so changed; None where it is not valid, cannot run here, or enough was run."""
        variant = change.applied(value)
        if variant is None:
            return None
        if variant.id not in self.paths:
            self.paths[variant.id] = None
            if self.runs < MOST_RUNS:
                try:
                    self.paths[variant.id] = trace_path(await self.search(variant), self.document)
                except (Cancelled, DeadlineExceeded):
                    raise
                except RankbookError:
                    pass  # a change with which the variant cannot run is no remedy
        path = self.paths[variant.id]
        return Trial(change, value, variant, path) if path is not None else None


@dataclass(frozen=True, slots=True)
class Trial:
    """A change with a value, and the way of the document with it."""

    change: CandidateChange
    value: Any
    variant: Variant
    path: TracePath

    @property
    def progress(self) -> Progress:
        return _progress(self.variant, self.path)

    @property
    def option_change(self) -> OptionChange:
        return OptionChange(self.change.name, self.change.was, self.value)


def _progress(variant: Variant, path: TracePath) -> Progress:
    """Whether it is a result; whether a leg has it; how many stages it passed; whether its score suffices."""
    retrieved = path.loss is None or path.loss.stage != "recall"
    good_enough = path.before_loss is not None and path.before_loss.score >= variant.min_score
    return path.end is not None, retrieved, len(path.places), good_enough


async def find_remedies(
    trials: TrialRunner, known: Diagnosis, diagnose: Callable[[Variant], Awaitable[Diagnosis]]
) -> tuple[Remedy, ...]:
    """Single changes, smallest first; where none suffices, one way by several."""
    before: list[OptionChange] = []
    for _ in range(MOST_CHANGES):
        now = _progress(known.variant, known.path)
        tried = [trial for change in propose_changes(known) if (trial := await _best_value(trials, change, now))]
        tried.sort(key=lambda trial: trial.change.size(trial.value))
        remedies = tuple(
            Remedy((*before, trial.option_change), end.rank, end.score, trial.variant)
            for trial in tried
            if (end := trial.path.end)
        )
        further = [trial for trial in tried if trial.change.first_step or trial.progress > now]
        if remedies or not further or trials.runs >= MOST_RUNS:
            return remedies
        best = max(further, key=lambda trial: trial.progress)  # of equals the first, which is the smallest change
        before.append(best.option_change)
        known = await diagnose(best.variant)
    return ()


async def _best_value(trials: TrialRunner, change: CandidateChange, now: Progress) -> Trial | None:
    """The first value that brings the document in, else the one that brings it furthest; of numbers the least."""
    best, too_little, failed = None, change.least, change.least
    for value in change.values:
        trial = await trials.run(change, value)
        if trial is not None and (best is None or trial.progress > best.progress):
            best, too_little = trial, failed
        if best is not None and best.path.end:
            break
        failed = value if change.least is not None else None
    if best is None or best.progress <= now:
        return best
    while too_little is not None and best.value - too_little > 1:
        middle = (too_little + best.value) // 2
        trial = await trials.run(change, middle)
        if trial is not None and trial.progress >= best.progress:
            best = trial
        else:
            too_little = middle
    return best
