"""What variants would ask of language models and send to other machines over many queries, said before it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from core.estimating import asks, planned
from core.retriever import RequestContext
from core.types import Query
from core.variant import Variant


@dataclass(frozen=True, slots=True)
class Announced:
    """One sentence. `by_tokens`: another amount each time, so that having allowed it once allows it once."""

    text: str
    by_tokens: bool


async def for_one(context: RequestContext, query: str, variant: Variant) -> list[Announced]:
    """A sentence for each stage that asks or sends."""
    return [Announced(f"{variant.name}: {each}", each.by_tokens) for each in await planned(context, query, variant)]


async def for_each(context: RequestContext, queries: Sequence[Query], variant: Variant) -> list[Announced]:
    """The same for queries of which the first stands for all."""
    if not queries:
        return []
    many = f"{variant.name}, for each of {len(queries):,} queries, as for the first"
    found = await planned(context, queries[0].text, variant)
    return [Announced(f"{many}: {each}", each.by_tokens) for each in found]


async def before(context: RequestContext, queries: Iterable[Query], variants: Iterable[Variant]) -> list[str]:
    """The sentences of all variants."""
    every = list(queries)
    asking = [each for each in variants if asks(context, each)]
    return [said.text for each in asking for said in await for_each(context, every, each)]
