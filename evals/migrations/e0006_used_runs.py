"""When a run was last asked for: a name means the one that was used last, which need not be the one made last."""

import sqlalchemy as sa
from alembic import op

revision = "e0006"
down_revision = "e0005"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    used = sa.Column("used_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())
    op.add_column("runs", used, schema=schema)
    runs = sa.table("runs", sa.column("created_at"), sa.column("used_at"), schema=schema)
    op.execute(runs.update().values(used_at=runs.c.created_at))
