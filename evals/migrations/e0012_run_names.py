"""Every name that a run was evaluated under, and when last: a suite's name for it does not take the place of one's own.

Runs of before have the one name that they bear.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "e0012"
down_revision = "e0011"


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.add_column("runs", sa.Column("names", JSONB, nullable=False, server_default="{}"), schema=schema)
