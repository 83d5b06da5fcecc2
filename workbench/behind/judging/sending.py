"""What a sitting's runs would ask of language models and send to other machines, said before they are made.

Owns which variants that is: what is kept from before asks nobody again. Sends nothing itself. Knows no Streamlit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from core.estimating import asks
from core.variant import Variant
from evals.announcing import for_each
from evals.evaluation import Opened, Wanted
from evals.running import run_store, runner
from evals.runs import Run
from evals.splits import Split


@dataclass(frozen=True, slots=True)
class Sends:
    """One sentence for each stage that asks or sends."""

    sentences: tuple[str, ...]


async def announced(ground: Opened, entries: Sequence[Variant | Run], split: Split) -> Sends | None:
    """None where all is done here, or was before. What cannot be told is an error: the run would fail of it too."""
    asking = [each for each in entries if isinstance(each, Variant) and asks(ground.context, each)]
    if not asking:
        return None
    queries = list(split.queries.values())
    said = [
        each.text
        async for variant in _to_be_made(ground, asking, split)
        for each in await for_each(ground.context, queries, variant)
    ]
    return Sends(tuple(said)) if said else None


async def _to_be_made(ground: Opened, variants: Sequence[Variant], split: Split) -> AsyncIterator[Variant]:
    """Those without a whole run. It is asked of the store alone: looking for legs that a run had to do without sends
    a query, and so one counts as not whole.
    """
    options = replace(Wanted().options, again=True)
    ready = await runner.prepared(ground.context, variants, split, query_set=ground.query_set, options=options)
    for each in ready.asked:
        run = await run_store.get(ground.store, each.id)
        if run is None or run.failures or run.without:
            yield each.variant
