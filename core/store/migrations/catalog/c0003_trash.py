"""The trash, and which rights on attached tables Rankbook itself granted.

Of rights from before this was recorded, those of Rankbook's own roles on tables that are attached now count as its own.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "c0003"
down_revision = "c0002"

ID = sa.Text(collation="C")
OUR_ROLES = "^rankbook_((viewer|judge|editor)_[0-9a-f]{8}|demo_[0-9a-f]{10})$"
GRANTED = """
    WITH attached AS (
        SELECT attached -> 'table' ->> 'namespace' AS namespace, attached -> 'table' ->> 'table' AS relation
        FROM {collections} WHERE attached -> 'table' IS NOT NULL
    ), held AS (
        SELECT grantee, nspname AS namespace, '' AS relation
        FROM pg_namespace, aclexplode(nspacl)
        WHERE nspname IN (SELECT namespace FROM attached) AND privilege_type = 'USAGE'
        UNION
        SELECT grantee, nspname, relname
        FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace, aclexplode(relacl)
        WHERE (nspname, relname) IN (SELECT namespace, relation FROM attached) AND privilege_type = 'SELECT'
    )
    INSERT INTO {grants} (role, namespace, relation, collection)
    SELECT rolname, namespace, relation, '' FROM held JOIN pg_roles ON pg_roles.oid = grantee WHERE rolname ~ '{roles}'
"""


def upgrade() -> None:
    schema = op.get_context().version_table_schema
    op.create_table(
        "trash",
        sa.Column("id", ID, primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", ID, nullable=False),
        sa.Column("collection", ID, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("details", JSONB, nullable=False),
        sa.Column("deleted_by", sa.Text, nullable=False),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        schema=schema,
    )
    op.create_table(
        "table_grants",
        *(sa.Column(name, ID, primary_key=True) for name in ("role", "namespace", "relation")),
        sa.Column("collection", ID, nullable=False),
        schema=schema,
    )
    place = op.get_bind().dialect.identifier_preparer.quote_identifier(str(schema))
    tables = {"collections": f"{place}.collections", "grants": f"{place}.table_grants"}
    op.execute(sa.text(GRANTED.format(**tables, roles=OUR_ROLES).replace(":", r"\:")))
