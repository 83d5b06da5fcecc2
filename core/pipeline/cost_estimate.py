"""What a variant asks of language models and sends to other machines for one query, before any of it is done.

To know what a language model would be sent for a reranking, everything before it is run, unless that sends something
away itself. Asks no language model, sends nothing to another machine and spends nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    """One stage that will ask a language model. With `about`, the texts that it will be sent may yet differ."""

    stage: str
    model: str
    estimate: CostEstimate
    about: bool = False

    @property
    def by_tokens(self) -> bool:
        """Whether it spends more or less each time."""
        return True

    def __str__(self) -> str:
        each, extent = self.estimate, "about" if self.about else "up to"
        cost = f", {each.cost:.4f} at your prices" if each.cost is not None else ""
        return (
            f"{self.stage} asks {self.model}: {extent} {each.tokens:,} tokens ({each.sent:,} sent, "
            f"{each.answered:,} answered){cost}, more where it has to be asked again."
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
    calls: list[ModelCall | ExternalCall] = []
    if isinstance(variant.expand, LanguageModelExpansion):
        with suppress(RankbookError):
            endpoint = variant.expand.endpoint(context.resources)
            calls.append(ModelCall("The expansion", endpoint.model, variant.expand.estimate(context.resources, query)))
    embedding = _embedding(context, variant)
    calls += embedding
    sending = _texts_to(variant, context.resources)
    if sending is None:
        return tuple(calls)
    if isinstance(variant.rerank, LanguageModelReranker):
        # With an embedding elsewhere, the search before it sends something away, and cannot be tried out.
        estimate = replace(sending, calls=UNKNOWN) if embedding else await _rating(context, query, variant, sending)
        return (*calls, *([estimate] if estimate else []))
    return (*calls, sending)


async def _rating(
    context: RequestContext, query: str, variant: Variant, sending: ExternalCall
) -> ModelCall | ExternalCall | None:
    """What a language model would be sent for rating the candidates, which everything before it is run for."""
    rerank = variant.rerank
    if not isinstance(rerank, LanguageModelReranker):
        return None
    # As deep as before: its candidates are those that will be sent.
    legs = tuple(leg.model_copy(update={"depth": variant.depth_of(leg)}) for leg in variant.legs)
    about = isinstance(variant.expand, LanguageModelExpansion)
    later: dict[str, object] = {"rerank": None, "late": None, "pack": None, "min_score": 0.0}
    if variant.parents_after_rerank:
        later["parents"] = "none"
    before = variant.but(legs=legs, expand=None if about else variant.expand, top_k=rerank.depth, **later)
    try:
        hits = (await search(context, query, before)).hits
    except Cancelled:
        raise
    except RankbookError:
        return replace(sending, calls=UNTRIED)
    if not hits:
        return None
    return ModelCall("The reranking", sending.model, rerank.estimate(context.resources, query, hits), about)


def asks(context: RequestContext, variant: Variant) -> bool:
    """Whether any of its stages does, without searching."""
    return sends_documents(context, variant) or bool(_embedding(context, variant))


def sends_documents(context: RequestContext, variant: Variant) -> bool:
    """Whether any sends more than the query for its embedding."""
    if isinstance(variant.expand, LanguageModelExpansion) or _texts_to(variant, context.resources):
        return True
    return bool(more(_embedding(context, variant)))


def more(calls: Iterable[ModelCall | ExternalCall]) -> list[ModelCall | ExternalCall]:
    """Those that send more than the query for its embedding, which every search sends."""
    return [each for each in calls if isinstance(each, ModelCall) or each.what != QUERY]


def _embedding(context: RequestContext, variant: Variant) -> list[ExternalCall]:
    """The query's embedding, and that of late chunks, where another machine makes them."""
    late = variant.late if variant.late is not None and variant.late.text_share < 1 else None
    embeds = any(leg.uses_model for leg in variant.legs)
    if late is None and not embeds:
        return []
    try:
        model = variant.model or search_target(context.store, context.view, variant.chunks, variant.model).model
        sent = embedded_at(context, model or (DEFAULT_MODEL if late else ""))
    except RankbookError:
        return []
    calls = [sent] if sent and embeds else []
    if sent and late and late.strategy == "precomputed":
        calls.append(replace(sent, stage=LATE))
    elif sent and late:
        what = f"the query and the chunks of up to {variant.top_k} documents"
        most = f"up to {variant.top_k + 1} calls, more where a document has many chunks or one has to be asked again"
        calls.append(replace(sent, stage=LATE, what=what, calls=most))
    return calls


def embedded_at(context: RequestContext, model: str) -> ExternalCall | None:
    """Where a query is embedded with the model; None where that is this machine."""
    served = endpoint_of(model if context.view.row.attached is not None else stored_as(model))
    if served is None or is_here(served.host):
        return None
    return ExternalCall("The embedding", QUERY, served.host, served.name)


def _texts_to(variant: Variant, resources: Resources) -> ExternalCall | None:
    """Where the reranking sends its candidates' texts. On this machine only a language model counts as sent to."""
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
