"""Items, and the registers of chunk sets and embedding sets made from them."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "k0001"
down_revision = None

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "items",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", ID, nullable=False, unique=True),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("metadata", JSONB, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        schema=schema,
    )
    op.create_table(
        "chunk_sets",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("name", ID, nullable=False, unique=True),
        sa.Column("chunker", JSONB, nullable=False),
        *(
            sa.Column(name, sa.Integer, nullable=False)
            for name in ("last_key", "derived_to", "backfill_to", "lexed_to", "posted_to")
        ),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("units", "length")),
        schema=schema,
    )
    op.create_table(
        "embedding_sets",
        sa.Column("key", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("chunk_set", sa.Integer, nullable=False),
        sa.Column("model", ID, nullable=False),
        sa.Column("dimension", sa.Integer, nullable=False),
        sa.Column("index", sa.Text, nullable=False),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("embedded_to", "backfill_to")),
        schema=schema,
    )
