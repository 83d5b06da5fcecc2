"""What viewers, judges and editors may do, as grants: made once, and again for collections that were added since.

Everything that is Rankbook's belongs to the editors' role, because only an owner may drop a table or build an index.
The account that Rankbook itself logs in as is a member of that role, or a superuser anyway.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, LiteralString

import psycopg
from psycopg import sql
from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from core.errors import Deadlock, MissingCapability
from core.store import readable_tables
from core.store.attached.mapping import AttachedTable, Attachment, written_name
from core.store.engine import Driver, Store, driver_of
from core.store.names import BRACKETS, SCHEMA_PREFIX, TRASH_PREFIX, trash_schema
from core.store.roles import EDITOR, JUDGE, OURS_ALONE, READERS, ROLES, make, name_of
from core.store.schema import CATALOG, Collection, TableGrant, TrashRow

CONNECTIONS: Final = 40  # of a role at once, over all processes: the embedded server has 100 in all
LOCK: Final = 0x726F6C65  # one process at a time sets roles up: grants on one table from two sides collide
LOCK_PATIENCE: Final = "500ms"  # a load holds its tables; who owns them can wait until it is done
MEMBERS_CAN_BE_TOLD: Final = 160000  # from this version on, making a role does not make one a member of it

# Schemas of ours that the readers cannot read all of, or that are not all the editors' own.
LACKING: Final = """
    WITH readers AS (SELECT oid FROM pg_roles WHERE rolname = ANY (%(readers)s)),
         editor AS (SELECT oid FROM pg_roles WHERE rolname = %(editor)s),
         ours AS (
             SELECT oid, nspname, nspowner FROM pg_namespace
             WHERE nspname = %(catalog)s OR nspname = ANY (%(collections)s)
         ),
         things AS (SELECT oid, relname, relnamespace, relowner FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm')),
         schemas AS (
             SELECT nspname,
                    coalesce(bool_or(NOT starts_with(nspname, %(trashed)s) AND (
                        NOT has_schema_privilege(readers.oid, ours.oid, 'USAGE')
                        OR NOT has_table_privilege(readers.oid, things.oid, 'SELECT')
                           AND NOT (nspname = %(catalog)s AND relname = %(trash)s))), false) AS unread,
                    coalesce(bool_or(nspowner <> editor.oid OR relowner <> editor.oid), false) AS strange
             FROM ours CROSS JOIN readers CROSS JOIN editor LEFT JOIN things ON relnamespace = ours.oid
             GROUP BY nspname
         )
    SELECT nspname, unread, strange FROM schemas WHERE unread OR strange ORDER BY nspname
"""
# A right that the role has by name was granted by somebody else, or is recorded already.
RECORD_SCHEMA: Final = """
    INSERT INTO rankbook.table_grants (role, namespace, relation, collection)
    SELECT %(role)s::text, nspname, '', %(collection)s::text FROM pg_namespace
    WHERE nspname = %(namespace)s AND NOT EXISTS (
        SELECT FROM aclexplode(nspacl) JOIN pg_roles ON pg_roles.oid = grantee
        WHERE rolname = %(role)s::text AND privilege_type = 'USAGE')
    ON CONFLICT DO NOTHING
"""
RECORD_TABLE: Final = """
    INSERT INTO rankbook.table_grants (role, namespace, relation, collection)
    SELECT %(role)s::text, nspname, relname, %(collection)s::text
    FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE nspname = %(namespace)s AND relname = %(relation)s AND NOT EXISTS (
        SELECT FROM aclexplode(relacl) JOIN pg_roles ON pg_roles.oid = grantee
        WHERE rolname = %(role)s::text AND privilege_type = 'SELECT')
    ON CONFLICT DO NOTHING
"""
OUR_ROLES: Final = re.compile(r"rankbook_((viewer|judge|editor)_[0-9a-f]{8}|demo_[0-9a-f]{10})")
STRANGE: Final = """
    SELECT relname, relkind::text FROM pg_class
    WHERE relnamespace = %(schema)s::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
      AND relowner <> %(editor)s::regrole
"""
CAN_READ: Final = """
    SELECT has_schema_privilege(%(role)s, place.oid, 'USAGE') AND has_table_privilege(%(role)s, relation.oid, 'SELECT')
    FROM pg_class AS relation
    JOIN pg_namespace AS place ON place.oid = relation.relnamespace
    WHERE nspname = %(schema)s AND relname = %(table)s
"""
# What somebody else's work on the same tables comes to. The next look finds them as they are then.
PASSING: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    Deadlock,
    psycopg.errors.InternalError_,  # "tuple concurrently updated"
)
GONE: Final = (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName)
_log = logging.getLogger("rankbook")


@dataclass(frozen=True, slots=True)
class Right:
    """What judges may do to a table of the catalogue besides reading it, as GRANT has it: "INSERT, DELETE"."""

    table: str
    privileges: LiteralString


async def set_up(owner: Store, judges: Sequence[Right]) -> None:
    """Make the roles or find them, and give each exactly what it may do in the catalogue."""
    async with owner.begin() as connection:
        driver = await driver_of(connection)
        names = _names(driver)
        try:
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            for role, name in names.items():
                await make(driver, name, f"Rankbook: {role}s of {driver.info.dbname}", CONNECTIONS)
            for statement in (*(OURS_ALONE if owner.server is not None else ()), *_statements(driver, names, judges)):
                await driver.execute(statement)
        except psycopg.errors.InsufficientPrivilege as error:
            user, database = sql.Identifier(driver.info.user), sql.Identifier(driver.info.dbname)
            able = sql.SQL("ALTER ROLE {} CREATEROLE; ALTER DATABASE {} OWNER TO {};").format(user, database, user)
            reason = error.diag.message_primary or type(error).__name__
            raise MissingCapability(
                f"Viewers, judges and editors connect as roles of their own, which {driver.info.user} may not set up "
                f"({reason}). Ask an administrator to run: {able.as_string(None)}"
            ) from error
    await refresh(owner)


def _names(driver: Driver) -> dict[str, str]:
    return {role: name_of(role, driver.info.dbname) for role in ROLES}


def _statements(driver: Driver, names: dict[str, str], judges: Sequence[Right]) -> list[sql.Composed]:
    """All grants but those of single collections."""
    database, catalog = sql.Identifier(driver.info.dbname), sql.Identifier(CATALOG)
    editor, judge = sql.Identifier(names[EDITOR]), sql.Identifier(names[JUDGE])
    readers = sql.SQL(", ").join(sql.Identifier(names[role]) for role in READERS)
    # As a member, the account that runs Rankbook can drop what editors made.
    member = " WITH INHERIT TRUE, SET TRUE" if driver.info.server_version >= MEMBERS_CAN_BE_TOLD else ""
    return [
        sql.SQL("GRANT {} TO CURRENT_USER{}").format(editor, sql.SQL(member)),
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database, readers),
        sql.SQL("GRANT CONNECT, CREATE, TEMPORARY ON DATABASE {} TO {}").format(database, editor),
        sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(catalog, readers),
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(catalog, readers),
        sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(catalog, readers),
        _hide_trash(readers),
        *(
            sql.SQL("GRANT {} ON {} TO {}").format(
                sql.SQL(right.privileges), sql.Identifier(CATALOG, right.table), judge
            )
            for right in judges
        ),
        *(
            sql.SQL("ALTER DEFAULT PRIVILEGES FOR ROLE {} GRANT {} TO {}").format(editor, sql.SQL(what), readers)
            for what in ("SELECT ON TABLES", "USAGE ON SCHEMAS")
        ),
    ]


def _hide_trash(readers: sql.Composable) -> sql.Composed:
    """Readers do not see what was deleted, and by whom."""
    return sql.SQL("REVOKE ALL ON {} FROM {}").format(sql.Identifier(CATALOG, TrashRow.__tablename__), readers)


# -- collections -------------------------------------------------------------------------------------------------------


async def refresh(owner: Store) -> None:
    """Let all roles read collections that were added since, by the command line say, and give them to the editors.

    Costs one quick query where nothing was added. What editors make themselves is granted as they make it.
    """
    async with owner.begin() as connection:
        driver = await driver_of(connection)
        names = _names(driver)
        readers = [names[role] for role in READERS]
        values = {
            "readers": readers,
            "editor": names[EDITOR],
            "catalog": CATALOG,
            "collections": await _own_schemas(connection),
            "trash": TrashRow.__tablename__,
            "trashed": TRASH_PREFIX,
        }
        lacking = await (await driver.execute(LACKING, values)).fetchall()
        attached = await _unreadable_tables(connection, readers[0], names[EDITOR])
    for schema, unread, strange in lacking:
        if unread:
            await _give(owner, _read_schema(schema, names))
        if strange:
            await _hand_over(owner, schema, names[EDITOR])
    everybody = sql.SQL(", ").join(map(sql.Identifier, names.values()))
    for table in attached:
        statements = [
            sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(table.namespace), everybody),
            sql.SQL("GRANT SELECT ON {} TO {}").format(sql.Identifier(table.namespace, table.table), everybody),
        ]
        await _give(owner, statements, table, names.values())
    await revoke_unneeded(owner)


async def _own_schemas(connection: AsyncConnection) -> list[str]:
    """The schemas of collections, those in the trash included, which only editors may enter.

    Editors write the catalogue: a row that names any other schema is ignored.
    """
    rows = await connection.execute(select(Collection.name, Collection.namespace))
    schemas = [place for name, place in rows if place == SCHEMA_PREFIX + name.translate(BRACKETS)]
    return schemas + [trash_schema(each) for each in await connection.scalars(select(TrashRow.id))]


def _read_schema(schema: str, names: dict[str, str]) -> list[sql.Composed]:
    everybody = sql.SQL(", ").join(map(sql.Identifier, names.values()))
    readers = sql.SQL(", ").join(sql.Identifier(name) for role, name in names.items() if role in READERS)
    return [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), everybody),
        sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(sql.Identifier(schema), everybody),
        *([_hide_trash(readers)] if schema == CATALOG and readers.as_string(None) else []),
    ]


async def _unreadable_tables(connection: AsyncConnection, reader: str, editor: str) -> list[AttachedTable]:
    """Attached tables that the reader cannot read yet, and may.

    They may be read where the owner allowed it, or where editors can read them anyway; a row of the catalogue is no
    permission.
    """
    rows = await connection.execute(select(Collection.name, Collection.attached))
    attached = [(name, Attachment.model_validate(row).table) for name, row in rows if row]
    allowed = await readable_tables.allowed(connection) if attached else set()
    driver, found = await driver_of(connection), []
    for name, table in attached:
        if await can_read(driver, reader, table) is not False:
            continue
        if (name, table.namespace, table.table) in allowed or await can_read(driver, editor, table):
            found.append(table)
        else:
            _warn_once(not_allowed(name, table))
    return found


@lru_cache(maxsize=1000)
def _warn_once(sentence: str) -> None:
    """Rights are checked with each click, so the same warning would come again and again."""
    _log.warning("%s", sentence)


async def can_read(driver: Driver, role: str, table: AttachedTable) -> bool | None:
    """Whether the role may read all of the table; None where there is none."""
    values = {"role": role, "schema": table.namespace, "table": table.table}
    row = await (await driver.execute(CAN_READ, values)).fetchone()
    return None if row is None else bool(row[0])


def not_allowed(name: str, table: AttachedTable) -> str:
    """Why a table is not granted, and the way out."""
    named = f"{name}={written_name(table.namespace, table.table)}"
    return (
        f"Others cannot read {table.full_name}: that {name!r} is attached to it stands in the catalogue alone, and the "
        f"owner has not let it be read. To do so: rankbook access --attached {shlex.quote(named)}"
    )


async def record_missing(driver: Driver, table: AttachedTable, role: str, collection: str = "") -> None:
    """Record which rights on an attached table the role lacks, before they are granted, for `revoke_unneeded`.

    With a `collection` only that one needs them.
    """
    values = {"role": role, "namespace": table.namespace, "relation": table.table, "collection": collection}
    for statement in (RECORD_SCHEMA, RECORD_TABLE):
        await driver.execute(statement, values)


async def revoke_unneeded(owner: Store) -> None:
    """Revoke rights that Rankbook granted on attached tables and that no attached collection needs any more.

    Editors can write these records: roles other than Rankbook's own are ignored.
    """
    async with owner.begin() as connection:
        grants = list(await AsyncSession(connection, expire_on_commit=False).scalars(select(TableGrant)))
        rows = await connection.execute(select(Collection.name, Collection.attached)) if grants else ()
        tables = {name: Attachment.model_validate(attached).table for name, attached in rows if attached}
    for grant in grants:
        needed = any(
            grant.namespace == table.namespace
            and grant.relation in ("", table.table)
            and grant.collection in ("", name)
            for name, table in tables.items()
        )
        if OUR_ROLES.fullmatch(grant.role) and not needed:
            await _revoke(owner, grant)


async def _revoke(owner: Store, grant: TableGrant) -> None:
    """Revoke it and forget the record. Where the role or the table is gone, so is the right."""
    target = sql.SQL("USAGE ON SCHEMA {}").format(sql.Identifier(grant.namespace))
    if grant.relation:
        target = sql.SQL("SELECT ON {}").format(sql.Identifier(grant.namespace, grant.relation))
    statement = sql.SQL("REVOKE {} FROM {}").format(target, sql.Identifier(grant.role))
    key = (
        TableGrant.role == grant.role,
        TableGrant.namespace == grant.namespace,
        TableGrant.relation == grant.relation,
    )
    try:
        async with owner.begin() as connection:
            driver = await driver_of(connection)
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            with suppress(*GONE):
                async with driver.transaction():
                    await driver.execute(statement)
            await connection.execute(delete(TableGrant).where(*key))
    except PASSING:
        _log.info("somebody is at work on an attached table: rights on it are revoked later")
    except psycopg.errors.InsufficientPrivilege as error:
        command = statement.as_string(None)
        _log.warning("a right cannot be revoked (%s). Run as administrator: %s", error.diag.message_primary, command)


async def _give(
    owner: Store,
    statements: Sequence[sql.Composed],
    table: AttachedTable | None = None,
    roles: Iterable[str] = (),
) -> None:
    """Run the grants, all or none. What we may not grant is logged with what to run, and nothing else is held up.

    Which rights on an attached table are new is recorded.
    """
    try:
        async with owner.begin() as connection:
            driver = await driver_of(connection)
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            if table is not None:
                for role in roles:
                    await record_missing(driver, table, role)
            for statement in statements:
                await driver.execute(statement)
    except PASSING:
        _log.info("a collection is being made or dropped: its rights are given later")
    except psycopg.errors.InsufficientPrivilege as error:
        commands = "; ".join(each.as_string(None) for each in statements)
        _log.warning(
            "roles cannot be given their rights (%s). Run as administrator: %s", error.diag.message_primary, commands
        )


async def _hand_over(owner: Store, schema: str, editor: str) -> None:
    """Make the editors own the schema. While a load is at work there, it stays as it is until the next check."""
    try:
        async with owner.begin() as connection:
            driver = await driver_of(connection)
            await driver.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_PATIENCE)))
            await driver.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
            new, place = sql.Identifier(editor), sql.Identifier(schema)
            await driver.execute(sql.SQL("ALTER SCHEMA {} OWNER TO {}").format(place, new))
            values = {"schema": place.as_string(None), "editor": new.as_string(None)}
            for name, kind in await (await driver.execute(STRANGE, values)).fetchall():
                what = {"v": "VIEW", "m": "MATERIALIZED VIEW"}.get(kind, "TABLE")
                table = sql.Identifier(schema, name)
                await driver.execute(sql.SQL("ALTER {} {} OWNER TO {}").format(sql.SQL(what), table, new))
    except PASSING:
        _log.info("a collection is being loaded or dropped: its tables are handed to the editors later")
    except psycopg.errors.InsufficientPrivilege as error:
        _log.warning(
            "the schema %s stays its owner's, editors cannot change it: %s", schema, error.diag.message_primary
        )
