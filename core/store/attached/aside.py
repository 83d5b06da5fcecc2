"""What BM25 and fuzzy search need, built from their rows in our own schema. Their table is read once, and only read.

The rows are copied into the collection's `items`, from which the lexicon is made as it is for any collection; then the
copies of the texts are let go. Digests of them stay, so that a refresh knows the rows that changed.
"""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import ColumnElement, Integer, Table, func, insert, literal, literal_column, or_, select, true, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateTable, DropSchema

from core.errors import StoreError
from core.store import collections, indexes, lexicon, writers
from core.store.attached.inspection import inspect
from core.store.attached.mapping import Aside, Attachment, Writes
from core.store.attached.reading import Theirs
from core.store.attached.staleness import Difference, compared, written_to
from core.store.collections import View
from core.store.engine import Store
from core.store.loading import remove_items
from core.store.migrations import collection as collection_chain
from core.store.names import ITEMS
from core.store.progress import Listener, Step, nobody
from core.store.schema import ChunkSet, Collection, Item, lexeme_table, posting_table, term_table
from core.store.statements import written

ITEM_TABLE = cast("Table", Item.__table__)
ROWS_A_STATEMENT = 10_000
ITEM_COLUMNS = ("key", "id", "title", "text", "metadata", "digest")


async def build_aside(store: Store, view: View, listener: Listener = nobody) -> View:
    """Lexemes, postings and vocabulary of the attached rows as they are now. Built anew when asked for again."""
    async with writers.alone(store, view.name):
        await _build(store, view, await _looked_at_again(store, view), listener)
    return await collections.get(store, view.name)


async def _build(store: Store, view: View, attachment: Attachment, listener: Listener) -> None:
    await _forget(store, view, attachment)  # until all is done, searches do without
    aside = await _copy(store, view, attachment)
    listener(Step(f"Rows of {attachment.table.full_name}", aside.rows, aside.rows))
    copied = await collections.get(store, view.name)
    await lexicon.update_texts(store, copied, listener)
    await _let_texts_go(store, view)
    await indexes.build(store, copied, listener, loaded=True)
    async with store.begin() as connection:
        await _keep(connection, view, attachment.model_copy(update={"aside": aside}))


async def refresh_aside(store: Store, view: View, listener: Listener = nobody) -> tuple[View, Difference]:
    """Only what is new is taken in, what changed is redone, and what is gone removed; and how many rows that were.

    Their rows are compared and ours exchanged in one transaction; what follows goes on where it was stopped when this
    is run again. What an earlier version built, which kept nothing to compare by, is built anew.
    """
    async with writers.alone(store, view.name):
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
    store: Store, view: View, attachment: Attachment, listener: Listener
) -> tuple[View, Difference]:
    """A build that was interrupted is made anew: nobody searched what there is of it."""
    if not view.chunk_sets:
        name = shlex.quote(view.name)
        raise StoreError(f"Nothing stands aside for {view.name!r} yet. Build it: rankbook data aside {name}")
    await _build(store, view, attachment, listener)
    built = await collections.get(store, view.name)
    return built, Difference(new=built.chunk_sets[0].last_key)


async def _exchange(store: Store, view: View, attachment: Attachment) -> tuple[Difference, Writes | None]:
    """Rows that are gone or changed are removed with all that is derived from them; new and changed ones come in."""
    theirs = Theirs(attachment.table, attachment.facts)
    async with store.begin(view.namespace) as connection:
        distributed = store.capabilities.distributed
        writes = await written_to(connection, attachment, distributed=distributed)  # before they are read
        rows = (await connection.execute(compared(attachment))).all()
        counts = {name: sum(getattr(row, name) for row in rows) for name in ("new", "changed", "gone", "unknown")}
        found = Difference(**counts)
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
    store: Store, view: View, attachment: Attachment, writes: Writes | None, found: Difference, listener: Listener
) -> None:
    """What came in, now or before this was stopped, gets its lexemes and postings; then the counters are remembered."""
    copied = await collections.get(store, view.name)
    behind = bool(copied.behind)
    if behind:
        await lexicon.update_texts(store, copied, listener)
    async with store.begin(view.namespace) as connection:
        held = or_(Item.title != "", Item.text != "")
        await connection.execute(update(ITEM_TABLE).where(held).values(title="", text=""))
        rows = int(await connection.scalar(select(func.count()).select_from(ITEM_TABLE)) or 0)
    if found or behind:
        await indexes.build(store, copied, listener, loaded=True)
    before = attachment.aside
    built_at = before.built_at if before is not None and not (found or behind) else datetime.now(UTC)
    aside = Aside(rows=rows, built_at=built_at, writes=writes)
    async with store.begin() as connection:
        await _keep(connection, view, attachment.model_copy(update={"aside": aside}), changed=bool(found or behind))


async def drop_aside(store: Store, view: View) -> View:
    """Without what was built aside; the table stays attached."""
    async with writers.alone(store, view.name):
        await _forget(store, view, Attachment.of(view))
    return await collections.get(store, view.name)


async def _looked_at_again(store: Store, view: View) -> Attachment:
    """Their table may have changed since it was attached: a column gone, an id no longer distinct."""
    attachment = Attachment.of(view)
    return attachment.model_copy(update={"facts": await inspect(store, attachment.table)})


async def _forget(store: Store, view: View, attachment: Attachment) -> None:
    async with store.begin() as connection:
        await connection.execute(DropSchema(view.namespace, cascade=True, if_exists=True))
        await _keep(connection, view, attachment.model_copy(update={"aside": None}))


async def _keep(connection: AsyncConnection, view: View, attachment: Attachment, *, changed: bool = True) -> None:
    kept = attachment.model_dump(mode="json")
    await connection.execute(update(Collection).where(Collection.name == view.name).values(attached=kept))
    if changed:
        await collections.touch(connection, view.name)


async def _copy(store: Store, view: View, attachment: Attachment) -> Aside:
    """The schema, and every attached row in it, numbered in the order of the ids."""
    theirs = Theirs(attachment.table, attachment.facts)
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
    return Aside(rows=rows, built_at=datetime.now(UTC), writes=writes)


async def _take_in(connection: AsyncConnection, theirs: Theirs, chosen: ColumnElement[bool]) -> int:
    """These rows of theirs as items with keys that were never given before; how many keys have been given then."""
    given = ChunkSet.last_key
    last = int(await connection.scalar(select(given).where(ChunkSet.key == 0)) or 0)
    found = theirs.digested().where(chosen).subquery("found")
    number = literal(last, Integer) + func.row_number().over(order_by=found.c.id)
    no_metadata = literal_column("CAST('{}' AS jsonb)", JSONB)
    rows = select(number, found.c.id, found.c.title, found.c.text, no_metadata, found.c.digest)
    await connection.execute(insert(ITEM_TABLE).from_select(ITEM_COLUMNS, rows))
    newest = int(await connection.scalar(select(func.coalesce(func.max(Item.key), 0))) or 0)
    await connection.execute(update(ChunkSet).where(ChunkSet.key == 0).values(last_key=max(last, newest)))
    return max(last, newest)


async def _let_texts_go(store: Store, view: View) -> None:
    """Keys, ids and digests stay. Truncated and filled again: an update would leave the old rows' space taken."""
    kept = "CREATE TEMPORARY TABLE kept_aside ON COMMIT DROP AS SELECT key, id, digest FROM {items}"
    again = """
        INSERT INTO {items} (key, id, title, text, metadata, digest)
        SELECT key, id, '', '', '{{}}', digest FROM kept_aside
    """
    async with store.begin(view.namespace) as connection:
        for template in (kept, "TRUNCATE {items}", again):
            await connection.execute(written(template, view.namespace, items=ITEM_TABLE))
