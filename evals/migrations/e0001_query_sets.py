"""Query sets with their queries, labels, spans and exclusions."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "e0001"
down_revision = None

ID = sa.Text(collation="C")


def of_set(schema: str | None, *, primary_key: bool = False) -> sa.Column[int]:
    key = sa.ForeignKey(f"{schema}.query_sets.key", ondelete="CASCADE")
    return sa.Column("set_key", sa.Integer, key, nullable=False, primary_key=primary_key, index=not primary_key)


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "query_sets",
        sa.Column("key", sa.Integer, sa.Identity(), primary_key=True),
        sa.Column("collection", ID, nullable=False),
        sa.Column("name", ID, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("flaws", JSONB, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.UniqueConstraint("collection", "name"),
        schema=schema,
    )
    op.create_table(
        "queries",
        of_set(schema, primary_key=True),
        sa.Column("id", ID, primary_key=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("tags", ARRAY(sa.Text), nullable=False),
        sa.Column("weight", sa.Float, nullable=False),
        sa.Column("metadata", JSONB, nullable=False),
        schema=schema,
    )
    op.create_table(
        "labels",
        of_set(schema, primary_key=True),
        *(sa.Column(name, ID, primary_key=True) for name in ("split", "query_id", "item_id")),
        sa.Column("grade", sa.Integer, nullable=False),
        schema=schema,
    )
    op.create_table(
        "spans",
        sa.Column("key", sa.BigInteger, sa.Identity(), primary_key=True),
        of_set(schema),
        *(sa.Column(name, ID, nullable=False) for name in ("split", "query_id", "item_id")),
        *(sa.Column(name, sa.Integer, nullable=False) for name in ("start_at", "end_at")),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("grade", sa.Integer, nullable=False),
        schema=schema,
    )
    op.create_table(
        "exclusions",
        of_set(schema, primary_key=True),
        *(sa.Column(name, ID, primary_key=True) for name in ("query_id", "item_id")),
        schema=schema,
    )
