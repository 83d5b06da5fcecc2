"""What the harness and its notebooks keep: runs, judgements, outputs."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "e0002"
down_revision = "e0001"

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "runs",
        sa.Column("id", ID, primary_key=True),
        sa.Column("collection", ID, nullable=False, index=True),
        sa.Column("collection_version", sa.BigInteger, nullable=False),
        sa.Column("query_set_digest", sa.LargeBinary, nullable=False),
        sa.Column("split", ID, nullable=False),
        *(sa.Column(name, JSONB, nullable=False) for name in ("variant", "environment", "scores")),
        sa.Column("rankings", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
    op.create_table(
        "judgements",
        *(sa.Column(name, ID, primary_key=True) for name in ("collection", "query_id", "item_id", "judge")),
        sa.Column("grade", sa.Integer, nullable=False),
        sa.Column("is_model", sa.Boolean, nullable=False),
        sa.Column("item_digest", sa.LargeBinary, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("judged_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
    op.create_table(
        "outputs",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column("notebook", ID, nullable=False, index=True),
        sa.Column("content", JSONB, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
