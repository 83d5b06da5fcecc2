"""Legs that a run had to do without, and whether they are there again.

Owns when such a run is whole enough to be used again: while the same legs are missing, it is all that there is to be
found; as soon as one of them answers, it is not. A leg may come back with nothing changed in the collection: an
extension is installed, a right is granted, a service answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from core import recall
from core.embedding import Vectors
from core.errors import MissingCapability
from core.legs import Leg, PreparedQuery
from core.retriever import RequestContext, RetrievalBundle
from core.store.levels import level
from core.variant import Variant
from evals.running.leg_runs import reason_of
from evals.running.plan import asked_of

if TYPE_CHECKING:
    from evals.runs import Run

SAYS = " is not available: "  # what a search's trace says of such a leg
Without = Mapping[str, Mapping[str, str]]  # by leg and query, why it could not be asked


def lacking(bundle: RetrievalBundle) -> dict[str, str]:
    """The legs that a search went on without, and why."""
    return {
        stage.name.removeprefix("leg "): note.partition(SAYS)[2]
        for stage in bundle.trace.stages
        for note in stage.notes
        if stage.name.startswith("leg ") and SAYS in note
    }


def reasons(without: Without) -> dict[str, str]:
    """Each leg with the first reason that it had, as a run keeps it."""
    return {leg: next(iter(told.values())) for leg, told in without.items() if told}


class Returned:
    """Whether runs' missing legs are there again. Each leg is asked once, whoever had to do without it."""

    def __init__(self, context: RequestContext, query: str) -> None:
        self.context, self.query = context, query
        self._known: dict[str, bool] = {}

    async def any_of(self, run: Run) -> bool:
        """Whether a leg answers that this run had to do without."""
        if run.variant is None:
            return False
        legs = zip(run.variant.leg_names, run.variant.legs, strict=True)
        return any([await self._answers(run.variant, leg) for name, leg in legs if name in run.without])

    async def _answers(self, variant: Variant, leg: Leg) -> bool:
        key = repr((variant.chunks, variant.model, variant.filter, sorted(asked_of(leg).items(), key=str)))
        if key not in self._known:
            self._known[key] = await self._ask(variant, leg)
        return self._known[key]

    async def _ask(self, variant: Variant, leg: Leg) -> bool:
        context = self.context
        at = level(context.store, context.view, variant.chunks, variant.model).narrowed(variant.filter)
        try:
            await recall.recall(context.store, at, PreparedQuery(self.query, self._embed), {"it": leg}, {"it": 1})
        except MissingCapability:
            return False
        except Exception as error:
            reason_of(error)  # it is there, and fails: the run that is made now will say so
        return True

    async def _embed(self, model: str, text: str) -> Vectors:
        made: Vectors = await self.context.embedder(model).embed([text], "query")
        first: Vectors = made[0]
        return first
