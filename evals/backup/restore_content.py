"""A collection's documents, chunks and vectors from a backup into a schema of its own, with all that is made of them.

Everything in the caller's transaction, indexes included: a collection is there as a whole or not at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
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
class Registered:
    """The collection as it is registered here; `note` says what could not be."""

    row: Collection | None
    note: str = ""


async def register(store: Store, taking: RowReader, target: RestoreTarget) -> Registered:
    """Enter the collection under its name. A table is attached where it was named, and looked at anew."""
    incoming, attachment = await registered_row(taking, target.kept), None
    if target.kept.kind == "attached":
        attachment, note = await _attachment(store, taking.archive, incoming, target)
        if attachment is None:
            return Registered(None, note)
    await collections.check_language(taking.connection, incoming.language)
    given = {column: getattr(incoming, column) for column in REGISTERED}
    given["fields"] = names.checked_fields(given["fields"])
    row = Collection(
        name=target.name,
        namespace=names.schema_of(target.name),
        language=incoming.language,
        attached=attachment and attachment.model_dump(mode="json"),
        **given,
    )
    await _refuse_schema(taking.connection, row)
    await collections.register(AsyncSession(taking.connection, expire_on_commit=False), row)
    if attachment is not None:
        await let_read_within(store, taking.connection, target.name, attachment.table)
    return Registered(row)


async def registered_row(taking: RowReader, kept: BackedUpCollection) -> Any:
    """What the file says of a collection, refused where its list of collections says something else."""
    incoming = await taking.aside(REGISTER)
    found = (await taking.connection.execute(select(incoming))).all()
    if len(found) != 1:
        raise taking.archive.wrong(f"It does not say what the collection {kept.name!r:.80} is.")
    (row,) = found
    kind = "own" if row.attached is None else "attached"
    if (row.name, kind, row.created_at) != (kept.name, kept.kind, kept.created_at):
        raise taking.archive.wrong(
            f"Its list and its tables differ in what the collection {kept.name!r:.80} is. Nothing was restored."
        )
    if not (isinstance(row.fields, list) and all(isinstance(each, str) for each in row.fields)):
        raise taking.archive.wrong(f"The fields of {kept.name!r:.80} are no list of names. Nothing was restored.")
    return row


async def _attachment(store: Store, archive: Archive, row: Any, target: RestoreTarget) -> tuple[Attachment | None, str]:
    """To the table that was named, by the file's mapping of columns; what the server says of them is asked here."""
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


async def _refuse_schema(connection: AsyncConnection, row: Collection) -> None:
    if row.namespace in await connection.run_sync(lambda sync: inspect(sync).get_schema_names()):
        raise StoreError(f"There is a schema {row.namespace!r} already, which {row.name!r} would need. Give --as NAME.")


@dataclass(slots=True)
class Content:
    """What fills one registered collection."""

    store: Store
    taking: RowReader
    row: Collection

    @property
    def connection(self) -> AsyncConnection:
        return self.taking.connection

    async def fill(self) -> dict[str, int]:
        """Rows by table."""
        namespace = self.row.namespace
        await self.connection.run_sync(collection_chain.upgrade, namespace)
        await citus.distribute(self.connection, namespace, self.store.where)
        await self.connection.execution_options(schema_translate_map={HERE: namespace})
        counts = {
            mapped.__tablename__: await self.taking.into(file_format.mapped_table(mapped), namespace)
            for mapped in (ItemRow, ChunkSet, EmbeddingSet)
        }
        view = await self._view()
        await self._make_tables(view)
        made = [table for table in file_format.own_tables(view) if table.name not in counts]
        self._refuse_strange([*counts, *(table.name for table in made)])
        for table in made:
            counts[table.name] = await self.taking.into(table, namespace)
        await text_index.fill(self.connection, await self._view(), self.taking.listener)
        await self._indexes(view)
        return counts

    async def _view(self) -> CollectionView:
        view = await collections.view_within(self.connection, self.row)
        self._check_sets(view.chunk_sets, view.embedding_sets)
        return view

    def _check_sets(self, chunk_sets: Sequence[ChunkSet], embedding_sets: Sequence[EmbeddingSet]) -> None:
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
            raise self.taking.archive.wrong(f"The sets that it lists of {self.row.name!r} do not fit together.")
        if embedding_sets:
            self.store.capabilities.need("vector")

    def _refuse_strange(self, known: Sequence[str]) -> None:
        catalog = [part.name for part in (REGISTER, *file_format.OF_COLLECTIONS)]
        for name in self.taking.archive.tables(self.taking.folder):
            if name not in known and name not in catalog:
                raise self.taking.archive.wrong(f"It holds a table {name!r} that {self.row.name!r} does not have.")

    async def _make_tables(self, view: CollectionView) -> None:
        for each in view.chunk_sets:
            await collections.create_set_tables(self.connection, each.key)
        for made in view.embedding_sets:
            await self.connection.execute(CreateTable(vector_table(made.key, made.dimension)))
        await citus.follow(self.connection, view.namespace)
        anew = {"lexed_to": 0, "posted_to": 0, "units": 0, "length": 0}
        await self.connection.execute(update(ChunkSet).values(anew))

    async def _indexes(self, view: CollectionView) -> None:
        """One after the other, each with all of the memory and the cores that the server allows one."""
        trigrams = "pg_trgm" not in self.store.capabilities.missing
        wanted = list(indexes.wanted(view, trigrams=trigrams))
        for done, index in enumerate(wanted, start=1):
            await indexes.create(self.connection, self.store, view, index, self.taking.listener)
            self.taking.listener(Step(f"Index {index.name}", done, len(wanted), "indexes"))
