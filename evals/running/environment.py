"""What a run was made with: code, machine, packages, server, indexes. What stood in the collection is `contents`'.

Reads and never changes. What cannot be told is left out: a missing git is no reason to fail a run.

Everything is recorded with a run; `rankbook runs diff` shows it. Of all that, a run's identity holds what decides its
result, so that a kept run is not taken for what would be found now:

- always: the collection's content, Rankbook's own code that ranks, and PostgreSQL's major version, which parses texts
  and ranks them. A minor version mends faults and by PostgreSQL's own rule leaves results alone, so it is recorded and
  no more: an update of the server at night does not make every run stale.
- where queries are embedded live (vector legs): pgvector's version, whose index decides what is found, and, of a model
  that runs here, the versions of sentence-transformers, torch and transformers. A model that is served elsewhere has
  its server in its id, and what that runs nobody knows.
- where a stage runs a model itself (late chunks, late interaction, cross-encoder): those packages' versions.

The machine, settings, numpy and drivers are recorded only.
"""

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

from sqlalchemy import bindparam, text
from sqlalchemy.ext.asyncio import AsyncConnection

from core.embedding import is_served
from core.rerank import rerankers
from core.store import attached
from core.store.collections import View
from core.store.engine import Capabilities, Store
from core.store.names import ITEMS
from core.variant import Variant

MODELS_RUN_ON = ("sentence-transformers", "torch", "transformers")
PACKAGES = ("sqlalchemy", "psycopg", "pgvector", "numpy", "ranx", *MODELS_RUN_ON)
RUN_MODELS = ("cross_encoder", "late_interaction")  # rerankers that run a model here
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


@cache
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
    runs = variant.rerank is not None and rerankers.name_of(type(variant.rerank)) in RUN_MODELS
    return "; ".join([*marks, *([models_mark()] if runs or variant.late is not None else [])])


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
        "searched": _searched(view),
        "indexes": indexes,
    }


def _searched(view: View) -> dict[str, Any]:
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


async def _indexes(connection: AsyncConnection, view: View) -> dict[str, int]:
    """The size of every index that a search may use, in bytes."""
    rows = list(await connection.execute(INDEXES, {"namespace": view.namespace, "relation": None}))
    if view.row.attached is not None:
        table = attached.Attachment.of(view).table
        rows += await connection.execute(INDEXES, {"namespace": table.namespace, "relation": table.table})
    return {row.relname: row.pg_relation_size for row in rows}
