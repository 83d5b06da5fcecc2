"""The tables, as SQLAlchemy maps them. Tables that exist once a set are made by functions, below.

Two kinds of schema: `rankbook` holds what spans collections; each collection has one of its own, written here as
`HERE` and translated at run time. Keys are integers inside; the user's ids are unique and compare bytewise. Whatever
is derived from an item carries the item's key, so that it goes with the item and can be distributed with it.
There are no foreign keys between them: they would double the cost of a bulk load, and `bulk_load.remove_items` is the
one place that deletes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import cache
from typing import Any, cast

from pgvector.sqlalchemy import VECTOR
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    DateTime,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    SmallInteger,
    String,
    Table,
    Text,
    any_,
    func,
    literal,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

CATALOG = "rankbook"
HERE = "collection"
ID_MARK = "#"  # parts an item's id from the ordinal in the id of its chunk

Id = Text(collation="C")


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "uq": "%(table_name)s_%(column_0_name)s_key",
            "ix": "ix_%(column_0_label)s",
        }
    )


class Collection(Base):
    """A collection: a schema of its own, or a mapping onto an existing table (`attached`)."""

    __tablename__ = "collections"
    __table_args__ = ({"schema": CATALOG},)

    name: Mapped[str] = mapped_column(Id, primary_key=True)
    namespace: Mapped[str] = mapped_column(Id, unique=True)  # the schema's name
    language: Mapped[str] = mapped_column(Text)  # a regconfig
    card: Mapped[str] = mapped_column(Text, default="")
    origin: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)  # where the items came from
    fields: Mapped[list[str]] = mapped_column(JSONB, default=list)  # metadata fields with an index
    attached: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))  # SQL NULL: ours
    version: Mapped[int] = mapped_column(BigInteger, default=0)  # moves on whenever anything in it changes
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    changed_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    # When a load was complete, labels and checks included. NULL while one is under way, or if it never ended.
    loaded_at: Mapped[datetime | None] = mapped_column(DateTime(timezone=True))


class TrashRow(Base):
    """Something deleted that can be brought back: see `core.store.trash`. `count` is of what the entry holds."""

    __tablename__ = "trash"
    __table_args__ = ({"schema": CATALOG},)

    id: Mapped[str] = mapped_column(Id, primary_key=True)
    kind: Mapped[str] = mapped_column(Text)
    name: Mapped[str] = mapped_column(Id)
    collection: Mapped[str] = mapped_column(Id)
    count: Mapped[int] = mapped_column(BigInteger, default=1)
    bytes: Mapped[int] = mapped_column(BigInteger, default=0)
    details: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    deleted_by: Mapped[str] = mapped_column(Text, default="")
    deleted_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    until: Mapped[datetime] = mapped_column(DateTime(timezone=True))


class TableGrant(Base):
    """A right on an attached table, or on its schema (`relation` is empty), that Rankbook itself granted.

    Revoked when no attached collection needs it. With a `collection`, only that one does.
    """

    __tablename__ = "table_grants"
    __table_args__ = ({"schema": CATALOG},)

    role: Mapped[str] = mapped_column(Id, primary_key=True)
    namespace: Mapped[str] = mapped_column(Id, primary_key=True)
    relation: Mapped[str] = mapped_column(Id, primary_key=True, default="")
    collection: Mapped[str] = mapped_column(Id, default="")


class CachedEmbedding(Base):
    """A text's vector under a model, by the text's digest. Derived: may be emptied at any time."""

    __tablename__ = "embedding_cache"
    __table_args__ = ({"schema": CATALOG},)

    model: Mapped[str] = mapped_column(Id, primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    vector: Mapped[bytes] = mapped_column(LargeBinary)  # float32, little endian


class ItemRow(Base):
    """A source document. `digest` covers everything in it; a changed item is a new row with a new key."""

    __tablename__ = "items"
    __table_args__ = ({"schema": HERE},)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    id: Mapped[str] = mapped_column(Id, unique=True)
    title: Mapped[str] = mapped_column(Text)
    text: Mapped[str] = mapped_column(Text)
    meta: Mapped[dict[str, Any]] = mapped_column("metadata", JSONB)
    digest: Mapped[bytes] = mapped_column(LargeBinary)


ITEM_TABLE = cast("Table", ItemRow.__table__)


class ChunkSet(Base):
    """One chunker over the collection. Key 0, named "items", is the items themselves.

    `last_key` is the newest key given to one of its units (items, for set 0); keys are never given twice, so the other
    watermarks can say up to which key work is done. Items above `backfill_to` get their chunks as they come in; those
    up to it are worked off by a backfill that has reached `derived_to`.
    """

    __tablename__ = "chunk_sets"
    __table_args__ = ({"schema": HERE},)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(Id, unique=True)
    chunker: Mapped[dict[str, Any]] = mapped_column(JSONB)
    last_key: Mapped[int] = mapped_column(Integer, default=0)
    derived_to: Mapped[int] = mapped_column(Integer, default=0)
    backfill_to: Mapped[int] = mapped_column(Integer, default=0)
    lexed_to: Mapped[int] = mapped_column(Integer, default=0)
    posted_to: Mapped[int] = mapped_column(Integer, default=0)
    units: Mapped[int] = mapped_column(BigInteger, default=0)  # documents, to BM25
    length: Mapped[int] = mapped_column(BigInteger, default=0)  # their lexemes, repeats included


class EmbeddingSet(Base):
    """One model over one chunk set (or over the items: chunk set 0), in a table of its own."""

    __tablename__ = "embedding_sets"
    __table_args__ = ({"schema": HERE},)

    key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    chunk_set: Mapped[int] = mapped_column(Integer)
    model: Mapped[str] = mapped_column(Id)  # name, backend and precision
    dimension: Mapped[int] = mapped_column(Integer)
    index: Mapped[str] = mapped_column(Text, default="vector")  # vector | halfvec | bit: the HNSW index's element
    embedded_to: Mapped[int] = mapped_column(Integer, default=0)
    backfill_to: Mapped[int] = mapped_column(Integer, default=0)


class CachedChunks(Base):
    """An item's chunks and their vectors, made at query time. Derived, never authoritative, stale when the text is."""

    __tablename__ = "chunk_cache"
    __table_args__ = ({"schema": HERE},)

    item_key: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    chunker: Mapped[str] = mapped_column(Id, primary_key=True)  # id of chunker with its options
    model: Mapped[str] = mapped_column(Id, primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary)  # of the item's content
    chunks: Mapped[list[Any]] = mapped_column(JSONB)
    vectors: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


def any_id(ids: Iterable[str]) -> ColumnElement[Any]:
    """The right side of `= ANY` for these ids, compared bytewise."""
    return any_(literal(list(ids), ARRAY(Id)))


def chunk_id(item_id: str, ordinal: int) -> str:
    return f"{item_id}{ID_MARK}{ordinal:04d}"


def passage_of(row: Row[Any]) -> dict[str, Any]:
    """A row's passage and its place, by the names that `core.types` has for them."""
    return {
        "text": row.text,
        "level": row.level,
        "start": row.start_at,
        "end": row.end_at,
        "heading_path": tuple(row.heading_path),
        "page_first": row.page_first,
        "page_last": row.page_last,
        "metadata": row.metadata,
    }


# -- tables per set: many of one shape, so their number is part of their name --------------------------------------

_made = MetaData()


def _owner() -> tuple[Column[Any], Column[Any], Column[Any]]:
    """The columns that every derived row has: its item's key, its own, and the id that people see."""
    return (
        Column("item_key", Integer, nullable=False),
        Column("key", Integer, nullable=False),
        Column("id", String(collation="C"), nullable=False),
    )


@cache
def chunk_table(chunk_set: int) -> Table:
    """Passages of items. `page_*` count from 1; parents and children stand in the same table."""
    return Table(
        f"chunks_{chunk_set}",
        _made,
        *_owner(),
        Column("ordinal", Integer, nullable=False),
        Column("start_at", Integer, nullable=False),
        Column("end_at", Integer, nullable=False),
        Column("text", Text, nullable=False),
        Column("level", Text, nullable=False),
        Column("parent_key", Integer),
        Column("heading_path", ARRAY(Text), nullable=False),
        Column("page_first", Integer),
        Column("page_last", Integer),
        Column("metadata", JSONB, nullable=False),
        schema=HERE,
    )


@cache
def lexeme_table(chunk_set: int) -> Table:
    """What full-text search reads. Apart from the texts: it is filled after them, and is smaller to scan.

    `cut` is 0 where all of the text is in `tsv`. At 1 the text held more lexemes than a tsvector can, and its end is
    not found. At 2 every lexeme is there, but a tsvector tells no positions apart beyond 16,383 and keeps no more than
    256 of a lexeme: frequencies and `length`, so BM25's too, may be lower than the text's.
    """
    return Table(
        f"lexemes_{chunk_set}",
        _made,
        *_owner(),
        Column("tsv", TSVECTOR, nullable=False),
        Column("length", Integer, nullable=False),
        Column("cut", SmallInteger, nullable=False),
        schema=HERE,
    )


@cache
def term_table(chunk_set: int) -> Table:
    """Every lexeme once, with the number of documents that hold it; also the vocabulary of fuzzy matching."""
    return Table(
        f"terms_{chunk_set}",
        _made,
        Column("key", Integer, primary_key=True, autoincrement=False),
        Column("lexeme", String(collation="C"), nullable=False, unique=True),
        Column("documents", Integer, nullable=False),
        schema=HERE,
    )


@cache
def posting_table(chunk_set: int) -> Table:
    """Which document holds which term how often. The document's length stands beside it, to save BM25 a join."""
    return Table(
        f"postings_{chunk_set}",
        _made,
        Column("term_key", Integer, nullable=False),
        Column("item_key", Integer, nullable=False),
        Column("key", Integer, nullable=False),
        Column("length", Integer, nullable=False),
        Column("frequency", SmallInteger, nullable=False),
        schema=HERE,
    )


@cache
def vector_table(embedding_set: int, dimension: int) -> Table:
    """The vectors of one embedding set."""
    return Table(
        f"vectors_{embedding_set}",
        MetaData(),  # its own: in another collection the table of that number has another dimension
        *_owner(),
        Column("embedding", VECTOR(dimension), nullable=False),
        schema=HERE,
    )
