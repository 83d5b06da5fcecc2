"""Kept outputs of cells, and the key that says whether one still holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

import pydantic
from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from core.errors import RankbookError
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.store.sanitize import cleaned
from core.variant import Variant
from evals import schema as tables
from evals.evaluation.context import EvalContext
from evals.presentation.types import Output
from evals.runs.provenance import content_of, package_version, server_mark, variant_mark
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext

CELL: Final = "the cell was changed"
CODE: Final = "another version of Rankbook made it"
MOVED: Final = {
    "collection": "the collection was changed",
    "queries": "queries or labels were changed",
    "server": "another server, or other models' packages, would make it now",
}
MEANT: Final = {
    "split": "other labelled queries are meant",
    "seed": "the seed is another",
    "judgements": "documents were judged",
}
Contents = dict[str, str]  # of collections, by name


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What an output comes of. `queries` is empty where labels play no part; `meant` is what names stand for."""

    cell: str
    collection: str
    queries: str
    code: str
    server: str = ""
    meant: Mapping[str, str] = field(default_factory=dict)

    def moved(self, since: CacheKey) -> tuple[str, ...]:
        """What is otherwise than it was. Of what other code wrote down the rest cannot be told."""
        if self.code != since.code:
            return (CODE,)
        named = (CELL,) if self.cell != since.cell else tuple(_meant(self.meant, since.meant))
        beside = (said for name, said in MOVED.items() if getattr(self, name) != getattr(since, name))
        return (*named, *beside)


def _meant(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """What other than before is meant by an unchanged cell, each said once."""
    other = [name for name in {**now, **before} if now.get(name) != before.get(name)]
    return list(dict.fromkeys(map(_said, other)))


def _said(name: str) -> str:
    kind, _, rest = name.partition(" ")
    if kind in ("run", "file"):
        return f"the {kind} {rest} is another"
    return MEANT.get(name, "a variant that it names was changed")


async def cache_key(context: CellContext, spec: CellSpec, contents: Contents | None = None) -> CacheKey:
    """As it stands now. `contents` remembers what collections hold, for the cells that are looked at in one go."""
    ground = await context.ground(spec)
    row = ground.view.row
    held = {} if contents is None else contents
    if row.name not in held:
        held[row.name] = await content_of(context.store, ground.view)
    options = spec.model_dump(mode="json", by_alias=True, exclude={"title"})
    resolved = await spec.resolved(context)
    meant = {name: digest(value) for name, value in resolved.items() if name not in options or value != options[name]}
    return CacheKey(
        digest([type(spec).__name__, options]),
        digest([row.name, row.created_at.timestamp(), row.version, held[row.name]]),
        digest([ground.query_set, ground.labelled.digest().hex()]) if spec.asks_labels else "",
        f"{package_version()}, {spec.version}",
        digest(sorted({server_mark(context.store.capabilities), *_marks(ground, await spec.searches(context))})),
        meant,
    )


def _marks(ground: EvalContext, variants: list[Variant]) -> list[str]:
    """What decides beside the server, of each variant that is searched with."""
    found = []
    for each in variants:
        with suppress(RankbookError):  # a chunk set that is not there: running it says so
            model = each.model or search_target(ground.store, ground.view, each.chunks).model
            found.append(variant_mark(ground.store.capabilities, each, model))
    return [mark for mark in found if mark]  # words alone have none


def digest(content: object) -> str:
    """Of anything that JSON can say."""
    written = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()


KEPT = 5  # outputs of one cell: changed back and forth, it has them at once


@dataclass(frozen=True, slots=True)
class Kept:
    """An output from before. `stale` says what moved on since; empty where nothing did."""

    output: Output
    made_at: datetime
    milliseconds: float
    stale: tuple[str, ...] = ()


def _key(notebook: str, basis: CacheKey) -> bytes:
    return bytes.fromhex(digest([notebook, asdict(basis)]))


async def keep(store: Store, notebook: str, cell: str, basis: CacheKey, output: Output, milliseconds: float) -> None:
    """In the place of an equal one; the oldest of the cell's go."""
    if not store.keeps:
        return
    content = {"cell": cell, "basis": asdict(basis), "output": output.plain(), "milliseconds": milliseconds}
    row = {"notebook": cleaned(notebook), "content": content, "made_at": func.clock_timestamp()}
    table = tables.OutputRow
    written = insert(table).values(digest=_key(notebook, basis), **row)
    async with store.begin() as connection:
        await connection.execute(written.on_conflict_do_update(index_elements=[table.digest], set_=row))
        mine = (table.notebook == row["notebook"], table.content["cell"].astext == cell)
        newest = select(table.digest).where(*mine).order_by(table.made_at.desc(), table.digest).limit(KEPT)
        await connection.execute(delete(table).where(*mine, table.digest.not_in(newest)))


async def find(store: Store, notebook: str, cell: str, basis: CacheKey) -> Kept | None:
    """What the cell shows now, or showed last: by its identity, or by what it says where that is another."""
    table = tables.OutputRow
    wanted = _key(notebook, basis)
    same = or_(table.content["cell"].astext == cell, table.content["basis"]["cell"].astext == basis.cell)
    asked = select(table).where(table.notebook == cleaned(notebook), or_(table.digest == wanted, same))
    async with store.begin(read_only=True) as connection:
        rows = await AsyncSession(connection).scalars(asked.order_by(table.made_at.desc(), table.digest))
        found = sorted(rows, key=lambda row: bytes(row.digest) != wanted)
    return _read(found, basis)


def _read(rows: Sequence[tables.OutputRow], basis: CacheKey) -> Kept | None:
    """The first that can be read: another version may have written it in another form."""
    for row in rows:
        content: dict[str, Any] = row.content
        try:
            output = Output.model_validate(content["output"])
            stale = basis.moved(CacheKey(**content["basis"]))
            return Kept(output, row.made_at, float(content["milliseconds"]), stale)
        except (KeyError, TypeError, ValueError, pydantic.ValidationError):
            continue
    return None
