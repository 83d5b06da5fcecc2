"""Outputs in the store, by the digest of all that they came of; an older one is known as stale, and says why.

Owns where outputs are kept and which one a cell shows. What they hang on is `basis`'s. Runs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pydantic
from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from core.store.engine import Store
from core.store.gate import cleaned
from evals import store as tables
from workbench.book.basis import Basis, digest
from workbench.book.output import Output

KEPT = 5  # outputs of one cell: changed back and forth, it has them at once


@dataclass(frozen=True, slots=True)
class Kept:
    """An output from before. `stale` says what moved on since; empty where nothing did."""

    output: Output
    made_at: datetime
    milliseconds: float
    stale: tuple[str, ...] = ()


def _key(notebook: str, basis: Basis) -> bytes:
    return bytes.fromhex(digest([notebook, asdict(basis)]))


async def keep(store: Store, notebook: str, cell: str, basis: Basis, output: Output, milliseconds: float) -> None:
    """In the place of an equal one; the oldest of the cell's go."""
    if not store.keeps:
        return
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
