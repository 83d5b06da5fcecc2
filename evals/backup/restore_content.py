"""Restoring a collection's documents, chunks and vectors into its schema, and building what is derived from them.

Everything, indexes included, is in the caller's transaction, so that a collection is complete or not there.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from sqlalchemy import inspect, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateTable

from core.errors import RankbookError, StoreError
from core.progress import Step
from core.store import citus, collections, indexes, names, text_index
from core.store.attached import AttachedTable, Attachment, let_read_within, relation_name, written_name
from core.store.attached import inspect_table as inspect_attached
from core.store.collections import LARGEST_INDEXED_DIMENSION, CollectionView
from core.store.engine import Store
from core.store.migrations import collection as collection_chain
from core.store.names import ITEMS
from core.store.schema import (
    HERE,
    ChunkSet,
    Collection,
    EmbeddingSet,
    ItemRow,
    vector_table,
)
from evals.backup import file_format
from evals.backup.archive_reader import Archive, RowReader
from evals.backup.file_format import REGISTER, BackedUpCollection, RestoreTarget

LARGEST_DIMENSION = 16_000  # pgvector's
REGISTERED = ("card", "origin", "fields", "version", "created_at", "changed_at", "loaded_at")


@dataclass(frozen=True, slots=True)
class Registration:
    """The registered collection; without one, `note` says why."""

    row: Collection | None
    note: str = ""


async def register(store: Store, reader: RowReader, target: RestoreTarget) -> Registration:
    """Register the collection, and attach it if it is an attached one whose table is named."""
    incoming, attachment = await registered_row(reader, target.kept), None
    if target.kept.kind == "attached":
        attachment, note = await _attachment(store, reader.archive, incoming, target)
        if attachment is None:
            return Registration(None, note)
    await collections.check_language(reader.connection, incoming.language)
    values = {column: getattr(incoming, column) for column in REGISTERED}
    values["fields"] = names.checked_fields(values["fields"])
    row = Collection(
        name=target.name,
        namespace=names.schema_of(target.name),
        language=incoming.language,
        attached=attachment and attachment.model_dump(mode="json"),
        **values,
    )
    if row.namespace in await reader.connection.run_sync(lambda sync: inspect(sync).get_schema_names()):
        raise StoreError(f"There is a schema {row.namespace!r} already, which {row.name!r} would need. Give --as NAME.")
    await collections.register(AsyncSession(reader.connection, expire_on_commit=False), row)
    if attachment is not None:
        await let_read_within(store, reader.connection, target.name, attachment.table)
    return Registration(row)


async def registered_row(reader: RowReader, kept: BackedUpCollection) -> Any:
    """The file's row of a collection, which must agree with the file's manifest."""
    incoming = await reader.read_temporary(REGISTER)
    rows = (await reader.connection.execute(select(incoming))).all()
    if len(rows) != 1:
        raise reader.archive.wrong(f"It does not say what the collection {kept.name!r:.80} is.")
    (row,) = rows
    kind = "own" if row.attached is None else "attached"
    if (row.name, kind, row.created_at) != (kept.name, kept.kind, kept.created_at):
        raise reader.archive.wrong(
            f"Its list and its tables differ in what the collection {kept.name!r:.80} is. Nothing was restored."
        )
    if not (isinstance(row.fields, list) and all(isinstance(each, str) for each in row.fields)):
        raise reader.archive.wrong(f"The fields of {kept.name!r:.80} are no list of names. Nothing was restored.")
    return row


async def _attachment(store: Store, archive: Archive, row: Any, target: RestoreTarget) -> tuple[Attachment | None, str]:
    """The attachment to the named table by the file's mapping of columns, which is inspected on this server."""
    try:
        mapping = AttachedTable.model_validate((row.attached or {}).get("table"))
    except ValueError as error:
        return None, f"What {target.name!r} was attached to cannot be told ({error}). Attach it again."
    if not target.table:
        again = ["rankbook", "restore", str(archive.path), "--collection", target.kept.name]
        again += ["--attach", f"{target.kept.name}={written_name(mapping.namespace, mapping.table)}"]
        again += ["--as", target.name] if target.renamed else []
        return None, (
            f"It was attached to {mapping.full_name}, which no file does by itself: its labels wait here. To attach "
            f"the table, so that whoever may search it can read it: {shlex.join(again)}"
        )
    namespace, name = relation_name(target.table)
    mapping = mapping.model_copy(update={"namespace": namespace, "table": name})
    try:
        facts = await inspect_attached(store, mapping)
    except RankbookError as error:
        return None, f"The table {mapping.full_name} is not as {target.name!r} needs it ({error}). Attach it again."
    return Attachment(table=mapping, facts=facts), ""


@dataclass(slots=True)
class ContentRestore:
    """Fills one registered collection."""

    store: Store
    reader: RowReader
    row: Collection

    @property
    def connection(self) -> AsyncConnection:
        return self.reader.connection

    async def fill(self) -> dict[str, int]:
        """Restore and build everything; the rows by table."""
        namespace = self.row.namespace
        await self.connection.run_sync(collection_chain.upgrade, namespace)
        await citus.distribute(self.connection, namespace, self.store.where)
        await self.connection.execution_options(schema_translate_map={HERE: namespace})
        counts = {
            mapped.__tablename__: await self.reader.read_into(file_format.mapped_table(mapped), namespace)
            for mapped in (ItemRow, ChunkSet, EmbeddingSet)
        }
        view = await self._view()
        await self._make_tables(view)
        tables = [table for table in file_format.own_tables(view) if table.name not in counts]
        catalog = [part.name for part in (REGISTER, *file_format.OF_COLLECTIONS)]
        known = {*counts, *catalog, *(table.name for table in tables)}
        for name in self.reader.archive.tables(self.reader.folder):
            if name not in known:
                raise self.reader.archive.wrong(f"It holds a table {name!r} that {self.row.name!r} does not have.")
        for table in tables:
            counts[table.name] = await self.reader.read_into(table, namespace)
        await text_index.fill(self.connection, await self._view(), self.reader.listener)
        trigrams = "pg_trgm" not in self.store.capabilities.missing
        wanted = list(indexes.wanted(view, trigrams=trigrams))
        for done, index in enumerate(wanted, start=1):  # one by one, each with all the memory and cores for one
            await indexes.create(self.connection, self.store, view, index, self.reader.listener)
            self.reader.listener(Step(f"Index {index.name}", done, len(wanted), "indexes"))
        return counts

    async def _view(self) -> CollectionView:
        view = await collections.view_within(self.connection, self.row)
        chunk_sets, embedding_sets = view.chunk_sets, view.embedding_sets
        keys = {each.key: each.name for each in chunk_sets}
        sound = keys.get(0) == ITEMS and min(keys) >= 0
        sound &= all(
            each.chunk_set in keys
            and each.key > 0
            and 0 < each.dimension <= LARGEST_DIMENSION
            and each.index in LARGEST_INDEXED_DIMENSION
            for each in embedding_sets
        )
        if not sound:
            raise self.reader.archive.wrong(f"The sets that it lists of {self.row.name!r} do not fit together.")
        if embedding_sets:
            self.store.capabilities.need("vector")
        return CollectionView(self.row, chunk_sets, embedding_sets)

    async def _make_tables(self, view: CollectionView) -> None:
        for each in view.chunk_sets:
            await collections.create_set_tables(self.connection, each.key)
        for made in view.embedding_sets:
            await self.connection.execute(CreateTable(vector_table(made.key, made.dimension)))
        await citus.follow(self.connection, view.namespace)
        anew = {"lexed_to": 0, "posted_to": 0, "units": 0, "length": 0}
        await self.connection.execute(update(ChunkSet).values(anew))
