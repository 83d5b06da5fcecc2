"""Whether the side tables still hold what the attached table holds: roughly by the server's counters, exactly by rows.

The counters show any write at the cost of one look at the catalogue, but not which rows it concerned: those of another
collection in the same table count too. Comparing rows names them, and reads the whole table.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select, and_, func, or_, select, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from core.store.attached.attach import count, unreadable
from core.store.attached.columns import AttachedColumns
from core.store.attached.mapping import AttachedTable, Attachment, SideTables, Writes
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import ItemRow

# A table by itself: at half the cost of looking for what lies below, and searches ask it each time.
OF_TABLE = text("""
SELECT pg_stat_get_tuples_inserted(relation.oid) AS inserted,
       pg_stat_get_tuples_updated(relation.oid) AS updated,
       pg_stat_get_tuples_deleted(relation.oid) AS deleted,
       concat(relation.oid, ' ', pg_relation_filenode(relation.oid)) AS files,
       CAST(current_setting('track_counts') AS boolean) AS counted
FROM pg_class AS relation
JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
WHERE namespace.nspname = :namespace AND relation.relname = :name
  AND relation.relkind = 'r' AND NOT relation.relhassubclass
""")
# The table, its partitions, and the tables under a view. A materialized view is written to by itself. A table whose
# rows are in a cluster's shards, and a foreign one, has counters elsewhere. Of a view's functions nothing is known.
OF_ALL_BELOW = """
WITH RECURSIVE below AS (
    SELECT relation.oid, relation.relkind
    FROM pg_class AS relation
    JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
    WHERE namespace.nspname = :namespace AND relation.relname = :name
  UNION
    SELECT part.oid, part.relkind
    FROM below
    JOIN LATERAL (
        SELECT inhrelid AS oid FROM pg_inherits WHERE inhparent = below.oid
        UNION ALL
        SELECT depend.refobjid
        FROM pg_rewrite AS rule
        JOIN pg_depend AS depend ON depend.classid = CAST('pg_rewrite' AS regclass) AND depend.objid = rule.oid
        WHERE below.relkind = 'v' AND rule.ev_class = below.oid AND depend.refclassid = CAST('pg_class' AS regclass)
    ) AS named ON true
    JOIN pg_class AS part ON part.oid = named.oid
)
SELECT coalesce(sum(pg_stat_get_tuples_inserted(oid)), 0) AS inserted,
       coalesce(sum(pg_stat_get_tuples_updated(oid)), 0) AS updated,
       coalesce(sum(pg_stat_get_tuples_deleted(oid)), 0) AS deleted,
       md5(string_agg(concat(oid, ' ', pg_relation_filenode(oid)), ',' ORDER BY oid)) AS files,
       bool_and(relkind IN ('r', 'p', 'v', 'm') {here}) AND CAST(current_setting('track_counts') AS boolean) AS counted
FROM below
WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
"""
OF_ALL_ON_THE_SERVER = text(OF_ALL_BELOW.format(here=""))
OF_ALL_ON_THE_COORDINATOR = text(
    OF_ALL_BELOW.format(here="AND oid NOT IN (SELECT logicalrelid FROM pg_dist_partition)")
)


@dataclass(frozen=True, slots=True)
class TableDifference:
    """Attached rows that the side tables lack or have with another text, and rows that only the side tables have.

    `unknown` are rows of which an earlier version kept nothing to compare the texts by.
    """

    new: int = 0
    changed: int = 0
    gone: int = 0
    unknown: int = 0

    def __bool__(self) -> bool:
        return bool(self.new or self.changed or self.gone or self.unknown)


async def written_to(connection: AsyncConnection, attachment: Attachment, *, distributed: bool) -> Writes | None:
    """The counters as they are now; None where the server keeps none of this table, or other servers do."""
    named = {"namespace": attachment.table.namespace, "name": attachment.table.table}
    alone = attachment.facts.kind == "table" and not distributed
    found = (await connection.execute(OF_TABLE, named)).first() if alone else None
    if found is None:
        below = OF_ALL_ON_THE_COORDINATOR if distributed else OF_ALL_ON_THE_SERVER
        found = (await connection.execute(below, named)).one()
    if not found.counted:
        return None
    return Writes(inserted=found.inserted, updated=found.updated, deleted=found.deleted, files=found.files)


async def staleness_notes(
    name: str, attachment: Attachment, connection: AsyncConnection, *, distributed: bool
) -> tuple[str, ...]:
    """What a search should note about the side tables it reads; empty where the table was not written to since."""
    aside = attachment.aside
    if aside is None:
        return ()
    now = await written_to(connection, attachment, distributed=distributed) if aside.writes else None
    if now is not None and now == aside.writes:
        return ()
    return (f"{_written_since(attachment.table, aside, now)} {way_out(name)}",)


async def staleness_sentence(store: Store, view: CollectionView) -> str:
    """The same of a collection, by the number of rows where there are no counters; empty without side tables."""
    attachment = Attachment.of(view)
    aside, table = attachment.aside, attachment.table
    if aside is None:
        return ""
    if aside.writes is not None:
        async with store.begin(read_only=True) as connection:
            distributed = store.capabilities.distributed
            return " ".join(await staleness_notes(view.name, attachment, connection, distributed=distributed))
    rows = await count(store, table, attachment.facts)
    if rows == aside.rows:
        return ""
    return f"{table.full_name} has {rows:,} rows, and {aside.rows:,} stand aside. {way_out(view.name)}"


def way_out(name: str) -> str:
    quoted = shlex.quote(name)
    return (
        f"`rankbook data verify {quoted}` compares them, `rankbook data aside {quoted} --refresh` takes in what is new."
    )


def _written_since(table: AttachedTable, aside: SideTables, now: Writes | None) -> str:
    then, since = aside.writes, f"since its words were taken aside on {aside.built_at:%Y-%m-%d at %H:%M} UTC"
    if then is None or now is None:
        return f"Whether {table.full_name} changed {since} cannot be told without comparing its rows."
    more = (now.inserted - then.inserted, now.updated - then.updated, now.deleted - then.deleted)
    if min(more) < 0:
        return f"The server began anew to count what is written to {table.full_name}, so it may have changed {since}."
    if not any(more):
        return f"{table.full_name} was emptied, refreshed or rewritten {since}, and this was searched as it was then."
    rows = "rows inserted {:,}, updated {:,}, deleted {:,}".format(*more)
    whole = " in the whole table" if table.where else ""
    return f"{table.full_name} was written to {since}: {rows}{whole}. This was searched as it was then."


def differing_rows(attachment: Attachment) -> Select[Any]:
    """Every row that differs: `id`, its `key` in the side tables, and whether it is `new`, `changed` or `gone`.

    The attached rows are materialized first, so that a cluster can join them with ours.
    """
    rows = AttachedColumns(attachment.table, attachment.facts).digested().subquery("found")
    now = select(rows.c.id, rows.c.digest).cte("now").prefix_with("MATERIALIZED")
    new, gone = ItemRow.key.is_(None), now.c.id.is_(None)
    unknown = and_(ItemRow.digest == b"", ~new, ~gone)
    changed = and_(ItemRow.digest != now.c.digest, ItemRow.digest != b"", ~new, ~gone)
    kinds = {"new": new, "changed": changed, "gone": gone, "unknown": unknown}
    wanted: list[Any] = [func.coalesce(now.c.id, ItemRow.id).label("id"), ItemRow.key.label("key")]
    wanted += [each.label(name) for name, each in kinds.items()]
    return select(*wanted).select_from(now.join(ItemRow, ItemRow.id == now.c.id, full=True)).where(or_(*kinds.values()))


async def difference(store: Store, namespace: str, attachment: Attachment) -> TableDifference:
    """How many rows differ. Reads every attached row, and changes nothing."""
    rows = differing_rows(attachment).subquery("differs")
    counted = (func.count().filter(rows.c[name]).label(name) for name in ("new", "changed", "gone", "unknown"))
    try:
        async with store.begin(namespace, read_only=True) as connection:
            found = (await connection.execute(select(*counted).select_from(rows))).one()
    except DBAPIError as error:
        raise unreadable(attachment.table, error) from error
    return TableDifference(**found._mapping)
