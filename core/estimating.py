"""What a variant's language models may take for one query, told before any of them is asked.

To know what a reranking would be sent, everything before it is run. Asks no language model and spends nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.expansion.llm import LanguageModelExpansion
from core.llm import Estimate
from core.rerank import LanguageModelReranker
from core.retriever import RequestContext, search
from core.variant import Variant


@dataclass(frozen=True, slots=True)
class Planned:
    """One stage that will ask a language model. `about` says that what it will be sent may yet differ."""

    stage: str
    model: str
    estimate: Estimate
    about: bool = False

    def __str__(self) -> str:
        found, extent = self.estimate, "about" if self.about else "up to"
        cost = f", {found.cost:.4f} at your prices" if found.cost is not None else ""
        return (
            f"{self.stage} asks {self.model}: {extent} {found.tokens:,} tokens ({found.sent:,} sent, "
            f"{found.answered:,} answered){cost}, more where it has to be asked again."
        )


async def planned(context: RequestContext, query: str, variant: Variant) -> tuple[Planned, ...]:
    """Each stage with a language model, in the order in which they are asked; none where the variant has none."""
    found, resources = [], context.resources
    expand, rerank = variant.expand, variant.rerank
    expands = isinstance(expand, LanguageModelExpansion)
    if isinstance(expand, LanguageModelExpansion):
        endpoint = expand.endpoint(resources)
        found.append(Planned("The expansion", endpoint.model, expand.estimate(resources, query)))
    if isinstance(rerank, LanguageModelReranker):
        endpoint = rerank.endpoint(resources)
        hits = (await search(context, query, _before_reranking(variant, rerank.depth))).hits
        if hits:
            estimate = rerank.estimate(resources, query, hits)
            found.append(Planned("The reranking", endpoint.model, estimate, about=expands))
    return tuple(found)


def _before_reranking(variant: Variant, depth: int) -> Variant:
    """The variant up to there, as deep as before: its candidates are those that will be sent."""
    legs = tuple(leg.model_copy(update={"depth": variant.depth_of(leg)}) for leg in variant.legs)
    expand = None if isinstance(variant.expand, LanguageModelExpansion) else variant.expand
    later: dict[str, object] = {"rerank": None, "late": None, "pack": None, "min_score": 0.0}
    if variant.parents_after_rerank:
        later["parents"] = "none"
    return variant.but(legs=legs, expand=expand, top_k=depth, **later)
