"""What a cell would ask of language models and send to other machines, said before it is. Asks none, spends nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from core.errors import Cancelled, RankbookError
from core.estimating import asks
from core.types import Query
from core.variant import Variant
from evals.announcing import Announced, for_each, for_one
from evals.evaluation import Opened
from workbench.book.cells import CellSpec
from workbench.book.cells.asking import asked
from workbench.book.cells.context import ContextCell
from workbench.book.cells.fusion import FusionCell
from workbench.book.cells.search import SearchCell
from workbench.book.context import CellContext


async def announced(context: CellContext, spec: CellSpec) -> tuple[Announced, ...]:
    """A sentence for each stage of each variant; none where all is done here, or the cell cannot run anyway."""
    try:
        ground, variants = await context.ground(spec), await spec.searches(context)
        asking = [each for each in variants if asks(ground.context, each)]
        return tuple([said for each in asking for said in await _of(context, spec, ground, each)])
    except Cancelled:
        raise
    except RankbookError:
        return ()  # running it says what is wrong, and sends nothing either


def unallowed(found: Sequence[Announced], allowed: Collection[str]) -> tuple[str, ...]:
    """All of it, unless it costs the same each time, as a query's embedding does, and was allowed before."""
    new = [each for each in found if each.by_tokens or each.text not in allowed]
    return tuple(each.text for each in found) if new else ()


def _only_query(spec: CellSpec, ground: Opened) -> str | None:
    """The one query that is asked; None where many are."""
    if not isinstance(spec, SearchCell | ContextCell) or (isinstance(spec, ContextCell) and spec.over):
        return None
    if spec.query is None and spec.query_id is None:
        return None
    return asked(ground, spec.query, spec.query_id).text


def _queries(context: CellContext, spec: CellSpec, ground: Opened) -> Iterator[Query]:
    """All that are asked."""
    if not isinstance(spec, FusionCell) or spec.confirm:
        yield from context.split(spec, ground).queries.values()
    if isinstance(spec, FusionCell):
        yield from spec.looked_split(context, ground).queries.values()


async def _of(context: CellContext, spec: CellSpec, ground: Opened, variant: Variant) -> list[Announced]:
    if (text := _only_query(spec, ground)) is not None:
        return await for_one(ground.context, text, variant)
    return await for_each(ground.context, list(_queries(context, spec, ground)), variant)
