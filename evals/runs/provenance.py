"""What a run's identity depends on beside its variant: the collection's content, the code, the server, the models."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import subprocess
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Select,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from core.embedding import is_served
from core.store import attached
from core.store.attached.columns import AttachedColumns
from core.store.collections import CollectionView
from core.store.engine import Capabilities, Store
from core.store.names import ITEMS
from core.store.resolve_target import search_target
from core.store.schema import Collection, ItemRow
from core.variant import Variant
from evals.runs.code_digest import CHECKOUT

Counted = tuple[str, ...]  # the rows, and a sum over them that any change of one moves
_counted: WeakKeyDictionary[Store, dict[str, tuple[str, Counted]]] = WeakKeyDictionary()


async def content_of(store: Store, view: CollectionView) -> str:
    """A digest of the items, chunkings and embeddings there are.

    Somebody's table moves without a version of ours: its rows' own transactions tell, or where it has none, its texts.
    """
    sets = [(each.name, repr(sorted(each.chunker.items()))) for each in view.chunk_sets]
    sets += [(str(each.chunk_set), f"{each.model} {each.index}") for each in view.embedding_sets]
    async with store.begin(view.namespace, read_only=True) as connection:
        counted = await _count(connection, store, view)
    told = repr((view.row.language, _mapping(view), sorted(sets), counted))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


def _mapping(view: CollectionView) -> dict[str, Any] | None:
    """All that is kept of an attached table, but for the server's counters: they move where nothing else does."""
    kept = view.row.attached
    if kept is None or not kept.get("aside"):
        return kept
    return {**kept, "aside": {name: value for name, value in kept["aside"].items() if name != "writes"}}


async def _count(connection: AsyncConnection, store: Store, view: CollectionView) -> Counted:
    """From memory where the collection is in the state in which it was counted."""
    kept, state = _counted.setdefault(store, {}), _state(view)
    own = view.row.attached is None
    now = await connection.scalar(state) if own else None
    if now is not None and view.name in kept and kept[view.name][0] == now:
        return kept[view.name][1]
    counted = tuple(str(each) for each in (await connection.execute(_counting(store, view))).one())
    if now is not None and await connection.scalar(state) == now:  # else it changed meanwhile, and is counted again
        kept[view.name] = now, counted
    return counted


def _state(view: CollectionView) -> Select[Any]:
    """Another whenever anything in the collection is, and where it was restored to a version that it once had."""
    written = cast(literal_column("collections.xmin"), Text)
    said = func.concat_ws(" ", Collection.version, Collection.created_at, written)
    return select(said).where(Collection.name == view.name)


def _counting(store: Store, view: CollectionView) -> Any:
    where, mark = _marks(store, view)
    return select(func.count(), func.sum(mark)).select_from(where)


def _marks(store: Store, view: CollectionView) -> tuple[FromClause, ColumnElement[Any]]:
    if view.row.attached is None:
        return ItemRow.__table__, func.hashtextextended(ItemRow.id + func.encode(ItemRow.digest, "hex"), 0)
    attachment = attached.Attachment.of(view)
    if attachment.facts.kind == "table":
        return AttachedColumns(attachment.table, attachment.facts).relation, cast(
            cast(literal_column("xmin"), Text), BigInteger
        )
    details = search_target(store, view, ITEMS).details.subquery()
    said = [details.c.id, details.c.title, details.c.text, cast(details.c.metadata, Text)]
    if attachment.table.parent is not None:
        said.append(details.c.item_id)
    told = func.concat_ws("\n", *said)
    return details, func.hashtextextended(told, 0)


MODELS_RUN_ON = ("sentence-transformers", "torch", "transformers")
PACKAGES = ("sqlalchemy", "psycopg", "pgvector", "numpy", "ranx", *MODELS_RUN_ON)
SETTINGS = (
    "shared_buffers",
    "work_mem",
    "effective_cache_size",
    "max_parallel_workers_per_gather",
    "random_page_cost",
    "jit",
)
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


@cache
def package_version(name: str = "rankbook") -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


def server_mark(server: Capabilities) -> str:
    """What of the server decides what any leg finds."""
    return f"PostgreSQL {server.version // 10_000}"


def vector_mark(server: Capabilities, model: str | None, version: Callable[[str], str] = package_version) -> str:
    """What else decides it where queries are embedded by this model and searched for by their vectors."""
    return f"pgvector {server.extensions.get('vector', '')}" + ("" if is_served(model) else f", {models_mark(version)}")


def models_mark(version: Callable[[str], str] = package_version) -> str:
    """What models run on here."""
    return ", ".join(f"{name} {version(name)}" for name in MODELS_RUN_ON)


def variant_mark(server: Capabilities, variant: Variant, model: str | None) -> str:
    """What of these decides the results of a variant that searches with that model; empty of words alone."""
    marks = [vector_mark(server, model)] if any(leg.uses_model for leg in variant.legs) else []
    runs = variant.rerank is not None and variant.rerank.runs_model
    return "; ".join([*marks, *([models_mark()] if runs or variant.late is not None else [])])


async def environment(store: Store, view: CollectionView) -> dict[str, Any]:
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
        "searched": _searched(view),
        "indexes": indexes,
    }


def _searched(view: CollectionView) -> dict[str, Any]:
    """How texts were cut and by what embedded, of which a variant names no more than the chunk set."""
    names = {each.key: each.name for each in view.chunk_sets}
    models: dict[str, list[str]] = {}
    for each in view.embedding_sets:
        models.setdefault(names.get(each.chunk_set, ITEMS), []).append(f"{each.model}, {each.index} index")
    chunkers = {each.name: dict(each.chunker) for each in view.chunk_sets if each.chunker}
    return {"language": view.row.language, "chunks": chunkers, "models": models}


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


async def _indexes(connection: AsyncConnection, view: CollectionView) -> dict[str, int]:
    """The size of every index that a search may use, in bytes."""
    rows = list(await connection.execute(INDEXES, {"namespace": view.namespace, "relation": None}))
    if view.row.attached is not None:
        table = attached.Attachment.of(view).table
        rows += await connection.execute(INDEXES, {"namespace": table.namespace, "relation": table.table})
    return {row.relname: row.pg_relation_size for row in rows}
