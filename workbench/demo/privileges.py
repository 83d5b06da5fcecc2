"""What the demo's role may do, as statements; and the two questions: does it lack something, can it do too much?

SQL alone: `role.py` runs it. Names are quoted by the library.
"""

from __future__ import annotations

from typing import Final

from psycopg import sql
from sqlalchemy import text

from core.store.attached.mapping import Attachment
from core.store.collections import CollectionView
from core.store.schema import CATALOG

READ: Final = ("collections", "contests", "revision_catalog", "votes")
SETTINGS: Final = {
    "default_transaction_read_only": "on",
    "statement_timeout": "30s",
    "idle_in_transaction_session_timeout": "60s",
}

# Whether a role lacks anything that it has to have; of an attached table that is only found out by granting.
LACKING: Final = """
    SELECT NOT (
        has_table_privilege(%(role)s, 'rankbook.votes', 'INSERT')
        AND has_column_privilege(%(role)s, 'rankbook.votes', 'choice', 'UPDATE')
        AND (SELECT bool_and(has_table_privilege(%(role)s, name, 'SELECT')) FROM unnest(%(tables)s::text[]) AS name)
        AND coalesce((
            SELECT bool_and(has_schema_privilege(%(role)s, places.oid, 'USAGE')
                            AND (nspname = 'rankbook' OR has_table_privilege(%(role)s, pg_class.oid, 'SELECT')))
            FROM pg_namespace AS places JOIN pg_class ON relnamespace = places.oid AND relkind = 'r'
            WHERE nspname = ANY (%(schemas)s)
        ), true)
    )
"""


# Whatever the role, or one that it could become, may write besides votes; one line of it is enough to refuse.
EXCESS: Final = text(
    """
    WITH mine AS (
        SELECT oid, rolname, rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication
               OR rolname IN ('pg_execute_server_program', 'pg_write_server_files') AS mighty
        FROM pg_roles WHERE pg_has_role(current_user, oid, 'MEMBER')
    ), places AS (
        SELECT oid, nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'
    )
    SELECT 'is or may become the role ' || rolname || ', which rules the server' FROM mine WHERE mighty
    UNION ALL
    SELECT 'may create schemas in this database' FROM mine
    WHERE has_database_privilege(oid, current_database(), 'CREATE')
    UNION ALL
    SELECT 'may create things in the schema ' || nspname FROM mine, places
    WHERE has_schema_privilege(mine.oid, places.oid, 'CREATE')
    UNION ALL
    SELECT 'may write to ' || nspname || '.' || relname
    FROM mine, places JOIN pg_class ON relnamespace = places.oid AND relkind IN ('r', 'p', 'v', 'f')
    WHERE has_table_privilege(mine.oid, pg_class.oid, 'DELETE, TRUNCATE')
       OR has_any_column_privilege(mine.oid, pg_class.oid, 'INSERT, UPDATE')
          AND NOT (nspname = :catalog AND relname = 'votes')
    LIMIT 1
    """
)


def grants(role: str, view: CollectionView) -> list[sql.Composed]:
    """All that the role may do."""
    name, catalog = sql.Identifier(role), sql.Identifier(CATALOG)
    read = sql.SQL(", ").join(sql.Identifier(CATALOG, table) for table in READ)
    votes = sql.Identifier(CATALOG, "votes")
    made = [
        sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(catalog, name),
        sql.SQL("GRANT SELECT ON {} TO {}").format(read, name),
        sql.SQL("GRANT INSERT, UPDATE (choice, voted_at) ON {} TO {}").format(votes, name),
    ]
    attachment = Attachment.of(view) if view.row.attached is not None else None
    if attachment is not None:
        theirs = attachment.table
        table = sql.Identifier(theirs.namespace, theirs.table)
        made.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(theirs.namespace), name))
        made.append(sql.SQL("GRANT SELECT ON {} TO {}").format(table, name))
    if attachment is None or attachment.aside is not None:
        own = sql.Identifier(view.namespace)
        made.append(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(own, name))
        made.append(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(own, name))
    return made
