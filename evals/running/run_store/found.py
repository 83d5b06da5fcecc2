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
from evals.running.run_store.kept import get, names_of_row, subject_of_row, variant_of_row
from evals.runs import Latency, Run, Subject
from evals.store import Pin, StoredRun

SHOWN = 12  # characters of an id that tell runs apart
NOT_IN_TRASH: Final = ~StoredRun.collection.startswith(TRASH_MARK, autoescape=True)  # what lies in the trash is not
SUMMARY = [each.name for each in StoredRun.__table__.columns if each.name != "rankings"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A kept run in a line, without its rankings. `scores` are what `keep_scores` was given.

    `names` are all that it was evaluated under, and when last; `name` is the one that it is listed as.
    """

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
    names: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def other_names(self) -> str:
        """Beside the one that it is listed as."""
        return "; ".join(sorted(name for name in self.names if name != self.name))

    def last_used(self, name: str) -> datetime:
        """Under that name."""
        return self.names.get(name, self.made_at)


async def load(store: Store, reference: str, *, collection: str | None = None, split: str | None = None) -> Run:
    """The one run that an id's beginning, a name or a pin stands for."""
    found = await get(store, (await find(store, reference, collection=collection, split=split)).id)
    if found is None:
        raise StoreError(f"The run {reference!r} was deleted at this moment: `rankbook trash` lists it.")
    return found


async def listed(
    store: Store, *, collection: str | None = None, split: str | None = None, most: int | None = None
) -> list[Summary]:
    """The kept runs, newest first."""
    query = _summaries().limit(most)
    if collection is not None:
        query = query.where(StoredRun.collection == collection)
    if split is not None:
        query = query.where(StoredRun.split == split)
    return await _looked_up(store, query)


async def find(
    store: Store,
    reference: str,
    *,
    collection: str | None = None,
    split: str | None = None,
    query_set: str | None = None,
) -> Summary:
    """By a pin, a whole id, a name or an id's beginning, in this order; refused where several are meant.

    A name means the run that was made or evaluated under it last, as `prune` has it too: what is evaluated again
    after a change leaves the older one there. Over several splits or collections it could be either, and is refused;
    over several query sets the one named here is meant.
    """
    known = await listed(store, collection=collection, split=split)
    found = _matching(known, reference)
    found = [run for run in found if run.subject.query_set == query_set] or found
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(_several(reference, found))
    names = [*(pin for run in known for pin in run.pins), *(name for run in known for name in run.names)]
    elsewhere = _matching(await listed(store), reference) if collection or split else []
    way_out = _elsewhere(reference, elsewhere, collection, split) or "`rankbook runs list` shows all."
    raise UnknownName("run", reference, names, way_out=way_out)


def _matching(runs: Sequence[Summary], reference: str) -> list[Summary]:
    """The newest run of each name, collection, query set and split that the reference fits."""
    for called in (
        lambda run: [run.name] if reference in run.pins else [],
        lambda run: [run.name] if run.id == reference else [],
        lambda run: [reference] if reference in run.names else [],
        lambda run: [run.name] if run.id.startswith(reference.lower()) else [],
        lambda run: [name for name in run.names if name.startswith(reference)],
    ):
        newest: dict[tuple[str, ...], Summary] = {}
        for run in runs if reference else ():
            for name in called(run):
                other = newest.setdefault((*place(run), name), run)
                if run.last_used(name) > other.last_used(name):
                    newest[*place(run), name] = run
        if newest:
            return list({run.id: run for run in newest.values()}.values())
    return []


def place(run: Summary) -> tuple[str, str, str]:
    """Over what it is: of the runs of one name there, the newest is meant."""
    return run.subject.collection, run.subject.query_set, run.subject.split


def _elsewhere(reference: str, found: Sequence[Summary], collection: str | None, split: str | None) -> str:
    """That there is such a run, but not over what was named."""
    if not found:
        return ""
    over = "; ".join(f"{run.subject.split!r} of {run.subject.collection!r}" for run in found[:5])
    named = " of ".join(repr(each) for each in (split, collection) if each is not None)
    return f"{reference!r} is a run over {over}, and not over {named}."


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
    return select(StoredRun).options(columns).where(NOT_IN_TRASH).order_by(StoredRun.created_at.desc(), StoredRun.id)


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
        names_of_row(row),
    )
