"""A store: its pool of connections, its schemas brought up to date, and what the server can do.

A process opens one store. Where no address is configured, the embedded server is started here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

import psycopg
from sqlalchemy import Transaction, func, literal, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from core import home as homes
from core.errors import ConnectionFailed, MissingCapability, ServerError
from core.progress import SPACE, Progress, unless_told
from core.store import citus, db_errors
from core.store.conninfo import conninfo_of, has_service, is_embedded, public_url, without_steering
from core.store.migrations import Chain, catalog
from core.store.node_watch import NodeWatch, Watched
from core.store.schema import HERE
from core.store.server import supervisor

if TYPE_CHECKING:  # not at run time: it needs what Windows does not have
    from core.store.server.embedded import EmbeddedServer

T = TypeVar("T")
Driver = psycopg.AsyncConnection[Any]

OLDEST_SERVER = 150000
OLDEST_PGVECTOR = (0, 8)
FREE_WITHIN = 30.0  # seconds to wait for a connection where all are in use
STARTS_WITHIN = 60.0  # seconds to wait for a server that says that it starts or recovers
SOCKET_WITHIN = 3.0  # the same where its socket does not exist, as between its end and its next start
# A load holds its lock on a connection that may be idle for hours: nothing in between may take it for dead.
DEFAULTS = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6, "connect_timeout": 10}
STARTING = "the database system is "  # how PostgreSQL begins to say that it starts, recovers or stops
# How the driver reads values. Neither the environment nor the server's configuration changes it.
SESSION = "SET datestyle = 'ISO, MDY'; SET timezone = 'UTC'; SET intervalstyle = 'postgres'"
# What the driver logs of a lost server, where nobody listens: the error is raised once, in a sentence.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
EXTENSIONS = {
    "vector": "vector search",
    "pg_trgm": "trigram and fuzzy search",
    "unaccent": "full-text search without accents",
}
_IN_PLACE: Mapping[str, Any] = {"compile_kwargs": {"literal_binds": True}}  # SET takes no parameters
_SETTLED: WeakKeyDictionary[Transaction, dict[str, str]] = WeakKeyDictionary()  # by transaction; they are never nested

# For `settle`: a long statement is not ended by a limit that the server sets for short ones.
PATIENT: Final = {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}


async def settle(connection: AsyncConnection, **settings: object) -> None:
    """Server settings for the rest of this transaction; a double underscore stands for the dot in a name.

    What is set already is not sent again, as a transaction may serve many queries.
    """
    named = {name.replace("__", "."): str(value) for name, value in settings.items()}
    transaction = connection.sync_connection.get_transaction() if connection.sync_connection else None
    settled = _SETTLED.setdefault(transaction, {}) if transaction else {}
    if named.items() <= settled.items():
        return
    if citus.is_distributed(connection):
        for name, value in named.items():  # Citus passes SET on to its workers, each by itself, and set_config not
            await connection.execute(text(f"SET LOCAL {name} TO {literal(value).compile(**_IN_PLACE)}"))
    else:
        await connection.execute(select(*(func.set_config(name, value, True) for name, value in named.items())))
    settled |= named


async def driver_of(connection: AsyncConnection) -> Driver:
    """The driver's own connection, inside SQLAlchemy's transaction."""
    raw = await connection.get_raw_connection()
    return cast("Driver", raw.driver_connection)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the server offers. `missing` maps an extension to the sentence that says why and what to run."""

    version: int
    extensions: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def sorts_on(self) -> bool:
        """Whether rows that an index gives in the order of a distance can be sorted by a second column as they come."""
        return self.version >= 170000

    @property
    def distributed(self) -> bool:
        """Whether this is the coordinator of a Citus cluster."""
        return "citus" in self.extensions

    def need(self, extension: str) -> None:
        """MissingCapability where the extension is not available."""
        if extension in self.missing:
            raise MissingCapability(self.missing[extension])


@dataclass(frozen=True, slots=True)
class CitusConnections:
    """What a store on a Citus cluster needs besides: the watch over its nodes, and connections that no pool keeps."""

    watch: NodeWatch
    unpooled: AsyncEngine

    @classmethod
    def of(cls, pooled: AsyncEngine, conninfo: str) -> CitusConnections:
        async def connect(**_: Any) -> psycopg.AsyncConnection[Any]:
            return await _connect(conninfo)

        unpooled = create_async_engine(pooled.url, async_creator=connect, poolclass=NullPool, hide_parameters=True)
        citus.listen_as(pooled, unpooled)
        return cls(NodeWatch(connect), unpooled)


class Store:
    """Rankbook's database, opened with `Store.open` and closed with `close` or `async with`."""

    role = ""  # of a person who signed in, see `roles`; empty for the owner, who has all rights
    keeps = True  # whether results may be kept; whoever may only read holds them in memory

    def __init__(
        self,
        engine: AsyncEngine,
        server: EmbeddedServer | None,
        capabilities: Capabilities,
        progress: Progress = lambda _: None,
        cluster: CitusConnections | None = None,
    ) -> None:
        self.engine, self.server, self.capabilities = engine, server, capabilities
        self.cluster = cluster
        self.progress = progress  # is told of any wait for the server, also when it was lost and comes back

    @classmethod
    async def open(
        cls,
        dsn: str | None = None,
        *,
        home: Path | None = None,
        chains: Sequence[Chain] = (),
        progress: Progress = lambda _: None,
        free_within: float = FREE_WITHIN,
        server: EmbeddedServer | None = None,
    ) -> Store:
        """Start or reach the server, bring the catalogue up to date, find out what the server can do.

        Where all connections are in use, wait up to `free_within` seconds for one. `server` is the embedded one that a
        DSN leads to: it is started again where it was killed, and its lease is given back with the store.
        """
        dsn = dsn or (None if home else os.environ.get("RANKBOOK_DSN")) or None
        if dsn is None:
            server = await _in_thread(lambda cancelled: _start_embedded(home, progress, cancelled))
        engine = _create_engine(dsn, server, free_within, progress)
        try:
            capabilities = await _prepare(engine, (catalog, *chains), server)
        except BaseException as error:
            await engine.dispose()
            if server:
                server.release()
            if not isinstance(error, DBAPIError | psycopg.Error | NoneFree):
                raise
            translated = db_errors.translate_error(error, _where(engine, server))
            if translated is None:
                raise
            raise translated from error
        cluster = CitusConnections.of(engine, conninfo_of(dsn or "")) if capabilities.distributed else None
        return cls(engine, server, capabilities, progress, cluster)

    async def close(self) -> None:
        await self.engine.dispose()
        if self.server:
            self.server.release()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def connect(self, namespace: str | None = None, *, fresh: bool = False) -> AsyncIterator[AsyncConnection]:
        """A connection on which the tables of `HERE` are those of one collection's schema.

        On a cluster a `fresh` one is new and not kept. Others keep connections to the workers, which break when a
        worker restarts: a search then connects anew, while COPY and changes of tables or of many rows fail.

        Errors of the server or of the connection are raised in a sentence; a refused statement's error as it is.
        """
        watched = Watched()
        try:
            watch = self.cluster.watch.over(watched) if self.cluster else nullcontext()
            engine = self.cluster.unpooled if self.cluster and fresh else self.engine
            async with watch, engine.connect() as connection:
                watched.connection = await driver_of(connection)
                yield await connection.execution_options(
                    schema_translate_map={HERE: namespace}, distributed=self.capabilities.distributed
                )
        except (DBAPIError, psycopg.Error, NoneFree) as error:
            node = watched.silent
            if self.cluster and node is None and db_errors.is_lost(error) and db_errors.lost(error) is None:
                # A coordinator may report what happened to a node as if it had happened to itself.
                node = await self.cluster.watch.silent()
            silent = db_errors.silent(node, self.where) if node else None
            translated = silent or db_errors.translate_error(error, self.where)
            if translated is None:
                raise
            raise translated from error

    @asynccontextmanager
    async def begin(
        self, namespace: str | None = None, *, read_only: bool = False, fresh: bool = False
    ) -> AsyncIterator[AsyncConnection]:
        """A transaction on such a connection."""
        async with self.connect(namespace, fresh=fresh) as connection:
            if read_only:  # one snapshot for all its statements
                await connection.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
            async with connection.begin():
                yield connection

    async def ping(self) -> None:
        """Run a statement that changes nothing: raises where the server does not answer."""
        async with self.begin(read_only=True) as connection:
            await connection.execute(text("SELECT 1"))

    @property
    def where(self) -> str:
        """Which server this is, without its password."""
        return _where(self.engine, self.server)


def _where(engine: AsyncEngine, server: EmbeddedServer | None) -> str:
    return f"embedded PostgreSQL in {server.cluster}" if server else engine.url.render_as_string(hide_password=True)


async def _in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run work that waits in a thread. The event tells it when nobody waits for it any more, after Ctrl-C, say."""
    cancelled = threading.Event()
    try:
        return await asyncio.to_thread(work, cancelled)
    except asyncio.CancelledError:
        cancelled.set()
        raise


def _start_embedded(home: Path | None, progress: Progress, cancelled: threading.Event) -> EmbeddedServer:
    if not homes.supported():
        raise ServerError("The embedded server runs on Linux and macOS. Set RANKBOOK_DSN to a PostgreSQL of yours.")
    from core.store.server.embedded import EmbeddedServer

    server = EmbeddedServer(home)
    if server.running:
        return server.acquire(progress, cancelled)
    with unless_told("Starting the server ...", progress) as reporting:
        return server.acquire(reporting, cancelled)


def _create_engine(
    dsn: str | None, server: EmbeddedServer | None, free_within: float, progress: Progress
) -> AsyncEngine:
    conninfo = server.conninfo() if server and not dsn else conninfo_of(dsn or "")

    async def connect(**_: Any) -> psycopg.AsyncConnection[Any]:
        give_up = time.monotonic() + free_within
        while True:
            try:
                return await _reach(conninfo, server, progress)
            except psycopg.OperationalError as error:
                if not db_errors.is_out_of_connections(error) or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(0.1)  # other programs hold all connections: one may be done in a moment

    return create_async_engine(
        public_url(conninfo),
        async_creator=connect,
        pool_pre_ping=True,
        pool_size=8,
        max_overflow=16,
        pool_timeout=free_within,
        hide_parameters=True,
    )


async def _reach(conninfo: str, server: EmbeddedServer | None, progress: Progress) -> psycopg.AsyncConnection[Any]:
    """Connect, starting an embedded server that was killed, or waiting for another that starts."""
    try:
        return await _connect(conninfo)
    except psycopg.OperationalError as error:
        if db_errors.is_out_of_connections(error):
            raise
        problem = error
    if server is not None:
        await _in_thread(lambda cancelled: server.ensure_running(progress, cancelled))
        return await _connect(conninfo)
    return await _connect_once_started(conninfo, problem, progress)


async def _connect_once_started(
    conninfo: str, problem: psycopg.OperationalError, progress: Progress
) -> psycopg.AsyncConnection[Any]:
    """Wait for a server that says that it starts, or whose socket does not exist yet. A refusal is raised at once."""
    begun, reported = time.monotonic(), 0.0
    while True:
        waited, state = time.monotonic() - begun, await _server_state(problem)
        if state in ("ready", "refused"):
            raise ConnectionFailed(
                f"The PostgreSQL at {public_url(conninfo)} refuses the connection: {db_errors.reason(problem)}. Check "
                "RANKBOOK_DSN and the server's pg_hba.conf, or unset RANKBOOK_DSN to use the embedded server."
            ) from None  # the cause may repeat the connection string
        if waited > (SOCKET_WITHIN if state == "no socket" else STARTS_WITHIN) or state == "silent":
            raise problem
        if waited - reported >= SPACE:
            reported = waited
            progress(f"Waiting for the PostgreSQL at {public_url(conninfo)} to start, for {waited:.0f} s.")
        await asyncio.sleep(0.2)
        try:
            return await _connect(conninfo)
        except psycopg.OperationalError as error:
            if db_errors.is_out_of_connections(error):
                raise
            problem = error


async def _server_state(problem: psycopg.OperationalError) -> str:
    """The state of the server that a connection failed to, as `supervisor.knock` has it; or "no socket".

    Its messages may be in any language, so the server is contacted once more for the code.
    """
    if STARTING in str(problem):
        return "not yet"
    if problem.pgconn is None or not problem.pgconn.host:
        return "silent"
    host, port = problem.pgconn.host.decode(), int(problem.pgconn.port or b"5432")
    if not host.startswith("/"):
        return (await asyncio.to_thread(supervisor.knock, (host, port))).state
    path = Path(host) / f".s.PGSQL.{port}"
    there = await asyncio.to_thread(path.exists)
    return (await asyncio.to_thread(supervisor.knock, str(path))).state if there else "no socket"


async def _connect(conninfo: str) -> psycopg.AsyncConnection[Any]:
    """Connect; the string comes before our defaults, and so do libpq's variables and service for another's server."""
    given = psycopg.conninfo.conninfo_to_dict(conninfo)
    defaults: dict[str, Any] = {} if has_service(given) else {k: v for k, v in DEFAULTS.items() if k not in given}
    if os.environ.get("PGCONNECT_TIMEOUT"):
        defaults.pop("connect_timeout", None)
    with without_steering() if is_embedded(conninfo) else nullcontext():
        connection = await psycopg.AsyncConnection.connect(
            conninfo,
            autocommit=True,
            **defaults,
            client_encoding="UTF8",  # whatever PGCLIENTENCODING says
            fallback_application_name="rankbook",
            prepare_threshold=None,  # which index is best depends on the values, so each statement is planned anew
        )
    try:
        await connection.execute(SESSION)
        await connection.set_autocommit(False)
    except BaseException:
        await connection.close()
        raise
    return connection


async def _prepare(engine: AsyncEngine, chains: Sequence[Chain], server: EmbeddedServer | None) -> Capabilities:
    """Check the server, install its extensions, bring the schemas up to date; return what it can do."""
    question = text("SELECT current_setting('server_version_num')::int, current_database(), current_user")
    try:
        async with engine.connect() as connection:
            version, database, user = (await connection.execute(question)).one()
    except (DBAPIError, psycopg.Error, OSError, UnicodeError) as error:
        reason = db_errors.reason(error)
        where = engine.url.render_as_string(hide_password=True)
        if server is not None:
            raise ConnectionFailed(
                f"The connection to {_where(engine, server)} was lost ({reason}). What was committed is kept: run the "
                "same command again."
            ) from error
        raise ConnectionFailed(
            f"No PostgreSQL answers at {where}: {reason}. Check RANKBOOK_DSN, or unset it to use the embedded server."
        ) from None  # the cause may repeat the connection string
    if version < OLDEST_SERVER:
        raise MissingCapability(f"The server is PostgreSQL {version // 10000}; Rankbook needs 15 or newer.")
    await citus.prepare_coordinator(engine)
    missing = {name: why for name in EXTENSIONS if (why := await _install(engine, name))}
    try:
        async with engine.begin() as connection:
            for chain in chains:
                if not await connection.run_sync(chain.is_current):
                    await connection.run_sync(chain.upgrade)
    except ProgrammingError as error:
        if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise
        raise MissingCapability(
            f"The role {user} may not create schemas in the database {database}, which is where Rankbook keeps its own "
            f'things. Ask an administrator to run: GRANT CREATE ON DATABASE "{database}" TO "{user}";'
        ) from error
    async with engine.connect() as connection:
        rows = await connection.execute(text("SELECT extname, extversion FROM pg_extension"))
        installed: dict[str, str] = {row.extname: row.extversion for row in rows}
    vector = installed.get("vector")
    if vector and tuple(map(int, vector.split(".")[:2])) < OLDEST_PGVECTOR:
        missing["vector"] = (
            f"pgvector is {vector}; vector search needs 0.8 or newer. Run: ALTER EXTENSION vector UPDATE;"
        )
    return Capabilities(version, installed, missing)


async def _install(engine: AsyncEngine, extension: str) -> str | None:
    """Make sure that the extension is there; otherwise return what is lost without it, and what to run."""
    lost = f"{EXTENSIONS[extension].capitalize()} needs the PostgreSQL extension {extension}"
    query = text("SELECT installed_version FROM pg_available_extensions WHERE name = :name")
    async with engine.connect() as connection:
        row = (await connection.execute(query, {"name": extension})).first()
    if row is None:
        return (
            f"{lost}, which this server has not got. Install its package there, then run: CREATE EXTENSION {extension};"
        )
    if row.installed_version is not None:
        return None
    try:
        async with engine.begin() as connection:
            await connection.execute(text(f'CREATE EXTENSION IF NOT EXISTS "{extension}"'))
    except IntegrityError:
        return None  # another process was creating it at the same moment
    except DBAPIError as error:
        reason = db_errors.reason(error)
        return (
            f"{lost}, and you may not create it ({reason}). Ask an administrator to run: CREATE EXTENSION {extension};"
        )
    return None
