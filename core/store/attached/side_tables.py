"""BM25's tables beside an attached table: built, refreshed and dropped; and the search target over both."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Table,
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
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateTable, DropSchema

from core.errors import StoreError
from core.progress import Listener, Step, nobody
from core.store import collections, indexes, locks, text_index
from core.store.attached.attach import inspect_table
from core.store.attached.columns import AttachedColumns
from core.store.attached.mapping import AttachedTable, Attachment, SideTables, Writes
from core.store.attached.staleness import TableDifference, compared, stale, written_to
from core.store.bulk_load import remove_items
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.migrations import collection as collection_chain
from core.store.names import ITEMS, written
from core.store.schema import ChunkSet, Collection, ItemRow, lexeme_table, posting_table, term_table
from core.store.search_target import Postings, SearchColumn, SearchTarget

ITEM_TABLE = cast("Table", ItemRow.__table__)
ROWS_A_STATEMENT = 10_000
ITEM_COLUMNS = ("key", "id", "title", "text", "metadata", "digest")


async def build_side_tables(store: Store, view: CollectionView, listener: Listener = nobody) -> CollectionView:
    """Lexemes, postings and vocabulary of the attached rows as they are now. Built anew when asked for again."""
    async with locks.writer_lock(store, view.name):
        await _build(store, view, await _looked_at_again(store, view), listener)
    return await collections.get(store, view.name)


async def _build(store: Store, view: CollectionView, attachment: Attachment, listener: Listener) -> None:
    await _forget(store, view, attachment)  # until all is done, searches do without
    aside = await _copy(store, view, attachment)
    listener(Step(f"Rows of {attachment.table.full_name}", aside.rows, aside.rows))
    copied = await collections.get(store, view.name)
    await text_index.update_texts(store, copied, listener)
    await _let_texts_go(store, view)
    await indexes.build(store, copied, listener, loaded=True)
    async with store.begin() as connection:
        await _keep(connection, view, attachment.model_copy(update={"aside": aside}))


async def refresh_aside(
    store: Store, view: CollectionView, listener: Listener = nobody
) -> tuple[CollectionView, TableDifference]:
    """Only what is new is taken in, what changed is redone, and what is gone removed; and how many rows that were.

    Their rows are compared and ours exchanged in one transaction; what follows goes on where it was stopped when this
    is run again. What an earlier version built, which kept nothing to compare by, is built anew.
    """
    async with locks.writer_lock(store, view.name):
        attachment = await _looked_at_again(store, view)
        if attachment.aside is None:
            return await _begun_before(store, view, attachment, listener)
        found, writes = await _exchange(store, view, attachment)
        if found.unknown:
            await _build(store, view, attachment, listener)
        else:
            await _complete(store, view, attachment, writes, found, listener)
    return await collections.get(store, view.name), found


async def _begun_before(
    store: Store, view: CollectionView, attachment: Attachment, listener: Listener
) -> tuple[CollectionView, TableDifference]:
    """A build that was interrupted is made anew: nobody searched what there is of it."""
    if not view.chunk_sets:
        name = shlex.quote(view.name)
        raise StoreError(f"Nothing stands aside for {view.name!r} yet. Build it: rankbook data aside {name}")
    await _build(store, view, attachment, listener)
    built = await collections.get(store, view.name)
    return built, TableDifference(new=built.chunk_sets[0].last_key)


async def _exchange(
    store: Store, view: CollectionView, attachment: Attachment
) -> tuple[TableDifference, Writes | None]:
    """Rows that are gone or changed are removed with all that is derived from them; new and changed ones come in."""
    theirs = AttachedColumns(attachment.table, attachment.facts)
    async with store.begin(view.namespace) as connection:
        distributed = store.capabilities.distributed
        writes = await written_to(connection, attachment, distributed=distributed)  # before they are read
        rows = (await connection.execute(compared(attachment))).all()
        counts = {name: sum(getattr(row, name) for row in rows) for name in ("new", "changed", "gone", "unknown")}
        found = TableDifference(**counts)
        if found.unknown or not found:
            return found, writes
        old = [row.key for row in rows if row.key is not None]
        for at in range(0, len(old), ROWS_A_STATEMENT):
            await remove_items(connection, view, old[at : at + ROWS_A_STATEMENT])
        wanted = [row.id for row in rows if not row.gone]
        for at in range(0, len(wanted), ROWS_A_STATEMENT):
            await _take_in(connection, theirs, theirs.among(wanted[at : at + ROWS_A_STATEMENT]))
        await collections.touch(connection, view.name)
    return found, writes


async def _complete(
    store: Store,
    view: CollectionView,
    attachment: Attachment,
    writes: Writes | None,
    found: TableDifference,
    listener: Listener,
) -> None:
    """What came in, now or before this was stopped, gets its lexemes and postings; then the counters are remembered."""
    copied = await collections.get(store, view.name)
    behind = bool(copied.incomplete_sets)
    if behind:
        await text_index.update_texts(store, copied, listener)
    async with store.begin(view.namespace) as connection:
        held = or_(ItemRow.title != "", ItemRow.text != "")
        await connection.execute(update(ITEM_TABLE).where(held).values(title="", text=""))
        rows = int(await connection.scalar(select(func.count()).select_from(ITEM_TABLE)) or 0)
    if found or behind:
        await indexes.build(store, copied, listener, loaded=True)
    before = attachment.aside
    built_at = before.built_at if before is not None and not (found or behind) else datetime.now(UTC)
    aside = SideTables(rows=rows, built_at=built_at, writes=writes)
    async with store.begin() as connection:
        await _keep(connection, view, attachment.model_copy(update={"aside": aside}), changed=bool(found or behind))


async def drop_aside(store: Store, view: CollectionView) -> CollectionView:
    """Without what was built aside; the table stays attached."""
    async with locks.writer_lock(store, view.name):
        await _forget(store, view, Attachment.of(view))
    return await collections.get(store, view.name)


async def _looked_at_again(store: Store, view: CollectionView) -> Attachment:
    """Their table may have changed since it was attached: a column gone, an id no longer distinct."""
    attachment = Attachment.of(view)
    return attachment.model_copy(update={"facts": await inspect_table(store, attachment.table)})


async def _forget(store: Store, view: CollectionView, attachment: Attachment) -> None:
    async with store.begin() as connection:
        await connection.execute(DropSchema(view.namespace, cascade=True, if_exists=True))
        await _keep(connection, view, attachment.model_copy(update={"aside": None}))


async def _keep(
    connection: AsyncConnection, view: CollectionView, attachment: Attachment, *, changed: bool = True
) -> None:
    kept = attachment.model_dump(mode="json")
    await connection.execute(update(Collection).where(Collection.name == view.name).values(attached=kept))
    if changed:
        await collections.touch(connection, view.name)


async def _copy(store: Store, view: CollectionView, attachment: Attachment) -> SideTables:
    """The schema, and every attached row in it, numbered in the order of the ids."""
    theirs = AttachedColumns(attachment.table, attachment.facts)
    async with store.begin(view.namespace) as connection:
        distributed = store.capabilities.distributed
        writes = await written_to(connection, attachment, distributed=distributed)  # before they are read
        await connection.run_sync(collection_chain.upgrade, view.namespace)
        for make in (lexeme_table, term_table, posting_table):
            await connection.execute(CreateTable(make(0)))
        session = AsyncSession(connection)
        session.add(ChunkSet(key=0, name=ITEMS, chunker={"kind": "none"}))
        await session.flush()
        rows = await _take_in(connection, theirs, true())
    return SideTables(rows=rows, built_at=datetime.now(UTC), writes=writes)


async def _take_in(connection: AsyncConnection, theirs: AttachedColumns, chosen: ColumnElement[bool]) -> int:
    """These rows of theirs as items with keys that were never given before; how many keys have been given then."""
    given = ChunkSet.last_key
    last = int(await connection.scalar(select(given).where(ChunkSet.key == 0)) or 0)
    found = theirs.digested().where(chosen).subquery("found")
    number = literal(last, Integer) + func.row_number().over(order_by=found.c.id)
    no_metadata = literal_column("CAST('{}' AS jsonb)", JSONB)
    rows = select(number, found.c.id, found.c.title, found.c.text, no_metadata, found.c.digest)
    await connection.execute(insert(ITEM_TABLE).from_select(ITEM_COLUMNS, rows))
    newest = int(await connection.scalar(select(func.coalesce(func.max(ItemRow.key), 0))) or 0)
    await connection.execute(update(ChunkSet).where(ChunkSet.key == 0).values(last_key=max(last, newest)))
    return max(last, newest)


async def _let_texts_go(store: Store, view: CollectionView) -> None:
    """Keys, ids and digests stay. Truncated and filled again: an update would leave the old rows' space taken."""
    kept = "CREATE TEMPORARY TABLE kept_aside ON COMMIT DROP AS SELECT key, id, digest FROM {items}"
    again = """
        INSERT INTO {items} (key, id, title, text, metadata, digest)
        SELECT key, id, '', '', '{{}}', digest FROM kept_aside
    """
    async with store.begin(view.namespace) as connection:
        for template in (kept, "TRUNCATE {items}", again):
            await connection.execute(written(template, view.namespace, items=ITEM_TABLE))


def level(store: Store, view: CollectionView, model: str | None = None) -> SearchTarget:
    """The attached rows as units of search. A model that is not theirs leaves the vectors out."""
    attachment = Attachment.of(view)
    theirs = AttachedColumns(attachment.table, attachment.facts)
    missing = _missing_postings(view, attachment)
    if "unaccent" in store.capabilities.missing:
        missing["unaccent"] = store.capabilities.missing["unaccent"]
    columns: dict[str, SearchColumn] = {"lexemes": _lexemes(theirs, attachment)}
    if "pg_trgm" in store.capabilities.missing:
        missing["text"] = store.capabilities.missing["pg_trgm"]
    else:
        columns["text"] = SearchColumn(theirs.relation, theirs.id, theirs.text, theirs.where)
    if why := _no_vectors(store, view, theirs.mapping, model):
        missing["vectors"] = why
    else:
        columns["vectors"] = SearchColumn(theirs.relation, theirs.id, theirs.vectors, theirs.has_vector)
    lag = partial(stale, view.name, attachment, distributed=store.capabilities.distributed)
    return SearchTarget(
        view.namespace,
        theirs.mapping.language,
        columns,
        missing,
        theirs.details(),
        theirs.id,
        None if why else theirs.mapping.model,
        theirs.among,
        lexicon=_lexicon(theirs, attachment),
        extensions=frozenset(store.capabilities.extensions),
        sorts_on=store.capabilities.sorts_on,
        field_of=theirs.field,
        lag=lag if attachment.aside is not None else None,
    )


def documents(view: CollectionView) -> SearchTarget:
    """Whole documents by their ids, each of one row or of several. There is nothing to search in them."""
    attachment = Attachment.of(view)
    theirs = AttachedColumns(attachment.table, attachment.facts)
    return SearchTarget(
        view.namespace,
        theirs.mapping.language,
        {},
        {},
        theirs.documents(),
        theirs.document,
        among=theirs.parts_of,
        field_of=theirs.field,
    )


def parts_of(view: CollectionView, documents: Sequence[str]) -> Select[Any]:
    """The details of the rows of these documents, in the order in which they make up its text."""
    attachment = Attachment.of(view)
    return AttachedColumns(attachment.table, attachment.facts).parts(documents)


def _lexicon(theirs: AttachedColumns, attachment: Attachment) -> Postings | None:
    """What was built aside holds keys of our own, and the ids of theirs only beside the lexemes."""
    if attachment.aside is None:
        return None
    lexemes, postings = lexeme_table(0), posting_table(0)
    among = theirs.aside(lexemes)
    return Postings.of(0, lambda condition: postings.c.key.in_(select(lexemes.c.key).where(among(condition))))


def _lexemes(theirs: AttachedColumns, attachment: Attachment) -> SearchColumn:
    """What was built aside, where it was: it holds titles too, and is smaller to scan than an expression."""
    if attachment.aside is None:
        return SearchColumn(theirs.relation, theirs.id, theirs.lexemes, theirs.where)
    lexemes = lexeme_table(0)
    return SearchColumn(lexemes, lexemes.c.id, lexemes.c.tsv, narrowing=theirs.aside(lexemes))


def _missing_postings(view: CollectionView, attachment: Attachment) -> dict[str, str]:
    if attachment.aside is not None:
        return {}
    why = (
        f"{view.name!r} is an attached table, and has no {{}} of Rankbook's own yet. Build it aside, without "
        f"touching the table: rankbook data aside {view.name!r}"
    )
    return {"postings": why.format("postings"), "terms": why.format("vocabulary")}


def _no_vectors(store: Store, view: CollectionView, mapping: AttachedTable, model: str | None) -> str | None:
    """Why there are no vectors to search, if so."""
    if mapping.embedding is None:
        return (
            f"No embedding column of {mapping.full_name} is mapped in {view.name!r}. Attach it again with --embedding "
            "and --model."
        )
    if model not in (None, mapping.model):
        return f"The embeddings of {view.name!r} were made by the model {mapping.model!r}, not by {model!r}."
    return store.capabilities.missing.get("vector")
