"""Changes of query sets, kept so that they can be undone."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "e0009"
down_revision = "e0008"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    of_set = sa.ForeignKey(f"{schema}.query_sets.key", ondelete="CASCADE")
    op.create_table(
        "label_revisions",
        sa.Column("key", sa.BigInteger, sa.Identity(), primary_key=True),
        sa.Column("set_key", sa.Integer, of_set, nullable=False, index=True),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("counts", JSONB, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("undone_by", sa.Text),
        sa.Column("undone_at", sa.DateTime(timezone=True)),
        sa.Column("lapsed", sa.Boolean, nullable=False, server_default="false"),
        schema=schema,
    )
