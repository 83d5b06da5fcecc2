"""Attached collections: an existing table or view, mapped column by column, only ever read.

Side tables for BM25 and fuzzy search are built in the schema that a collection of Rankbook's own would have.
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
from core.store.attached.side_tables import (
    build_side_tables,
    documents,
    drop_side_tables,
    parts_of,
    refresh_side_tables,
    search_target,
)
from core.store.attached.staleness import TableDifference, difference, staleness_sentence
from core.store.attached.templates import TableTemplate, table_templates, template_mapping, template_tables

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
    "build_side_tables",
    "count",
    "difference",
    "documents",
    "drop_side_tables",
    "inspect_table",
    "let_read",
    "let_read_within",
    "mapped",
    "need_readable",
    "parent_of",
    "parts_of",
    "refresh_side_tables",
    "relation_name",
    "search_target",
    "staleness_sentence",
    "table_templates",
    "template_mapping",
    "template_tables",
    "written_name",
]
