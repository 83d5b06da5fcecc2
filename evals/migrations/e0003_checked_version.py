"""The collection's version at which a query set's corpus checks were made."""

import sqlalchemy as sa
from alembic import op

revision = "e0003"
down_revision = "e0002"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("query_sets", sa.Column("checked_version", sa.BigInteger), schema=schema)
