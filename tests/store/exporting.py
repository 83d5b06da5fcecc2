"""An exported statement run as a service would run it, by bare psycopg, beside what the pipeline says."""

from __future__ import annotations

from typing import Any

import psycopg

from core import bridge
from core.context import RequestContext, Resources
from core.pipeline.retriever import search
from core.sql_export import ExportedSql, export_sql
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Hit
from core.variant import Variant
from tests.conftest import TEST_DSN
from tests.fakes import HashingEmbedder

EMBEDDER = HashingEmbedder()
RESOURCES = Resources(embedder=lambda _: EMBEDDER)

Ranking = list[tuple[str, float, float | None]]


def address(store: Store) -> str:
    return store.server.conninfo() if store.server else TEST_DSN or ""


def variant(*legs: dict[str, Any], **options: Any) -> Variant:
    return Variant.from_data({"chunks": "family", "leg": list(legs), **options})


def exported(store: Store, view: CollectionView, chosen: Variant, **options: Any) -> ExportedSql:
    return bridge.run(export_sql(store, view, chosen, **options))


def vector_of(text: str) -> Any:
    return bridge.run(EMBEDDER.embed([text], "query"))[0]


def rows(store: Store, made: ExportedSql, text: str) -> list[dict[str, Any]]:
    """Its rows, on a connection that knows nothing of Rankbook."""
    with psycopg.connect(address(store)) as connection:
        for setting in made.setting_statements:
            connection.execute(setting.encode())
        cursor = psycopg.RawCursor(connection, row_factory=psycopg.rows.dict_row)
        cursor.execute(made.statement.encode(), made.values(text, vector_of(text) if made.needs_vector else None))
        return cursor.fetchall()


def by_sql(store: Store, view: CollectionView, chosen: Variant, text: str, **options: Any) -> Ranking:
    found = rows(store, exported(store, view, chosen, **options), text)
    assert [row["rank"] for row in found] == list(range(1, len(found) + 1))
    return [(row["id"], row["score"], row["raw_score"]) for row in found]


def hits(store: Store, view: CollectionView, chosen: Variant, text: str) -> tuple[Hit, ...]:
    return bridge.run(search(RequestContext(store, view, RESOURCES), text, chosen)).hits


def by_pipeline(store: Store, view: CollectionView, chosen: Variant, text: str) -> Ranking:
    return [(hit.id, hit.score, hit.raw_score) for hit in hits(store, view, chosen, text)]
