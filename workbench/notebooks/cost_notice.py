"""What a cell would ask of language models and send to other machines, known before it runs. Asks and sends nothing."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from core.pipeline.cost_estimate import asks
from evals.evaluation.cost_notice import Announced, of_searches
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext


async def for_cell(context: CellContext, spec: CellSpec) -> tuple[Announced, ...]:
    """A notice for each stage that asks; none where all is done here. Where this fails, the cell must not run."""
    opened, variants = await context.open(spec), await spec.searches(context)
    asking = [each for each in variants if asks(opened.context, each)]
    if not asking:
        return ()
    queries = spec.queries(context, opened)
    return tuple([notice for each in asking for notice in await of_searches(opened.context, queries, each)])


def not_allowed(notices: Sequence[Announced], allowed: Collection[str]) -> tuple[str, ...]:
    """All sentences, if one of them needs a new agreement. One about a fixed cost, as of a query's embedding, does not
    if it was agreed to before."""
    new = [each for each in notices if each.by_tokens or each.text not in allowed]
    return tuple(each.text for each in notices) if new else ()
