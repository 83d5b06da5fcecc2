"""Runs in the store: saved whole, listed and found by name or id, pinned, pruned, deleted and restored."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, func, literal, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import aliased, load_only

from core.errors import InputError, StoreError, UnknownName
from core.store import trash
from core.store.engine import Store
from core.store.names import TRASH_MARK, trash_mark
from core.store.schema import Collection
from core.store.trash_entries import TrashEntry, new_id
from core.variant import Variant
from evals.runs.rankings import cut_off, decode_rankings, encode_rankings, fingerprint
from evals.runs.types import Latency, Run, RunSubject
from evals.schema import Pin, RankingBatch, RunRow
from evals.types import DEFAULT_QUERY_SET

# What is stored with a run's rankings, and its type.
BESIDE: Final = {"failures": dict, "milliseconds": dict, "stages": dict, "timed": list, "notes": list}


def run_id(subject: RunSubject, variant: Variant, depth: int, state: str = "") -> str:
    """Of what was searched (`state` says it most closely), the variant and its depth; not of the run's name."""
    return _digest([*_plain(subject), state, variant.id, depth])


def _plain(subject: RunSubject) -> list[object]:
    of = subject
    return [of.collection, of.version, of.content, of.query_set, of.digest.hex(), of.split]


def _digest(content: object) -> str:
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=16).hexdigest()


async def save(store: Store, run: Run, *, rename: bool = True) -> Run:
    """The run as it is kept: with its id, which a foreign one gets here, and the time.

    One that was read from here, and was timed since, has the rankings that it had: its scores, name and date stand.
    `rename` is whether one that is there already is listed under this run's name from now on.
    """
    identity = run.id
    if not identity and run.variant:
        identity = run_id(run.subject, run.variant, run.depth)
    elif not identity:
        identity = _digest([*_plain(run.subject), run.name, run.depth, fingerprint(run.rankings).hex()])
    content = encode_rankings(
        run.lifted,
        failures=dict(run.failures),
        milliseconds=dict(run.milliseconds),
        stages={stage: dict(spent) for stage, spent in run.stages.items()},
        timed=list(run.timed),
        notes=list(run.notes),
        without=dict(run.without),
    )
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
        "rankings": content,
    }
    read_before = run.made_at is not None
    unchanged = {"id"} | ({"scores"} if read_before else set()) | ({"name"} if read_before or not rename else set())
    async with store.begin() as connection:
        moment = await _now(connection)
        statement = insert(RunRow).values({**row, "names": {run.name: moment.isoformat()}, "used_at": moment})
        changed: dict[str, Any] = {name: statement.excluded[name] for name in row if name not in unchanged}
        changed["used_at"] = statement.excluded.used_at
        if not read_before:
            changed |= {"created_at": func.now(), "names": _all_names().op("||")(statement.excluded.names)}
        kept = statement.on_conflict_do_update(index_elements=["id"], set_=changed).returning(RunRow.created_at)
        return replace(run, id=identity, made_at=await connection.scalar(kept))


async def _now(connection: AsyncConnection) -> datetime:
    """The time, or just after what was used last where the clock was put back: what is used now is the newest."""
    a_moment = literal(timedelta(microseconds=1))
    now = func.greatest(func.clock_timestamp(), select(func.max(RunRow.used_at) + a_moment).scalar_subquery())
    moment: datetime = (await connection.execute(select(now))).scalar_one()
    return moment


def _all_names() -> ColumnElement[dict[str, str]]:
    """A row's names in a statement; rows of before have the one."""
    return func.jsonb_build_object(RunRow.name, RunRow.used_at).op("||")(RunRow.names)


def names_of_row(row: RunRow) -> dict[str, datetime]:
    """Every name that the run was evaluated under, and when last; a restored row may say what is no time."""
    names = {row.name: row.used_at}
    for name, when in row.names.items() if isinstance(row.names, dict) else ():
        with suppress(ValueError):
            moment = datetime.fromisoformat(str(when))
            names |= {name: moment} if moment.tzinfo else {}
    return names


async def mark_used(store: Store, names: Mapping[str, Sequence[str]], *, rename: bool = True) -> None:
    """These runs, by their ids, were evaluated now under these names, each of which means that run from now on.

    With `rename` a run is also listed under the first of its names. A suite's or a grid's names leave that as it is.
    """
    if not store.keeps or not names:
        return
    async with store.begin() as connection:
        moment = await _now(connection)
        for identity, each in names.items():
            added = _all_names().op("||")(literal(dict.fromkeys(each, moment.isoformat()), JSONB))
            listed_as = {"name": each[0]} if rename else {}
            row = update(RunRow).where(RunRow.id == identity)
            await connection.execute(row.values(names=added, used_at=moment, **listed_as))


async def get(store: Store, identity: str) -> Run | None:
    """The run of exactly that id."""
    async with store.begin(read_only=True) as connection:
        row = await AsyncSession(connection).get(RunRow, identity)
        return _run(row) if row else None


async def keep_scores(store: Store, identity: str, scores: Mapping[str, Any]) -> None:
    """Keep scores with the run, for lists: they replace those of the same names."""
    if not store.keeps:
        return
    merged = RunRow.scores.op("||")(dict(scores))
    async with store.begin() as connection:
        await connection.execute(update(RunRow).where(RunRow.id == identity).values(scores=merged))


# -- rows --------------------------------------------------------------------------------------------------------------


def _run(row: RunRow) -> Run:
    """Checked, as a restored backup may hold anything."""
    variant = variant_of_row(row)
    try:
        kept = decode_rankings(row.rankings)
    except StoreError as error:
        raise _unreadable(row, str(error)) from error
    more = kept.more
    if not all(isinstance(more.get(part), kind) for part, kind in BESIDE.items()):
        raise _unreadable(row, "What belongs to its rankings is not there.")
    shipped = variant if not row.depth else None
    rankings, beyond = cut_off(kept.rankings, shipped.top_k) if shipped else (kept.rankings, {})
    return Run(
        row.name,
        subject_of_row(row),
        rankings,
        variant,
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
        beyond,
    )


def _unreadable(row: RunRow, why: str) -> StoreError:
    return StoreError(
        f"The run {row.name!r:.80} of {row.collection!r:.80} cannot be read. {why} Delete it with "
        f"`rankbook runs delete {shlex.quote(row.id)}`, and make it anew."
    )


def variant_of_row(row: RunRow | Row[Any]) -> Variant | None:
    return None if row.variant is None else Variant.from_data({**row.variant, "name": row.name})


def subject_of_row(row: RunRow) -> RunSubject:
    digest = bytes(row.query_set_digest)
    return RunSubject(row.collection, row.collection_version, row.query_set, digest, row.split, row.content)


SHOWN = 12  # characters of an id that tell runs apart
NOT_IN_TRASH: Final = ~RunRow.collection.startswith(TRASH_MARK, autoescape=True)  # what lies in the trash is not
SUMMARY = [each.name for each in RunRow.__table__.columns if each.name != "rankings"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A kept run in a line, without its rankings. `scores` are what `keep_scores` was given.

    `names` are all that it was evaluated under, and when last; `name` is the one that it is listed as.
    """

    id: str
    name: str
    subject: RunSubject
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


async def resolve_run(store: Store, reference: str, *, collection: str, split: str, anywhere: bool = False) -> Run:
    """The run of that reference over this split, else over another one of the collection, or `anywhere` at all."""
    with suppress(UnknownName):
        return await load(store, reference, collection=collection, split=split)
    return await load(store, reference, collection=None if anywhere else collection)


async def listed(
    store: Store, *, collection: str | None = None, split: str | None = None, most: int | None = None
) -> list[RunSummary]:
    """The kept runs, newest first."""
    columns = load_only(*(getattr(RunRow, name) for name in SUMMARY), raiseload=True)
    newest_first = select(RunRow).options(columns).order_by(RunRow.created_at.desc(), RunRow.id)
    query = newest_first.where(NOT_IN_TRASH).limit(most)
    if collection is not None:
        query = query.where(RunRow.collection == collection)
    if split is not None:
        query = query.where(RunRow.split == split)
    async with store.begin(read_only=True) as connection:
        session = AsyncSession(connection)
        pins: dict[str, list[str]] = {}
        for pin in await session.scalars(select(Pin).order_by(Pin.name)):
            pins.setdefault(pin.run, []).append(pin.name)
        rows = list(await session.scalars(query))
    summaries = []
    for row in rows:
        timed = row.latency if row.latency and row.latency.get("live", True) else None  # earlier ones are estimates
        summaries.append(
            RunSummary(
                row.id,
                row.name,
                subject_of_row(row),
                row.depth,
                row.queries,
                row.failed,
                row.created_at,
                Latency(timed["p50"], timed["p95"], timed["queries"]) if timed else None,
                variant_of_row(row),
                row.scores,
                row.environment,
                tuple(pins.get(row.id, ())),
                names_of_row(row),
            )
        )
    return summaries


async def find(
    store: Store,
    reference: str,
    *,
    collection: str | None = None,
    split: str | None = None,
    query_set: str | None = None,
) -> RunSummary:
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
        several = []
        for run in found[:5]:
            of = run.subject
            query_set = f" of the queries {of.query_set}" if of.query_set not in ("", DEFAULT_QUERY_SET) else ""
            several.append(
                f"{run.id[:SHOWN]} ({run.name}, {of.collection} {of.split}{query_set}, {run.made_at:%Y-%m-%d %H:%M})"
            )
        more = "; ..." if len(found) > 5 else ""
        raise InputError(
            f"{reference!r} stands for {len(found)} runs: {'; '.join(several)}{more}. "
            "Give more of the id, name the split or the collection where the command has them (--split, --collection), "
            "or pin the one you mean under a name."
        )
    names = [*(pin for run in known for pin in run.pins), *(name for run in known for name in run.names)]
    elsewhere = _matching(await listed(store), reference) if collection or split else []
    way_out = "`rankbook runs list` shows all."
    if elsewhere:
        over = "; ".join(f"{run.subject.split!r} of {run.subject.collection!r}" for run in elsewhere[:5])
        named = " of ".join(repr(each) for each in (split, collection) if each is not None)
        way_out = f"{reference!r} is a run over {over}, and not over {named}."
    raise UnknownName("run", reference, names, way_out=way_out)


def _matching(runs: Sequence[RunSummary], reference: str) -> list[RunSummary]:
    """The newest run of each name, collection, query set and split that the reference fits."""
    for called in (
        lambda run: [run.name] if reference in run.pins else [],
        lambda run: [run.name] if run.id == reference else [],
        lambda run: [reference] if reference in run.names else [],
        lambda run: [run.name] if run.id.startswith(reference.lower()) else [],
        lambda run: [name for name in run.names if name.startswith(reference)],
    ):
        newest: dict[tuple[str, ...], RunSummary] = {}
        for run in runs if reference else ():
            for name in called(run):
                other = newest.setdefault((*place(run), name), run)
                if run.last_used(name) > other.last_used(name):
                    newest[*place(run), name] = run
        if newest:
            return list({run.id: run for run in newest.values()}.values())
    return []


def place(run: RunSummary) -> tuple[str, str, str]:
    """Over what it is: of the runs of one name there, the newest is meant."""
    return run.subject.collection, run.subject.query_set, run.subject.split


DIGITS: Final = 32  # of a run's id


async def pin(store: Store, identity: str, name: str) -> None:
    """Make the run the baseline of that name, in the place of the one that was."""
    if not name.strip():
        raise InputError("A baseline needs a name, such as main.")
    if await get(store, identity) is None:
        raise UnknownName("run", identity, [run.id for run in await listed(store)])
    statement = insert(Pin).values(name=name, run=identity)
    moved = {"run": statement.excluded.run, "pinned_at": func.now()}
    try:
        async with store.begin() as connection:
            await connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_=moved))
    except IntegrityError:
        raise StoreError(f"The run {identity[:SHOWN]} was deleted at this moment: `rankbook trash` lists it.") from None


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


async def remove(store: Store, identity: str, *, by: str = "") -> TrashEntry:
    """One run, into the trash. A pinned one is refused."""
    names = [name for name, run in (await pinned(store)).items() if run == identity]
    if names:
        raise StoreError(f"The run {identity[:SHOWN]} is the baseline {names[0]!r}. Unpin it first.")
    async with store.begin() as connection:
        moved = await _into_trash(connection, [identity], by)
    if not moved:
        raise StoreError(f"The run {identity[:SHOWN]} was deleted or pinned at this moment: see `rankbook runs list`.")
    return moved[0]


async def prune(
    store: Store, *, keep: int = 1, before: datetime | None = None, collection: str | None = None, by: str = ""
) -> list[TrashEntry]:
    """Runs into the trash but the newest `keep` of each name over one split, or only those made before.

    An entry for each collection. Pinned ones stay. What was kept of legs of collections that are gone goes for good.
    """
    runs = await listed(store, collection=collection)
    alike: dict[tuple[str, ...], list[RunSummary]] = {}
    for run in runs:
        for name in run.names:
            alike.setdefault((*place(run), name), []).append(run)
    stay = set()  # used last under one of their names, so many of each name and place
    for (*_, name), each in alike.items():
        latest = sorted(((run.last_used(name), run.id) for run in each), reverse=True)
        stay |= {identity for _, identity in latest[:keep]}
    old = [run.id for run in runs if run.id not in stay and (before is None or run.made_at < before)]
    async with store.begin() as connection:
        there = select(Collection.name)
        await connection.execute(delete(RankingBatch).where(RankingBatch.collection.not_in(there)))
        return await _into_trash(connection, old, by)


# -- into the trash, and out of it -------------------------------------------------------------------------------------


async def _into_trash(connection: AsyncConnection, ids: Sequence[str], by: str) -> list[TrashEntry]:
    """Those of them that are not pinned: their ids and collections become the entry's, so that no list has them."""
    free = RunRow.id.not_in(select(Pin.run))
    size = func.pg_column_size(RunRow.rankings)
    columns = select(RunRow.id, RunRow.name, RunRow.collection, size.label("size"))
    runs = columns.where(RunRow.id.in_(ids), NOT_IN_TRASH, free).order_by(RunRow.collection, RunRow.id)
    entries = []
    locked = list(await connection.execute(runs.with_for_update()))
    for collection, group in groupby(locked, lambda row: str(row.collection)):
        rows, identity = list(group), new_id()
        mark = trash_mark(identity)
        moved = update(RunRow).where(RunRow.id.in_([row.id for row in rows]))
        try:
            await connection.execute(moved.values(id=func.concat(f"{mark}/", RunRow.id), collection=mark))
        except IntegrityError:
            raise StoreError("A run was pinned at this moment, so none was deleted. Do it again.") from None
        one = len(rows) == 1
        entries.append(
            await trash.add_entry(
                connection,
                "run" if one else "runs",
                rows[0].name if one else "",
                collection,
                identity=identity,
                count=len(rows),
                size=sum(row.size for row in rows),
                by=by,
                details={"run": rows[0].id} if one else {},
            )
        )
    return entries


async def restore(connection: AsyncConnection, entry: TrashEntry) -> int:
    """Runs of an entry back under their ids, in the transaction that claims it; how many stay in the trash.

    One that was made again since has its id, and stays as it is now.
    """
    mark = trash_mark(entry.id)
    old_id = func.substr(RunRow.id, len(mark) + 2)
    other = aliased(RunRow)
    free = select(RunRow.id).where(RunRow.collection == mark, ~select(other.id).where(other.id == old_id).exists())
    ids = list(await connection.scalars(free))
    if not ids:
        raise StoreError(
            f"What was evaluated again since stands in the place of the {entry.title}: it is the same variant over the "
            "same data. Delete that first (`rankbook runs delete`), if it is the old one that you want."
        )
    restored = update(RunRow).where(RunRow.id.in_(ids)).values(id=old_id, collection=entry.collection)
    try:
        await connection.execute(restored)
    except IntegrityError:
        raise StoreError(f"The {entry.title} was evaluated again at this moment. Bring it back again.") from None
    left = select(func.count(), func.coalesce(func.sum(func.pg_column_size(RunRow.rankings)), 0))
    count, size = (await connection.execute(left.where(RunRow.collection == mark))).one()
    if count:
        await trash.shrink(connection, entry, count, size)
    return int(count)


async def copy_to(connection: AsyncConnection, collection: str, other: str, until: datetime) -> None:
    """The runs made of a collection until then, once more as runs of the other: as history, under ids of its own."""
    columns = [column.name for column in RunRow.__table__.columns]
    other_id = func.left(
        func.encode(func.sha256(func.convert_to(func.concat(RunRow.id, f" {other}"), "UTF8")), "hex"), DIGITS
    )
    changed = {"id": other_id, "collection": literal(other)}
    values = [changed.get(name, RunRow.__table__.c[name]) for name in columns]
    runs = select(*values).where(RunRow.collection == collection, RunRow.created_at <= until)
    added = insert(RunRow).from_select(columns, runs, include_defaults=False)
    await connection.execute(added.on_conflict_do_nothing())


async def destroy(connection: AsyncConnection, entry: TrashEntry) -> None:
    """Runs of an entry for good."""
    await connection.execute(delete(RunRow).where(RunRow.collection == trash_mark(entry.id)))
