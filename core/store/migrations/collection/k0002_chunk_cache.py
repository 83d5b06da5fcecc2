"""The cache of chunks that late chunking makes at query time."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "k0002"
down_revision = "k0001"

ID = sa.Text(collation="C")


def upgrade() -> None:
    op.create_table(
        "chunk_cache",
        sa.Column("item_key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunker", ID, primary_key=True),
        sa.Column("model", ID, primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("chunks", JSONB, nullable=False),
        sa.Column("vectors", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=op.get_context().version_table_schema,
    )
