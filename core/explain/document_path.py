"""A document's way through a search: which one is meant, which filter conditions it fails, where each stage left it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import Row, func, select

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
from core.store.search_target import SearchTarget
from core.types import Metadata, Stage
from core.variant import Variant

NEAREST = 5


@dataclass(frozen=True, slots=True)
class ExplainedDocument:
    """A document that somebody misses. `units` are the ids by which the legs may bring it up."""

    id: str
    kind: Literal["item", "chunk", "parent", "late chunk"]
    item_id: str
    units: tuple[str, ...]
    metadata: Metadata = field(default_factory=dict)
    title: str = ""


async def target_of(context: RequestContext, variant: Variant, document: str) -> ExplainedDocument:
    """The document by the id of an item or of a chunk, at the level that the variant searches."""
    chunk_set = _chunk_set(context, variant)
    if item := await _item(context, chunk_set, document):
        return ExplainedDocument(document, "item", item.id, _units(item, chunk_set), item.metadata, item.title)
    if context.view.in_parts and (row := await _row(context, document)):
        return ExplainedDocument(document, "chunk", row.item_id, (document,), row.metadata, row.title)
    owner = await _item(context, chunk_set, document.rpartition(ID_MARK)[0]) if ID_MARK in document else None
    if owner and variant.late:
        return ExplainedDocument(document, "late chunk", owner.id, (owner.id,), owner.metadata, owner.title)
    if owner and chunk_set and any(each.id == document for each in owner.chunks):
        return _chunk(document, owner)
    raise InputError(await _unknown(context, document, owner, chunk_set))


def _chunk_set(context: RequestContext, variant: Variant) -> ChunkSet | None:
    """None where items are searched."""
    if context.view.row.attached is not None or variant.chunks == ITEMS:
        return None
    return context.view.chunk_set(variant.chunks)


async def _item(context: RequestContext, chunk_set: ChunkSet | None, document: str) -> WholeItem | None:
    return (await passages.whole_items(context.store, context.view, chunk_set, [document])).get(document)


async def _row(context: RequestContext, document: str) -> Row[Any] | None:
    """A row of an attached table whose rows are parts of documents."""
    if not storable(document):
        return None
    rows = search_target(context.store, context.view, ITEMS).described([document])
    async with context.store.begin(context.view.namespace, read_only=True) as connection:
        found: Row[Any] | None = (await connection.execute(rows)).first()
        return found


def _units(item: WholeItem, chunk_set: ChunkSet | None) -> tuple[str, ...]:
    if chunk_set is None and not item.chunks:
        return (item.id,)
    return tuple(each.id for each in item.chunks if each.level != "parent")


def _chunk(document: str, owner: WholeItem) -> ExplainedDocument:
    children = tuple(each.id for each in owner.chunks if each.parent_id == document)
    is_parent = any(each.id == document and each.level == "parent" for each in owner.chunks)
    if is_parent:
        return ExplainedDocument(document, "parent", owner.id, children, owner.metadata, owner.title)
    return ExplainedDocument(document, "chunk", owner.id, (document,), owner.metadata, owner.title)


async def _unknown(context: RequestContext, document: str, owner: WholeItem | None, chunk_set: ChunkSet | None) -> str:
    where = f"{context.view.name!r}"
    if owner and chunk_set is None:
        return f"Whole items are searched here, so {document!r} is none of the units. Ask for its item: {owner.id!r}."
    if owner:
        near = [each.id for each in owner.chunks][:NEAREST]
        what = f"The item {owner.id!r} has no chunk {document!r} in the chunk set {getattr(chunk_set, 'name', '')!r}."
        return f"{what} It has: {', '.join(near)}." if near else f"{what} It has none there."
    near = list(await _near(context, document))
    if not near:
        return f"There is no document {document!r} in {where}, which is empty."
    return f"There is no document {document!r} in {where}. The nearest ids are: {', '.join(map(repr, near))}."


async def _near(context: RequestContext, document: str) -> Sequence[str]:
    """The ids most like it: by trigrams where the server has them, else the next in order."""
    store, items = context.store, search_target(context.store, context.view, ITEMS)
    column = items.columns.get("text") or items.column("lexemes")
    asked = document if storable(document) else ""
    closeness = func.similarity(column.id, asked).desc() if "text" in items.columns else column.id < asked
    ids = select(column.id).where(column.where).order_by(closeness, column.id).limit(NEAREST)
    async with store.begin(context.view.namespace, read_only=True) as connection:
        return list(await connection.scalars(ids))


AnyFilter = And | Or | Not | Condition


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """What of a filter a document fails, in words; and what is left of the filter without that."""

    failed: tuple[str, ...] = ()
    rest: AnyFilter | None = None


async def failed_conditions(
    context: RequestContext, given: AnyFilter | None, target: ExplainedDocument
) -> FilterVerdict:
    """Every condition that must hold, asked for by itself."""
    if given is None:
        return FilterVerdict()
    items = documents(context.store, context.view)
    met: list[AnyFilter] = []
    failed: list[AnyFilter] = []
    for each in _required(given):
        (met if await _holds(context, items, each, target.item_id) else failed).append(each)
    rest = And(and_=tuple(met)) if len(met) > 1 else next(iter(met), None)
    return FilterVerdict(tuple(_told(each, target) for each in failed), rest)


async def _holds(context: RequestContext, items: SearchTarget, condition: AnyFilter, item: str) -> bool:
    if items.field_of is None:
        return True
    row = items.described([item]).where(compiled(condition, items.field_of))
    async with context.store.begin(context.view.namespace, read_only=True) as connection:
        return (await connection.execute(row)).first() is not None


def _required(given: AnyFilter) -> Sequence[AnyFilter]:
    """The parts that must all hold: of an `and` its parts, of a condition its operators."""
    if isinstance(given, And):
        return [part for each in given.and_ for part in _required(each)]
    if isinstance(given, Condition):
        return [Condition(field=given.field, **{name: value}) for name, value in given.operators().items()]
    return [given]


def said(given: AnyFilter) -> str:
    """A filter as somebody would say it."""
    if isinstance(given, And):
        return "(" + " and ".join(map(said, given.and_)) + ")"
    if isinstance(given, Or):
        return "(" + " or ".join(map(said, given.or_)) + ")"
    if isinstance(given, Not):
        return f"not {said(given.not_)}"
    return " and ".join(f"{given.field} {name} {_value(value)}" for name, value in given.operators().items())


def _value(value: object) -> str:
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def _told(given: AnyFilter, target: ExplainedDocument) -> str:
    if not isinstance(given, Condition):
        return f"{said(given)} does not hold"
    has = target.metadata.get(given.field)
    return f"it must have {said(given)}, and " + (f"has {has!r}" if has is not None else "has no such field")


FOLLOWED = ("roll up", "per-item cap", "parents", "rerank", "cut")


@dataclass(frozen=True, slots=True)
class TracePath:
    """`waiting` is where it stood before the stage that lost it. `end` is its place among the results."""

    places: tuple[StagePosition, ...] = ()
    loss: Loss | None = None
    waiting: StagePosition | None = None
    end: StagePosition | None = None
    shown_as: str | None = None


def trace_path(bundle: RetrievalResult, target: ExplainedDocument) -> TracePath:
    """The way of the document, or of the best of its units that was left at each stage."""
    stages = {stage.name: stage for stage in bundle.trace.stages}  # of a stage that was done again, the last
    brought_up = any(
        unit in target.units for name in bundle.variant.leg_names for unit, _ in stages[f"leg {name}"].ranking
    )
    if not brought_up:
        why = "no leg has it among those it takes" if target.units else "it has no unit here that could be searched"
        return TracePath(loss=Loss("recall", why))
    walk = _Walk(set(target.units))
    names = ["fuse", *(name for name in stages if name in FOLLOWED and target.kind != "late chunk")]
    for name in names:
        if not walk.on(stages[name]):
            return TracePath(tuple(walk.places), walk.loss, walk.places[-1] if walk.places else None)
    if target.kind == "late chunk":
        return _among_evidence(bundle, target, walk)
    if target.kind == "parent" and target.id not in walk.held:
        why = f"parents are not searched themselves, and parents = {bundle.variant.parents!r} shows children"
        return TracePath(tuple(walk.places), Loss("parents", why), walk.places[-1])
    return TracePath(tuple(walk.places), end=walk.places[-1], shown_as=walk.best)


class _Walk:
    """What is left of the document's units, stage by stage."""

    def __init__(self, units: set[str]) -> None:
        self.held = units
        self.order: list[str] = []
        self.places: list[StagePosition] = []
        self.loss: Loss | None = None

    @property
    def best(self) -> str:
        return next(unit for unit in self.order if unit in self.held)

    def on(self, stage: Stage) -> bool:
        """Whether the document is still there after it."""
        order = [unit for unit, _ in stage.ranking]
        held = self._renamed(stage, order) & set(order)
        if not held:
            self.loss = Loss(stage.name, self._reason(stage))
            return False
        self.held, self.order = held, order
        rank = next(place for place, unit in enumerate(order, 1) if unit in held)
        self.places.append(StagePosition(stage.name, rank, stage.ranking[rank - 1][1]))
        return True

    def _renamed(self, stage: Stage, order: list[str]) -> set[str]:
        """A parent that stands in a child's place goes by its own id: the stage keeps the order of those it keeps."""
        if stage.name != "parents":
            return self.held
        gone = {each.id for each in stage.dropped}
        kept = [unit for unit in self.order if unit not in gone]
        became = dict(zip(kept, order, strict=False))
        return {became[unit] for unit in self.held if unit in became}

    def _reason(self, stage: Stage) -> str:
        said = {each.id: each.reason for each in stage.dropped}
        for unit in [*self.order, *sorted(self.held)]:
            if unit in self.held and unit in said:
                return said[unit]
        return "the fusion keeps only what every leg brought up" if stage.name == "fuse" else "it was not handed on"


def _among_evidence(bundle: RetrievalResult, target: ExplainedDocument, walk: _Walk) -> TracePath:
    for rank, chunk in enumerate(bundle.evidence, start=1):
        if chunk.chunk_id == target.id:
            place = StagePosition("late chunks", rank, chunk.score)
            return TracePath((*walk.places, place), end=place, shown_as=target.id)
    late = bundle.variant.late
    own = sum(chunk.item_id == target.item_id for chunk in bundle.evidence)
    full = late is not None and own >= late.per_item_cap
    why = f"{own} chunks of its item came out, and per_item_cap is {own}" if full else "other chunks score higher"
    if late is not None and not full and len(bundle.evidence) < late.top_k_chunks:
        why = "its item has no such chunk now"
    return TracePath(tuple(walk.places), Loss("late chunks", why), walk.places[-1])
