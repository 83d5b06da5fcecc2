"""Judgements that were taken back, kept in the trash for a while."""

import sqlalchemy as sa
from alembic import op

revision = "e0010"
down_revision = "e0009"

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "withdrawn_judgements",
        sa.Column("key", sa.BigInteger, sa.Identity(), primary_key=True),
        *(sa.Column(name, ID, nullable=False) for name in ("collection", "query_id", "item_id", "judge")),
        sa.Column("grade", sa.Integer, nullable=False),
        sa.Column("is_model", sa.Boolean, nullable=False),
        sa.Column("item_digest", sa.LargeBinary, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("withdrawn_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        schema=schema,
    )
