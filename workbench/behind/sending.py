"""What work would ask of language models and send to other machines, said before it is done, and refused to readers.

Owns who is asked and who is refused. Sends nothing itself. Knows no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.pipeline.cost_estimate import asks, estimate_calls, more, sends_documents
from core.store import roles
from core.variant import Variant
from evals.evaluation.context import EvalContext, EvalOptions
from evals.evaluation.cost_notice import external_calls, of_searches, searched
from evals.runs.types import Run
from evals.tuning.workflow import embeds_nothing, without_stages
from evals.types import QuerySplit


@dataclass(frozen=True, slots=True)
class ConsentNeeded:
    """One sentence for each stage that asks or sends."""

    sentences: tuple[str, ...]


async def announced(
    ground: EvalContext, entries: Sequence[Variant | Run], split: QuerySplit, *, allowed: bool = False
) -> ConsentNeeded | None:
    """What making these runs would send. None where all is done here, or was before, or somebody allowed it."""
    asking = [each for each in entries if isinstance(each, Variant) and asks(ground.context, each)]
    if not asking:
        return None
    plan = await ground.plan(asking, split, EvalOptions())
    return _first(ground, await external_calls(ground, plan), allowed=allowed)


async def announced_legs(
    ground: EvalContext, variant: Variant, split: QuerySplit, *, allowed: bool = False
) -> ConsentNeeded | None:
    """What asking its legs alone would send, for weights: the queries' texts, where a vector leg has not had them."""
    plain, _ = without_stages(variant)
    if not asks(ground.context, plain) or await embeds_nothing(ground, plain, split):
        return None
    said = await of_searches(ground.context, searched(split), plain)
    return _first(ground, [each.text for each in said], allowed=allowed)


async def announced_query(
    ground: EvalContext, query: str, variants: Sequence[Variant], *, allowed: bool = False
) -> ConsentNeeded | None:
    """What asking them this query anew would send, but for its embedding, which everybody who searches has made."""
    asking = [each for each in variants if sends_documents(ground.context, each)]
    said = [
        f"{each.name}: {stage}" for each in asking for stage in more(await estimate_calls(ground.context, query, each))
    ]
    return _first(ground, said, allowed=allowed)


def _first(ground: EvalContext, sentences: Sequence[str], *, allowed: bool) -> ConsentNeeded | None:
    if sentences:
        roles.refuse_reader(ground.store, "begin what asks a language model or sends texts away, which may cost money")
    return ConsentNeeded(tuple(sentences)) if sentences and not allowed else None
