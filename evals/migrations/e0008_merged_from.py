"""Of which set, and into which of its splits, judgements were merged, so that merging another split keeps these."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "e0008"
down_revision = "e0007"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("query_sets", sa.Column("merged_set", sa.Text), schema=schema)
    op.add_column("query_sets", sa.Column("merged_splits", ARRAY(sa.Text)), schema=schema)
