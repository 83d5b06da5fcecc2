"""Tables and views of the server that could be attached, and a preview of one before it is. Reads only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import func, select, text

from core.errors import UnknownName
from core.store import collections, readable_tables
from core.store.attached.attach import FITTING, Relation, inspect_table, relation
from core.store.attached.columns import AttachedColumns
from core.store.attached.mapping import AttachedTable, TableFacts, relation_name, written_name
from core.store.engine import Store
from core.store.names import TRASH_PREFIX
from core.store.schema import CATALOG
from core.types import Item

MOST_TABLES: Final = 1000  # in a list; others can be typed
PREVIEW_ROWS: Final = 5
PREVIEW_CHARACTERS: Final = 2000  # of a text
MOST_COUNTED: Final = 10_000
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
USUAL_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "id": ("id", "langchain_id", "node_id", "uuid", "key", "nr", "doc_id"),
    "text": ("text", "body", "content", "contents", "document", "passage", "description", "answer"),
    "title": ("title", "heading", "name", "subject", "question"),
    "metadata": ("metadata", "meta", "metadata_", "cmetadata", "langchain_metadata"),
}


@dataclass(frozen=True, slots=True)
class TablePreview:
    """What a mapping gives: facts about the table, its first rows, and how many there are, counted up to a limit."""

    mapping: AttachedTable
    facts: TableFacts
    rows: int
    first: tuple[Item, ...]

    @property
    def sentence(self) -> str:
        many = f"more than {MOST_COUNTED:,}" if self.rows > MOST_COUNTED else f"{self.rows:,}"
        vectors = f"; vectors of {self.facts.dimension} numbers" if self.facts.dimension else ""
        return f"{self.facts.kind}, {many} row{'' if self.rows == 1 else 's'}{vectors}"


async def list_tables(store: Store) -> list[str]:
    """Tables and views that are not Rankbook's own, as `relation_name` reads them; those of the schema public first."""
    ours = [CATALOG, readable_tables.SCHEMA, *(row.namespace for row in await collections.listed(store))]
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(_TABLES, {"ours": ours, "trashed": TRASH_PREFIX, "most": MOST_TABLES})
        return [written_name(row.namespace, row.name) for row in rows]


async def find_relation(store: Store, written: str) -> Relation:
    """A table's columns as the server's catalogue has them."""
    namespace, name = relation_name(written)
    async with store.begin(read_only=True) as connection:
        found = await relation(connection, namespace, name)
    if found is None:
        raise UnknownName("table or view", written, await list_tables(store))
    return found


def fitting_columns(table: Relation, field: str) -> list[str]:
    """The columns whose type allows mapping them to this field."""
    fits = FITTING.get(field, ("", lambda _: True))[1]
    return [each.name for each in table.columns.values() if each.readable and fits(each)]


def guess_mapping(table: Relation) -> dict[str, str]:
    """Which column is probably which field, by types and names."""

    def by_name(columns: Iterable[str], field: str) -> str:
        there = set(columns)
        return next((name for name in USUAL_NAMES[field] if name in there), "")

    guess = {}
    identifying = [each.name for each in table.columns.values() if each.identifies]
    ids = [by_name(identifying, "id") or by_name(fitting_columns(table, "id"), "id"), *identifying]
    if chosen := next(filter(None, ids), ""):
        guess["id"] = chosen
    texts = [name for name in fitting_columns(table, "text") if name != guess.get("id")]
    for field, columns in (("text", texts), ("title", texts), ("metadata", fitting_columns(table, "metadata"))):
        if name := by_name(columns, field):
            guess[field] = name
    if "text" not in guess and texts:
        guess["text"] = texts[-1]
    for field in ("embedding", "tsv", "metadata"):
        if columns := fitting_columns(table, field):
            guess.setdefault(field, columns[0])
    return guess


async def preview_table(store: Store, mapping: AttachedTable) -> TablePreview:
    """Check that the table is as the mapping says, and read its first rows as items."""
    facts = await inspect_table(store, mapping)
    table = AttachedColumns(mapping, facts)
    shortened = func.left(table.text, PREVIEW_CHARACTERS).label("text")
    first = select(table.id.label("id"), table.title.label("title"), shortened)
    some = select(table.id).select_from(table.relation).where(table.where).limit(MOST_COUNTED + 1).subquery()
    async with store.begin(read_only=True) as connection:
        total = int(await connection.scalar(select(func.count()).select_from(some)) or 0)
        rows = await connection.execute(first.select_from(table.relation).where(table.where).limit(PREVIEW_ROWS))
        items = tuple(Item(row.id, row.text or "", row.title) for row in rows)
    return TablePreview(mapping, facts, total, items)
