"""How an attached table's columns are mapped, what the server says of them, and its side tables; kept as JSON."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from datetime import datetime
from typing import Any, ClassVar, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from core.errors import SpecError
from core.store.collections import CollectionView

MOST_METADATA_COLUMNS = 50  # jsonb_build_object takes 100 arguments, two a column


class _FrozenMapping(BaseModel):
    """Kept as JSON, which is part of digests: a field of `later`, added since, is written only where it has a value."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    later: ClassVar[tuple[str, ...]] = ()

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        fields: dict[str, Any] = write(self)
        return {name: value for name, value in fields.items() if value is not None or name not in self.later}


class AttachedTable(_FrozenMapping):
    """An existing table or view, mapped column by column. Names are used as they are, never folded or parsed."""

    later = ("parent",)

    table: str = Field(min_length=1, description="The table's or view's name.")
    namespace: str = Field("public", min_length=1, description="The schema it stands in.")
    id: str = Field(min_length=1, description="The column that identifies a row; any type, shown as text.")
    text: str = Field(min_length=1, description="The column with the text to search.")
    title: str | None = Field(None, description="The column with a title.")
    embedding: str | None = Field(None, description="The vector or halfvec column. Rows without a vector are fine.")
    model: str | None = Field(None, description="The model that made the embeddings; queries are embedded with it.")
    tsv: str | None = Field(None, description="A tsvector column for full-text search.")
    metadata: str | tuple[str, ...] | None = Field(
        None, description="One json or jsonb column, or a list of columns that become fields of those names."
    )
    where: Mapping[str, str | int | float | bool] = Field(
        default_factory=dict, description="Only rows in which these columns have these values belong to the collection."
    )
    language: str = Field("english", description="The text-search configuration of the texts and of tsv.")
    parent: str | tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="What says which document a row is part of: a column, or a JSON column and the keys into it. "
        "Without it each row is a document.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> AttachedTable:
        if self.embedding and not self.model:
            raise ValueError(
                f"the embedding column {self.embedding!r} needs `model`, the id of the model that made its vectors, "
                "so that queries can be embedded with it"
            )
        if self.model and not self.embedding:
            raise ValueError(f"`model` is {self.model!r}, but no `embedding` column is named")
        if isinstance(self.metadata, tuple) and len(self.metadata) > MOST_METADATA_COLUMNS:
            raise ValueError(f"`metadata` lists more than {MOST_METADATA_COLUMNS} columns; name those that filters use")
        return self

    def columns(self) -> Iterator[tuple[str, str]]:
        """Each mapped column with the field that names it."""
        for field in ("id", "text", "title", "embedding", "tsv"):
            if column := getattr(self, field):
                yield field, column
        for column in (self.metadata,) if isinstance(self.metadata, str) else self.metadata or ():
            yield "metadata", column
        if self.parent:
            yield "parent", self.parent if isinstance(self.parent, str) else self.parent[0]
        for column in self.where:
            yield "where", column

    @property
    def parent_name(self) -> str:
        """The text for people, as `parent_of` reads it."""
        return ".".join(map(_quoted, self.parent)) if isinstance(self.parent, tuple) else self.parent or ""

    @property
    def full_name(self) -> str:
        """The name for people. SQL uses names quoted by the library."""
        return f"{self.namespace}.{self.table}"


class TableFacts(_FrozenMapping):
    """Facts from the server's catalogue when the table was attached. Types are spelled and quoted by the server."""

    kind: Literal["table", "partitioned table", "view", "materialized view", "foreign table"]
    types: Mapping[str, str] = Field(description="The type of each mapped column, a domain by its base type.")
    dimension: int | None = Field(None, description="How many numbers a vector has; None where no row says so yet.")
    fixed: bool = Field(False, description="Whether the column's type fixes the dimension.")


class Writes(_FrozenMapping):
    """The server's counters of rows written to a table since its statistics began, and the files that hold it."""

    inserted: int
    updated: int
    deleted: int
    files: str = Field(description="Which files: others after TRUNCATE, REFRESH, or a rewrite of the table.")


class SideTables(_FrozenMapping):
    """The side tables: of how many rows they were built, when, and the counters of writes at that time.

    Without `writes` (an earlier version kept none, a foreign table has none) only comparing the rows shows a change.
    """

    later = ("writes",)

    rows: int
    built_at: datetime
    writes: Writes | None = None


class Attachment(_FrozenMapping):
    """The content of `Collection.attached`."""

    table: AttachedTable
    facts: TableFacts
    aside: SideTables | None = None

    @classmethod
    def of(cls, view: CollectionView) -> Attachment:
        """The attachment of an attached collection."""
        if view.row.attached is None:
            raise SpecError(f"{view.name!r} is a collection of Rankbook's own, not an attached table.")
        return cls.model_validate(view.row.attached)


def mapped(**given: Any) -> AttachedTable:
    """The mapping of these options; a SpecError where they are not valid."""
    try:
        return AttachedTable(**given)
    except pydantic.ValidationError as error:
        raise SpecError.from_pydantic("The mapping", error) from error


_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def relation_name(written: str) -> tuple[str, str]:
    """Schema and name of `docs`, `public.docs` or `"My schema"."my.docs"`. Letters keep their case."""
    parts = _parts(written)
    if len(parts) not in (1, 2):
        raise SpecError(
            f"{written!r} does not name a table. "
            'Write docs, public.docs or, with odd letters, public."my ""odd"".docs".'
        )
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])


def written_name(namespace: str, name: str) -> str:
    """Schema and name as one text, as `relation_name` reads it."""
    return ".".join(_quoted(each) for each in (namespace, name))


def _quoted(part: str) -> str:
    plain = re.fullmatch(r'[^".]+', part) and part == part.strip()
    return part if plain else '"' + part.replace('"', '""') + '"'


def parent_of(written: str, columns: Container[str]) -> str | tuple[str, ...]:
    """A column, where there is one of that name; else a path into a JSON column: metadata.source, "my meta".doc.id."""
    if written in columns:
        return written
    parts = _parts(written)
    return tuple(parts) if len(parts) > 1 else written


def _parts(written: str) -> list[str]:
    """The parts between dots; in double quotes a part may contain dots. Empty where it is written otherwise."""
    parts, at = [], 0
    while part := _NAME_PART.match(written, at):
        parts.append(part[1].replace('""', '"') if part[1] else part[2])
        at = part.end() + 1
        if written[part.end() : at] != ".":
            break
    return parts if at > len(written) else []
