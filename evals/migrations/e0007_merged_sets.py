"""Which query sets are as a merge of judgements wrote them, so that the next one may write them anew."""

import sqlalchemy as sa
from alembic import op

revision = "e0007"
down_revision = "e0006"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("query_sets", sa.Column("merged_digest", sa.LargeBinary), schema=schema)
