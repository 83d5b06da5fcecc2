"""Which set-ups were chosen, came of a suite's grid, or were set aside, over which queries.

Runs that were made when a query's excluded documents were taken out after the search, and not before it, are marked as
deep ones: of fewer results than ship. (Those that were asked deeper than ships had a depth all along.)
"""

import sqlalchemy as sa
from alembic import op

revision = "e0011"
down_revision = "e0010"

ID = sa.Text(collation="C")


def upgrade() -> None:
    schema = str(op.get_context().version_table_schema)
    op.create_table(
        "set_ups",
        sa.Column("key", ID, primary_key=True),
        sa.Column("collection", ID, nullable=False, index=True),
        sa.Column("query_set", ID, nullable=False),
        sa.Column("split", ID, nullable=False),
        sa.Column("set_up", ID, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("seen", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        schema=schema,
    )
    at = op.get_bind().dialect.identifier_preparer.quote_schema(schema)
    op.execute(
        f"UPDATE {at}.runs SET depth = coalesce((variant ->> 'top_k')::int, 10)"  # noqa: S608 - our own schema
        " WHERE depth = 0 AND variant IS NOT NULL AND environment -> 'own indexes' IS NULL AND EXISTS ("
        f" SELECT 1 FROM {at}.query_sets JOIN {at}.exclusions ON set_key = query_sets.key"
        " WHERE query_sets.collection = runs.collection AND query_sets.name = runs.query_set)"
    )
