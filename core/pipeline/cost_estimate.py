"""What a variant asks of language models and sends to other machines for one query, told before any of it is done.

To know what a language model would be sent for a reranking, everything before it is run, unless that sends something
away itself. Asks no language model, sends nothing to another machine and spends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import httpx

from core.context import RequestContext, Resources
from core.embedding import DEFAULT_MODEL, endpoint_of, stored_as
from core.errors import Cancelled, RankbookError
from core.expansion.llm import LanguageModelExpansion
from core.llm import CostEstimate
from core.pipeline.retriever import search
from core.rerank import LanguageModelReranker
from core.rerank.api import ApiReranker
from core.store.resolve_target import search_target
from core.variant import Variant

QUERY: Final = "the query"  # all that is sent where nothing but its embedding is wanted
LATE: Final = "The late chunking"
ONE_CALL: Final = "1 call, more where it has to be asked again"
UNKNOWN: Final = "how many tokens, nobody can tell before the query was sent for its embedding"
UNTRIED: Final = "how many tokens cannot be told, because the search before it fails"


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One stage that will ask a language model. `about` says that what it will be sent may yet differ."""

    stage: str
    model: str
    estimate: CostEstimate
    about: bool = False

    @property
    def by_tokens(self) -> bool:
        """Whether it spends more or less each time."""
        return True

    def __str__(self) -> str:
        found, extent = self.estimate, "about" if self.about else "up to"
        cost = f", {found.cost:.4f} at your prices" if found.cost is not None else ""
        return (
            f"{self.stage} asks {self.model}: {extent} {found.tokens:,} tokens ({found.sent:,} sent, "
            f"{found.answered:,} answered){cost}, more where it has to be asked again."
        )


@dataclass(frozen=True, slots=True)
class ExternalCall:
    """One stage that will send texts to another machine."""

    stage: str
    what: str
    host: str
    model: str
    calls: str = ONE_CALL
    by_tokens: bool = False

    def __str__(self) -> str:
        return f"{self.stage} sends {self.what} to {self.host}, for the model {self.model}: {self.calls}."


async def estimate_calls(context: RequestContext, query: str, variant: Variant) -> tuple[ModelCall | ExternalCall, ...]:
    """Each stage that asks or sends, in their order; none where all is done on this machine.

    A stage that is not set up sends nothing. Running it says what is missing, after what stages before it sent.
    """
    expansion, embedding = _expansion(context, query, variant), _embedding(context, variant)
    return (*expansion, *embedding, *await _reranking(context, query, variant, away=bool(embedding)))


def asks(context: RequestContext, variant: Variant) -> bool:
    """Whether any of its stages does, told without searching."""
    return sends_documents(context, variant) or bool(_embedding(context, variant))


def sends_documents(context: RequestContext, variant: Variant) -> bool:
    """Whether any sends more than the query for its embedding."""
    if isinstance(variant.expand, LanguageModelExpansion) or _texts_to(variant, context.resources):
        return True
    return bool(more(_embedding(context, variant)))


def more(found: Iterable[ModelCall | ExternalCall]) -> list[ModelCall | ExternalCall]:
    """Those that send more than the query for its embedding, which everybody who searches has made."""
    return [each for each in found if isinstance(each, ModelCall) or each.what != QUERY]


def _expansion(context: RequestContext, query: str, variant: Variant) -> list[ModelCall]:
    expand = variant.expand
    if not isinstance(expand, LanguageModelExpansion):
        return []
    with suppress(RankbookError):
        endpoint = expand.endpoint(context.resources)
        return [ModelCall("The expansion", endpoint.model, expand.estimate(context.resources, query))]
    return []


# -- embeddings --------------------------------------------------------------------------------------------------------


def _embedding(context: RequestContext, variant: Variant) -> list[ExternalCall]:
    with suppress(RankbookError):
        return list(_embedded(context, variant))
    return []


def _embedded(context: RequestContext, variant: Variant) -> Iterator[ExternalCall]:
    """The query's, and those of late chunks, where another machine makes them."""
    late = variant.late if variant.late is not None and variant.late.text_share < 1 else None
    if late is None and not any(leg.uses_model for leg in variant.legs):
        return
    model = (
        variant.model
        or search_target(context.store, context.view, variant.chunks).model
        or (DEFAULT_MODEL if late else "")
    )
    sent = embedded_at(context, model)
    if sent is None:
        return
    if any(leg.uses_model for leg in variant.legs):
        yield sent
    if late is not None and late.strategy == "precomputed":
        yield replace(sent, stage=LATE)
    elif late is not None:
        what = f"the query and the chunks of up to {variant.top_k} documents"
        calls = f"up to {variant.top_k + 1} calls, more where a document has many chunks or one has to be asked again"
        yield replace(sent, stage=LATE, what=what, calls=calls)


def embedded_at(context: RequestContext, model: str) -> ExternalCall | None:
    """Where a query is embedded with the model; None where that is this machine."""
    served = endpoint_of(model if context.view.row.attached is not None else stored_as(model))
    return (
        None
        if served is None or is_here(served.host)
        else ExternalCall("The embedding", QUERY, served.host, served.name)
    )


# -- reranking ---------------------------------------------------------------------------------------------------------


async def _reranking(
    context: RequestContext, query: str, variant: Variant, *, away: bool
) -> tuple[ModelCall | ExternalCall, ...]:
    """`away` says that the search before it sends something to another machine, and cannot be tried out."""
    rerank, sending = variant.rerank, _texts_to(variant, context.resources)
    if sending is None:
        return ()
    if not isinstance(rerank, LanguageModelReranker):
        return (sending,)
    if away:
        return (replace(sending, calls=UNKNOWN),)
    try:
        hits = (await search(context, query, _before_reranking(variant, rerank.depth))).hits
    except Cancelled:
        raise
    except RankbookError:
        return (replace(sending, calls=UNTRIED),)
    about = isinstance(variant.expand, LanguageModelExpansion)
    estimate = rerank.estimate(context.resources, query, hits) if hits else None
    return (ModelCall("The reranking", sending.model, estimate, about),) if estimate else ()


def _texts_to(variant: Variant, resources: Resources) -> ExternalCall | None:
    """Whom the reranking sends the texts of its candidates. On this machine only a language model counts as sent to."""
    rerank = variant.rerank
    if not isinstance(rerank, ApiReranker | LanguageModelReranker):
        return None
    texts = f"the query and up to {rerank.depth} texts"
    with suppress(RankbookError):
        if isinstance(rerank, ApiReranker):
            url, model = rerank.where(resources)
            return None if is_here(host_of(url)) else ExternalCall("The reranking", texts, host_of(url), model)
        endpoint = rerank.endpoint(resources)
        return ExternalCall("The reranking", texts, host_of(endpoint.url), endpoint.model, by_tokens=True)
    return None


def _before_reranking(variant: Variant, depth: int) -> Variant:
    """The variant up to there, as deep as before: its candidates are those that will be sent."""
    legs = tuple(leg.model_copy(update={"depth": variant.depth_of(leg)}) for leg in variant.legs)
    expand = None if isinstance(variant.expand, LanguageModelExpansion) else variant.expand
    later: dict[str, object] = {"rerank": None, "late": None, "pack": None, "min_score": 0.0}
    if variant.parents_after_rerank:
        later["parents"] = "none"
    return variant.but(legs=legs, expand=expand, top_k=depth, **later)


# -- machines ----------------------------------------------------------------------------------------------------------


def host_of(url: str) -> str:
    """Host, and port where one is said; never a password."""
    return httpx.URL(url).netloc.decode()


def is_here(host: str) -> bool:
    """Whether that is this machine, so that nothing leaves it."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
