"""What BM25 and fuzzy search need, built from their rows in our own schema. Their table is read once, and only read.

The rows are copied into the collection's `items`, from which the lexicon is made as it is for any collection; then the
copies of the texts are let go.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from sqlalchemy import LargeBinary, Table, func, insert, literal, literal_column, select, text, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.schema import CreateTable, DropSchema

from core.store import collections, indexes, lexicon, writers
from core.store.attached.inspection import inspect
from core.store.attached.mapping import Aside, Attachment
from core.store.attached.reading import Theirs
from core.store.collections import View
from core.store.engine import Store
from core.store.migrations import collection as collection_chain
from core.store.names import ITEMS
from core.store.progress import Listener, Step, nobody
from core.store.schema import ChunkSet, Collection, Item, lexeme_table, posting_table, term_table
from core.store.statements import quoted

ITEM_TABLE = cast("Table", Item.__table__)
ITEM_COLUMNS = ("key", "id", "title", "text", "metadata", "digest")


async def build_aside(store: Store, view: View, listener: Listener = nobody) -> View:
    """Lexemes, postings and vocabulary of the attached rows as they are now. Built anew when asked for again."""
    async with writers.alone(store, view.name):
        attachment = await _looked_at_again(store, view)
        await _forget(store, view, attachment)  # until all is done, searches do without
        rows = await _copy(store, view, attachment)
        listener(Step(f"Rows of {attachment.table.full_name}", rows, rows))
        copied = await collections.get(store, view.name)
        await lexicon.update_texts(store, copied, listener)
        await _let_texts_go(store, view)
        await indexes.build(store, copied, listener, loaded=True)
        done = attachment.model_copy(update={"aside": Aside(rows=rows, built_at=datetime.now(UTC))})
        async with store.begin() as connection:
            await _keep(connection, view, done)
    return await collections.get(store, view.name)


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


async def _keep(connection: AsyncConnection, view: View, attachment: Attachment) -> None:
    kept = attachment.model_dump(mode="json")
    await connection.execute(update(Collection).where(Collection.name == view.name).values(attached=kept))
    await collections.touch(connection, view.name)


async def _copy(store: Store, view: View, attachment: Attachment) -> int:
    """The schema, and every attached row in it, numbered in the order of the ids."""
    theirs = Theirs(attachment.table, attachment.facts)
    async with store.begin(view.namespace) as connection:
        await connection.run_sync(collection_chain.upgrade, view.namespace)
        for make in (lexeme_table, term_table, posting_table):
            await connection.execute(CreateTable(make(0)))
        await connection.execute(insert(ITEM_TABLE).from_select(ITEM_COLUMNS, _numbered(theirs)))
        rows = int(await connection.scalar(select(func.count()).select_from(ITEM_TABLE)) or 0)
        session = AsyncSession(connection)
        session.add(ChunkSet(key=0, name=ITEMS, chunker={"kind": "none"}, last_key=rows))
        await session.flush()
    return rows


def _numbered(theirs: Theirs) -> Any:
    found = (
        select(theirs.id.label("id"), theirs.title.label("title"), func.coalesce(theirs.text, "").label("text"))
        .select_from(theirs.relation)
        .where(theirs.where)
        .subquery("found")
    )
    number = func.row_number().over(order_by=found.c.id)
    return select(number, found.c.id, found.c.title, found.c.text, *_nothing())


def _nothing() -> tuple[Any, Any]:
    return literal_column("CAST('{}' AS jsonb)", JSONB), literal(b"", LargeBinary)


async def _let_texts_go(store: Store, view: View) -> None:
    """Keys and ids stay. Truncated and filled again: an update would leave the old rows' space taken."""
    lexemes = lexeme_table(0)
    empty: Any = literal_column("''")
    kept = select(lexemes.c.key, lexemes.c.id, empty.label("title"), empty.label("text"), *_nothing())
    async with store.begin(view.namespace) as connection:
        await connection.execute(text(f"TRUNCATE {quoted(view.namespace, ITEM_TABLE)}".replace(":", r"\:")))
        await connection.execute(insert(ITEM_TABLE).from_select(ITEM_COLUMNS, kept))
