"""Kept outputs of notebook cells, as rows. What a digest and a content mean is the notebook's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import delete, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from core.store.engine import Store
from core.store.sanitize import cleaned
from evals.schema import OutputRow

OUTPUTS_KEPT: Final = 5  # of one cell, so that changing it back finds its output again


@dataclass(frozen=True, slots=True)
class KeptOutput:
    """What was kept of one cell under a digest, and when."""

    content: Mapping[str, Any]
    made_at: datetime


async def keep_output(store: Store, notebook: str, digest: bytes, content: Mapping[str, Any]) -> None:
    """Keep a cell's output, replacing one of the same digest; the cell's oldest outputs go."""
    row = {"notebook": cleaned(notebook), "content": content, "made_at": func.clock_timestamp()}
    written = insert(OutputRow).values(digest=digest, **row)
    of_cell = (OutputRow.notebook == row["notebook"], OutputRow.content["cell"].astext == content["cell"])
    newest = select(OutputRow.digest).where(*of_cell).order_by(OutputRow.made_at.desc(), OutputRow.digest)
    async with store.begin() as connection:
        await connection.execute(written.on_conflict_do_update(index_elements=[OutputRow.digest], set_=row))
        await connection.execute(delete(OutputRow).where(*of_cell, OutputRow.digest.not_in(newest.limit(OUTPUTS_KEPT))))


async def find_outputs(store: Store, notebook: str, digest: bytes, cell: str, cell_digest: str) -> list[KeptOutput]:
    """The output of that digest, then the newest of the cell: found by its identity, or by what it says."""
    same = or_(OutputRow.content["cell"].astext == cell, OutputRow.content["basis"]["cell"].astext == cell_digest)
    wanted = (
        select(OutputRow.digest, OutputRow.content, OutputRow.made_at)
        .where(OutputRow.notebook == cleaned(notebook), or_(OutputRow.digest == digest, same))
        .order_by(OutputRow.made_at.desc(), OutputRow.digest)
    )
    async with store.begin(read_only=True) as connection:
        rows = sorted(await connection.execute(wanted), key=lambda row: bytes(row.digest) != digest)
    return [KeptOutput(row.content, row.made_at) for row in rows]
