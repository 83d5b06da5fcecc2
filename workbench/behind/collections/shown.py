"""Every collection in a line, with what it weighs, and one of them told in sentences. Reads only, draws nothing.

The facts are those of `evals.collections.overview`; here they are put beside each other and into words.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from sqlalchemy import bindparam, func, select, text

from core.embedding import DEFAULT_MODEL
from core.store.attached import Attachment
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import Collection
from evals.collections import overview
from evals.collections.overview import CollectionOverview
from evals.schema import QuerySet, StoredLabel
from workbench.behind.collections import uploads

# Tables with their indexes and what PostgreSQL keeps beside them for long values.
_SIZES: Final = text("""
    SELECT nspname AS namespace, sum(pg_total_relation_size(pg_class.oid))::bigint AS bytes
    FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'm') AND nspname = ANY(:namespaces)
    GROUP BY nspname
""").bindparams(bindparam("namespaces"))
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB")
_STEP: Final = 1024.0
OUTCOMES: Final = {
    "quarantined": "left out",
    "cleaned": "repaired and kept",
    "noted": "kept, and noted",
}
LOOKS: Final = {
    "documents": "Reading the documents",
    "labels": "Holding queries and labels against the documents",
    "leaks": "Looking for queries that stand in a document word for word",
    "repeats": "Looking for documents that nearly repeat another",
}


@dataclass(frozen=True, slots=True)
class CollectionSummary:
    """A collection in the list. `chunks` counts those of all chunk sets that a search can find."""

    summary: CollectionOverview
    attached: bool
    version: int
    origin: Mapping[str, Any]
    chunks: int = 0
    chunk_sets: int = 0
    models: tuple[str, ...] = ()
    embedding_sets: int = 0
    labels: int = 0
    bytes: int = 0

    @property
    def name(self) -> str:
        return self.summary.name


async def shelf(store: Store) -> list[CollectionSummary]:
    """Every collection, in the order of their names."""
    found, labels = await overview.overviews_with_views(store), await _labels(store)
    sizes = await _sizes(store, [view.namespace for _, view in found])
    return [_shelved(summary, view, sizes, labels) for summary, view in found]


def _shelved(
    summary: CollectionOverview, view: CollectionView, sizes: Mapping[str, int], labels: Mapping[str, int]
) -> CollectionSummary:
    row = view.row
    own = [each for each in view.chunk_sets if each.key]
    return CollectionSummary(
        summary,
        row.attached is not None,
        row.version,
        dict(row.origin),
        sum(each.units for each in own),
        len(own),
        tuple(dict.fromkeys(each.model for each in view.embedding_sets)),
        len(view.embedding_sets),
        labels.get(row.name, 0),
        sizes.get(row.namespace, 0),
    )


def known_models(shelf: Iterable[CollectionSummary]) -> list[str]:
    """Models worth offering: the usual one, and those that some collection has."""
    return list(dict.fromkeys([DEFAULT_MODEL, *(model for row in shelf for model in row.models)]))


async def _sizes(store: Store, namespaces: Sequence[str]) -> dict[str, int]:
    async with store.begin(read_only=True) as connection:
        rows = await connection.execute(_SIZES, {"namespaces": list(namespaces)})
        return {row.namespace: row.bytes for row in rows}


async def _labels(store: Store) -> dict[str, int]:
    """How many labels each collection has, in all its query sets."""
    counted = (
        select(QuerySet.collection, func.count().label("labels"))
        .join(StoredLabel, StoredLabel.set_key == QuerySet.key)
        .group_by(QuerySet.collection)
    )
    async with store.begin(read_only=True) as connection:
        return {row.collection: row.labels for row in await connection.execute(counted)}


def told_bytes(count: float) -> str:
    """As people say sizes: three digits and a unit."""
    power = 0
    while count >= _STEP and power < len(_UNITS) - 1:
        count, power = count / _STEP, power + 1
    whole = power == 0 or count >= 100
    return f"{count:,.0f} {_UNITS[power]}" if whole else f"{count:,.1f} {_UNITS[power]}"


def many(count: int, one: str, more: str = "") -> str:
    """`1 label`, `1,200 queries`."""
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def told_origin(row: Collection) -> str:
    """Where a collection's documents came from."""
    if row.attached is not None:
        return f"attached: {row.origin.get('attached', '')}"
    origin = dict(row.origin)
    kind = origin.pop("kind", "")
    named = next((str(value) for value in origin.values() if isinstance(value, str)), "")
    if named and uploads.holds(named):
        return f"uploaded: {PurePath(named).name}"
    return f"{kind}: {named or json.dumps(origin, ensure_ascii=False)}" if kind else "not known"


def told_mapping(view: CollectionView) -> dict[str, str]:
    """Which column of somebody's table is what, and which of its rows belong to the collection."""
    table = Attachment.of(view).table
    mapped = [(field, column) for field, column in table.columns() if field not in ("where", "parent")]
    mapped += [("document", table.parent_name)] if table.parent else []
    columns = ", ".join(f"{field}: {column}" for field, column in mapped)
    rows = ", ".join(f"{column}={value}" for column, value in table.where.items())
    return {"Columns": columns, "Model": table.model or "none", **({"Only rows with": rows} if rows else {})}


def told_chunker(spec: Mapping[str, Any]) -> str:
    """`headings, max_tokens 200`."""
    options = [f"{name} {value}" for name, value in spec.items() if name != "kind"]
    return ", ".join([str(spec.get("kind", "")), *options])


def told_flaws(flaws: Iterable[Mapping[str, Any]], looks: Iterable[str] = LOOKS) -> list[str]:
    """What each of these looks found, in a sentence each; also that it found nothing."""
    found: dict[str, dict[str, int]] = {look: {} for look in looks}
    for flaw in flaws:
        outcomes = found.setdefault(str(flaw.get("of", "documents")), {})
        outcome = str(flaw.get("outcome", ""))
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return [_sentence(LOOKS.get(look, look), outcomes) for look, outcomes in found.items()]


def _sentence(look: str, outcomes: Mapping[str, int]) -> str:
    if not outcomes:
        return f"{look}: nothing to remark."
    counts = [f"{count:,} {OUTCOMES.get(outcome, outcome)}" for outcome, count in sorted(outcomes.items())]
    return f"{look}: {', '.join(counts)}."
