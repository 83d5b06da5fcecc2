"""What a run was made with: code, machine, packages, server, indexes; and what stood in the collection.

Reads and never changes. What cannot be told is left out: a missing git is no reason to fail a run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, FromClause, Text, bindparam, cast, func, literal_column, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store import attached
from core.store.attached.reading import Theirs
from core.store.collections import View
from core.store.engine import Store
from core.store.levels import level
from core.store.names import ITEMS
from core.store.schema import Item

PACKAGES = ("sqlalchemy", "psycopg", "pgvector", "numpy", "ranx", "torch", "sentence-transformers")
SETTINGS = (
    "shared_buffers",
    "work_mem",
    "effective_cache_size",
    "max_parallel_workers_per_gather",
    "random_page_cost",
    "jit",
)
CHECKOUT = Path(__file__).parents[2]
RANKING = ("core", "evals/rankings.py", "evals/running", "evals/weights")  # the code that decides what is found
INDEXES = text("""
SELECT index.relname, pg_relation_size(index.oid)
FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
JOIN pg_class AS relation ON relation.oid = indrelid
WHERE relation.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :namespace)
  AND (CAST(:relation AS text) IS NULL OR relation.relname = :relation)
ORDER BY index.relname
""")


@cache
def code_version() -> str:
    """What git calls this checkout, "-dirty" where it was changed since; elsewhere the package's version."""
    if (CHECKOUT / ".git").exists():
        command = ["git", "-C", str(CHECKOUT), "describe", "--tags", "--always", "--dirty"]
        try:
            asked = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
            return asked.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass  # no git, or somebody else's checkout: the package's version stands in
    return package_version()


def package_version(name: str = "rankbook") -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def ranking_code() -> str:
    """A digest of the code that rankings come of: what other code found is not taken for what this would find."""
    places = [CHECKOUT / each for each in RANKING]
    files = sorted(file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place]))
    told = hashlib.blake2b(digest_size=16)
    for file in files:
        told.update(hashlib.blake2b(file.read_bytes()).digest())
    return told.hexdigest()


async def environment(store: Store, view: View) -> dict[str, Any]:
    """Everything that may explain why a run is as it is, as plain data."""
    async with store.begin(read_only=True) as connection:
        server = {
            "version": await connection.scalar(text("SELECT current_setting('server_version')")),
            "extensions": dict(sorted(store.capabilities.extensions.items())),
            "settings": await _settings(connection),
            "where": store.where,
        }
        indexes = await _indexes(connection, view)
    return {
        "code": await asyncio.to_thread(code_version),
        "rankbook": package_version(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "machine": {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count()},
        "server": server,
        "indexes": indexes,
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


async def _settings(connection: AsyncConnection) -> dict[str, str]:
    asked = text("SELECT name, current_setting(name) FROM pg_settings WHERE name IN :names ORDER BY name")
    rows = await connection.execute(asked.bindparams(bindparam("names", SETTINGS, expanding=True)))
    return {row.name: row.current_setting for row in rows}


async def _indexes(connection: AsyncConnection, view: View) -> dict[str, int]:
    """The size of every index that a search may use, in bytes."""
    rows = list(await connection.execute(INDEXES, {"namespace": view.namespace, "relation": None}))
    if view.row.attached is not None:
        table = attached.Attachment.of(view).table
        rows += await connection.execute(INDEXES, {"namespace": table.namespace, "relation": table.table})
    return {row.relname: row.pg_relation_size for row in rows}


# -- what is searched --------------------------------------------------------------------------------------------------


async def content_of(store: Store, view: View) -> str:
    """A digest of the items, chunkings and embeddings there are: equal for collections loaded alike, wherever.

    Somebody's table moves without a version of ours: its rows' own transactions tell, or where it has none, its texts.
    """
    sets = [(each.name, repr(sorted(each.chunker.items()))) for each in view.chunk_sets]
    sets += [(str(each.chunk_set), f"{each.model} {each.index}") for each in view.embedding_sets]
    async with store.begin(view.namespace, read_only=True) as connection:
        counted = (await connection.execute(_counted(store, view))).one()
    told = repr((view.row.language, view.row.attached, sorted(sets), tuple(map(str, counted))))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _counted(store: Store, view: View) -> Any:
    """Rows, and a sum over them that any change of one moves."""
    where, mark = _marks(store, view)
    return select(func.count(), func.sum(mark)).select_from(where)


def _marks(store: Store, view: View) -> tuple[FromClause, ColumnElement[Any]]:
    if view.row.attached is None:
        return Item.__table__, func.hashtextextended(Item.id + func.encode(Item.digest, "hex"), 0)
    attachment = attached.Attachment.of(view)
    if attachment.facts.kind == "table":
        return Theirs(attachment.table, attachment.facts).relation, cast(cast(literal_column("xmin"), Text), BigInteger)
    details = level(store, view, ITEMS).details.subquery()
    told = func.concat_ws("\n", details.c.id, details.c.title, details.c.text, cast(details.c.metadata, Text))
    return details, func.hashtextextended(told, 0)
