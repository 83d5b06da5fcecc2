"""Of which set, and how into which of its splits, judgements were merged, so that merging another split keeps these.

Of a set that was merged before this was kept, the next merge asks once.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "e0008"
down_revision = "e0007"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("query_sets", sa.Column("merged_from", JSONB), schema=schema)
