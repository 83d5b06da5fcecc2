"""Which tables a backup holds, in which order, and which it leaves out because they can be made again.

Adding a table to the store means adding it to one of the lists here; a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from psycopg import sql
from sqlalchemy import Table

from core.store.collections import View
from core.store.schema import (
    CachedChunks,
    CachedEmbedding,
    ChunkSet,
    Collection,
    EmbeddingSet,
    Item,
    TableGrant,
    TrashRow,
    chunk_table,
    vector_table,
)
from evals.store import (
    Contest,
    Judgement,
    LabelRevision,
    Output,
    Pin,
    QuerySet,
    RankingBatch,
    SetUp,
    StoredExclusion,
    StoredLabel,
    StoredQuery,
    StoredRun,
    StoredSpan,
    Vote,
    WithdrawnJudgement,
)


def table(mapped: Any) -> Table:
    return cast("Table", mapped.__table__)


@dataclass(frozen=True, slots=True)
class Part:
    """A table of the catalogue, and by which column its rows belong to a collection, itself or through another's."""

    table: Table
    column: str
    through: Part | None = None
    key: str = ""  # what `column` holds, as the other table calls it
    since: str = ""  # the revision that made the table, where backups of before lack it

    @property
    def name(self) -> str:
        return str(self.table.name)

    def rows_of(self, collection: str) -> sql.Composed:
        """A condition on the table's rows."""
        if self.through is None:
            return sql.SQL("{} = {}").format(sql.Identifier(self.column), sql.Literal(collection))
        return sql.SQL("{} IN (SELECT {} FROM {} WHERE {})").format(
            sql.Identifier(self.column),
            sql.Identifier(self.key),
            identified(self.through.table),
            self.through.rows_of(collection),
        )


def identified(of: Table, namespace: str | None = None) -> sql.Identifier:
    """The table's full name. `namespace` stands for the schema of a collection's own tables."""
    return sql.Identifier(namespace or str(of.schema), of.name)


def columns(of: Table) -> list[str]:
    return [column.name for column in of.columns]


_SETS = Part(table(QuerySet), "collection")
_RUNS = Part(table(StoredRun), "collection")
_CONTESTS = Part(table(Contest), "collection")
LABELS: Final = (
    _SETS,
    *(Part(table(each), "set_key", _SETS, "key") for each in (StoredQuery, StoredLabel, StoredSpan, StoredExclusion)),
    Part(table(Judgement), "collection"),
)
RESULTS: Final = (
    _RUNS,
    Part(table(Pin), "run", _RUNS, "id"),
    Part(table(SetUp), "collection", since="e0011"),
    _CONTESTS,
    Part(table(Vote), "contest", _CONTESTS, "key"),
)
OF_COLLECTIONS: Final = (*LABELS, *RESULTS)
REGISTER: Final = Part(table(Collection), "name")
OUTPUTS: Final = table(Output)  # belongs to notebooks, not to collections; only where it is asked for
# None belongs into another store: what was deleted, rights on this very server, earlier labels.
LEFT_OUT: Final = tuple(table(row) for row in (TrashRow, WithdrawnJudgement, TableGrant, LabelRevision))
# Filled again by what needs them, at some cost in time.
DERIVED: Final = (table(CachedEmbedding), table(RankingBatch), table(CachedChunks))


def own_tables(view: View) -> Iterator[Table]:
    """What stands in a collection's own schema and cannot be made again without its source and its models."""
    yield from (table(Item), table(ChunkSet), table(EmbeddingSet))
    yield from (chunk_table(each.key) for each in view.chunk_sets if each.key)
    yield from (vector_table(each.key, each.dimension) for each in view.embedding_sets)


def table_of_sets() -> Table:
    return _SETS.table
