"""What variants would ask of language models and send to other machines over many queries, said before it is.

Owns what of it was done before: a run that is kept asks nobody again. Sends nothing itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, replace

from core.context import RequestContext
from core.pipeline.cost_estimate import asks, estimate_calls
from core.variant import Variant
from evals.evaluation.context import EvalContext, EvalOptions
from evals.runs import run_store
from evals.runs.leg_runs import MissingLegProbe
from evals.runs.runner import RunOptions, plan_runs
from evals.runs.types import Run
from evals.types import QuerySplit


@dataclass(frozen=True, slots=True)
class Announced:
    """One sentence. `by_tokens`: another amount each time, so that having allowed it once allows it once."""

    text: str
    by_tokens: bool


async def of_searches(context: RequestContext, texts: Sequence[str], variant: Variant) -> list[Announced]:
    """A sentence for each stage that asks or sends; of several searches the first stands for all."""
    if not texts:
        return []
    many = f", for each of {len(texts):,} searches, as for the first" if len(texts) > 1 else ""
    found = await estimate_calls(context, texts[0], variant)
    return [Announced(f"{variant.name}{many}: {each}", each.by_tokens) for each in found]


def searched(split: QuerySplit, time_live: int = 0) -> list[str]:
    """The text of each search that a run takes."""
    return [*_texts(split), *_timed(split, time_live)]


async def before(ground: EvalContext, variants: Iterable[Variant], split: QuerySplit, wanted: EvalOptions) -> list[str]:
    """The sentences of all variants, but for those of which a run is kept that will do."""
    asking = [each for each in variants if asks(ground.context, each)]
    deep = [each for each in asking if wanted.beyond(each)]
    made = [
        await of_searches(ground.context, texts, each)
        for some, options in ((asking, wanted.options), (deep, wanted.deep.options))
        if some
        async for each, texts in _to_be_made(ground, some, split, options)
    ]
    return [said.text for each in made for said in each]


async def _to_be_made(
    ground: EvalContext, variants: Sequence[Variant], split: QuerySplit, options: RunOptions
) -> AsyncIterator[tuple[Variant, list[str]]]:
    """Each variant with what it will be searched for, which for a kept run is what it is yet to be timed by.

    It is asked of the store and of legs that send nothing.
    """
    unasked = replace(options, again=True)  # else legs are asked whether they are there again, and may send
    ready = await plan_runs(ground.context, variants, split, query_set=ground.query_set, options=unasked)
    timed = min(options.time_live, len(split.queries))
    for each in ready.asked:
        run = None if options.again else await run_store.get(ground.store, each.id)
        if run is None or run.failures or (run.without and await _returned(ground.context, run, split)):
            yield each.variant, searched(split, options.time_live)
        elif len(run.timed) < timed:
            yield each.variant, _timed(split, options.time_live)


async def _returned(context: RequestContext, run: Run, split: QuerySplit) -> bool:
    """Whether a leg is there again that it had to do without; of one that a model embeds for it would take sending."""
    variant = run.variant
    if variant is None or any(
        leg.uses_model for name, leg in zip(variant.leg_names, variant.legs, strict=True) if name in run.without
    ):
        return True
    return await MissingLegProbe(context, next(iter(_texts(split)))).any_of(run)


def _texts(split: QuerySplit) -> list[str]:
    return [query.text for query in split.queries.values()]


def _timed(split: QuerySplit, count: int) -> list[str]:
    """As many as are searched for times; one more goes before them that nobody times."""
    chosen = _texts(split)[:count]
    return [*chosen[:1], *chosen]
