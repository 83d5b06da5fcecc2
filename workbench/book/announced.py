"""What a cell would ask of language models, said before anything is sent. Asks none, and spends nothing."""

from __future__ import annotations

from collections.abc import Iterator

from core.errors import RankbookError
from core.estimating import planned
from core.expansion.llm import LanguageModelExpansion
from core.rerank import LanguageModelReranker
from core.variant import Variant
from evals.evaluation import Opened
from workbench.book.cells import CellSpec
from workbench.book.cells.asking import asked
from workbench.book.cells.compare import CompareCell
from workbench.book.cells.context import ContextCell
from workbench.book.cells.search import SearchCell
from workbench.book.context import CellContext, Reference


async def announced(context: CellContext, spec: CellSpec) -> tuple[str, ...]:
    """A sentence for each stage of each variant; none where nothing is asked, or the cell cannot run anyway."""
    try:
        ground = await context.ground(spec)
        asking = [each for each in _variants(context, spec, ground) if _asks(each)]
        said: list[str] = []
        for variant in asking:
            said += await _of(context, spec, ground, variant)
        return tuple(said)
    except RankbookError:
        return ()  # running it says what is wrong, and sends nothing either


def _variants(context: CellContext, spec: CellSpec, ground: Opened) -> Iterator[Variant]:
    references: tuple[Reference, ...] = spec.references
    if isinstance(spec, CompareCell):
        references = (spec.one, spec.other)
    for each in references:
        try:
            yield context.variant(each, ground)
        except RankbookError:
            if not isinstance(spec, CompareCell):  # there it may be a kept run, which asks nobody
                raise


def _asks(variant: Variant) -> bool:
    return isinstance(variant.expand, LanguageModelExpansion) or isinstance(variant.rerank, LanguageModelReranker)


def _only_query(spec: CellSpec, ground: Opened) -> str | None:
    """The one query that is asked; None where many are."""
    if not isinstance(spec, SearchCell | ContextCell) or (isinstance(spec, ContextCell) and spec.over):
        return None
    if spec.query is None and spec.query_id is None:
        return None
    return asked(ground, spec.query, spec.query_id).text


async def _of(context: CellContext, spec: CellSpec, ground: Opened, variant: Variant) -> list[str]:
    if (text := _only_query(spec, ground)) is not None:
        return [f"{variant.name}: {each}" for each in await planned(ground.context, text, variant)]
    queries = list(context.split(spec, ground).queries.values())
    if not queries:
        return []
    first = await planned(ground.context, queries[0].text, variant)
    return [f"{variant.name}, for each of {len(queries):,} queries: {each}" for each in first]
