"""What a cell would ask of language models and send to other machines, said before it is. Asks none, spends nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from core.pipeline.cost_estimate import asks
from evals.evaluation.cost_notice import Announced, of_searches
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext


async def announced(context: CellContext, spec: CellSpec) -> tuple[Announced, ...]:
    """A sentence for each stage of each variant; none where all is done here. A cell of which it fails must not run."""
    ground, variants = await context.ground(spec), await spec.searches(context)
    asking = [each for each in variants if asks(ground.context, each)]
    if not asking:
        return ()
    queries = spec.queries(context, ground)
    return tuple([said for each in asking for said in await of_searches(ground.context, queries, each)])


def unallowed(found: Sequence[Announced], allowed: Collection[str]) -> tuple[str, ...]:
    """All of it, unless it costs the same each time, as a query's embedding does, and was allowed before."""
    new = [each for each in found if each.by_tokens or each.text not in allowed]
    return tuple(each.text for each in found) if new else ()
