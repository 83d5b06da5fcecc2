"""A table's pieces from a backup into the database, inside the caller's transaction.

Values go by COPY and are never part of a statement; columns are matched by their names, so that those that are newer
than the backup take their defaults.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import psycopg
from psycopg import sql
from sqlalchemy import CursorResult, Executable, MetaData, Table
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store import loading
from core.store.progress import Listener, Step, nobody
from evals.backup import parts
from evals.backup.parts import Part, identified
from evals.backup.reading import Archive

LONGEST_HEADING: Final = 10_000  # bytes
REFUSALS: Final = (psycopg.DataError, psycopg.IntegrityError, psycopg.ProgrammingError, psycopg.NotSupportedError)


@dataclass(frozen=True, slots=True)
class Taking:
    """Where rows come from: a collection's folder in an archive."""

    connection: AsyncConnection
    archive: Archive
    folder: str
    listener: Listener = nobody

    async def aside(self, part: Part | Table) -> Table:
        """The rows in a temporary table of the same columns, empty where the backup has none; gone at the end."""
        table = part.table if isinstance(part, Part) else part
        made = table.to_metadata(MetaData(), schema=None, name=f"incoming_{table.name}")  # type: ignore[arg-type]
        create = sql.SQL("CREATE TEMPORARY TABLE {} (LIKE {} INCLUDING DEFAULTS) ON COMMIT DROP")
        driver = await loading.driver(self.connection)
        await driver.execute(create.format(sql.Identifier(made.name), identified(table)))
        await self._copy(table, sql.Identifier("pg_temp", made.name))
        return made

    async def into(self, table: Table, namespace: str) -> int:
        """The rows in a table of the collection's own."""
        return await self._copy(table, identified(table, namespace))

    async def _copy(self, table: Table, target: sql.Identifier) -> int:
        total, done = self.archive.rows(self.folder, table.name), 0
        for piece in self.archive.pieces(self.folder, table.name):
            done += await self._copy_piece(piece, table, target)
            self.listener(Step(f"Restoring {table.name}", done, total or None))
        return done

    async def _copy_piece(self, piece: str, table: Table, target: sql.Identifier) -> int:
        blocks = self.archive.blocks(piece)
        first = await asyncio.to_thread(_beginning, blocks)
        statement = sql.SQL("COPY {} ({}) FROM STDIN (FORMAT TEXT, HEADER MATCH)").format(
            target, sql.SQL(", ").join(map(sql.Identifier, self._columns(piece, first, table)))
        )
        try:
            async with (await loading.driver(self.connection)).cursor() as cursor:
                async with cursor.copy(statement) as into:
                    block: bytes | None = first
                    while block:
                        await into.write(block)
                        block = await asyncio.to_thread(next, blocks, None)
                self._check_rows(piece, cursor.rowcount)
                return cursor.rowcount
        except REFUSALS as error:
            said = error.diag.message_primary or type(error).__name__
            raise self.archive.wrong(f"{piece} does not fit into the store: {said}. Nothing was restored.") from error

    def _columns(self, piece: str, first: bytes, table: Table) -> list[str]:
        heading, end, _ = first.partition(b"\n")
        found = heading.decode("utf-8", errors="replace").split("\t")
        known = parts.columns(table)
        if strange := [name for name in found if name not in known]:
            raise self.archive.wrong(
                f"{piece} has a column {strange[0]!r:.80}, which {table.name} has not got in this Rankbook. Restore it "
                f"with Rankbook {self.archive.manifest.rankbook}, upgrade, and make a new backup."
            )
        if not end or len(set(found)) < len(found):
            raise self.archive.wrong(f"{piece} does not begin with a table's heading.")
        return found

    def _check_rows(self, piece: str, rows: int) -> None:
        expected = self.archive.listed_rows(piece)
        if expected is not None and rows != expected:
            raise self.archive.wrong(f"{piece} holds {rows:,} rows, and {expected:,} were saved.")


def _beginning(blocks: Iterator[bytes]) -> bytes:
    """What holds the whole heading."""
    first = b""
    while b"\n" not in first and len(first) < LONGEST_HEADING and (block := next(blocks, None)):
        first += block
    return first


async def counted(connection: AsyncConnection, statement: Executable) -> int:
    """How many rows a statement wrote, which SQLAlchemy forgets of an INSERT unless it is asked to keep it."""
    done: CursorResult[Any] = await connection.execute(statement.execution_options(preserve_rowcount=True))
    return int(done.rowcount)
