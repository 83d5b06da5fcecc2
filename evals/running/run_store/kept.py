"""Runs kept whole and read back. Owns what a run's identity is, and how a row of the store is a run.

A run that is kept again under its id takes the place of the one there.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, func, literal, select, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from core.errors import StoreError
from core.store.engine import Store
from core.variant import Variant
from evals.rankings import cut_off
from evals.running.packed import Packed, fingerprint, packed, unpacked
from evals.runs import Run, Subject
from evals.store import StoredRun

# Beside a run's rankings, and of which kind.
BESIDE: Final = {"failures": dict, "milliseconds": dict, "stages": dict, "timed": list, "notes": list}


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


async def save(store: Store, run: Run, *, rename: bool = True) -> Run:
    """The run as it is kept: with its id, which a foreign one gets here, and the time.

    One that was read from here, and was timed since, has the rankings that it had: its scores, name and date stand.
    `rename` is whether one that is there already is listed under this run's name from now on.
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
    read_before = run.made_at is not None
    stands = {"id"} | ({"scores"} if read_before else set()) | ({"name"} if read_before or not rename else set())
    async with store.begin() as connection:
        moment = await _now(connection)
        statement = insert(StoredRun).values({**row, "names": {run.name: moment.isoformat()}, "used_at": moment})
        changed: dict[str, Any] = {name: statement.excluded[name] for name in row if name not in stands}
        changed["used_at"] = statement.excluded.used_at
        if not read_before:
            changed |= {"created_at": func.now(), "names": _all_names().op("||")(statement.excluded.names)}
        kept = statement.on_conflict_do_update(index_elements=["id"], set_=changed).returning(StoredRun.created_at)
        return replace(run, id=identity, made_at=await connection.scalar(kept))


async def _now(connection: AsyncConnection) -> datetime:
    """The time, or just after what was used last where the clock was put back: what is used now is the newest."""
    a_moment = literal(timedelta(microseconds=1))
    now = func.greatest(func.clock_timestamp(), select(func.max(StoredRun.used_at) + a_moment).scalar_subquery())
    moment: datetime = (await connection.execute(select(now))).scalar_one()
    return moment


def _all_names() -> ColumnElement[dict[str, str]]:
    """A row's names in a statement; rows of before have the one."""
    return func.jsonb_build_object(StoredRun.name, StoredRun.used_at).op("||")(StoredRun.names)


def names_of_row(row: StoredRun) -> dict[str, datetime]:
    """Every name that the run was evaluated under, and when last; a restored row may say what is no time."""
    told = {name: _moment(when) for name, when in row.names.items()} if isinstance(row.names, dict) else {}
    return {row.name: row.used_at} | {name: when for name, when in told.items() if when is not None}


def _moment(written: object) -> datetime | None:
    try:
        moment = datetime.fromisoformat(str(written))
    except ValueError:
        return None
    return moment if moment.tzinfo else None


def _content(run: Run) -> bytes:
    stages = {stage: dict(spent) for stage, spent in run.stages.items()}
    return packed(
        run.lifted,
        failures=dict(run.failures),
        milliseconds=dict(run.milliseconds),
        stages=stages,
        timed=list(run.timed),
        notes=list(run.notes),
        without=dict(run.without),
    )


async def used(store: Store, names: Mapping[str, Sequence[str]], *, rename: bool = True) -> None:
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
            row = update(StoredRun).where(StoredRun.id == identity)
            await connection.execute(row.values(names=added, used_at=moment, **listed_as))


async def get(store: Store, identity: str) -> Run | None:
    """The run of exactly that id."""
    async with store.begin(read_only=True) as connection:
        row = await AsyncSession(connection).get(StoredRun, identity)
        return _run(row) if row else None


async def keep_scores(store: Store, identity: str, scores: Mapping[str, Any]) -> None:
    """Scores beside the run, for lists: those given take the place of those of the same names."""
    if not store.keeps:
        return
    merged = StoredRun.scores.op("||")(dict(scores))
    async with store.begin() as connection:
        await connection.execute(update(StoredRun).where(StoredRun.id == identity).values(scores=merged))


# -- rows --------------------------------------------------------------------------------------------------------------


def _run(row: StoredRun) -> Run:
    content, variant = _content_of_row(row), variant_of_row(row)
    more = content.more
    kept = content.rankings
    rankings, beyond = (kept, {}) if variant is None or row.depth else cut_off(kept, variant.top_k)
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


def _content_of_row(row: StoredRun) -> Packed:
    """Its rankings and what stands beside them: a restored backup may have brought anything."""
    try:
        content = unpacked(row.rankings)
    except StoreError as error:
        raise _unreadable(row, str(error)) from error
    if not all(isinstance(content.more.get(part), kind) for part, kind in BESIDE.items()):
        raise _unreadable(row, "What belongs to its rankings is not there.")
    return content


def _unreadable(row: StoredRun, why: str) -> StoreError:
    return StoreError(
        f"The run {row.name!r:.80} of {row.collection!r:.80} cannot be read. {why} Delete it with "
        f"`rankbook runs delete {shlex.quote(row.id)}`, and make it anew."
    )


def variant_of_row(row: StoredRun) -> Variant | None:
    return None if row.variant is None else Variant.from_data({**row.variant, "name": row.name})


def subject_of_row(row: StoredRun) -> Subject:
    digest = bytes(row.query_set_digest)
    return Subject(row.collection, row.collection_version, row.query_set, digest, row.split, row.content)
