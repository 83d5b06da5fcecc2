"""Tables and views on the server that are not Rankbook's own, and a look into one before it is attached. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import func, select, text

from core.errors import UnknownName
from core.store import attached, collections, readable_tables
from core.store.attached import AttachedTable, TableFacts, attach
from core.store.attached.attach import FITTING, Relation
from core.store.attached.columns import AttachedColumns
from core.store.engine import Store
from core.store.names import TRASH_PREFIX
from core.store.schema import CATALOG
from core.types import Item

MOST: Final = 1000  # tables in a list; others can be typed
SHOWN: Final = 5
COUNTED: Final = 10_000
LONGEST: Final = 2000  # characters of a text that a look shows
_TABLES: Final = text("""
    SELECT namespace.nspname AS namespace, relation.relname AS name, relation.relkind AS kind
    FROM pg_class AS relation
    JOIN pg_namespace AS namespace ON namespace.oid = relation.relnamespace
    WHERE relation.relkind IN ('r', 'p', 'v', 'm', 'f')
      AND NOT relation.relispartition
      AND namespace.nspname !~ '^pg_' AND namespace.nspname <> 'information_schema'
      AND NOT namespace.nspname = ANY(:ours) AND NOT starts_with(namespace.nspname, :trashed)
      AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = relation.oid AND deptype = 'e')
    ORDER BY namespace.nspname <> 'public', namespace.nspname, relation.relname
    LIMIT :most
""")
# The names that columns of a field usually bear, and those of whole libraries.
USUAL: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "langchain_id", "node_id", "uuid", "key", "nr", "doc_id"),
    "text": ("text", "body", "content", "contents", "document", "passage", "description", "answer"),
    "title": ("title", "heading", "name", "subject", "question"),
    "metadata": ("metadata", "meta", "metadata_", "cmetadata", "langchain_metadata"),
}


@dataclass(frozen=True, slots=True)
class TablePreview:
    """What a mapping gives: the table's kind, how many rows (counted so far), and the first of them."""

    mapping: AttachedTable
    facts: TableFacts
    rows: int
    first: tuple[Item, ...]

    @property
    def told(self) -> str:
        many = f"more than {COUNTED:,}" if self.rows > COUNTED else f"{self.rows:,}"
        vectors = f"; vectors of {self.facts.dimension} numbers" if self.facts.dimension else ""
        return f"{self.facts.kind}, {many} row{'' if self.rows == 1 else 's'}{vectors}"


async def tables(store: Store) -> list[str]:
    """Their names as `relation_name` reads them, those of the schema public first."""
    ours = [CATALOG, readable_tables.SCHEMA, *(row.namespace for row in await collections.listed(store))]
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(_TABLES, {"ours": ours, "trashed": TRASH_PREFIX, "most": MOST})
        return [attached.written_name(row.namespace, row.name) for row in rows]


async def relation(store: Store, written: str) -> Relation:
    """A table's columns as the catalogue has them."""
    namespace, name = attached.relation_name(written)
    async with store.begin(read_only=True) as connection:
        found = await attach.relation(connection, namespace, name)
    if found is None:
        raise UnknownName("table or view", written, await tables(store))
    return found


def fitting(found: Relation, field: str) -> list[str]:
    """The columns that can be mapped as this field."""
    fits = FITTING.get(field, ("", lambda _: True))[1]
    return [each.name for each in found.columns.values() if each.readable and fits(each)]


def guessed(found: Relation) -> dict[str, str]:
    """What the columns probably are, by their types and names."""
    made = {}
    identifying = [each.name for each in found.columns.values() if each.identifies]
    taken = [each for each in (_named(identifying, "id") or _named(fitting(found, "id"), "id"), *identifying) if each]
    if taken:
        made["id"] = taken[0]
    texts = [name for name in fitting(found, "text") if name != made.get("id")]
    for field, among in (("text", texts), ("title", texts), ("metadata", fitting(found, "metadata"))):
        if name := _named(among, field):
            made[field] = name
    if "text" not in made and texts:
        made["text"] = texts[-1]
    for field in ("embedding", "tsv", "metadata"):
        if among := fitting(found, field):
            made.setdefault(field, among[0])
    return made


def _named(among: Iterable[str], field: str) -> str:
    there = set(among)
    return next((name for name in USUAL[field] if name in there), "")


async def looked_at(store: Store, mapping: AttachedTable) -> TablePreview:
    """Whether the table is as the mapping says, and what its first rows become."""
    facts = await attached.inspect_table(store, mapping)
    theirs = AttachedColumns(mapping, facts)
    rows = select(theirs.id.label("id"), theirs.title.label("title"), func.left(theirs.text, LONGEST).label("text"))
    async with store.begin(read_only=True) as connection:
        total = int(await connection.scalar(_counted(theirs)) or 0)
        found = await connection.execute(rows.select_from(theirs.relation).where(theirs.where).limit(SHOWN))
        first = tuple(Item(row.id, row.text or "", row.title) for row in found)
    return TablePreview(mapping, facts, total, first)


def _counted(theirs: AttachedColumns) -> Any:
    some = select(theirs.id).select_from(theirs.relation).where(theirs.where).limit(COUNTED + 1).subquery()
    return select(func.count()).select_from(some)
