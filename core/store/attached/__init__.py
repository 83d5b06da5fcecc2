"""Attached collections: somebody's table or view, mapped column by column, only ever read.

What we build for one stands aside, in the schema that a collection of our own would have.
"""

from core.store.attached.advice import Advice, advice
from core.store.attached.aside import build_aside, drop_aside, refresh_aside
from core.store.attached.attaching import attach, let_read, let_read_within
from core.store.attached.inspection import count, inspect, need_readable
from core.store.attached.likes import Like, like, likes, made_by
from core.store.attached.mapping import (
    Aside,
    AttachedTable,
    Attachment,
    Facts,
    mapped,
    parent_of,
    relation_name,
    written_name,
)
from core.store.attached.reading import BETWEEN_ROWS
from core.store.attached.searching import documents, level, parts_of
from core.store.attached.staleness import Difference, behind, difference, stale

__all__ = [
    "BETWEEN_ROWS",
    "Advice",
    "Aside",
    "AttachedTable",
    "Attachment",
    "Difference",
    "Facts",
    "Like",
    "advice",
    "attach",
    "behind",
    "build_aside",
    "count",
    "difference",
    "documents",
    "drop_aside",
    "inspect",
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
