"""Which conditions of a filter a document does not meet, and the filter without them. The server decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.explain.target import Target
from core.filters import And, Condition, Not, Or, compiled
from core.retriever import RequestContext
from core.store.levels import Level, documents

AnyFilter = And | Or | Not | Condition


@dataclass(frozen=True, slots=True)
class Verdict:
    """What of a filter a document fails, in words; and what is left of the filter without that."""

    failed: tuple[str, ...] = ()
    rest: AnyFilter | None = None


async def judged(context: RequestContext, given: AnyFilter | None, target: Target) -> Verdict:
    """Every condition that must hold, asked for by itself."""
    if given is None:
        return Verdict()
    items = documents(context.store, context.view)
    met: list[AnyFilter] = []
    failed: list[AnyFilter] = []
    for each in _required(given):
        (met if await _holds(context, items, each, target.item_id) else failed).append(each)
    rest = And(and_=tuple(met)) if len(met) > 1 else next(iter(met), None)
    return Verdict(tuple(_told(each, target) for each in failed), rest)


async def _holds(context: RequestContext, items: Level, condition: AnyFilter, item: str) -> bool:
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


def _told(given: AnyFilter, target: Target) -> str:
    if not isinstance(given, Condition):
        return f"{said(given)} does not hold"
    has = target.metadata.get(given.field)
    return f"it must have {said(given)}, and " + (f"has {has!r}" if has is not None else "has no such field")
