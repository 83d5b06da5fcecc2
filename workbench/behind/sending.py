"""What work would ask of language models and send to other machines, said before it is done, and refused to readers.

Owns who is asked and who is refused. Sends nothing itself. Knows no Streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.estimating import asks, asks_more, more, planned
from core.store import roles
from core.variant import Variant
from evals.announcing import before, of_searches, searched
from evals.evaluation import Opened, Wanted
from evals.running.leg_rankings import bare, embedded
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
    variants = [each for each in entries if isinstance(each, Variant)]
    return _first(ground, await before(ground, variants, split, Wanted()), allowed=allowed)


async def announced_legs(ground: Opened, variant: Variant, split: Split, *, allowed: bool = False) -> Sends | None:
    """What asking its legs alone would send, for weights: the queries' texts, where a vector leg has not had them."""
    plain, _ = bare(variant)
    if not asks(ground.context, plain) or await embedded(ground, plain, split):
        return None
    said = await of_searches(ground.context, searched(split), plain)
    return _first(ground, [each.text for each in said], allowed=allowed)


async def announced_query(
    ground: Opened, query: str, variants: Sequence[Variant], *, allowed: bool = False
) -> Sends | None:
    """What asking them this query anew would send, but for its embedding, which everybody who searches has made."""
    asking = [each for each in variants if asks_more(ground.context, each)]
    said = [f"{each.name}: {stage}" for each in asking for stage in more(await planned(ground.context, query, each))]
    return _first(ground, said, allowed=allowed)


def _first(ground: Opened, sentences: Sequence[str], *, allowed: bool) -> Sends | None:
    if sentences:
        roles.refuse_reader(ground.store, "begin what asks a language model or sends texts away, which may cost money")
    return Sends(tuple(sentences)) if sentences and not allowed else None
