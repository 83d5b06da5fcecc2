"""Mappings of the tables that well-known libraries create. Each looks at the server for the form it finds there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from sqlalchemy import ColumnClause, ColumnElement, Text, column, func, literal, select, table, text
from sqlalchemy import cast as sql_cast
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import StoreError, UnknownName
from core.registry import Registry
from core.store.attached import inspection
from core.store.attached.inspection import Relation
from core.store.attached.mapping import AttachedTable, mapped
from core.store.engine import Store


class Like(ABC):
    """The tables of one library, in one schema of the server, read with one model and language."""

    def __init__(self, connection: AsyncConnection, namespace: str, model: str, language: str) -> None:
        self.connection, self.namespace, self.model, self.language = connection, namespace, model, language

    @abstractmethod
    async def mapping(self, which: str) -> AttachedTable:
        """The mapping of the table or collection of that name."""

    async def found(self, name: str) -> Relation | None:
        return await inspection.relation(self.connection, self.namespace, name)

    async def needed(self, *candidates: str) -> tuple[str, Relation]:
        """The first of these relations that is there."""
        for name in candidates:
            if relation := await self.found(name):
                return name, relation
        names = {"namespace": self.namespace}
        known = await self.connection.scalars(text(inspection.RELATIONS), names)
        raise UnknownName(f"table in the schema {self.namespace!r}", candidates[0], known)

    def mapped(self, table: str, **columns: object) -> AttachedTable:
        return mapped(
            table=table,
            namespace=self.namespace,
            embedding="embedding",
            model=self.model,
            language=self.language,
            **columns,
        )

    async def distinct(self, name: str, identifier: str, where: ColumnElement[bool] | None = None) -> bool:
        """Whether each row has a value of its own in that column."""
        stored: ColumnClause[Any] = column(identifier)
        relation = table(name, stored, schema=self.namespace)
        same = func.count() == func.count(stored.distinct())
        asked = select(same).select_from(relation)
        return bool(await self.connection.scalar(asked if where is None else asked.where(where)))


likes: Registry[type[Like]] = Registry("library whose tables can be attached")


async def like(
    name: str, store: Store, which: str, model: str, *, namespace: str = "public", language: str = "english"
) -> AttachedTable:
    """The mapping of a table (or, for LangChain, a collection) that a library made. Looks, and changes nothing."""
    library = likes[name]
    async with store.begin(read_only=True) as connection:
        return await library(connection, namespace, model, language).mapping(which)


@likes.register("langchain")
class LangChain(Like):
    """LangChain's PGVector (a collection by name or uuid), or a table of its PGVectorStore (by the table's name)."""

    async def mapping(self, which: str) -> AttachedTable:
        collections = await self._collections()
        chosen = [uuid for uuid, name in collections if which in (uuid, name)]
        if len(chosen) > 1:
            raise StoreError(f"LangChain has {len(chosen)} collections {which!r}. Give the uuid: {', '.join(chosen)}.")
        if chosen:
            return await self._shared(chosen[0])
        relation = await self.found(which)
        if relation and {"langchain_id", "content", "embedding"} <= set(relation.columns):
            return self._own_table(which, relation)
        raise UnknownName(
            "LangChain collection or PGVectorStore table",
            which,
            [name for _, name in collections],
            way_out=f"Looked in the schema {self.namespace!r}.",
        )

    async def _collections(self) -> list[tuple[str, str]]:
        if not await self.found("langchain_pg_collection"):
            return []
        stored = table("langchain_pg_collection", column("uuid"), column("name"), schema=self.namespace)
        uuid, name = stored.c.uuid, stored.c.name
        rows = await self.connection.execute(
            select(sql_cast(uuid, Text), name).select_from(stored).order_by(name, uuid)
        )
        return [(row[0], row[1] or "") for row in rows]

    async def _shared(self, collection: str) -> AttachedTable:
        name, relation = await self.needed("langchain_pg_embedding")
        return self.mapped(
            name,
            id=await self._identifier(name, relation, collection),
            text="document",
            metadata="cmetadata",
            where={"collection_id": collection},
        )

    async def _identifier(self, name: str, relation: Relation, collection: str) -> str:
        """`id` today. Before, `custom_id` held the user's ids, if there were any, beside a uuid."""
        if "id" in relation.columns:
            return "id"
        of_it = sql_cast(column("collection_id"), Text) == literal(collection)
        return "custom_id" if await self.distinct(name, "custom_id", of_it) else "uuid"

    def _own_table(self, name: str, relation: Relation) -> AttachedTable:
        optional = {"tsv": "content_tsv", "metadata": "langchain_metadata"}
        there = {field: column for field, column in optional.items() if column in relation.columns}
        return self.mapped(name, id="langchain_id", text="content", **there)


@likes.register("llamaindex")
class LlamaIndex(Like):
    """LlamaIndex's PGVectorStore, by its table_name, which the library puts `data_` before."""

    async def mapping(self, which: str) -> AttachedTable:
        name, relation = await self.needed(f"data_{which.lower()}", which)
        identifier = "node_id" if await self.distinct(name, "node_id") else "id"
        tsv = "text_search_tsv" if "text_search_tsv" in relation.columns else None
        return self.mapped(name, id=identifier, text="text", metadata="metadata_", tsv=tsv)


@likes.register("haystack")
class Haystack(Like):
    """Haystack's PgvectorDocumentStore, by its table_name; haystack_documents by default."""

    async def mapping(self, which: str) -> AttachedTable:
        name, _ = await self.needed(which or "haystack_documents")
        return self.mapped(name, id="id", text="content", metadata="meta")
