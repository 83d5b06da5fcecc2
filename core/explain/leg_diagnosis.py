"""What each leg makes of one document, however deep: its score when asked about the document alone, then its rank.

A leg's own thresholds and shortcuts are opened for that, as its description says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import select, tuple_

from core.context import RequestContext
from core.errors import MissingCapability
from core.explain.document_path import ExplainedDocument
from core.explain.explanation import LegDiagnosis
from core.legs import Candidates, Leg, PreparedQuery
from core.pipeline.recall import prepare_query
from core.pipeline.retriever import RetrievalResult
from core.store.schema import any_id, lexeme_table
from core.store.search_target import SearchTarget

DEPTHS: Final = (1_000, 100_000)  # how far down a rank is looked for: near first, then as far as is affordable


async def diagnose_legs(
    context: RequestContext, target: SearchTarget, result: RetrievalResult, document: ExplainedDocument
) -> tuple[LegDiagnosis, ...]:
    """Every leg of the variant, in its order. `target` is without the filter where that leaves the document out."""
    asker = _LegAsker(context, target, prepare_query(context.embedder, result.expanded), document)
    legs = zip(result.variant.leg_names, result.variant.legs, strict=True)
    return tuple([await _diagnose(asker, result, name, leg) for name, leg in legs])


@dataclass(frozen=True, slots=True)
class _LegAsker:
    """Asks legs about one document, on their own connections."""

    context: RequestContext
    target: SearchTarget
    query: PreparedQuery
    document: ExplainedDocument

    async def recall(self, leg: Leg, target: SearchTarget, depth: int) -> Candidates:
        if not depth:
            return Candidates()
        await leg.prepare(target, self.query)
        async with self.context.store.begin(target.namespace, read_only=True) as connection:
            return await leg.recall(connection, target, self.query, depth)

    async def rank_of(self, leg: Leg) -> int | None:
        """The document's rank, as far down as it is looked for."""
        for depth in DEPTHS:
            candidates = await self.recall(leg, self.target, depth)
            for rank, each in enumerate(candidates, start=1):
                if each.id in self.document.units:
                    return rank
            if len(candidates) < depth:
                break
        return None


async def _diagnose(asker: _LegAsker, result: RetrievalResult, name: str, leg: Leg) -> LegDiagnosis:
    units = asker.document.units
    runs = [stage for stage in result.trace.stages if stage.name == f"leg {name}"]
    depth = result.variant.depth_of(leg) * 3 ** (len(runs) - 1)  # a roll-up asks again, deeper
    fetched = min((rank for rank, (unit, _) in enumerate(runs[-1].ranking, start=1) if unit in units), default=None)
    try:
        best = await asker.recall(_opened(leg), only(asker.target, units), len(units))
    except MissingCapability as error:
        return LegDiagnosis(name, depth, reason=f"it is not available: {str(error).rstrip('.')}")
    if not best:
        return LegDiagnosis(name, depth, fetched=fetched, reason=leg.about.unmatched)
    unit, score = best[0].id, best[0].score
    diagnosis = LegDiagnosis(name, depth, unit, score, await asker.rank_of(_opened(leg, score)), fetched)
    if fetched:
        return diagnosis
    filtered = asker.target.filter != result.variant.filter
    missed, reason = _why_missed(leg, diagnosis, score, filtered=filtered)
    return replace(diagnosis, missed=missed, reason=reason)


def _opened(leg: Leg, score: float | None = None) -> Leg:
    """The leg without its shortcuts, and with its threshold off, or no higher than a score."""
    opening = leg.about.opening
    update = dict(opening.shortcuts)
    if opening.threshold:
        update[opening.threshold] = opening.open_at
        if score is not None and opening.open_at is not None:
            own = getattr(leg, opening.threshold)
            update[opening.threshold] = min(own, max(score * 0.999, opening.open_at))
    return leg.model_copy(update=update)


def _why_missed(leg: Leg, diagnosis: LegDiagnosis, score: float, *, filtered: bool) -> tuple[str, str]:
    """Why a leg that matches the document did not retrieve it, in a word and in a sentence."""
    opening = leg.about.opening
    limit = getattr(leg, opening.threshold) if opening.threshold else None
    if limit is not None and score < limit:
        return "threshold", f"That is below its {opening.threshold} of {limit:g}"
    if diagnosis.rank is None:
        return "far", f"It is beyond the first {DEPTHS[-1]:,}, and only {diagnosis.depth:,} are taken"
    if diagnosis.rank > diagnosis.depth:
        return "depth", f"Only the first {diagnosis.depth:,} are taken"
    if filtered:
        return "", ""
    shortcuts = [f"{name} = {own}" for name, value in opening.shortcuts.items() if (own := getattr(leg, name)) != value]
    if not shortcuts:
        return "", "It was missed"
    return "shortcut", f"It is within the depth, and a shortcut missed it: {', '.join(shortcuts)}"


def only(target: SearchTarget, ids: tuple[str, ...]) -> SearchTarget:
    """These units alone; what is known of the collection as a whole, such as IDF, stays."""
    wanted = any_id(ids)
    columns = {name: replace(each, where=each.where & (each.id == wanted)) for name, each in target.columns.items()}
    lexicon = target.lexicon
    if lexicon is not None:
        units, posting = lexeme_table(lexicon.chunk_set), lexicon.postings
        keys = select(units.c.item_key, units.c.key).where(units.c.id == wanted)
        lexicon = replace(lexicon, where=lexicon.where & tuple_(posting.c.item_key, posting.c.key).in_(keys))
    return replace(target, columns=columns, lexicon=lexicon)
