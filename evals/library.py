"""Labelled collections: a source in, a searchable collection with checked labels out."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import func, select

from core.chunking import chunker_from, spec_of
from core.embedding import DEFAULT_MODEL, Embedder, embedder
from core.errors import EmbeddingError, SpecError
from core.store import attached, collections
from core.store.collections import View
from core.store.engine import Store
from core.store.ingest import Ingest, Report
from core.store.levels import level
from core.store.names import ITEMS
from core.store.progress import Listener, nobody
from core.store.schema import Item
from core.types import Flaw
from evals import checks, query_sets
from evals.labels import CheckedLabels, check_labels
from evals.sources import Source

IDS_A_STATEMENT = 2000
DEFAULT_CHUNKS = {"default": {"kind": "headings"}}


class Plan(BaseModel):
    """What to make of a source's items. Given again for a collection that is there, it adds what is new."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    language: str = Field("english", description="The text-search configuration: english, german, simple ...")
    chunks: dict[str, dict[str, Any]] = Field(
        default_factory=lambda: dict(DEFAULT_CHUNKS), description="Chunk sets by name: a chunker and its options."
    )
    models: tuple[str, ...] = Field((DEFAULT_MODEL,), description="Embedding models; none for no vectors.")
    embed_items: bool = Field(True, description="Whether whole items get vectors too.")
    index: str = Field("vector", pattern="^(vector|halfvec|bit)$", description="What the HNSW index holds.")
    fields: tuple[str, ...] = Field((), description="Metadata fields to index, because filters use them.")
    prune: bool = Field(False, description="Whether to remove stored items that the source no longer has.")
    check: bool = Field(
        True, description="Whether to look for near-duplicates and for queries that stand in the corpus."
    )


def plan_for(source: Source, **given: Any) -> Plan:
    """What was given, over what the source itself asks for, over the defaults."""
    try:
        return Plan(**{**source.wishes(), **given})
    except ValidationError as error:
        raise SpecError.from_pydantic("The plan", error) from error


@dataclass(slots=True)
class Added:
    """What came of it: the ingest's report, the labels' sizes, and every flaw found."""

    name: str
    report: Report
    queries: int = 0
    labels: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)


async def add(
    store: Store,
    name: str,
    source: Source,
    plan: Plan | None = None,
    *,
    embedders: Mapping[str, Embedder] | None = None,
    listener: Listener = nobody,
) -> Added:
    """Bring a source's items, queries and labels into a collection, new or there already."""
    plan = plan or plan_for(source)
    known = dict(embedders or {})
    models = [known.get(model) or embedder(model) for model in plan.models]
    view = await _prepared(store, name, source, plan, models)
    by_id = {each.model: each for each in models}
    for each in view.embedding_sets:
        by_id.setdefault(each.model, known.get(each.model) or embedder(each.model))
    tokenizer = models[0] if models else embedder()
    ingest = Ingest(store, view, by_id, tokenizer, listener)
    report = await ingest.run(source.items(), prune=plan.prune, total=source.size())
    added = Added(name, report, flaws=list(report.flaws))
    await _label(store, view, source, added, listener, check=plan.check)
    return added


async def _prepared(store: Store, name: str, source: Source, plan: Plan, models: list[Embedder]) -> View:
    """The collection with the sets that the plan asks for."""
    view = await collections.find(store, name) or await collections.create(
        store, name, language=plan.language, card=source.card(), origin=source.spec(), fields=plan.fields
    )
    for chunks, chunker in plan.chunks.items():
        view = await collections.add_chunk_set(store, view, chunks, spec_of(chunker_from(chunker)))
    for model in models:
        dimension = await _dimension(model)
        for chunks in (*([ITEMS] if plan.embed_items or not plan.chunks else []), *plan.chunks):
            chunk_set = view.chunk_set(chunks)
            view = await collections.add_embedding_set(store, view, chunk_set, model.model, dimension, index=plan.index)
    return view


async def _dimension(model: Embedder) -> int:
    """Some endpoints tell it only by embedding something."""
    try:
        return model.dimension
    except EmbeddingError:
        await model.embed(["dimension"])
        return model.dimension


async def _label(store: Store, view: View, source: Source, added: Added, listener: Listener, *, check: bool) -> None:
    checked = await _checked(store, view, source)
    labelled = query_sets.Labelled.of(checked)
    added.queries, added.labels, added.splits = len(labelled.queries), len(labelled.labels), labelled.splits
    added.flaws += checked.flaws
    if check and added.report.touched:
        added.flaws += await checks.queries_in_corpus(store, view, checked.queries)
        added.flaws += await checks.near_duplicates(store, view, listener)
    await query_sets.keep(store, view.name, labelled, tuple(added.flaws))


async def _checked(store: Store, view: View, source: Source) -> CheckedLabels:
    """The source's queries and labels, held against the items that are stored."""
    queries, labels = query_sets.admitted(source.queries()), list(query_sets.admitted(source.labels()))
    spans, exclusions = list(query_sets.admitted(source.spans())), list(query_sets.admitted(source.exclusions()))
    named = {row.value.item_id for row in (*labels, *spans, *exclusions) if not isinstance(row, Flaw)}
    spanned = {row.value.item_id for row in spans if not isinstance(row, Flaw)}
    present = set(await _items(store, view, sorted(named)))
    texts = await _items(store, view, sorted(spanned), with_text=True)
    return check_labels(queries, labels, spans, exclusions, has_item=present.__contains__, item_text=texts.get)


async def _items(store: Store, view: View, ids: list[str], *, with_text: bool = False) -> dict[str, str | None]:
    """Those of the ids that the collection holds, with their texts where these are asked for."""
    items = level(store, view, ITEMS)
    found: dict[str, str | None] = {}
    for at in range(0, len(ids), IDS_A_STATEMENT):
        async with store.begin(items.namespace, read_only=True) as connection:
            rows = await connection.execute(items.described(ids[at : at + IDS_A_STATEMENT]))
            found |= {row.id: row.text if with_text else None for row in rows}
    return found


async def label(store: Store, view: View, source: Source) -> Added:
    """Queries and labels from files, for a collection that is there, an attached one for instance."""
    added = Added(view.name, Report())
    await _label(store, view, source, added, nobody, check=False)
    return added


async def embed(
    store: Store, view: View, model: str, chunks: tuple[str, ...], *, listener: Listener = nobody
) -> Report:
    """One more model over chunk sets that are there."""
    used = embedder(model)
    dimension = await _dimension(used)
    for name in chunks:
        view = await collections.add_embedding_set(store, view, view.chunk_set(name), used.model, dimension)
    models = {each.model: embedder(each.model) for each in view.embedding_sets}
    return await Ingest(store, view, models, used, listener).complete()


async def chunk(
    store: Store, view: View, name: str, chunker: Mapping[str, Any], *, listener: Listener = nobody
) -> Report:
    """One more chunk set, embedded with every model that the collection has."""
    view = await collections.add_chunk_set(store, view, name, spec_of(chunker_from(chunker)))
    models = {each.model: embedder(each.model) for each in view.embedding_sets}
    for each in models.values():
        dimension = await _dimension(each)
        view = await collections.add_embedding_set(store, view, view.chunk_set(name), each.model, dimension)
    tokenizer = next(iter(models.values()), None) or embedder()
    return await Ingest(store, view, models, tokenizer, listener).complete()


@dataclass(frozen=True, slots=True)
class Summary:
    """A collection in one line."""

    name: str
    items: int
    chunk_sets: str
    models: str
    queries: int
    changed: str


async def overview(store: Store) -> list[Summary]:
    """Every collection, in the order of their names."""
    return [await summary(store, await collections.get(store, row.name)) for row in await collections.listed(store)]


async def summary(store: Store, view: View) -> Summary:
    chunk_sets = ", ".join(each.name for each in view.chunk_sets if each.key)
    models = ", ".join(dict.fromkeys(each.model for each in view.embedding_sets))
    if view.row.attached:
        attachment = attached.Attachment.of(view)
        items = await attached.count(store, attachment.table, attachment.facts)
        chunk_sets, models = f"attached: {attachment.table.full_name}", attachment.table.model or ""
    else:
        async with store.begin(view.namespace, read_only=True) as connection:
            items = int(await connection.scalar(select(func.count()).select_from(Item)) or 0)
    return Summary(
        view.name,
        items,
        chunk_sets,
        models,
        len((await query_sets.load(store, view.name)).queries),
        f"{view.row.changed_at:%Y-%m-%d %H:%M}",
    )


async def describe(store: Store, name: str) -> dict[str, Any]:
    """Everything about a collection that a person may want to see, as plain data under headings."""
    view = await collections.get(store, name)
    labelled = await query_sets.load(store, name)
    row = view.row
    facts = asdict(await summary(store, view)) | {
        "language": row.language,
        "version": row.version,
        "indexed fields": ", ".join(row.fields),
        "from": json.dumps(row.attached or row.origin),
    }
    models = {each.key: each.model for each in view.embedding_sets}
    return {
        name: facts,
        "Chunk sets": [
            {
                "name": each.name,
                "chunker": json.dumps(each.chunker),
                "texts": each.units,
                "words": each.length,
                "models": ", ".join(models[m.key] for m in view.embedding_sets if m.chunk_set == each.key),
            }
            for each in view.chunk_sets
        ],
        "Queries by split": [{"split": split, "labelled queries": count} for split, count in labelled.splits.items()],
        "Queries by kind": [
            {"kind": kind or "(none)", "queries": count}
            for kind, count in sorted(Counter(query.kind for query in labelled.queries).items())
        ],
        "Labels by grade": [
            {"grade": grade, "labels": count}
            for grade, count in sorted(Counter(label.grade for label in labelled.labels).items())
        ],
        "Noted at import": await query_sets.flaws(store, name),
    }


async def drop(store: Store, name: str) -> None:
    """A collection with its labels."""
    await collections.drop(store, name)
    await query_sets.forget(store, name)
