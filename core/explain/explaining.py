"""`explain`: one document under one query and variant, from the filter to the remedies."""

from __future__ import annotations

from dataclasses import replace

from core.cuts import never_reached
from core.estimating import asks_more
from core.explain.account import Account
from core.explain.changes import Known
from core.explain.conditions import judged
from core.explain.following import followed
from core.explain.standing import standings
from core.explain.target import Target, target_of
from core.explain.trying import Bench, remedies
from core.retriever import RequestContext, RetrievalBundle, guarded, search
from core.store.levels import level
from core.variant import Variant


async def explain(
    context: RequestContext, query: str, variant: Variant, document: str, *, costly: bool = False
) -> Account:
    """Why this item or chunk is among the results or not, and what would bring it in.

    Where a stage asks a paid endpoint, remedies are tried only with `costly`: each try asks it again.
    """
    inner = replace(context, cancellation=None, deadline=None)  # the guard around all of it stops every part
    return await guarded(context, _explained(inner, query, variant, document, costly=costly))


async def _explained(context: RequestContext, query: str, variant: Variant, document: str, *, costly: bool) -> Account:
    target = await target_of(context, variant, document)
    bundle = await search(context, query, variant)
    known = await _known(context, variant, bundle, target)
    account = _account(known, bundle)
    if known.way.end:
        return account
    bench = Bench(context, query, target)
    if not costly and asks_more(context, bench.asked(variant)):
        why = "Remedies were not tried: each try would ask the endpoint that this variant pays for. Allow it to try."
        return replace(account, notes=(*account.notes, why))

    async def study(changed: Variant) -> Known:
        return await _known(context, changed, await bench.run(changed), target)

    return replace(account, remedies=await remedies(bench, known, study))


async def _known(context: RequestContext, variant: Variant, bundle: RetrievalBundle, target: Target) -> Known:
    verdict = await judged(context, variant.filter, target)
    everything = level(context.store, context.view, variant.chunks, variant.model)
    where = everything if verdict.failed else everything.narrowed(variant.filter)
    stands = await standings(context, where, bundle, target)
    return Known(variant, target, followed(bundle, target), stands, verdict)


def _account(known: Known, bundle: RetrievalBundle) -> Account:
    way, late = known.way, known.target.kind == "late chunk"
    return Account(
        document=known.target.id,
        query=bundle.query,
        variant=bundle.variant,
        kind=known.target.kind,
        results=len(bundle.evidence if late else bundle.hits),
        rank=way.end.rank if way.end else None,
        score=way.end.score if way.end else None,
        shown_as=way.shown_as,
        standings=known.standings,
        filtered=known.verdict.failed,
        places=way.places,
        loss=way.loss,
        notes=(*bundle.trace.notes, *never_reached(bundle.variant)),
        title=" ".join(known.target.title.split()),
    )
