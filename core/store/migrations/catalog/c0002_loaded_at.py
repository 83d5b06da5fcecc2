"""Whether a collection's loading ever ended. One that holds something, or is attached, is taken to be loaded."""

import sqlalchemy as sa
from alembic import op

revision = "c0002"
down_revision = "c0001"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("collections", sa.Column("loaded_at", sa.DateTime(timezone=True)), schema=schema)
    columns = ("loaded_at", "changed_at", "version", "attached")
    table = sa.table("collections", *(sa.column(name) for name in columns), schema=schema)
    whole = sa.or_(table.c.version > 0, table.c.attached.is_not(None))
    op.execute(table.update().where(whole).values(loaded_at=table.c.changed_at))
