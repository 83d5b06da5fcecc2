"""A document's way through a search: which one is meant, which filter conditions it fails, where each stage left it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from sqlalchemy import func, select

from core.context import RequestContext
from core.errors import InputError
from core.explain.explanation import Loss, StagePosition
from core.filters import And, Condition, Not, Or, compiled
from core.pipeline.retriever import RetrievalResult
from core.store import passages
from core.store.names import ITEMS
from core.store.passages import WholeItem
from core.store.resolve_target import documents, search_target
from core.store.sanitize import storable
from core.store.schema import ID_MARK, ChunkSet
from core.types import Metadata, Stage
from core.variant import Variant

NEAREST = 5


@dataclass(frozen=True, slots=True)
class ExplainedDocument:
    """A document that somebody misses. `units` are the ids under which the legs may retrieve it."""

    id: str
    kind: Literal["item", "chunk", "parent", "late chunk"]
    item_id: str
    units: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)
    title: str = ""


async def find_document(context: RequestContext, variant: Variant, document: str) -> ExplainedDocument:
    """The document by the id of an item or of a chunk, among those that the variant searches."""
    view, attached = context.view, context.view.row.attached is not None
    chunk_set = None if attached or variant.chunks == ITEMS else view.chunk_set(variant.chunks)

    async def item_of(item_id: str) -> WholeItem | None:
        return (await passages.whole_items(context.store, view, chunk_set, [item_id])).get(item_id)

    def explained(
        item: WholeItem, kind: Literal["item", "chunk", "parent", "late chunk"], *units: str
    ) -> ExplainedDocument:
        return ExplainedDocument(document, kind, item.id, units, item.metadata, item.title)

    if item := await item_of(document):
        if chunk_set is None and not item.chunks:
            return explained(item, "item", item.id)
        return explained(item, "item", *(each.id for each in item.chunks if each.level != "parent"))
    if view.in_parts and storable(document):  # a row of an attached table whose rows are parts of documents
        statement = search_target(context.store, view, ITEMS).described([document])
        async with context.store.begin(view.namespace, read_only=True) as connection:
            row = (await connection.execute(statement)).first()
        if row:
            return ExplainedDocument(document, "chunk", row.item_id, (document,), row.metadata, row.title)
    owner = await item_of(document.rpartition(ID_MARK)[0]) if ID_MARK in document else None
    if owner and variant.late:
        return explained(owner, "late chunk", owner.id)
    chunk = next((each for each in owner.chunks if each.id == document), None) if owner and chunk_set else None
    if owner and chunk:
        if chunk.level == "parent":
            return explained(owner, "parent", *(each.id for each in owner.chunks if each.parent_id == document))
        return explained(owner, "chunk", document)
    raise InputError(await _unknown(context, document, owner, chunk_set))


async def _unknown(context: RequestContext, document: str, owner: WholeItem | None, chunk_set: ChunkSet | None) -> str:
    """Why there is no such document, with the nearest ids: by trigrams where the server has them, else in order."""
    if owner and chunk_set is None:
        return f"Whole items are searched here, so {document!r} is none of the units. Ask for its item: {owner.id!r}."
    if owner:
        near = [each.id for each in owner.chunks][:NEAREST]
        what = f"The item {owner.id!r} has no chunk {document!r} in the chunk set {getattr(chunk_set, 'name', '')!r}."
        return f"{what} It has: {', '.join(near)}." if near else f"{what} It has none there."
    items = search_target(context.store, context.view, ITEMS)
    column = items.columns.get("text") or items.column("lexemes")
    text = document if storable(document) else ""
    closeness = func.similarity(column.id, text).desc() if "text" in items.columns else column.id < text
    statement = select(column.id).where(column.where).order_by(closeness, column.id).limit(NEAREST)
    async with context.store.begin(context.view.namespace, read_only=True) as connection:
        near = list(await connection.scalars(statement))
    missing = f"There is no document {document!r} in {context.view.name!r}"
    return f"{missing}. The nearest ids are: {', '.join(map(repr, near))}." if near else f"{missing}, which is empty."


AnyFilter = And | Or | Not | Condition


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """The conditions of a filter that a document fails, as sentences; and the filter without them."""

    failed: tuple[str, ...] = ()
    rest: AnyFilter | None = None


async def failed_conditions(
    context: RequestContext, conditions: AnyFilter | None, document: ExplainedDocument
) -> FilterVerdict:
    """Test every condition that must hold by itself."""
    if conditions is None:
        return FilterVerdict()
    items = documents(context.store, context.view)
    met: list[AnyFilter] = []
    failed: list[str] = []
    for each in _required(conditions):
        holds = True
        if items.field_of is not None:
            row = items.described([document.item_id]).where(compiled(each, items.field_of))
            async with context.store.begin(context.view.namespace, read_only=True) as connection:
                holds = (await connection.execute(row)).first() is not None
        if holds:
            met.append(each)
        elif not isinstance(each, Condition):
            failed.append(f"{filter_words(each)} does not hold")
        else:
            own = document.metadata.get(each.field)
            has = f"has {own!r}" if own is not None else "has no such field"
            failed.append(f"it must have {filter_words(each)}, and {has}")
    return FilterVerdict(tuple(failed), And(and_=tuple(met)) if len(met) > 1 else next(iter(met), None))


def _required(condition: AnyFilter) -> Sequence[AnyFilter]:
    """The parts that must all hold: of an `and` its parts, of a condition its operators."""
    if isinstance(condition, And):
        return [part for each in condition.and_ for part in _required(each)]
    if isinstance(condition, Condition):
        return [Condition(field=condition.field, **{name: value}) for name, value in condition.operators().items()]
    return [condition]


def filter_words(condition: AnyFilter) -> str:
    """A filter as people would write it."""
    if isinstance(condition, And):
        return "(" + " and ".join(map(filter_words, condition.and_)) + ")"
    if isinstance(condition, Or):
        return "(" + " or ".join(map(filter_words, condition.or_)) + ")"
    if isinstance(condition, Not):
        return f"not {filter_words(condition.not_)}"
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in condition.operators().items()}
    return " and ".join(f"{condition.field} {name} {value!r}" for name, value in values.items())


FOLLOWED = ("roll up", "per-item cap", "parents", "rerank", "cut")


@dataclass(frozen=True, slots=True)
class TracePath:
    """A document's way through the trace. `end` is its place among the results, `shown_as` the unit shown there.

    `before_loss` is its place after the stage before the one that lost it.
    """

    places: tuple[StagePosition, ...] = ()
    loss: Loss | None = None
    before_loss: StagePosition | None = None
    end: StagePosition | None = None
    shown_as: str | None = None


def trace_path(result: RetrievalResult, document: ExplainedDocument) -> TracePath:
    """The way of the document, or of the best of its units that was left at each stage."""
    stages = {stage.name: stage for stage in result.trace.stages}  # of a stage that ran again, the last time
    held = set(document.units)
    legs = [stages[f"leg {name}"] for name in result.variant.leg_names]
    if not any(unit in held for stage in legs for unit, _ in stage.ranking):
        if held:
            return TracePath(loss=Loss("recall", "no leg has it among those it takes", "not recalled"))
        return TracePath(loss=Loss("recall", "it has no unit here that could be searched", "no unit"))
    order: list[str] = []  # the ranking after the stage before
    places: list[StagePosition] = []
    for name in ["fuse", *(name for name in stages if name in FOLLOWED and document.kind != "late chunk")]:
        stage = stages[name]
        ranking = [unit for unit, _ in stage.ranking]
        left = held
        if name == "parents":  # a parent that replaces its child goes by its own id, in the child's place
            dropped = {each.id for each in stage.dropped}
            became = dict(zip([unit for unit in order if unit not in dropped], ranking, strict=False))
            left = {became[unit] for unit in held if unit in became}
        left = left & set(ranking)
        if not left:
            return TracePath(tuple(places), _loss(stage, held, order), places[-1] if places else None)
        held, order = left, ranking
        rank = next(place for place, unit in enumerate(ranking, start=1) if unit in held)
        places.append(StagePosition(name, rank, stage.ranking[rank - 1][1]))
    if document.kind == "late chunk":
        return _among_evidence(result, document, places)
    if document.kind == "parent" and document.id not in held:
        why = f"parents are not searched themselves, and parents = {result.variant.parents!r} shows children"
        return TracePath(tuple(places), Loss("parents", why, "parent"), places[-1])
    return TracePath(tuple(places), end=places[-1], shown_as=next(unit for unit in order if unit in held))


def _loss(stage: Stage, units: set[str], order: Sequence[str]) -> Loss:
    """Why the stage kept none of the units: what it says of the one that stood first."""
    dropped = {each.id: each for each in stage.dropped}
    for unit in [*order, *sorted(units)]:
        if unit in units and unit in dropped:
            return Loss(stage.name, dropped[unit].reason, dropped[unit].code, dropped[unit].limit)
    if stage.name == "fuse":
        return Loss(stage.name, "the fusion keeps only what every leg brought up", "not in every leg")
    return Loss(stage.name, "it was not handed on")


def _among_evidence(result: RetrievalResult, document: ExplainedDocument, places: Sequence[StagePosition]) -> TracePath:
    for rank, chunk in enumerate(result.evidence, start=1):
        if chunk.chunk_id == document.id:
            end = StagePosition("late chunks", rank, chunk.score)
            return TracePath((*places, end), end=end, shown_as=document.id)
    late = result.variant.late
    own = sum(chunk.item_id == document.item_id for chunk in result.evidence)
    if late is not None and own >= late.per_item_cap:
        why, code = f"{own} chunks of its item came out, and per_item_cap is {own}", "late per_item_cap"
    elif late is not None and len(result.evidence) < late.top_k_chunks:
        why, code = "its item has no such chunk now", "no late chunk"
    else:
        why, code = "other chunks score higher", "late top_k_chunks"
    return TracePath(tuple(places), Loss("late chunks", why, code), places[-1])
