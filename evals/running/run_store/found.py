"""Runs listed without their rankings, and found by pin, id or name. Owns what a reference means; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import load_only

from core.errors import InputError, StoreError, UnknownName
from core.store.engine import Store
from core.store.names import TRASH_MARK
from core.variant import Variant
from evals.query_sets import DEFAULT
from evals.running.run_store.kept import get, subject_of_row, variant_of_row
from evals.runs import Latency, Run, Subject
from evals.store import Pin, StoredRun

SHOWN = 12  # characters of an id that tell runs apart
NOT_IN_TRASH: Final = ~StoredRun.collection.startswith(TRASH_MARK, autoescape=True)  # what lies in the trash is not
SUMMARY = [each.name for each in StoredRun.__table__.columns if each.name != "rankings"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A kept run in a line, without its rankings. `scores` are what `keep_scores` was given."""

    id: str
    name: str
    subject: Subject
    depth: int
    queries: int
    failed: int
    made_at: datetime
    latency: Latency | None = None
    variant: Variant | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    pins: tuple[str, ...] = ()


async def load(store: Store, reference: str, *, collection: str | None = None, split: str | None = None) -> Run:
    """The one run that an id's beginning, a name or a pin stands for."""
    found = await get(store, (await find(store, reference, collection=collection, split=split)).id)
    if found is None:
        raise StoreError(f"The run {reference!r} was deleted at this moment: `rankbook trash` lists it.")
    return found


async def listed(
    store: Store, *, collection: str | None = None, split: str | None = None, most: int | None = None
) -> list[Summary]:
    """The kept runs, last used first."""
    query = _summaries().limit(most)
    if collection is not None:
        query = query.where(StoredRun.collection == collection)
    if split is not None:
        query = query.where(StoredRun.split == split)
    return await _looked_up(store, query)


async def find(store: Store, reference: str, *, collection: str | None = None, split: str | None = None) -> Summary:
    """By a pin, a whole id, a name or an id's beginning, in this order; refused where several are meant.

    A name means the run that bears it and was made or asked for last, as `prune` has it too: what is evaluated again
    after a change leaves the older one there. Over several splits or collections it could be either, and is refused.
    """
    known = await listed(store, collection=collection, split=split)
    for fits in (
        lambda run: reference in run.pins,
        lambda run: run.id == reference,
        lambda run: run.name == reference,
        lambda run: run.id.startswith(reference.lower()),
        lambda run: run.name.startswith(reference),
    ):
        found = [run for run in known if reference and fits(run)]
        newest = list({_series(run): run for run in reversed(found)}.values())[::-1]
        if len(newest) == 1:
            return newest[0]
        if newest:
            raise InputError(_several(reference, newest))
    names = [*(pin for run in known for pin in run.pins), *(run.name for run in known)]
    raise UnknownName("run", reference, list(dict.fromkeys(names)), way_out="`rankbook runs list` shows all.")


def _series(run: Summary) -> tuple[str, ...]:
    """What runs have in common of which the newest is meant."""
    return run.subject.collection, run.subject.query_set, run.subject.split, run.name


def _several(reference: str, found: Sequence[Summary]) -> str:
    told = "; ".join(
        f"{run.id[:SHOWN]} ({run.name}, {run.subject.collection} {run.subject.split}{_of_set(run)}, "
        f"{run.made_at:%Y-%m-%d %H:%M})"
        for run in found[:5]
    )
    return (
        f"{reference!r} stands for {len(found)} runs: {told}{'; ...' if len(found) > 5 else ''}. "
        "Give more of the id, name the split or the collection where the command has them (--split, --collection), or "
        "pin the one you mean under a name."
    )


def _of_set(run: Summary) -> str:
    return f" of the queries {run.subject.query_set}" if run.subject.query_set not in ("", DEFAULT) else ""


def _summaries() -> Select[StoredRun]:
    columns = load_only(*(getattr(StoredRun, name) for name in SUMMARY), raiseload=True)
    return select(StoredRun).options(columns).where(NOT_IN_TRASH).order_by(StoredRun.used_at.desc(), StoredRun.id)


async def _looked_up(store: Store, query: Select[StoredRun]) -> list[Summary]:
    async with store.begin(read_only=True) as connection:
        session = AsyncSession(connection)
        pins: dict[str, list[str]] = {}
        for pin in await session.scalars(select(Pin).order_by(Pin.name)):
            pins.setdefault(pin.run, []).append(pin.name)
        return [_summary(row, tuple(pins.get(row.id, ()))) for row in await session.scalars(query)]


def _latency(kept: Mapping[str, Any]) -> Latency | None:
    """Rows of before hold estimates too, made under load, and say so."""
    return Latency(kept["p50"], kept["p95"], kept["queries"]) if kept and kept.get("live", True) else None


def _summary(row: StoredRun, pins: tuple[str, ...]) -> Summary:
    return Summary(
        row.id,
        row.name,
        subject_of_row(row),
        row.depth,
        row.queries,
        row.failed,
        row.created_at,
        _latency(row.latency),
        variant_of_row(row),
        row.scores,
        row.environment,
        pins,
    )
