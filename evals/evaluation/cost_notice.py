"""What runs would ask of language models and send to other machines over many queries, said before it is.

Owns what of it was done before: a run that is kept is not made again. Sends nothing itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.context import RequestContext
from core.pipeline.cost_estimate import asks, estimate_calls
from core.variant import Variant
from evals.evaluation.context import EvalContext
from evals.runs.plan import RunPlan
from evals.runs.queries import MissingLegProbe
from evals.types import QuerySplit


@dataclass(frozen=True, slots=True)
class Announced:
    """One sentence. `by_tokens`: another amount each time, so that having allowed it once allows it once."""

    text: str
    by_tokens: bool


async def of_searches(context: RequestContext, texts: Sequence[str], variant: Variant) -> list[Announced]:
    """A sentence for each stage that asks or sends; of several searches the first is taken for all."""
    if not texts:
        return []
    many = f", for each of {len(texts):,} searches, as for the first" if len(texts) > 1 else ""
    calls = await estimate_calls(context, texts[0], variant)
    return [Announced(f"{variant.name}{many}: {each}", each.by_tokens) for each in calls]


def searched(split: QuerySplit, time_live: int = 0) -> list[str]:
    """The text of each search that a run takes."""
    texts = [query.text for query in split.queries.values()]
    return [*texts, *_timed(texts, time_live)]


async def external_calls(ctx: EvalContext, plan: RunPlan) -> list[str]:
    """The sentences of all variants of the plan, but for those of which a run is kept that will do.

    Asks the store, and legs that send nothing.
    """
    calls = await _of_plan(plan)
    variants, options = [each.variant for each in plan.runs], plan.options
    deep = [each for each in variants if options.needs_deep_run(each) and asks(ctx.context, each)]
    if deep:
        calls += await _of_plan(await ctx.plan(deep, plan.split, options.deep))
    return [each.text for each in calls]


async def _of_plan(plan: RunPlan) -> list[Announced]:
    """A kept run is searched for times alone, where it has too few yet."""
    context, split, options = plan.context, plan.split, plan.options
    probe = MissingLegProbe(context, split)
    calls: list[Announced] = []
    for each in plan.runs:
        if not asks(context, each.variant):
            continue
        texts, run = searched(split, options.time_live), plan.kept.get(each.id)
        if run is not None and run.without:
            legs = zip(each.variant.leg_names, each.variant.legs, strict=True)
            embeds = any(leg.uses_model for name, leg in legs if name in run.without)
            if embeds or await probe.any_is_back(run):  # whether one that embeds is back, only sending would tell
                run = None
        if run is not None:
            enough = len(run.timed) >= min(options.time_live, len(split.queries))
            texts = [] if enough else _timed([query.text for query in split.queries.values()], options.time_live)
        calls += await of_searches(context, texts, each.variant)
    return calls


def _timed(texts: Sequence[str], count: int) -> list[str]:
    """As many as are timed, after one that is not."""
    return [*texts[:count][:1], *texts[:count]]
