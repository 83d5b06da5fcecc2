"""Collections, and the cache of embeddings they share."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "c0001"
down_revision = None

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "collections",
        sa.Column("name", ID, primary_key=True),
        sa.Column("namespace", ID, nullable=False, unique=True),
        sa.Column("language", sa.Text, nullable=False),
        sa.Column("card", sa.Text, nullable=False),
        sa.Column("origin", JSONB, nullable=False),
        sa.Column("fields", JSONB, nullable=False),
        sa.Column("attached", JSONB),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
    op.create_table(
        "embedding_cache",
        sa.Column("model", ID, primary_key=True),
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        schema=schema,
    )
