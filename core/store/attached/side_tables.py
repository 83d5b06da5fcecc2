"""BM25's tables beside an attached table: built, refreshed and dropped; and the search target over both."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.schema import DropSchema

from core.errors import StoreError
from core.progress import Listener, Step, nobody
from core.store import collections, indexes, locks, text_index
from core.store.attached.attach import inspect_table
from core.store.attached.columns import AttachedColumns
from core.store.attached.mapping import Attachment, SideTables, Writes
from core.store.attached.staleness import TableDifference, differing_rows, staleness_notes, written_to
from core.store.bulk_load import remove_items
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.migrations import collection as collection_chain
from core.store.names import written
from core.store.schema import ITEM_TABLE, ChunkSet, Collection, ItemRow, lexeme_table, posting_table
from core.store.search_target import Postings, SearchColumn, SearchTarget

ROWS_A_STATEMENT = 10_000
ITEM_COLUMNS = ("key", "id", "title", "text", "metadata", "digest")
KEEP_KEYS = "CREATE TEMPORARY TABLE kept_aside ON COMMIT DROP AS SELECT key, id, digest FROM {items}"
RESTORE_KEYS = """
    INSERT INTO {items} (key, id, title, text, metadata, digest)
    SELECT key, id, '', '', '{{}}', digest FROM kept_aside
"""


async def build_side_tables(store: Store, view: CollectionView, listener: Listener = nobody) -> CollectionView:
    """Lexemes, postings and vocabulary of the attached rows as they are now, replacing what was built before."""
    async with locks.writer_lock(store, view.name):
        await _build(store, view, await _inspected(store, view), listener)
    return await collections.get(store, view.name)


async def _build(store: Store, view: CollectionView, attachment: Attachment, listener: Listener) -> None:
    await _drop(store, view, attachment)  # until all is done, searches do without
    aside = await _copy_table(store, view, attachment)
    listener(Step(f"Rows of {attachment.table.full_name}", aside.rows, aside.rows))
    copied = await collections.get(store, view.name)
    await text_index.update_texts(store, copied, listener)
    async with store.begin(view.namespace) as connection:
        # Keys, ids and digests stay. An update would leave the space of the old rows taken.
        for template in (KEEP_KEYS, "TRUNCATE {items}", RESTORE_KEYS):
            await connection.execute(written(template, view.namespace, items=ITEM_TABLE))
    await indexes.build(store, copied, listener, loaded=True)
    async with store.begin() as connection:
        await _remember(connection, view, attachment.model_copy(update={"aside": aside}))


async def refresh_side_tables(
    store: Store, view: CollectionView, listener: Listener = nobody
) -> tuple[CollectionView, TableDifference]:
    """Add new rows, redo changed ones and remove those that are gone; returns how many rows each of these were.

    Rows are compared and exchanged in one transaction; what follows goes on where it was stopped when this is run
    again. Side tables of an earlier version, which kept no digests to compare by, are built anew, and so are those of a
    build that was interrupted: nobody has searched them.
    """
    async with locks.writer_lock(store, view.name):
        attachment = await _inspected(store, view)
        if attachment.aside is None:
            if not view.chunk_sets:
                name = shlex.quote(view.name)
                raise StoreError(f"Nothing stands aside for {view.name!r} yet. Build it: rankbook data aside {name}")
            await _build(store, view, attachment, listener)
            built = await collections.get(store, view.name)
            return built, TableDifference(new=built.chunk_sets[0].last_key)
        difference, writes = await _exchange(store, view, attachment)
        if difference.unknown:
            await _build(store, view, attachment, listener)
        else:
            await _finish(store, view, attachment, attachment.aside, writes, listener, changed=bool(difference))
    return await collections.get(store, view.name), difference


async def _exchange(
    store: Store, view: CollectionView, attachment: Attachment
) -> tuple[TableDifference, Writes | None]:
    """Remove rows that are gone or changed with all that is derived from them; copy new and changed ones."""
    columns = AttachedColumns(attachment.table, attachment.facts)
    async with store.begin(view.namespace) as connection:
        distributed = store.capabilities.distributed
        writes = await written_to(connection, attachment, distributed=distributed)  # before the rows are read
        rows = (await connection.execute(differing_rows(attachment))).all()
        counts = {name: sum(getattr(row, name) for row in rows) for name in ("new", "changed", "gone", "unknown")}
        difference = TableDifference(**counts)
        if difference.unknown or not difference:
            return difference, writes
        old = [row.key for row in rows if row.key is not None]
        for at in range(0, len(old), ROWS_A_STATEMENT):
            await remove_items(connection, view, old[at : at + ROWS_A_STATEMENT])
        wanted = [row.id for row in rows if not row.gone]
        for at in range(0, len(wanted), ROWS_A_STATEMENT):
            await _copy_rows(connection, columns, columns.among(wanted[at : at + ROWS_A_STATEMENT]))
        await collections.touch(connection, view.name)
    return difference, writes


async def _finish(
    store: Store,
    view: CollectionView,
    attachment: Attachment,
    before: SideTables,
    writes: Writes | None,
    listener: Listener,
    *,
    changed: bool,
) -> None:
    """Lexemes and postings of the rows that were copied, now or before a stop; then the counters are remembered."""
    copied = await collections.get(store, view.name)
    incomplete = bool(copied.incomplete_sets)
    changed = changed or incomplete
    if incomplete:
        await text_index.update_texts(store, copied, listener)
    async with store.begin(view.namespace) as connection:
        with_text = or_(ItemRow.title != "", ItemRow.text != "")
        await connection.execute(update(ITEM_TABLE).where(with_text).values(title="", text=""))
        rows = int(await connection.scalar(select(func.count()).select_from(ITEM_TABLE)) or 0)
    if changed:
        await indexes.build(store, copied, listener, loaded=True)
    aside = SideTables(rows=rows, built_at=datetime.now(UTC) if changed else before.built_at, writes=writes)
    async with store.begin() as connection:
        await _remember(connection, view, attachment.model_copy(update={"aside": aside}), changed=changed)


async def drop_side_tables(store: Store, view: CollectionView) -> CollectionView:
    """Drop what was built; the table stays attached."""
    async with locks.writer_lock(store, view.name):
        await _drop(store, view, Attachment.of(view))
    return await collections.get(store, view.name)


async def _inspected(store: Store, view: CollectionView) -> Attachment:
    """The table may have changed since it was attached: a column gone, an id no longer distinct."""
    attachment = Attachment.of(view)
    return attachment.model_copy(update={"facts": await inspect_table(store, attachment.table)})


async def _drop(store: Store, view: CollectionView, attachment: Attachment) -> None:
    async with store.begin() as connection:
        await connection.execute(DropSchema(view.namespace, cascade=True, if_exists=True))
        await _remember(connection, view, attachment.model_copy(update={"aside": None}))


async def _remember(
    connection: AsyncConnection, view: CollectionView, attachment: Attachment, *, changed: bool = True
) -> None:
    attached = attachment.model_dump(mode="json")
    await connection.execute(update(Collection).where(Collection.name == view.name).values(attached=attached))
    if changed:
        await collections.touch(connection, view.name)


async def _copy_table(store: Store, view: CollectionView, attachment: Attachment) -> SideTables:
    """The schema, and every attached row in it, numbered in the order of the ids."""
    async with store.begin(view.namespace) as connection:
        distributed = store.capabilities.distributed
        writes = await written_to(connection, attachment, distributed=distributed)  # before the rows are read
        await connection.run_sync(collection_chain.upgrade, view.namespace)
        await collections.create_item_set(connection)
        rows = await _copy_rows(connection, AttachedColumns(attachment.table, attachment.facts), true())
    return SideTables(rows=rows, built_at=datetime.now(UTC), writes=writes)


async def _copy_rows(connection: AsyncConnection, columns: AttachedColumns, chosen: ColumnElement[bool]) -> int:
    """Copy attached rows as items with keys that were never given before; returns the last key given by then."""
    last = int(await connection.scalar(select(ChunkSet.last_key).where(ChunkSet.key == 0)) or 0)
    found = columns.digested().where(chosen).subquery("found")
    number = literal(last, Integer) + func.row_number().over(order_by=found.c.id)
    no_metadata = literal_column("CAST('{}' AS jsonb)", JSONB)
    rows = select(number, found.c.id, found.c.title, found.c.text, no_metadata, found.c.digest)
    await connection.execute(insert(ITEM_TABLE).from_select(ITEM_COLUMNS, rows))
    newest = int(await connection.scalar(select(func.coalesce(func.max(ItemRow.key), 0))) or 0)
    await connection.execute(update(ChunkSet).where(ChunkSet.key == 0).values(last_key=max(last, newest)))
    return max(last, newest)


def search_target(store: Store, view: CollectionView, model: str | None = None) -> SearchTarget:
    """The attached rows as units of search. Another model than the mapped one leaves the vectors out.

    Where there are side tables, lexemes come from them: they include titles, and are smaller to scan than an expression
    over the texts. They have keys of their own; only the table of lexemes has the rows' ids.
    """
    attachment, capabilities = Attachment.of(view), store.capabilities
    table = AttachedColumns(attachment.table, attachment.facts)
    mapping, columns, missing = table.mapping, dict[str, SearchColumn](), dict[str, str]()
    lexicon = lag = None
    if attachment.aside is not None:
        lexemes, postings = lexeme_table(0), posting_table(0)
        narrow = table.narrow_side_table(lexemes)
        lexicon = Postings.of(0, lambda condition: postings.c.key.in_(select(lexemes.c.key).where(narrow(condition))))
        columns["lexemes"] = SearchColumn(lexemes, lexemes.c.id, lexemes.c.tsv, narrowing=narrow)
        lag = partial(staleness_notes, view.name, attachment, distributed=capabilities.distributed)
    else:
        columns["lexemes"] = SearchColumn(table.relation, table.id, table.lexemes, table.where)
        why = (
            f"{view.name!r} is an attached table, and has no {{}} of Rankbook's own yet. Build it aside, without "
            f"touching the table: rankbook data aside {view.name!r}"
        )
        missing |= {"postings": why.format("postings"), "terms": why.format("vocabulary")}
    if "unaccent" in capabilities.missing:
        missing["unaccent"] = capabilities.missing["unaccent"]
    if "pg_trgm" in capabilities.missing:
        missing["text"] = capabilities.missing["pg_trgm"]
    else:
        columns["text"] = SearchColumn(table.relation, table.id, table.text, table.where)
    if mapping.embedding is None:
        missing["vectors"] = (
            f"No embedding column of {mapping.full_name} is mapped in {view.name!r}. Attach it again with --embedding "
            "and --model."
        )
    elif model not in (None, mapping.model):
        missing["vectors"] = (
            f"The embeddings of {view.name!r} were made by the model {mapping.model!r}, not by {model!r}."
        )
    elif "vector" in capabilities.missing:
        missing["vectors"] = capabilities.missing["vector"]
    else:
        columns["vectors"] = SearchColumn(table.relation, table.id, table.vectors, table.has_vector)
    return SearchTarget(
        view.namespace,
        mapping.language,
        columns,
        missing,
        table.details(),
        table.id,
        mapping.model if "vectors" in columns else None,
        table.among,
        lexicon=lexicon,
        extensions=frozenset(capabilities.extensions),
        sorts_on=capabilities.sorts_on,
        field_of=table.field,
        lag=lag,
    )


def documents(view: CollectionView) -> SearchTarget:
    """Whole documents by their ids, each of one row or of several. There is nothing to search in them."""
    attachment = Attachment.of(view)
    table = AttachedColumns(attachment.table, attachment.facts)
    return SearchTarget(
        view.namespace,
        table.mapping.language,
        {},
        {},
        table.documents(),
        table.document,
        among=table.parts_of,
        field_of=table.field,
    )


def parts_of(view: CollectionView, documents: Sequence[str]) -> Select[Any]:
    """The details of these documents' rows, in the order in which they make up the text."""
    attachment = Attachment.of(view)
    return AttachedColumns(attachment.table, attachment.facts).parts(documents)
