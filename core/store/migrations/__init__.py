"""Versioned schemas. Each chain is a folder of Alembic revisions with a version table of its own.

A chain is idempotent: at its newest revision `upgrade` does nothing. Revisions spell their DDL out, because the mapped
classes move on and a revision must not. They may read `op.get_context().version_table_schema` for where they work.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, String, column, inspect, select, table, text
from sqlalchemy.schema import CreateSchema

from core.errors import StoreError
from core.store.schema import CATALOG

FOLDER = Path(__file__).parent
ADVISORY_LOCK = 0x72616E6B  # one migration at a time, whoever asks
HAS_TABLE = text("SELECT true FROM pg_tables WHERE schemaname = :schema AND tablename = :table")


@dataclass(frozen=True)
class Chain:
    """A folder of revisions, and the table that remembers how far a schema has come."""

    name: str
    folder: Path

    @property
    def version_table(self) -> str:
        return f"revision_{self.name}"

    @cached_property
    def head(self) -> str:
        """The newest revision, which names its file; cheaper to read than Alembic is to load."""
        return max(path.name.split("_")[0] for path in self.folder.glob("[a-z][0-9]*_*.py"))

    def revision(self, connection: Connection, schema: str = CATALOG) -> str | None:
        """How far the schema has come; None where it has not begun."""
        if not connection.scalar(HAS_TABLE, {"schema": schema, "table": self.version_table}):
            return None
        versions = table(self.version_table, column("version_num", String), schema=schema)
        return connection.scalar(select(versions.c.version_num))

    def is_current(self, connection: Connection, schema: str = CATALOG) -> bool:
        return self.is_newest(self.revision(connection, schema), schema)

    def is_newest(self, found: str | None, schema: str) -> bool:
        """Refuses a store that a newer Rankbook has moved on: its tables are not what this one expects."""
        if found is not None and found > self.head:
            raise StoreError(
                f"The schema {schema!r} is at revision {found}, and this Rankbook knows only {self.head}. "
                "It was written by a newer one: upgrade Rankbook."
            )
        return found == self.head

    def upgrade(self, connection: Connection, schema: str = CATALOG, *, target: str = "head") -> None:
        """Bring a schema up to date in the caller's transaction: all of it or nothing."""
        from alembic import command
        from alembic.config import Config

        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": ADVISORY_LOCK})
        if not inspect(connection).has_schema(schema):  # IF NOT EXISTS may not see what was made while we waited
            connection.execute(CreateSchema(schema))
        config = Config()
        config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
        config.set_main_option("version_locations", str(self.folder).replace("%", "%%"))
        config.set_main_option("path_separator", "newline")  # a path may hold blanks and commas
        config.attributes.update(connection=connection, version_table=self.version_table, schema=schema)
        command.upgrade(config, target)


catalog = Chain("catalog", FOLDER / "catalog")
collection = Chain("collection", FOLDER / "collection")
