"""What a demo's visitors liked better: contests between variants, and votes."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "e0005"
down_revision = "e0004"

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "contests",
        sa.Column("key", ID, primary_key=True),
        sa.Column("collection", ID, nullable=False, index=True),
        sa.Column("variants", JSONB, nullable=False),
        sa.Column("begun_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
    contest = sa.ForeignKey(f"{schema}.contests.key", ondelete="CASCADE")
    op.create_table(
        "votes",
        sa.Column("contest", ID, contest, primary_key=True),
        sa.Column("visitor", ID, primary_key=True),
        sa.Column("query", ID, primary_key=True),
        sa.Column("choice", ID),
        sa.Column("voted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
