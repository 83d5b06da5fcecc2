"""Mappings of the tables that well-known libraries create. Each looks at the server for the form it finds there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from typing import Any, Final

from sqlalchemy import ColumnClause, ColumnElement, Text, column, func, literal, select, table, text
from sqlalchemy import cast as sql_cast
from sqlalchemy.dialects.postgresql import JSON
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import StoreError, UnknownName
from core.registry import Registry
from core.store.attached import attach
from core.store.attached.attach import Relation
from core.store.attached.columns import without_nul
from core.store.attached.mapping import AttachedTable, mapped, relation_name, written_name
from core.store.engine import Store

OWN_TABLE: Final = ("langchain_id", "content", "embedding")  # columns of a PGVectorStore, unless configured otherwise
# What LangChain's loaders call the document that a row was cut from, and its ParentDocumentRetriever after them.
SOURCES: Final = ("source", "doc_id")


class TableTemplate(ABC):
    """The tables of one library, in one schema of the server, read with one model and language."""

    def __init__(self, connection: AsyncConnection, namespace: str, model: str, language: str) -> None:
        self.connection, self.namespace, self.model, self.language = connection, namespace, model, language

    @abstractmethod
    async def mapping(self, which: str) -> AttachedTable:
        """The mapping of the table or collection of that name."""

    @abstractmethod
    async def names(self) -> list[str]:
        """What `mapping` takes: every table or collection of the library's that is in this schema."""

    async def tables(self, *columns: str, beginning: str = "") -> list[str]:
        """The tables that have all these columns, in the order of their names."""
        values = {"namespace": self.namespace, "columns": list(columns), "beginning": beginning}
        return list(await self.connection.scalars(text(attach.WITH_COLUMNS), values))

    async def parent(
        self, table_name: str, column_name: str, *keys: str, where: ColumnElement[bool] | None = None
    ) -> tuple[str, str] | None:
        """The first of these keys under which some row names its document."""
        holder: ColumnClause[Any] = column(column_name)
        relation = table(table_name, holder, schema=self.namespace)
        for key in keys:
            value = without_nul(holder, sql_cast(holder, JSON).op("->>", return_type=Text())(literal(key, Text)))
            some = select(literal(1)).select_from(relation).where(value.not_in(("", "None"))).limit(1)
            if await self.connection.scalar(some if where is None else some.where(where)):
                return column_name, key
        return None

    async def found(self, name: str) -> Relation | None:
        return await attach.relation(self.connection, self.namespace, name)

    async def needed(self, *candidates: str) -> tuple[str, Relation]:
        """The first of these relations that exists."""
        for name in candidates:
            if relation := await self.found(name):
                return name, relation
        raise UnknownName(f"table of this library in the schema {self.namespace!r}", candidates[0], await self.names())

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
        query = select(same).select_from(relation)
        return bool(await self.connection.scalar(query if where is None else query.where(where)))


table_templates: Registry[type[TableTemplate]] = Registry("library whose tables can be attached")


async def template_mapping(
    name: str, store: Store, which: str, model: str, *, namespace: str = "public", language: str = "english"
) -> AttachedTable:
    """The mapping of a table (or, for LangChain, a collection) that a library made. Looks, and changes nothing."""
    library = table_templates[name]
    async with store.begin(read_only=True) as connection:
        if "." in which and which not in await library(connection, namespace, model, language).names():
            other, table_name = relation_name(which)
            if other in list(await connection.scalars(text(attach.SCHEMAS))):
                namespace, which = other, table_name
        return await library(connection, namespace, model, language).mapping(which)


async def template_tables(name: str, store: Store) -> list[str]:
    """All tables of the library on this server, as `template_mapping` takes them: with a schema other than public."""
    found = []
    async with store.begin(read_only=True) as connection:
        schemas = sorted(await connection.scalars(text(attach.SCHEMAS)), key=lambda each: (each != "public", each))
        for schema in schemas:
            names = await table_templates[name](connection, schema, "", "").names()
            found += names if schema == "public" else [written_name(schema, each) for each in names]
    return found


@table_templates.register("langchain")
class LangChain(TableTemplate):
    """LangChain's PGVector (a collection by name or uuid), or a table of its PGVectorStore (by the table's name)."""

    async def names(self) -> list[str]:
        """Names; the uuids of collections that share a name."""
        collections = await self._collections()
        often = Counter(name for _, name in collections)
        return [name if often[name] == 1 else uuid for uuid, name in collections] + await self.tables(*OWN_TABLE)

    async def mapping(self, which: str) -> AttachedTable:
        collections = await self._collections()
        chosen = [uuid for uuid, name in collections if which in (uuid, name)]
        if len(chosen) > 1:
            raise StoreError(f"LangChain has {len(chosen)} collections {which!r}. Give the uuid: {', '.join(chosen)}.")
        if chosen:
            return await self._shared_table(chosen[0])
        relation = await self.found(which)
        if relation is None or not set(OWN_TABLE) <= set(relation.columns):
            raise UnknownName(
                "LangChain collection or PGVectorStore table",
                which,
                await self.names(),
                way_out=f"Looked in the schema {self.namespace!r}. A table with columns of other names is attached "
                "without --like, column by column.",
            )
        optional = {"tsv": "content_tsv", "metadata": "langchain_metadata"}
        there: dict[str, Any] = {field: column for field, column in optional.items() if column in relation.columns}
        plain = next((each for each in SOURCES if each in relation.columns), None)  # one of its metadata_columns
        if plain is not None:
            there["parent"] = plain
        elif "metadata" in there:
            there["parent"] = await self.parent(which, there["metadata"], *SOURCES)
        return self.mapped(which, id="langchain_id", text="content", **there)

    async def _collections(self) -> list[tuple[str, str]]:
        if not await self.found("langchain_pg_collection"):
            return []
        stored = table("langchain_pg_collection", column("uuid"), column("name"), schema=self.namespace)
        uuid, name = stored.c.uuid, stored.c.name
        rows = await self.connection.execute(
            select(sql_cast(uuid, Text), name).select_from(stored).order_by(name, uuid)
        )
        return [(row[0], row[1] or "") for row in rows]

    async def _shared_table(self, collection: str) -> AttachedTable:
        """One collection of all that share LangChain's table."""
        of_collection = sql_cast(column("collection_id"), Text) == literal(collection)
        name, relation = await self.needed("langchain_pg_embedding")
        identifier = "id"
        if identifier not in relation.columns:  # before, `custom_id` held the user's ids, if there were any
            identifier = "custom_id" if await self.distinct(name, "custom_id", of_collection) else "uuid"
        return self.mapped(
            name,
            id=identifier,
            text="document",
            metadata="cmetadata",
            where={"collection_id": collection},
            parent=await self.parent(name, "cmetadata", *SOURCES, where=of_collection),
        )


@table_templates.register("llamaindex")
class LlamaIndex(TableTemplate):
    """LlamaIndex's PGVectorStore, by its table_name, which the library puts `data_` before."""

    async def names(self) -> list[str]:
        return await self.tables("id", "text", "metadata_", "node_id", "embedding", beginning="data_")

    async def mapping(self, which: str) -> AttachedTable:
        name, relation = await self.needed(f"data_{which.lower()}", which)
        identifier = "node_id" if await self.distinct(name, "node_id") else "id"
        tsv = "text_search_tsv" if "text_search_tsv" in relation.columns else None
        parent = await self.parent(name, "metadata_", "ref_doc_id", "doc_id", "document_id")
        return self.mapped(name, id=identifier, text="text", metadata="metadata_", tsv=tsv, parent=parent)


@table_templates.register("haystack")
class Haystack(TableTemplate):
    """Haystack's PgvectorDocumentStore, by its table_name; haystack_documents by default."""

    async def names(self) -> list[str]:
        return await self.tables("id", "embedding", "content", "blob_data", "blob_meta", "meta")

    async def mapping(self, which: str) -> AttachedTable:
        name, _ = await self.needed(which or "haystack_documents")
        parent = await self.parent(name, "meta", "source_id", "file_path")
        return self.mapped(name, id="id", text="content", metadata="meta", parent=parent)
