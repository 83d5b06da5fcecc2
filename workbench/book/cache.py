"""Outputs in the store, by the digest of all that they came of; an older one is known as stale, and says why.

Owns what an output depends on: its cell, the collection's content, the labels, the code. Runs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pydantic
from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from core.store.engine import Store
from core.store.gate import cleaned
from evals import store as tables
from evals.running.environment import content_of
from workbench.book.cells import CellSpec
from workbench.book.context import CellContext
from workbench.book.output import Output

KEPT = 5  # outputs of one cell: changed back and forth, it has them at once
ROOT = Path(__file__).parents[2]
CODE = ("core", "evals", "workbench/book")  # what decides what is found, scored and shown
MOVED = {
    "cell": "the cell was changed",
    "collection": "the collection was changed",
    "queries": "queries or labels were changed",
    "code": "another version of Rankbook made it",
}


@dataclass(frozen=True, slots=True)
class Basis:
    """What an output comes of, as digests. `queries` is empty where labels play no part."""

    cell: str
    collection: str
    queries: str
    code: str

    def moved(self, since: Basis) -> tuple[str, ...]:
        """What is otherwise than it was."""
        return tuple(said for name, said in MOVED.items() if getattr(self, name) != getattr(since, name))


@dataclass(frozen=True, slots=True)
class Kept:
    """An output from before. `stale` says what moved on since; empty where nothing did."""

    output: Output
    made_at: datetime
    milliseconds: float
    stale: tuple[str, ...] = ()


@cache
def code_digest() -> str:
    told = hashlib.blake2b(digest_size=16)
    for file in sorted(file for place in CODE for file in (ROOT / place).rglob("*.py")):
        told.update(hashlib.blake2b(file.read_bytes()).digest())
    return told.hexdigest()


async def basis_of(context: CellContext, spec: CellSpec) -> Basis:
    """As it stands now."""
    ground = await context.ground(spec)
    row = ground.view.row
    content = await content_of(context.store, ground.view)
    return Basis(
        _digest([type(spec).__name__, await spec.resolved(context)]),
        _digest([row.name, row.created_at.timestamp(), row.version, content]),
        _digest([ground.query_set, ground.labelled.digest().hex()]) if spec.asks_labels else "",
        await asyncio.to_thread(code_digest),
    )


def _digest(content: object) -> str:
    written = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()


def _key(notebook: str, basis: Basis) -> bytes:
    return bytes.fromhex(_digest([notebook, asdict(basis)]))


async def keep(store: Store, notebook: str, cell: str, basis: Basis, output: Output, milliseconds: float) -> None:
    """In the place of an equal one; the oldest of the cell's go."""
    content = {"cell": cell, "basis": asdict(basis), "output": output.plain(), "milliseconds": milliseconds}
    row = {"notebook": cleaned(notebook), "content": content, "made_at": func.clock_timestamp()}
    table = tables.Output
    written = insert(table).values(digest=_key(notebook, basis), **row)
    async with store.begin() as connection:
        await connection.execute(written.on_conflict_do_update(index_elements=[table.digest], set_=row))
        mine = (table.notebook == row["notebook"], table.content["cell"].astext == cell)
        newest = select(table.digest).where(*mine).order_by(table.made_at.desc(), table.digest).limit(KEPT)
        await connection.execute(delete(table).where(*mine, table.digest.not_in(newest)))


async def find(store: Store, notebook: str, cell: str, basis: Basis) -> Kept | None:
    """What the cell shows now, or showed last: by its identity, or by what it says where that is another."""
    table = tables.Output
    wanted = _key(notebook, basis)
    same = or_(table.content["cell"].astext == cell, table.content["basis"]["cell"].astext == basis.cell)
    asked = select(table).where(table.notebook == cleaned(notebook), or_(table.digest == wanted, same))
    async with store.begin(read_only=True) as connection:
        rows = await AsyncSession(connection).scalars(asked.order_by(table.made_at.desc(), table.digest))
        found = sorted(rows, key=lambda row: bytes(row.digest) != wanted)
    return _read(found, basis)


def _read(rows: Sequence[tables.Output], basis: Basis) -> Kept | None:
    """The first that can be read: another version may have written it in another form."""
    for row in rows:
        content: dict[str, Any] = row.content
        try:
            output = Output.model_validate(content["output"])
            stale = basis.moved(Basis(**content["basis"]))
            return Kept(output, row.made_at, float(content["milliseconds"]), stale)
        except (KeyError, TypeError, ValueError, pydantic.ValidationError):
            continue
    return None
