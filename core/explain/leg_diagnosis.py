"""How every leg stands to a document, however deep: its score, asked of the leg over the document alone, then its rank.

A leg's own thresholds and approximations are opened for that. Which options those are is data about the legs there are
(`Opening`); a leg that is not in it is asked as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, select, tuple_

from core.context import RequestContext
from core.errors import MissingCapability
from core.explain.document_path import ExplainedDocument
from core.explain.explanation import LegDiagnosis
from core.legs import Candidates, Leg, PreparedQuery, legs
from core.pipeline.recall import prepare_query
from core.pipeline.retriever import RetrievalResult
from core.store.schema import any_id, lexeme_table
from core.store.search_target import Postings, SearchTarget

DEPTHS: Final = (1_000, 100_000)  # how far down a rank is looked for: near first, then as far as is affordable
LEAST: Final = 1e-6  # a threshold that lets everything through that shares anything at all


@dataclass(frozen=True, slots=True)
class Opening:
    """What of a leg's options keeps units out: a threshold, and shortcuts that may miss; and why else none comes up."""

    threshold: str | None = None
    open_at: float | None = None
    shortcuts: Mapping[str, object] = field(default_factory=dict)  # with the values by which nothing is missed
    nothing: str = "it does not match"


OPENINGS: Final[Mapping[str, Opening]] = {
    "vector": Opening("min_score", None, {"exact": True}, "it has no vector of the model to compare with"),
    "fulltext": Opening("min_rank", None, {"pool": None}, "it does not hold the words of the query that are asked for"),
    "bm25": Opening(nothing="it shares no word with the query"),
    "trigram": Opening("threshold", LEAST, nothing="nothing in it is spelled like the query's keywords"),
    "fuzzy": Opening(nothing="it has no word that is one of the query's, or spelled like one"),
}


def opening(leg: Leg) -> Opening:
    return OPENINGS.get(legs.name_of(type(leg)), Opening())


async def diagnose_legs(
    context: RequestContext, where: SearchTarget, bundle: RetrievalResult, target: ExplainedDocument
) -> tuple[LegDiagnosis, ...]:
    """Every leg of the variant, in its order. `where` is without the filter where that leaves the document out."""
    asked = _Asked(context, where, prepare_query(context.embedder, bundle.expanded), bundle, target)
    named = zip(bundle.variant.leg_names, bundle.variant.legs, strict=True)
    return tuple([await asked.standing(name, leg) for name, leg in named])


@dataclass(frozen=True, slots=True)
class _Asked:
    """One document, asked about leg by leg."""

    context: RequestContext
    level: SearchTarget
    query: PreparedQuery
    bundle: RetrievalResult
    target: ExplainedDocument

    async def standing(self, name: str, leg: Leg) -> LegDiagnosis:
        runs = [stage for stage in self.bundle.trace.stages if stage.name == f"leg {name}"]
        depth = self.bundle.variant.depth_of(leg) * 3 ** (len(runs) - 1)  # a roll-up asked again, deeper
        places = [place for place, (unit, _) in enumerate(runs[-1].ranking, 1) if unit in self.target.units]
        fetched = min(places, default=None)
        try:
            best = await self._ask(_opened(leg), only(self.level, self.target.units), len(self.target.units))
        except MissingCapability as error:
            return LegDiagnosis(name, depth, reason=f"it is not available: {str(error).rstrip('.')}")
        if not best:
            return LegDiagnosis(name, depth, fetched=fetched, reason=opening(leg).nothing)
        unit, score = best[0].id, best[0].score
        rank = await self._rank(leg, score)
        found = LegDiagnosis(name, depth, unit, score, rank, fetched)
        filtered = self.level.filter != self.bundle.variant.filter
        if fetched:
            return found
        missed, reason = _why(leg, found, filtered=filtered)
        return replace(found, missed=missed, reason=reason)

    async def _rank(self, leg: Leg, score: float) -> int | None:
        """Its place among all that score no less, whatever the leg's threshold."""
        asked = _opened(leg, score)
        for depth in DEPTHS:
            found = await self._ask(asked, self.level, depth)
            for place, each in enumerate(found, start=1):
                if each.id in self.target.units:
                    return place
            if len(found) < depth:
                break
        return None

    async def _ask(self, leg: Leg, where: SearchTarget, depth: int) -> Candidates:
        if not depth:
            return Candidates()
        await leg.prepare(where, self.query)
        async with self.context.store.begin(where.namespace, read_only=True) as connection:
            return await leg.recall(connection, where, self.query, depth)


def _opened(leg: Leg, score: float | None = None) -> Leg:
    """The leg without its shortcuts, and with its threshold off, or no higher than a score."""
    known = opening(leg)
    update = dict(known.shortcuts)
    if known.threshold:
        update[known.threshold] = known.open_at
        if score is not None and known.open_at is not None:
            own = getattr(leg, known.threshold)
            update[known.threshold] = min(own, max(score * 0.999, known.open_at))
    return leg.model_copy(update=update)


def _why(leg: Leg, found: LegDiagnosis, *, filtered: bool) -> tuple[str, str]:
    """Why a leg that matches the document did not bring it up, in a word and exactly."""
    known, score = opening(leg), found.score or 0.0
    limit = getattr(leg, known.threshold) if known.threshold else None
    if limit is not None and score < limit:
        return "threshold", f"That is below its {known.threshold} of {limit:g}"
    if found.rank is None:
        return "far", f"It is beyond the first {DEPTHS[-1]:,}, and only {found.depth:,} are taken"
    if found.rank > found.depth:
        return "depth", f"Only the first {found.depth:,} are taken"
    if filtered:
        return "", ""
    taken = [f"{name} = {getattr(leg, name)}" for name, value in known.shortcuts.items() if getattr(leg, name) != value]
    if not taken:
        return "", "It was missed"
    return "shortcut", f"It is within the depth, and a shortcut missed it: {', '.join(taken)}"


def only(level: SearchTarget, ids: tuple[str, ...]) -> SearchTarget:
    """The level with these units alone; what is known of the collection as a whole, such as IDF, stays."""
    wanted = any_id(ids)
    columns = {name: replace(each, where=each.where & (each.id == wanted)) for name, each in level.columns.items()}
    lexicon = (
        replace(level.lexicon, where=level.lexicon.where & _posted(level.lexicon, wanted)) if level.lexicon else None
    )
    return replace(level, columns=columns, lexicon=lexicon)


def _posted(postings: Postings, wanted: Any) -> ColumnElement[bool]:
    units, posting = lexeme_table(postings.chunk_set), postings.postings
    chosen = select(units.c.item_key, units.c.key).where(units.c.id == wanted)
    return tuple_(posting.c.item_key, posting.c.key).in_(chosen)
