"""Which column of somebody's table is what, what the catalogue said of them, and what stands aside: kept as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.errors import SpecError
from core.store.collections import View

MOST_METADATA_COLUMNS = 50  # jsonb_build_object takes 100 arguments, two a column


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AttachedTable(_Frozen):
    """A table or view that exists, mapped column by column. Names are taken as they stand, never folded or parsed."""

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
        for column in self.where:
            yield "where", column

    @property
    def full_name(self) -> str:
        """For people. SQL gets its quoted names from the library."""
        return f"{self.namespace}.{self.table}"


class Facts(_Frozen):
    """What the server's catalogue said when the table was attached. Types are spelled and quoted by the server."""

    kind: Literal["table", "partitioned table", "view", "materialized view", "foreign table"]
    types: Mapping[str, str] = Field(description="The type of each mapped column, a domain by its base type.")
    dimension: int | None = Field(None, description="How many numbers a vector has; None where no row says so yet.")
    fixed: bool = Field(False, description="Whether the column's type fixes the dimension.")


class Aside(_Frozen):
    """What was built in our own schema from their rows: of how many, and when."""

    rows: int
    built_at: datetime


class Attachment(_Frozen):
    """All that `Collection.attached` holds."""

    table: AttachedTable
    facts: Facts
    aside: Aside | None = None

    @classmethod
    def of(cls, view: View) -> Attachment:
        """The attachment of an attached collection."""
        if view.row.attached is None:
            raise SpecError(f"{view.name!r} is a collection of Rankbook's own, not an attached table.")
        return cls.model_validate(view.row.attached)


def mapped(**given: Any) -> AttachedTable:
    """A mapping from what somebody wrote, refused in a sentence where it is not valid."""
    try:
        return AttachedTable(**given)
    except pydantic.ValidationError as error:
        raise SpecError.from_pydantic("The mapping", error) from error


_NAME_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


def relation_name(written: str) -> tuple[str, str]:
    """Schema and name of `docs`, `public.docs` or `"My schema"."my.docs"`. Letters keep their case."""
    parts, at = [], 0
    while part := _NAME_PART.match(written, at):
        parts.append(part[1].replace('""', '"') if part[1] else part[2])
        at = part.end() + 1
        if written[part.end() : at] != ".":
            break
    if at <= len(written) or len(parts) not in (1, 2):
        raise SpecError(
            f"{written!r} does not name a table. "
            'Write docs, public.docs or, with odd letters, public."my ""odd"".docs".'
        )
    return (parts[0], parts[1]) if len(parts) == 2 else ("public", parts[0])


def written_name(namespace: str, name: str) -> str:
    """A table's full name as `relation_name` reads it."""
    return f"{_part(namespace)}.{_part(name)}"


def _part(name: str) -> str:
    plain = re.fullmatch(r'[^".]+', name) and name == name.strip()
    return name if plain else '"' + name.replace('"', '""') + '"'
