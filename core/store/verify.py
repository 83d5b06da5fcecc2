"""Whether a collection is complete: compares what its tables should hold with what they do, and says what to run."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncConnection

from core.store import attached, indexes
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import written
from core.store.schema import ChunkSet, EmbeddingSet, vector_table
from core.store.text_index import tables_of, units_of


@dataclass(frozen=True, slots=True)
class IntegrityProblem:
    """One check. `wrong` counts the rows that fail it."""

    check: str
    wrong: int
    way_out: str = "Run `rankbook data add` with the same source again: it completes what is missing."


# What Python takes for visible, spelled out: what `\S` means to PostgreSQL depends on the locale.
VISIBLE = r"[^\u0009-\u000d\u001c-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"

# On a cluster no unique key can keep ids apart.
ITEM_CHECKS = {
    "ids that two items have": """
        SELECT count(*) FROM (SELECT id FROM {items} GROUP BY id HAVING count(*) > 1) AS twice""",
}
CHUNK_CHECKS = {
    "chunks without their item": """
        SELECT count(*) FROM {chunks} AS chunk
        WHERE NOT EXISTS (SELECT FROM {items} AS item WHERE item.key = chunk.item_key)""",
    "chunks that stand twice": """
        SELECT count(*) FROM (
            SELECT item_key, ordinal FROM {chunks} GROUP BY item_key, ordinal HAVING count(*) > 1) AS twice""",
    "chunks whose text is not the item's": """
        SELECT count(*) FROM {chunks} AS chunk
        JOIN {items} AS item ON item.key = chunk.item_key
        WHERE substr(item.text, chunk.start_at + 1, chunk.end_at - chunk.start_at) <> chunk.text""",
    "items without chunks": """
        SELECT count(*) FROM {items} AS item
        WHERE item.text ~ :visible AND NOT EXISTS (SELECT FROM {chunks} AS chunk WHERE chunk.item_key = item.key)""",
}
TEXT_CHECKS = {
    "texts without lexemes, or the other way round": """
        SELECT abs(texts.count - lexed.count)
        FROM (SELECT count(*) FROM ({units}) AS unit) AS texts, (SELECT count(*) FROM {lexemes}) AS lexed""",
    "lexemes that stand twice": """
        SELECT count(*) FROM (SELECT key FROM {lexemes} GROUP BY key HAVING count(*) > 1) AS twice""",
    "postings that differ from the lexemes": """
        SELECT abs(coalesce(posted.sum, 0) - coalesce(lexed.sum, 0))
        FROM (SELECT sum(frequency) FROM {postings}) AS posted, (SELECT sum(length) FROM {lexemes}) AS lexed""",
    "terms with a wrong number of documents": """
        WITH counted AS MATERIALIZED (SELECT term_key, count(*) AS documents FROM {postings} GROUP BY term_key)
        SELECT count(*) FROM {terms} AS term
        FULL JOIN counted ON counted.term_key = term.key
        WHERE coalesce(counted.documents, 0) <> coalesce(term.documents, 0)""",
    "terms that no text holds": "SELECT count(*) FROM {terms} WHERE documents <= 0",
    "statistics of BM25 that are off": """
        SELECT count(*) FROM {chunk_sets} AS told,
            (SELECT count(*) AS units, coalesce(sum(length), 0) AS length FROM {lexemes}) AS there
        WHERE told.key = :chunk_set AND (told.units, told.length) <> (there.units, there.length)""",
}
VECTOR_CHECKS = {
    "texts without a vector, or the other way round": """
        SELECT count(*) FROM ({units}) AS unit FULL JOIN {vectors} AS vector USING (item_key, key)
        WHERE unit.id IS DISTINCT FROM vector.id""",
    "vectors that stand twice": """
        SELECT count(*) FROM (SELECT key FROM {vectors} GROUP BY key HAVING count(*) > 1) AS twice""",
}
WRITTEN = "SELECT * FROM ({units}) AS unit WHERE title || text ~ :visible"


async def verify(store: Store, view: CollectionView) -> list[IntegrityProblem]:
    """Every check, in an order that names causes before effects."""
    findings = await _side_tables(store, view)
    async with store.begin(view.namespace, read_only=True) as connection:
        for chunk_set in view.chunk_sets:
            units = units_of(chunk_set.key)
            checks = CHUNK_CHECKS if chunk_set.key else ITEM_CHECKS
            findings += await _run(connection, view, chunk_set, checks, units)
            findings += await _run(connection, view, chunk_set, TEXT_CHECKS, units)
            for each in view.embedding_sets:
                if each.chunk_set == chunk_set.key:
                    vector_units = units if chunk_set.key else WRITTEN.replace("{units}", units)
                    findings += await _run(connection, view, chunk_set, VECTOR_CHECKS, vector_units, each)
        present = await connection.run_sync(indexes.present, view)
    wanted = {index.name for index in indexes.wanted(view, trigrams="pg_trgm" not in store.capabilities.missing)}
    findings.append(IntegrityProblem("indexes that are missing", len(wanted - present)))
    return findings


async def _side_tables(store: Store, view: CollectionView) -> list[IntegrityProblem]:
    """The side tables of an attached table, compared with every row of it. Nothing is wrong where none were built."""
    if view.row.attached is None:
        return []
    attachment = attached.Attachment.of(view)
    if attachment.aside is None:
        await attached.need_readable(store, attachment.table, attachment.facts)
        return []
    found = await attached.difference(store, view.namespace, attachment)
    table, way_out = attachment.table.full_name, f"Run `rankbook data aside {shlex.quote(view.name)} --refresh`."
    unknown = f"aside: rows of {table} that an earlier version kept no digests of, so that a change would not show"
    return [
        IntegrityProblem(f"aside: rows of {table} that are not there", found.new, way_out),
        IntegrityProblem(f"aside: rows of {table} whose text was another", found.changed, way_out),
        IntegrityProblem(f"aside: rows that {table} no longer has", found.gone, way_out),
        *([IntegrityProblem(unknown, found.unknown, way_out)] if found.unknown else []),
    ]


async def _run(
    connection: AsyncConnection,
    view: CollectionView,
    chunk_set: ChunkSet,
    checks: dict[str, str],
    units: str,
    embedding_set: EmbeddingSet | None = None,
) -> list[IntegrityProblem]:
    tables = tables_of(chunk_set.key)
    if embedding_set:
        tables["vectors"] = vector_table(embedding_set.key, embedding_set.dimension)
    of = f"{chunk_set.name} ({embedding_set.model})" if embedding_set else chunk_set.name
    findings = []
    for check, template in checks.items():
        statement = written(template.replace("{units}", units), view.namespace, **tables)
        wrong = await connection.scalar(statement, {"chunk_set": chunk_set.key, "visible": VISIBLE})
        findings.append(IntegrityProblem(f"{of}: {check}", int(wrong or 0)))
    return findings
