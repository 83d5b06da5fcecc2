"""A walk through all that the store does with a collection, the same on any server: what comes of it is told as data.

The steps are for a server that can do everything; what they give must not depend on where the tables stand.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from core import bridge
from core.context import RequestContext, Resources
from core.errors import ConnectionFailed
from core.expansion import FeedbackExpansion
from core.filters import filter_from
from core.pipeline.retriever import search
from core.sql_export import export_sql
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.types import Item
from core.variant import Variant
from evals import trash
from evals.backup import restore_backup, save_backup
from evals.collections import load, overview
from evals.runs.provenance import content_of
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, complete, contents, documents, fresh, ingest, make, some_name, wrong

T = TypeVar("T")

EMBEDDER = HashingEmbedder()
BACK_WITHIN = 120.0  # seconds
RESOURCES = Resources(embedder=lambda _: EMBEDDER)
QUERY = "word3 word10 unique7 comon"
ODD = {"field": "kind", "eq": "odd"}
LEGS: Mapping[str, dict[str, Any]] = {
    "vector": {"kind": "vector"},
    "exact vector": {"kind": "vector", "exact": True},
    "l2 vector": {"kind": "vector", "distance": "l2"},
    "ip vector": {"kind": "vector", "distance": "ip"},
    "fulltext": {"kind": "fulltext"},
    "web fulltext": {"kind": "fulltext", "mode": "web"},
    "pooled fulltext": {"kind": "fulltext", "pool": 20},
    "bm25": {"kind": "bm25"},
    "fuzzy": {"kind": "fuzzy"},
    "trigram": {"kind": "trigram"},
}
NO_WORDS = ("?", "the of and", "'", "\\ <-> !")
HYBRID = ("vector", "fulltext", "bm25", "fuzzy", "trigram")
PAGED = Item("paged", "\f".join(f"Page{at} has word{at}. It ends with common." for at in range(4)), title="Pages")


def walk(store: Store, folder: Path) -> dict[str, Any]:
    """From nothing to nothing again."""
    told: dict[str, Any] = {}
    name, other = some_name(), some_name()
    make(store, name, [EMBEDDER], {"small": FIXED, "family": FAMILY}, fields=["number"])
    told["first"] = _told(ingest(store, name, [*documents(40), PAGED], [EMBEDDER]))
    told["again"] = _told(
        ingest(store, name, [*documents(40, words=21), *documents(5, first=40)], [EMBEDDER], prune=True)
    )
    told["paged"] = _told(ingest(store, name, [PAGED], [EMBEDDER]))
    bridge.run(_more_sets(store, name))
    told["completed"] = _told(complete(store, name, [EMBEDDER]))
    told["wrong"] = wrong(store, name)
    told["contents"] = contents(store, name)
    told |= bridge.run(_asked(store, fresh(store, name)))
    told |= bridge.run(_looked_at(store, fresh(store, name)))
    told["refreshed"] = _told(ingest(store, name, documents(1, words=5), [EMBEDDER]))
    told["ties"] = _ties(store)
    told["wrong after one"] = wrong(store, name)
    told["contents"] = contents(store, name)
    bridge.run(_kept(store, name, other, folder / f"{name}.zip"))
    told["restored"] = contents(store, other) == told["contents"]
    told["restored wrong"] = wrong(store, other)
    bridge.run(_dropped_and_brought_back(store, name))
    told["brought back"] = contents(store, name) == told["contents"]
    told["brought back wrong"] = wrong(store, name)
    bridge.run(_dropped_for_good(store, name))
    bridge.run(collections.drop(store, other))
    told["dropped"] = bridge.run(collections.find(store, name))
    return told


def _told(report: Any) -> tuple[int, ...]:
    return (report.added, report.changed, report.unchanged, report.removed, report.chunks)


def _ties(store: Store) -> dict[str, Any]:
    """The best units among many that score alike, on all shards: those that come first by id."""
    name = some_name()
    view = make(store, name, [EMBEDDER])
    ingest(store, name, [Item(f"t{at:02d}", f"equal filler{at:02d}") for at in range(80)], [EMBEDDER])
    variants = {kind: _variant(chunks="small", leg=[LEGS[kind]]) for kind in ("bm25", "fuzzy", "pooled fulltext")}
    found = {kind: bridge.run(hits(store, view, each, "equal filler00 fillr")) for kind, each in variants.items()}
    exported = {kind: bridge.run(_exported(store, view, each, "equal filler00")) for kind, each in variants.items()}
    bridge.run(collections.drop(store, name))
    return {"found": found, "exported": exported}


async def _more_sets(store: Store, name: str) -> None:
    view = await collections.get(store, name)
    view = await collections.add_chunk_set(store, view, "late", {"kind": "sentences", "max_tokens": 6})
    await collections.add_embedding_set(store, view, view.chunk_set("late"), EMBEDDER.model, EMBEDDER.dimension)
    await collections.add_fields(store, await collections.get(store, name), ["kind"])


async def _asked(store: Store, view: CollectionView) -> dict[str, Any]:
    """Each leg over items, and over chunks with a filter; then whole pipelines."""
    told: dict[str, Any] = {}
    for chunks, given in (("items", None), ("small", ODD)):
        for title, leg in LEGS.items():
            told[f"{title} of {chunks}"] = await hits(store, view, _variant(chunks=chunks, leg=[leg], filter=given))
    for mode in ("any", "web", "plain", "phrase"):
        wordless = _variant(chunks="small", leg=[{"kind": "fulltext", "mode": mode}])
        told[f"{mode} without words"] = [await hits(store, view, wordless, each) for each in NO_WORDS]
        told[f"{mode} without words, exported"] = [await _exported(store, view, wordless, each) for each in NO_WORDS]
    told["hybrid"] = await hits(store, view, _variant(chunks="small", leg=[LEGS[each] for each in HYBRID]))
    told["parents"] = await hits(store, view, _variant(chunks="family", parents="replace", pack={}))
    for strategy in ("late", "mixed"):
        late = {"strategy": strategy, "chunker": FIXED, "stored": "late"}
        told[f"evidence {strategy}"] = await _evidence(store, view, _variant(chunks="items", late=late))
    target = search_target(store, view, "small").filtered(filter_from(ODD))
    expanded = await FeedbackExpansion().expand(RequestContext(store, view, RESOURCES), target, "word3 common")
    told["feedback"] = sorted(expanded.added)
    return told


def _variant(**options: Any) -> Variant:
    return Variant.model_validate({"name": "walk", "top_k": 8, "leg": [LEGS["bm25"], LEGS["vector"]], **options})


async def hits(store: Store, view: CollectionView, variant: Variant, query: str = QUERY) -> list[tuple[str, float]]:
    bundle = await search(RequestContext(store, view, RESOURCES), query, variant)
    return [(hit.id, round(hit.score, 6)) for hit in bundle.hits]


async def _evidence(store: Store, view: CollectionView, variant: Variant) -> list[tuple[str, float]]:
    for _ in range(2):  # the second time out of the cache, where there is one
        bundle = await search(RequestContext(store, view, RESOURCES), QUERY, variant)
    return [(chunk.chunk_id, round(chunk.score, 5)) for chunk in bundle.evidence]


async def _looked_at(store: Store, view: CollectionView) -> dict[str, Any]:
    """What pages, runs and the doctor ask of a collection."""
    await overview.summary(store, view)
    hybrid = _variant(chunks="small", leg=[LEGS["fulltext"], LEGS["bm25"], LEGS["vector"]])
    return {
        "content": await content_of(store, view) == await content_of(store, view),
        "exported": await _exported(store, view, hybrid, QUERY),
    }


async def _exported(store: Store, view: CollectionView, variant: Variant, query: str) -> list[str]:
    """The variant as one statement, run by itself."""
    made = await export_sql(store, view, variant)
    vector = (await EMBEDDER.embed([query], "query"))[0]
    async with store.begin(read_only=True) as connection:
        for setting in made.setting_statements:
            await connection.exec_driver_sql(setting)
        statement, values = _numbered(made.statement, made.values(query, [float(each) for each in vector]))
        rows = await connection.exec_driver_sql(statement, values)
        return [row.id for row in rows]


def _numbered(statement: str, values: list[Any]) -> tuple[str, dict[str, Any]]:
    """The driver's form of $1, $2 ..."""
    named = {f"v{number}": value for number, value in enumerate(values, start=1)}
    return re.sub(r"\$(\d+)", r"%(v\1)s", statement.replace("%", "%%")), named


async def _kept(store: Store, name: str, other: str, path: Path) -> None:
    await save_backup(store, path, collection=name)
    await restore_backup(store, path, collection=name, name=other)


async def _dropped_and_brought_back(store: Store, name: str) -> None:
    entry = await load.drop(store, name)
    assert await collections.find(store, name) is None
    await trash.restore(store, entry.id)


async def _dropped_for_good(store: Store, name: str) -> None:
    await trash.destroy(store, await load.drop(store, name))


def patiently(work: Callable[[], T]) -> T:
    """As somebody would try again until a node of a cluster is up."""
    give_up = time.monotonic() + BACK_WITHIN
    while True:
        try:
            return work()
        except ConnectionFailed:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
