"""Kept rankings in batches, runs that can be told apart and found, and pins."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "e0004"
down_revision = "e0003"

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    columns: list[sa.Column[Any]] = [
        sa.Column("name", ID, nullable=False, server_default=""),
        sa.Column("content", sa.Text, nullable=False, server_default=""),
        sa.Column("query_set", ID, nullable=False, server_default=""),
        *(sa.Column(name, sa.Integer, nullable=False, server_default="0") for name in ("depth", "queries", "failed")),
        sa.Column("latency", JSONB, nullable=False, server_default="{}"),
    ]
    for column in columns:
        op.add_column("runs", column, schema=schema)
    op.alter_column("runs", "variant", nullable=True, schema=schema)
    op.create_table(
        "pins",
        sa.Column("name", ID, primary_key=True),
        sa.Column("run", ID, sa.ForeignKey(f"{schema}.runs.id"), nullable=False, index=True),
        sa.Column("pinned_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
    op.create_table(
        "ranking_batches",
        sa.Column("key", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("digest", ID, nullable=False, index=True),
        sa.Column("depth", sa.Integer, nullable=False),
        sa.Column("collection", ID, nullable=False, index=True),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("queries", sa.Integer, nullable=False),
        sa.Column("rankings", sa.LargeBinary, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
