"""CSV, TSV, JSON, JSONL and Parquet with a column mapping: one table each of documents, queries and judgements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, field_validator

from core.types import Flaw, Item, Query, Row
from evals.sources.base import Source, Texts, sources
from evals.sources.rows import QUERY_IDS, id_text, item_rows, label_row, query_rows
from evals.sources.table_files import TableFile, count_rows, opened_table
from evals.types import Label

_IDS = ("id", "_id", "doc_id", "docid", "docno", "document_id", "item_id", "pid", "uuid", "key")
_TEXTS = ("text", "body", "content", "contents", "passage", "abstract", "document", "description")
_QUERY_IDS = (*QUERY_IDS, "topic", "query")
_ITEM_IDS = ("item_id", "item", "corpus-id", "corpus_id", *_IDS[2:6], "id")
_GRADES = ("grade", "score", "relevance", "rel", "label", "rating")


class _Columns(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ItemColumns(_Columns):
    """Which columns make a document."""

    id: str | None = Field(default=None, description=f"Column of the id; else the first there is of {', '.join(_IDS)}.")
    text: str | None = Field(
        default=None, description=f"Column of the text; else the first there is of {', '.join(_TEXTS)}."
    )
    title: str | None = Field(
        default=None, description="Column of the title; else `title` where there is one. Empty for none."
    )
    metadata: Texts | None = Field(default=None, description="Columns kept as metadata; all others when not given.")


class QueryColumns(_Columns):
    """Which columns make a query."""

    id: str | None = Field(default=None, description="Column of the id; else query_id, id or the like.")
    text: str | None = Field(default=None, description="Column of the text; else text, query or question.")
    kind: str | None = Field(default=None, description="Column of the query's kind; else `kind` where there is one.")
    tags: str | None = Field(
        default=None, description="Column of tags (a list, or text parted by commas); else `tags`."
    )
    weight: str | None = Field(default=None, description="Column of the weight; else `weight` where there is one.")


class LabelColumns(_Columns):
    """Which columns make a judgement."""

    query: str | None = Field(
        default=None, description=f"Column of the query's id; else one of {', '.join(_QUERY_IDS)}."
    )
    item: str | None = Field(
        default=None, description=f"Column of the document's id; else one of {', '.join(_ITEM_IDS)}."
    )
    grade: str | None = Field(default=None, description=f"Column of the grade; else one of {', '.join(_GRADES)}.")
    split: str | None = Field(
        default=None, description="Column of the split; else `split` where there is one, or `test`."
    )


@sources.register("tabular")
class TabularSource(Source):
    """CSV, TSV, JSON, JSONL or Parquet (by the file's ending; text formats also with .gz), columns mapped by name."""

    kind: ClassVar[str] = "tabular"
    path: Path = Field(description="The table of documents.")
    columns: ItemColumns = Field(default=ItemColumns(), description="Its columns.")
    queries_path: Path | None = Field(default=None, description="The table of queries.")
    query_columns: QueryColumns = Field(default=QueryColumns(), description="Its columns.")
    labels_path: Path | None = Field(default=None, description="The table of judgements.")
    label_columns: LabelColumns = Field(default=LabelColumns(), description="Its columns.")
    quote: str = Field(
        default='"', max_length=1, description="The quoting character of CSV and TSV; empty where none is used."
    )

    delimiter: str = Field(
        default="",
        description="What parts the columns of CSV and TSV: one character, or `tab`; by default the first rows tell.",
    )

    @field_validator("delimiter")
    @classmethod
    def _one_character(cls, value: str) -> str:
        value = "\t" if value in ("tab", "\\t") else value
        if value and (len(value) > 1 or value in '\r\n"' or not value.isascii()):
            raise ValueError("one character was expected, such as ; or |, or the word tab")
        return value

    @field_validator("quote")
    @classmethod
    def _usable(cls, value: str) -> str:
        if value and (not value.isprintable() or value in ", "):
            raise ValueError("a printable character other than the comma and the blank was expected")
        return value

    def items(self) -> Iterator[Row[Item] | Flaw]:
        with opened_table(self.path, self.quote, self.delimiter) as table:
            chosen = self.columns
            names = {
                "_id": table.pick(chosen.id, _IDS, "id"),
                "text": table.pick(chosen.text, _TEXTS, "text"),
                "title": _optional(table, chosen.title, "title"),
            }
            kept = None if chosen.metadata is None else [table.require(name, "metadata") for name in chosen.metadata]
            for row in table.rows:
                yield from (row,) if isinstance(row, Flaw) else item_rows(_mapped(row, names, kept))

    def size(self) -> int | None:
        return count_rows(self.path)

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        if self.queries_path is None:
            return
        with opened_table(self.queries_path, self.quote, self.delimiter) as table:
            chosen = self.query_columns
            facets = {name: _optional(table, getattr(chosen, name), name) for name in ("kind", "tags", "weight")}
            names = {
                "_id": table.pick(chosen.id, (*QUERY_IDS, *_IDS), "query's id"),
                "text": table.pick(chosen.text, ("text", "query", "question"), "query's text"),
            }
            for row in table.rows:
                yield from (row,) if isinstance(row, Flaw) else query_rows(_mapped(row, {**names, **facets}, None))

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        if self.labels_path is None:
            return
        with opened_table(self.labels_path, self.quote, self.delimiter) as table:
            chosen = self.label_columns
            query = table.pick(chosen.query, _QUERY_IDS, "query's id")
            item = table.pick(chosen.item, _ITEM_IDS, "document's id")
            grade = table.pick(chosen.grade, _GRADES, "grade")
            split = _optional(table, chosen.split, "split")
            for row in table.rows:
                if isinstance(row, Flaw):
                    yield row
                else:
                    cells = row.value
                    in_split = id_text(cells.get(split)) or "test" if split else "test"
                    yield label_row(cells.get(query), cells.get(item), cells.get(grade), in_split, row.place)


def _optional(table: TableFile, named: str | None, usual: str) -> str | None:
    """A column that need not be in the table unless it is named; "" stands for no column."""
    if named is None:
        return usual if usual in table.columns else None
    return table.require(named, usual) if named else None


def _mapped(row: Row[dict[str, Any]], names: dict[str, str | None], kept: list[str] | None) -> Row[dict[str, Any]]:
    """The row with its fields renamed; other columns become metadata, except empty cells and nulls."""
    cells, used = row.value, set(names.values())
    others = [name for name in cells if name not in used] if kept is None else kept
    metadata = {name: cells[name] for name in others if cells.get(name) not in (None, "")}
    if isinstance(metadata.get("metadata"), dict):
        metadata |= metadata.pop("metadata")
    fields = {field: cells.get(column) for field, column in names.items() if column is not None}
    return Row({**fields, "metadata": metadata}, row.place)
