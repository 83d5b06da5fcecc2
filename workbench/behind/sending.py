"""What work would ask of language models and send to other machines, said before it is done, and refused to readers.

Owns which variants and queries that is: what is kept from before asks nobody again. Sends nothing itself. Knows no
Streamlit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from core.estimating import EMBEDDING, asks, planned
from core.retriever import RequestContext
from core.store import roles
from core.types import Query
from core.variant import Variant
from evals.announcing import for_each
from evals.evaluation import Opened, Wanted
from evals.running import run_store, runner
from evals.running.leg_rankings import bare, embedded
from evals.running.missing_legs import Returned
from evals.runs import Run
from evals.splits import Split


@dataclass(frozen=True, slots=True)
class Sends:
    """One sentence for each stage that asks or sends."""

    sentences: tuple[str, ...]


async def announced(
    ground: Opened, entries: Sequence[Variant | Run], split: Split, *, allowed: bool = False
) -> Sends | None:
    """What making these runs would send. None where all is done here, or was before, or somebody allowed it."""
    asking = [each for each in entries if isinstance(each, Variant) and asks(ground.context, each)]
    if not asking:
        return None
    queries = list(split.queries.values())
    said = [await _told(ground, queries, each) async for each in _to_be_made(ground, asking, split)]
    return _first(ground, [sentence for told in said for sentence in told], allowed=allowed)


async def announced_legs(
    ground: Opened, variant: Variant, split: Split, metric: str, *, allowed: bool = False
) -> Sends | None:
    """What asking its legs alone would send, for weights: the queries' texts, where a vector leg has not had them."""
    plain, _ = bare(variant)
    if not asks(ground.context, plain) or await embedded(ground, plain, split, Wanted((metric,)).options):
        return None
    return _first(ground, await _told(ground, list(split.queries.values()), plain), allowed=allowed)


async def announced_query(
    ground: Opened, query: str, variants: Sequence[Variant], *, allowed: bool = False
) -> Sends | None:
    """What asking them this query anew would send, but for its embedding, which everybody who searches has made."""
    said: list[str] = []
    for each in variants:
        stages = await planned(ground.context, query, each) if asks(ground.context, each) else ()
        said += [f"{each.name}: {stage}" for stage in stages if stage.stage != EMBEDDING]
    return _first(ground, said, allowed=allowed)


def _first(ground: Opened, sentences: Sequence[str], *, allowed: bool) -> Sends | None:
    if sentences:
        roles.refuse_reader(ground.store, "begin what asks a language model or sends texts away, which may cost money")
    return Sends(tuple(sentences)) if sentences and not allowed else None


async def _told(ground: Opened, queries: Sequence[Query], variant: Variant) -> list[str]:
    return [each.text for each in await for_each(ground.context, queries, variant)]


async def _to_be_made(ground: Opened, variants: Sequence[Variant], split: Split) -> AsyncIterator[Variant]:
    """Those without a run that will do. It is asked of the store and of legs that send nothing."""
    options = replace(Wanted().options, again=True)
    ready = await runner.prepared(ground.context, variants, split, query_set=ground.query_set, options=options)
    for each in ready.asked:
        run = await run_store.get(ground.store, each.id)
        if run is None or run.failures or (run.without and await _returned(ground.context, run, split)):
            yield each.variant


async def _returned(context: RequestContext, run: Run, split: Split) -> bool:
    """Whether a leg is there again that it had to do without; of one that a model embeds for it would take sending."""
    variant = run.variant
    if variant is None or any(
        leg.uses_model for name, leg in zip(variant.leg_names, variant.legs, strict=True) if name in run.without
    ):
        return True
    return await Returned(context, next(query.text for query in split.queries.values())).any_of(run)
