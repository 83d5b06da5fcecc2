"""The open store: one engine on the embedded server or on the server that `RANKBOOK_DSN` names, and what it can do."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as NoneFree
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from core.errors import ConnectionFailed, MissingCapability, ServerError
from core.store import distribution, mishaps
from core.store import home as homes
from core.store.conninfo import conninfo_of, shown
from core.store.migrations import Chain, catalog
from core.store.schema import HERE

if TYPE_CHECKING:  # it needs what Windows has not got, and a server of one's own does without it
    from core.store.progress import Progress
    from core.store.server import EmbeddedServer

OLDEST_SERVER = 150000
OLDEST_PGVECTOR = (0, 8)
FREE_WITHIN = 30.0  # seconds that one waits for a connection that others hold
HEARTBEAT = {"keepalives_idle": 60, "keepalives_interval": 10, "keepalives_count": 6}
# Where nobody listens, what the driver says of a lost server stays unsaid: we say it, once and in a sentence.
logging.getLogger("psycopg").addHandler(logging.NullHandler())
EXTENSIONS = {
    "vector": "vector search",
    "pg_trgm": "trigram and fuzzy search",
    "unaccent": "full-text search without accents",
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What the server offers. `missing` maps an extension to the sentence that says why and what to run."""

    version: int
    extensions: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def sorts_on(self) -> bool:
        """Whether what an index gives in the order of a distance can be sorted on by another column as it comes."""
        return self.version >= 170000

    @property
    def distributed(self) -> bool:
        """Whether this is the coordinator of a Citus cluster."""
        return "citus" in self.extensions

    def need(self, extension: str) -> None:
        """Refuse in a sentence where the extension is not there."""
        if extension in self.missing:
            raise MissingCapability(self.missing[extension])


class Store:
    """Rankbook's database, opened. Make it with `Store.open`, give it back with `close` or `async with`."""

    role = ""  # of a person who signed in, see `roles`; the owner, who has all rights, has none
    keeps = True  # whether what was computed may be kept; whoever only reads holds it in memory

    def __init__(self, engine: AsyncEngine, server: EmbeddedServer | None, capabilities: Capabilities) -> None:
        self.engine, self.server, self.capabilities = engine, server, capabilities

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
        """Start or reach the server, bring the catalogue up to date, look at what the server can do.

        Where all connections are taken, one is waited for so many seconds. `server` is the embedded one that a DSN
        leads to: it is started again where it was killed, and its lease given back with the store.
        """
        dsn = dsn or (None if home else os.environ.get("RANKBOOK_DSN")) or None
        if dsn is None:
            server = await asyncio.to_thread(_embedded, home, progress)
        engine = _engine(dsn, server, free_within)
        try:
            capabilities = await _prepare(engine, (catalog, *chains))
        except BaseException:
            await engine.dispose()
            if server:
                server.release()
            raise
        return cls(engine, server, capabilities)

    async def close(self) -> None:
        await self.engine.dispose()
        if self.server:
            self.server.release()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def connect(self, namespace: str | None = None) -> AsyncIterator[AsyncConnection]:
        """A connection on which the tables of `HERE` are those of one collection's schema.

        What befell the server or the way to it is told in a sentence; a refused statement comes as it is.
        """
        try:
            async with self.engine.connect() as connection:
                yield await connection.execution_options(
                    schema_translate_map={HERE: namespace}, distributed=self.capabilities.distributed
                )
        except (DBAPIError, psycopg.Error, NoneFree) as error:
            told = mishaps.in_words(error, self.where)
            if told is None:
                raise
            raise told from error

    @asynccontextmanager
    async def begin(self, namespace: str | None = None, *, read_only: bool = False) -> AsyncIterator[AsyncConnection]:
        """A transaction on such a connection."""
        async with self.connect(namespace) as connection:
            if read_only:  # one snapshot for all its statements: what the first found, the next still finds
                await connection.execution_options(postgresql_readonly=True, isolation_level="REPEATABLE READ")
            async with connection.begin():
                yield connection

    @property
    def where(self) -> str:
        """Which server this is, without its password."""
        if self.server:
            return f"embedded PostgreSQL in {self.server.cluster}"
        return self.engine.url.render_as_string(hide_password=True)


def _embedded(home: Path | None, progress: Progress) -> EmbeddedServer:
    if not homes.supported():
        raise ServerError("The embedded server runs on Linux and macOS. Set RANKBOOK_DSN to a PostgreSQL of yours.")
    from core.store.server import EmbeddedServer

    return EmbeddedServer(home).acquire(progress)


def _engine(dsn: str | None, server: EmbeddedServer | None, free_within: float) -> AsyncEngine:
    conninfo = server.conninfo() if server and not dsn else conninfo_of(dsn or "")

    async def connect(**_: Any) -> psycopg.AsyncConnection[Any]:
        give_up = time.monotonic() + free_within
        while True:
            try:
                return await _reach(conninfo, server)
            except psycopg.OperationalError as error:
                if not mishaps.is_crowded(error) or time.monotonic() > give_up:
                    raise
            await asyncio.sleep(0.1)  # other programs hold all connections: one may be done in a moment

    return create_async_engine(
        shown(conninfo),
        async_creator=connect,
        pool_pre_ping=True,
        pool_size=8,
        max_overflow=16,
        pool_timeout=free_within,
        hide_parameters=True,
    )


async def _reach(conninfo: str, server: EmbeddedServer | None) -> psycopg.AsyncConnection[Any]:
    try:
        return await _connect(conninfo)
    except psycopg.OperationalError as error:
        if server is None or mishaps.is_crowded(error):
            raise
        # The server was killed under us: the next command must just work.
        await asyncio.to_thread(server.ensure_running)
        return await _connect(conninfo)


async def _connect(conninfo: str) -> psycopg.AsyncConnection[Any]:
    # A load holds its lock on a connection that may rest for hours: nothing in between may take it for dead.
    said = psycopg.conninfo.conninfo_to_dict(conninfo)
    heartbeat: dict[str, Any] = {name: value for name, value in HEARTBEAT.items() if name not in said}
    return await psycopg.AsyncConnection.connect(
        conninfo,
        **heartbeat,
        connect_timeout=10,
        client_encoding="UTF8",  # whatever PGCLIENTENCODING says
        application_name="rankbook",
        prepare_threshold=None,  # a plan made for the values at hand: which index is best depends on them
    )


async def _prepare(engine: AsyncEngine, chains: Sequence[Chain]) -> Capabilities:
    version, database, user = await _greet(engine)
    if version < OLDEST_SERVER:
        raise MissingCapability(f"The server is PostgreSQL {version // 10000}; Rankbook needs 15 or newer.")
    await distribution.met(engine)
    missing = {name: why for name in EXTENSIONS if (why := await _install(engine, name))}
    try:
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade, chains)
    except ProgrammingError as error:
        if not isinstance(error.orig, psycopg.errors.InsufficientPrivilege):
            raise
        raise MissingCapability(
            f"The role {user} may not create schemas in the database {database}, which is where Rankbook keeps its own "
            f'things. Ask an administrator to run: GRANT CREATE ON DATABASE "{database}" TO "{user}";'
        ) from error
    return await _look(engine, version, missing)


async def _greet(engine: AsyncEngine) -> tuple[int, str, str]:
    question = text("SELECT current_setting('server_version_num')::int, current_database(), current_user")
    try:
        async with engine.connect() as connection:
            version, database, user = (await connection.execute(question)).one()
            return version, database, user
    except (DBAPIError, psycopg.Error, OSError, UnicodeError) as error:
        reason = str(getattr(error, "orig", error)).strip().splitlines()[0]
        where = engine.url.render_as_string(hide_password=True)
        raise ConnectionFailed(
            f"No PostgreSQL answers at {where}: {reason}. Check RANKBOOK_DSN, or unset it to use the embedded server."
        ) from None  # the cause may repeat the connection string


def _upgrade(connection: Connection, chains: Sequence[Chain]) -> None:
    for chain in chains:
        if not chain.is_current(connection):
            chain.upgrade(connection)


async def _install(engine: AsyncEngine, extension: str) -> str | None:
    """Make sure the extension is there. Otherwise say what is lost without it, and what to run."""
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
        reason = str(error.orig).strip().splitlines()[0]
        return (
            f"{lost}, and you may not create it ({reason}). Ask an administrator to run: CREATE EXTENSION {extension};"
        )
    return None


async def _look(engine: AsyncEngine, version: int, missing: dict[str, str]) -> Capabilities:
    async with engine.connect() as connection:
        rows = await connection.execute(text("SELECT extname, extversion FROM pg_extension"))
        installed: dict[str, str] = {row.extname: row.extversion for row in rows}
    found = installed.get("vector")
    if found and tuple(map(int, found.split(".")[:2])) < OLDEST_PGVECTOR:
        missing["vector"] = (
            f"pgvector is {found}; vector search needs 0.8 or newer. Run: ALTER EXTENSION vector UPDATE;"
        )
    return Capabilities(version, installed, missing)
