"""What work would ask of language models and send to other machines, said before it is done.

Owns what is announced, who is refused, and work that waits for consent. Sends nothing itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

from core.pipeline.cost_estimate import asks, estimate_calls, more, sends_documents
from core.progress import Listener
from core.store import roles
from core.store.collections import CollectionView
from core.variant import Variant
from evals.evaluation.context import EvalContext, EvalOptions
from evals.evaluation.cost_notice import before, of_searches, searched
from evals.runs.types import Run
from evals.tuning.workflow import bare, embedded
from evals.types import QuerySplit
from workbench.services import jobs
from workbench.services.jobs import Job, Key


@dataclass(frozen=True, slots=True)
class ConsentNeeded:
    """One sentence for each stage that asks or sends."""

    sentences: tuple[str, ...]


async def for_runs(
    ground: EvalContext, entries: Sequence[Variant | Run], split: QuerySplit, *, allowed: bool = False
) -> ConsentNeeded | None:
    """What making these runs would send. None where all is done here, or was before, or somebody allowed it."""
    variants = [each for each in entries if isinstance(each, Variant)]
    return _first(ground, await before(ground, variants, split, EvalOptions()), allowed=allowed)


async def for_legs(
    ground: EvalContext, variant: Variant, split: QuerySplit, *, allowed: bool = False
) -> ConsentNeeded | None:
    """What asking its legs alone would send, for weights: the queries' texts, where a vector leg has not had them."""
    plain, _ = bare(variant)
    if not asks(ground.context, plain) or await embedded(ground, plain, split):
        return None
    said = await of_searches(ground.context, searched(split), plain)
    return _first(ground, [each.text for each in said], allowed=allowed)


async def for_query(
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


def for_embedding(model: str, what: str) -> str:
    """The sentence for a model that an endpoint serves, empty for one that runs here. `what` is what is sent."""
    from core.embedding import endpoint_of
    from core.pipeline.cost_estimate import is_here

    endpoint = endpoint_of(model)
    if endpoint is None or is_here(endpoint.host):
        return ""
    return (
        f"{what} to `{endpoint.host}`, which may cost money: its prices are not known here. What is cached already is "
        "not sent again."
    )


def texts_of(view: CollectionView, over: Iterable[str]) -> str:
    """How much the sets are that are to be embedded."""
    sets = [each for each in view.chunk_sets if each.name in set(over)]
    texts, words = sum(each.units for each in sets), sum(each.length for each in sets)
    return f"{texts:,} texts of {words:,} words in all, stop words not counted, go"


T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class WorkWithConsent(Protocol[T_co]):
    """Work for a job that sends nothing unless it is allowed."""

    def __call__(
        self, listener: Listener, token: asyncio.Event, /, *, allowed: bool
    ) -> Coroutine[Any, Any, T_co | ConsentNeeded]: ...


def start_with_consent(
    key: Key, title: str, work: WorkWithConsent[T], *, allowed: bool = False
) -> Job[T | ConsentNeeded]:
    """The job of that key, begun at the first call."""
    return jobs.find(key) or jobs.start(key, title, partial(work, allowed=allowed))
