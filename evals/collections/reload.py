"""A collection's folder read by a newer reader: what that would change, told first, and then the change.

A collection keeps the reader that it was loaded by, as another text is another vector and another place for spans.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import any_, literal, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.types import Text

from core.chunking import chunker_from
from core.embedding import Embedder, embedder
from core.errors import InputError, StoreError
from core.progress import Listener, Step, nobody
from core.store import change_detection, collections, sanitize
from core.store.chunk_and_embed import EmbeddingCache, embedded_text, is_unit
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest, IngestReport
from core.store.schema import Collection
from core.store.schema import ItemRow as StoredItem
from core.types import Flaw, Item, Place
from evals.collections import load
from evals.labels import query_sets, revisions
from evals.labels.revisions import Cause
from evals.sources import FolderSource, readers, source_from
from evals.sources.files import exists, printable
from evals.types import DEFAULT_QUERY_SET, LabelledQueries, Span

LONGEST_LOOSE = 20_000  # characters of a span that is looked for word by word
MOST_PLACES = 1000
IDS_A_STATEMENT = 1000


@dataclass(frozen=True, slots=True)
class SpanMove:
    """A span of a query set whose document changes, and where its text stands then; None where it does not."""

    query_set: str
    span: Span
    to: Span | None


@dataclass(frozen=True, slots=True)
class ReaderChange:
    """What another reader changes in a collection. `texts` are those without a vector so far, over all models."""

    name: str
    source: FolderSource
    before: int
    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: tuple[str, ...] = ()
    texts: int = 0
    models: tuple[str, ...] = ()
    labels_without_document: int = 0
    moves: tuple[SpanMove, ...] = ()
    flaws: tuple[Flaw, ...] = field(default=())

    @property
    def moved(self) -> tuple[SpanMove, ...]:
        return tuple(each for each in self.moves if each.to is not None)

    @property
    def lost(self) -> tuple[SpanMove, ...]:
        """Spans whose text the documents no longer hold, or hold at several places."""
        return tuple(each for each in self.moves if each.to is None)

    @property
    def touches(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def plain(self) -> dict[str, Any]:
        """For scripts."""
        return {
            "name": self.name,
            "reader": {"before": self.before, "after": self.source.reader},
            "documents": {
                "added": self.added,
                "changed": self.changed,
                "unchanged": self.unchanged,
                "removed": list(self.removed),
            },
            "texts_to_embed": self.texts,
            "models": list(self.models),
            "labels_without_document": self.labels_without_document,
            "spans": {"moved": [_plain(each) for each in self.moved], "lost": [_plain(each) for each in self.lost]},
        }


def _plain(move: SpanMove) -> dict[str, Any]:
    span, to = move.span, move.to
    where = {"query_set": move.query_set, "query": span.query_id, "document": span.item_id, "text": span.text}
    return where | {"from": [span.start, span.end]} | ({"to": [to.start, to.end]} if to else {})


def source_of(view: CollectionView, folder: Path | None = None) -> FolderSource:
    """The folder that a collection was loaded from, which may have moved."""
    origin = view.row.origin
    if origin.get("kind") != "folder":
        raise StoreError(
            f"{view.name!r} was not loaded from a folder of documents, so there is no other way to read it. Run "
            "`rankbook data add` with its source again to refresh it."
        )
    source = source_from({**origin, **({"path": str(folder)} if folder else {})})
    if not isinstance(source, FolderSource):
        raise StoreError(f"What {view.name!r} was loaded from is no folder: {origin!r:.200}.")
    if not exists(source.path):
        way_out = f"rankbook data reload {quote(view.name)} FOLDER"
        raise InputError(f"The folder is not here any more. Say where it is: `{way_out}`.", path=printable(source.path))
    return source


async def preview(
    store: Store,
    name: str,
    folder: Path | None = None,
    *,
    embedders: Mapping[str, Embedder] | None = None,
    listener: Listener = nobody,
) -> ReaderChange | None:
    """What the newest reader would change; None where the collection has it. Reads all files, and writes nothing."""
    view = await collections.get(store, name)
    source = source_of(view, folder)
    before = source.as_loaded(view.row.origin) if "reader" not in view.row.origin else source
    if before.reader == readers.NEWEST:
        return None
    after = source.model_copy(update={"reader": readers.NEWEST})
    gone = await asyncio.to_thread(lambda: set(before.ids()) - set(after.ids()))
    change = ReaderChange(view.name, after, before.reader, models=tuple(dict.fromkeys(_models(view))))
    return await _ReaderComparison(store, view, change, gone, load.embedders_of(view, embedders or {}), listener).made()


def _models(view: CollectionView) -> Iterator[str]:
    return (each.model for each in view.embedding_sets)


@dataclass
class _ReaderComparison:
    """The documents as they are read anew, held against those that are stored, a batch at a time."""

    store: Store
    view: CollectionView
    change: ReaderChange
    gone: set[str]
    embedders: dict[str, Embedder]
    listener: Listener
    flaws: list[Flaw] = field(default_factory=list)
    texts: int = 0

    async def made(self) -> ReaderChange:
        spans = await _spans(self.store, self.view)
        removed = sorted(await self._stored(sorted(self.gone)))
        counts, moves = [0, 0, 0], [SpanMove(name, span, None) for name, span in spans if span.item_id in self.gone]
        batches = change_detection.batches(self.change.source.items(), self.view.row.fields)
        total, done = self.change.source.size(), 0
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            self.flaws += batch.flaws[: load.FLAWS_SHOWN - len(self.flaws)]
            known = await self._stored([item.id for item in batch.items])
            old = {item.id: known.get(item.id) for item in batch.items}
            new = [
                item for item, digest in zip(batch.items, batch.digests, strict=True) if _other(old[item.id], digest)
            ]
            counts[0] += sum(old[item.id] is None for item in new)
            counts[1] += sum(old[item.id] is not None for item in new)
            counts[2] += len(batch.items) - len(new)
            self.texts += await self._to_embed(new)
            # Of all that were read: a reload that was interrupted may have left the spans of what it had changed.
            moves += _moves({item.id: (old[item.id], item) for item in batch.items}, spans)
            done += len(batch.items)
            self.listener(Step("Comparing", done, total and max(total, done), "documents"))
        labels = await _labels_of(self.store, self.view, set(removed))
        return replace(
            self.change,
            added=counts[0],
            changed=counts[1],
            unchanged=counts[2],
            removed=tuple(removed),
            texts=self.texts,
            labels_without_document=labels,
            moves=tuple(moves),
            flaws=tuple(self.flaws),
        )

    async def _stored(self, ids: Sequence[str]) -> dict[str, tuple[bytes, str]]:
        """The digest and the text of those that are stored."""
        stored: dict[str, tuple[bytes, str]] = {}
        for at in range(0, len(ids), IDS_A_STATEMENT):
            some = any_(literal(list(ids[at : at + IDS_A_STATEMENT]), ARRAY(Text)))
            query = select(StoredItem.id, StoredItem.digest, StoredItem.text).where(StoredItem.id == some)
            async with self.store.begin(self.view.namespace, read_only=True) as connection:
                stored |= {row.id: (bytes(row.digest), row.text) for row in await connection.execute(query)}
        return stored

    async def _to_embed(self, items: Sequence[Item]) -> int:
        """How many of their texts no model has embedded yet."""
        count = 0
        tokenize = next(iter(self.embedders.values()), embedder()).tokenize
        for chunk_set in self.view.chunk_sets:
            models = [each.model for each in self.view.embedding_sets if each.chunk_set == chunk_set.key]
            if not models:
                continue
            texts = [text for item in items if (text := embedded_text(item))]
            if chunk_set.key:
                chunker = chunker_from(chunk_set.chunker)
                texts = [
                    embedded_text(item, chunk)
                    for item in items
                    for chunk in await asyncio.to_thread(chunker.chunk, item, tokenize)
                    if is_unit(chunk)
                ]
            for model in models:
                count += await EmbeddingCache(self.store, self.embedders[model]).missing(texts)
        return count


def _other(stored: tuple[bytes, str] | None, digest: bytes) -> bool:
    return stored is None or stored[0] != digest


async def _spans(store: Store, view: CollectionView) -> list[tuple[str, Span]]:
    """Every span of every query set, with the name of its set."""
    spans: list[tuple[str, Span]] = []
    for each in await query_sets.listed(store, view.name):
        spans += [(each.name, span) for span in (await query_sets.load(store, view.name, name=each.name)).spans]
    return spans


async def _labels_of(store: Store, view: CollectionView, items: set[str]) -> int:
    """How many labels are about these documents, over all query sets."""
    count = 0
    for each in await query_sets.listed(store, view.name) if items else ():
        labelled = await query_sets.load(store, view.name, name=each.name)
        count += sum(label.item_id in items for label in labelled.labels)
    return count


def _moves(
    items: Mapping[str, tuple[tuple[bytes, str] | None, Item]], spans: Sequence[tuple[str, Span]]
) -> Iterator[SpanMove]:
    for name, span in spans:
        if span.item_id in items:
            old, new = items[span.item_id]
            to = relocated(span, old[1] if old else "", new.text)
            if to != span:
                yield SpanMove(name, span, to)


def relocated(span: Span, old: str, new: str) -> Span | None:
    """The span in another text of its document: where its text stands once, or as often as before; None elsewhere."""
    if new[span.start : span.end] == span.text:
        return span
    places = _places(new, span.text)
    if len(places) == 1:
        return replace(span, start=places[0], end=places[0] + len(span.text))
    if places:
        before = _places(old, span.text)
        if len(before) != len(places) or span.start not in before:
            return None
        start = places[before.index(span.start)]
        return replace(span, start=start, end=start + len(span.text))
    return _loosely(span, new)


def _places(text: str, wanted: str) -> list[int]:
    places: list[int] = []
    at = text.find(wanted) if wanted else -1
    while at >= 0 and len(places) < MOST_PLACES:
        places.append(at)
        at = text.find(wanted, at + 1)
    return places


def _loosely(span: Span, new: str) -> Span | None:
    """Where the same words stand once, with other blanks between them."""
    words = span.text.split()
    if not words or len(span.text) > LONGEST_LOOSE:
        return None
    hits = re.finditer(r"\s+".join(map(re.escape, words)), new)
    first, second = next(hits, None), next(hits, None)
    if first is None or second is not None:
        return None
    return replace(span, start=first.start(), end=first.end(), text=first[0])


async def apply(
    store: Store,
    change: ReaderChange,
    *,
    embedders: Mapping[str, Embedder] | None = None,
    listener: Listener = nobody,
) -> IngestReport:
    """Read the folder anew, move the spans, and keep the reader. Interrupted, the collection has its old reader still.

    The reader is kept last: a load that is resumed before that reads as before.
    """
    view = await collections.get(store, change.name)
    models = load.embedders_of(view, embedders or {})
    tokenizer = next(iter(models.values()), None) or embedder()
    ingest = Ingest(store, view, models, tokenizer, listener)
    report = await ingest.run(change.source.items(), total=change.source.size(), gone=change.removed)
    await _move_spans(store, view, change)
    await _keep_remarks(store, view, report)
    async with store.begin() as connection:
        keep = update(Collection).where(Collection.name == view.name).values(origin=change.source.spec())
        await connection.execute(keep)
        await collections.mark_loaded(connection, view.name)
    return report


async def _move_spans(store: Store, view: CollectionView, change: ReaderChange) -> None:
    by_set: dict[str, dict[Span, Span | None]] = {}
    for move in change.moves:
        by_set.setdefault(move.query_set, {})[move.span] = move.to
    for name, moves in by_set.items():
        async with query_sets.changing(store, view.name, name):
            labelled = await query_sets.load(store, view.name, name=name)
            spans = [to for span in labelled.spans if (to := moves.get(span, span)) is not None]
            kept = LabelledQueries.ordered(labelled.queries, labelled.labels, spans, labelled.exclusions)
            flaws = [_lost(name, span) for span, to in moves.items() if to is None and span in labelled.spans]
            edited = await revisions.last_edit(store, view.name, name=name)
            reason = f"answer spans moved with their texts to reader {change.source.reader}"
            # As a load, unless somebody's change came before it: a later load must not take that for undone.
            cause = Cause(reason=reason, kind="edit" if edited else "load")
            await query_sets.keep(store, view.name, kept, {"spans": flaws}, name=name, cause=cause)


async def _keep_remarks(store: Store, view: CollectionView, report: IngestReport) -> None:
    """What was said of the documents as the old reader read them is not true any more."""
    async with query_sets.changing(store, view.name, DEFAULT_QUERY_SET):
        labelled = await query_sets.load(store, view.name)
        await query_sets.keep(store, view.name, labelled, {"documents": report.flaws})


def _lost(query_set: str, span: Span) -> Flaw:
    message = (
        f"The span {span.text!r:.200} of {span.item_id!r} ({span.start}:{span.end}, grade {span.grade}, split "
        f"{span.split!r}) is not in the document as it is read now, or not just once. It was left out."
    )
    return Flaw(Place(f"query set {query_set}"), sanitize.cleaned(message), "quarantined", span.query_id)


async def refresh(
    store: Store, name: str, folder: Path | None = None, *, prune: bool = False, listener: Listener = nobody
) -> load.LoadReport:
    """The same source by the same reader: what is new or changed in it comes in; `prune` removes what it has not."""
    view = await collections.get(store, name)
    origin = view.row.origin
    if not origin or "attached" in origin:
        raise InputError(
            f"{view.name!r} keeps no source that it could be loaded from again. Name it: rankbook data add."
        )
    source = source_of(view, folder) if folder or origin.get("kind") == "folder" else source_from(origin)
    plan = load.plan_of(view).model_copy(update={"prune": prune})
    return await load.load_collection(store, name, source, plan, listener=listener)
