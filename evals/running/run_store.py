"""Runs in the store: kept whole, listed without their rankings, found by id or name, pinned, pruned.

Owns what a run's identity is. A run that is kept again under its id takes the place of the one there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import load_only

from core.errors import InputError, StoreError, UnknownName
from core.store.engine import Store
from core.store.schema import Collection
from core.variant import Variant
from evals.running.packed import fingerprint, packed, unpacked
from evals.runs import Latency, Run, Subject
from evals.store import Pin, RankingBatch, StoredRun

SHOWN = 12  # characters of an id that tell runs apart
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


def run_id(subject: Subject, variant: Variant, depth: int, state: str = "") -> str:
    """Of what a run is of: what was searched (`state` says it most closely), asked, and how deep; no name's matter."""
    return _digest([*_plain(subject), state, variant.id, depth])


def _foreign_id(run: Run) -> str:
    return _digest([*_plain(run.subject), run.name, run.depth, fingerprint(run.rankings).hex()])


def _plain(subject: Subject) -> list[object]:
    of = subject
    return [of.collection, of.version, of.content, of.query_set, of.digest.hex(), of.split]


def _digest(content: object) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


# -- keeping and reading -----------------------------------------------------------------------------------------------


async def save(store: Store, run: Run) -> Run:
    """The run as it is kept: with its id, which a foreign one gets here, and the time.

    One that was read from here, and was timed since, has the rankings that it had: its scores stand.
    """
    identity = run.id or (run_id(run.subject, run.variant, run.depth) if run.variant else _foreign_id(run))
    row = {
        "id": identity,
        "name": run.name,
        "collection": run.subject.collection,
        "collection_version": run.subject.version,
        "content": run.subject.content,
        "query_set": run.subject.query_set,
        "query_set_digest": run.subject.digest,
        "split": run.subject.split,
        "depth": run.depth,
        "variant": run.variant.to_data() if run.variant else None,
        "environment": dict(run.environment),
        "scores": {},
        "queries": len(run.rankings),
        "failed": len(run.failures),
        "latency": asdict(run.latency) if run.latency else {},
        "rankings": _content(run),
    }
    statement = insert(StoredRun).values(row)
    stands = {"id", "scores"} if run.made_at is not None else {"id"}
    now = {"created_at": func.now(), "used_at": func.clock_timestamp()}
    changed = {name: statement.excluded[name] for name in row if name not in stands} | now
    kept = statement.on_conflict_do_update(index_elements=["id"], set_=changed).returning(StoredRun.created_at)
    async with store.begin() as connection:
        return replace(run, id=identity, made_at=await connection.scalar(kept))


def _content(run: Run) -> bytes:
    stages = {stage: dict(spent) for stage, spent in run.stages.items()}
    return packed(
        run.rankings,
        failures=dict(run.failures),
        milliseconds=dict(run.milliseconds),
        stages=stages,
        timed=list(run.timed),
        notes=list(run.notes),
        without=dict(run.without),
    )


async def used(store: Store, names: Mapping[str, str]) -> None:
    """These, by their ids, are what somebody asked for now under these names, which mean them from now on."""
    async with store.begin() as connection:
        for identity, name in names.items():
            reused = update(StoredRun).where(StoredRun.id == identity)
            await connection.execute(reused.values(name=name, used_at=func.clock_timestamp()))


async def get(store: Store, identity: str) -> Run | None:
    """The run of exactly that id."""
    async with store.begin(read_only=True) as connection:
        row = await AsyncSession(connection).get(StoredRun, identity)
        return _run(row) if row else None


async def load(store: Store, reference: str, *, collection: str | None = None, split: str | None = None) -> Run:
    """The one run that an id's beginning, a name or a pin stands for."""
    found = await get(store, (await find(store, reference, collection=collection, split=split)).id)
    if found is None:
        raise StoreError(f"The run {reference!r} was deleted at this moment.")
    return found


def _run(row: StoredRun) -> Run:
    content = unpacked(row.rankings)
    more = content.more
    return Run(
        row.name,
        _subject(row),
        content.rankings,
        _variant(row),
        more["failures"],
        more["milliseconds"],
        more["stages"],
        row.environment,
        row.created_at,
        row.id,
        row.depth,
        tuple(more["timed"]),
        tuple(more["notes"]),
        more.get("without", {}),
    )


def _variant(row: StoredRun) -> Variant | None:
    return None if row.variant is None else Variant.from_data({**row.variant, "name": row.name})


def _subject(row: StoredRun) -> Subject:
    digest = bytes(row.query_set_digest)
    return Subject(row.collection, row.collection_version, row.query_set, digest, row.split, row.content)


async def keep_scores(store: Store, identity: str, scores: Mapping[str, Any]) -> None:
    """Scores beside the run, for lists: those given take the place of those of the same names."""
    merged = StoredRun.scores.op("||")(dict(scores))
    async with store.begin() as connection:
        await connection.execute(update(StoredRun).where(StoredRun.id == identity).values(scores=merged))


# -- finding -----------------------------------------------------------------------------------------------------------


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
        f"{run.id[:SHOWN]} ({run.name}, {run.subject.collection} {run.subject.split}, {run.made_at:%Y-%m-%d %H:%M})"
        for run in found[:5]
    )
    return (
        f"{reference!r} stands for {len(found)} runs: {told}{'; ...' if len(found) > 5 else ''}. "
        "Give more of the id, name the split or the collection where the command has them (--split, --collection), or "
        "pin the one you mean under a name."
    )


def _summaries() -> Select[StoredRun]:
    columns = load_only(*(getattr(StoredRun, name) for name in SUMMARY), raiseload=True)
    return select(StoredRun).options(columns).order_by(StoredRun.used_at.desc(), StoredRun.id)


async def _looked_up(store: Store, query: Select[StoredRun]) -> list[Summary]:
    async with store.begin(read_only=True) as connection:
        session = AsyncSession(connection)
        pins: dict[str, list[str]] = {}
        for pin in await session.scalars(select(Pin).order_by(Pin.name)):
            pins.setdefault(pin.run, []).append(pin.name)
        return [_summary(row, tuple(pins.get(row.id, ()))) for row in await session.scalars(query)]


def _summary(row: StoredRun, pins: tuple[str, ...]) -> Summary:
    return Summary(
        row.id,
        row.name,
        _subject(row),
        row.depth,
        row.queries,
        row.failed,
        row.created_at,
        Latency(**row.latency) if row.latency else None,
        _variant(row),
        row.scores,
        row.environment,
        pins,
    )


# -- pinning and pruning -----------------------------------------------------------------------------------------------


async def pin(store: Store, identity: str, name: str) -> None:
    """Make the run the baseline of that name, in the place of the one that was."""
    if not name.strip():
        raise InputError("A baseline needs a name, such as main.")
    if await get(store, identity) is None:
        raise UnknownName("run", identity, [run.id for run in await listed(store)])
    statement = insert(Pin).values(name=name, run=identity)
    moved = {"run": statement.excluded.run, "pinned_at": func.now()}
    async with store.begin() as connection:
        await connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=moved))


async def unpin(store: Store, name: str) -> None:
    async with store.begin() as connection:
        gone = (await connection.execute(delete(Pin).where(Pin.name == name))).rowcount
    if not gone:
        raise UnknownName("baseline", name, await pinned(store))


async def pinned(store: Store) -> dict[str, str]:
    """Each baseline's name, and the id of its run."""
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(select(Pin.name, Pin.run).order_by(Pin.name))
        return {row.name: row.run for row in rows}


async def remove(store: Store, identity: str) -> None:
    """One run. A pinned one is refused."""
    names = [name for name, run in (await pinned(store)).items() if run == identity]
    if names:
        raise StoreError(f"The run {identity[:SHOWN]} is the baseline {names[0]!r}. Unpin it first.")
    async with store.begin() as connection:
        await connection.execute(delete(StoredRun).where(StoredRun.id == identity))


async def prune(store: Store, *, keep: int = 1, before: datetime | None = None, collection: str | None = None) -> int:
    """Drop runs but the newest `keep` of each name over one split, or only those made before; how many went.

    Pinned ones stay. What was kept of legs of collections that are gone goes with them.
    """
    alike = (StoredRun.collection, StoredRun.query_set, StoredRun.split, StoredRun.name)
    place = func.row_number().over(partition_by=alike, order_by=(StoredRun.used_at.desc(), StoredRun.id))
    places = select(StoredRun.id, place.label("place")).subquery()
    gone = delete(StoredRun).where(
        StoredRun.id.in_(select(places.c.id).where(places.c.place > keep)),
        StoredRun.id.not_in(select(Pin.run)),
    )
    if before is not None:
        gone = gone.where(StoredRun.created_at < before)
    if collection is not None:
        gone = gone.where(StoredRun.collection == collection)
    async with store.begin() as connection:
        await _forget_lost(connection)
        return (await connection.execute(gone)).rowcount


async def _forget_lost(connection: AsyncConnection) -> None:
    there = select(Collection.name)
    await connection.execute(delete(RankingBatch).where(RankingBatch.collection.not_in(there)))
