"""Attached collections: somebody's table or view, mapped column by column, only ever read.

What we build for one stands aside, in the schema that a collection of our own would have.
"""

from core.store.attached.attach import attach_table, count, inspect_table, let_read, let_read_within, need_readable
from core.store.attached.columns import BETWEEN_ROWS
from core.store.attached.index_advice import Advice, advice
from core.store.attached.mapping import (
    AttachedTable,
    Attachment,
    SideTables,
    TableFacts,
    mapped,
    parent_of,
    relation_name,
    written_name,
)
from core.store.attached.side_tables import build_side_tables, documents, drop_aside, level, parts_of, refresh_aside
from core.store.attached.staleness import TableDifference, behind, difference, stale
from core.store.attached.templates import TableTemplate, like, likes, made_by

__all__ = [
    "BETWEEN_ROWS",
    "Advice",
    "AttachedTable",
    "Attachment",
    "SideTables",
    "TableDifference",
    "TableFacts",
    "TableTemplate",
    "advice",
    "attach_table",
    "behind",
    "build_side_tables",
    "count",
    "difference",
    "documents",
    "drop_aside",
    "inspect_table",
    "let_read",
    "let_read_within",
    "level",
    "like",
    "likes",
    "made_by",
    "mapped",
    "need_readable",
    "parent_of",
    "parts_of",
    "refresh_aside",
    "relation_name",
    "stale",
    "written_name",
]
