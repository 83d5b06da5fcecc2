"""Attached collections: somebody's table or view, mapped column by column, only ever read.

What we build for one stands aside, in the schema that a collection of our own would have.
"""

from core.store.attached.advice import Advice, advice
from core.store.attached.aside import build_aside, drop_aside
from core.store.attached.attaching import attach, let_read, let_read_within
from core.store.attached.inspection import count, inspect
from core.store.attached.likes import Like, like, likes
from core.store.attached.mapping import Aside, AttachedTable, Attachment, Facts, mapped, relation_name, written_name
from core.store.attached.searching import level

__all__ = [
    "Advice",
    "Aside",
    "AttachedTable",
    "Attachment",
    "Facts",
    "Like",
    "advice",
    "attach",
    "build_aside",
    "count",
    "drop_aside",
    "inspect",
    "let_read",
    "let_read_within",
    "level",
    "like",
    "likes",
    "mapped",
    "relation_name",
    "written_name",
]
