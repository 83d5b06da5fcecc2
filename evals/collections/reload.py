"""A collection loaded again from its source, by the same reader or by a newer one, with a preview of what that changes.

A collection keeps the reader that it was loaded by, because another text is another vector and moves answer spans.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from sqlalchemy import select, update

from core.chunking import chunker_from
from core.embedding import Embedder, embedder
from core.errors import InputError, StoreError
from core.progress import Listener, Step, nobody
from core.store import change_detection, collections, sanitize
from core.store.chunk_and_embed import EmbeddingCache, embedded_text, is_unit
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest, IngestReport
from core.store.schema import Collection, any_id
from core.store.schema import ItemRow as StoredItem
from core.types import Flaw, Item, Place
from evals.collections import load, load_labels
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
    """A span of a query set whose document changes, and where its text is then; None if it is not there any more."""

    query_set: str
    span: Span
    to: Span | None


@dataclass(frozen=True, slots=True)
class ReaderChange:
    """What another reader changes in a collection. `texts` counts the texts to embed, over all models."""

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
        """Spans whose text the documents no longer contain, or contain at several places."""
        return tuple(each for each in self.moves if each.to is None)

    @property
    def any_document(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    def plain(self) -> dict[str, Any]:
        """As JSON for scripts."""
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


def reader_source(view: CollectionView, folder: Path | None = None) -> FolderSource:
    """The folder that a collection was loaded from, or the folder to which that has moved."""
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
    """What the newest reader would change; None if the collection has it already. Reads all files, stores nothing."""
    view = await collections.get(store, name)
    source = reader_source(view, folder)
    before = source.as_loaded(view.row.origin) if "reader" not in view.row.origin else source
    if before.reader == readers.NEWEST:
        return None
    after = source.model_copy(update={"reader": readers.NEWEST})
    gone = await asyncio.to_thread(lambda: set(before.ids()) - set(after.ids()))
    models = tuple(dict.fromkeys(each.model for each in view.embedding_sets))
    change = ReaderChange(view.name, after, before.reader, models=models)
    known = load.embedders_of(view, embedders or {})
    return await _ReaderComparison(store, view, change, gone, known, listener).compare()


@dataclass
class _ReaderComparison:
    """Compares documents as the new reader reads them with the stored ones, in batches."""

    store: Store
    view: CollectionView
    change: ReaderChange
    gone: set[str]
    embedders: dict[str, Embedder]
    listener: Listener
    flaws: list[Flaw] = field(default_factory=list)
    texts: int = 0

    async def compare(self) -> ReaderChange:
        store, name = self.store, self.view.name
        labelled = {
            each.name: await query_sets.load(store, name, name=each.name)
            for each in await query_sets.summaries(store, name)
        }
        spans = [(each, span) for each, queries in labelled.items() for span in queries.spans]
        removed = sorted(await self._stored(sorted(self.gone)))
        added = changed = unchanged = done = 0
        moves = [SpanMove(each, span, None) for each, span in spans if span.item_id in self.gone]
        batches = change_detection.batches(self.change.source.items(), self.view.row.fields)
        total = self.change.source.size()
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            self.flaws += batch.flaws[: load.FLAWS_SHOWN - len(self.flaws)]
            known = await self._stored([item.id for item in batch.items])
            digests = zip(batch.items, batch.digests, strict=True)
            other = [item for item, digest in digests if item.id not in known or known[item.id][0] != digest]
            added += sum(item.id not in known for item in other)
            changed += sum(item.id in known for item in other)
            unchanged += len(batch.items) - len(other)
            self.texts += await self._to_embed(other)
            # Spans of unchanged documents too: an interrupted reload may not have moved theirs yet.
            items = {item.id: item for item in batch.items}
            for each, span in spans:
                if span.item_id in items:
                    old = known[span.item_id][1] if span.item_id in known else ""
                    to = relocate(span, old, items[span.item_id].text)
                    moves += [SpanMove(each, span, to)] if to != span else []
            done += len(batch.items)
            self.listener(Step("Comparing", done, total and max(total, done), "documents"))
        without = {*removed}
        return replace(
            self.change,
            added=added,
            changed=changed,
            unchanged=unchanged,
            removed=tuple(removed),
            texts=self.texts,
            labels_without_document=sum(
                label.item_id in without for queries in labelled.values() for label in queries.labels
            ),
            moves=tuple(moves),
            flaws=tuple(self.flaws),
        )

    async def _stored(self, ids: Sequence[str]) -> dict[str, tuple[bytes, str]]:
        """The digest and the text of the stored ones among these ids."""
        stored: dict[str, tuple[bytes, str]] = {}
        for at in range(0, len(ids), IDS_A_STATEMENT):
            some = StoredItem.id == any_id(ids[at : at + IDS_A_STATEMENT])
            query = select(StoredItem.id, StoredItem.digest, StoredItem.text).where(some)
            async with self.store.begin(self.view.namespace, read_only=True) as connection:
                stored |= {row.id: (bytes(row.digest), row.text) for row in await connection.execute(query)}
        return stored

    async def _to_embed(self, items: Sequence[Item]) -> int:
        """How many of the items' texts are not embedded yet, over all models."""
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


def relocate(span: Span, old: str, new: str) -> Span | None:
    """The span in another text of its document, if its text is found there once or as often as before; else None."""
    if new[span.start : span.end] == span.text:
        return span
    if places := _places(new, span.text):
        before = _places(old, span.text)
        if len(places) > 1 and (len(before) != len(places) or span.start not in before):
            return None
        start = places[0] if len(places) == 1 else places[before.index(span.start)]
        return replace(span, start=start, end=start + len(span.text))
    words = span.text.split()
    if not words or len(span.text) > LONGEST_LOOSE:
        return None
    # The same words with other blanks between them.
    hits = [*islice(re.finditer(r"\s+".join(map(re.escape, words)), new), 2)]
    return replace(span, start=hits[0].start(), end=hits[0].end(), text=hits[0][0]) if len(hits) == 1 else None


def _places(text: str, part: str) -> list[int]:
    places: list[int] = []
    at = text.find(part) if part else -1
    while at >= 0 and len(places) < MOST_PLACES:
        places.append(at)
        at = text.find(part, at + 1)
    return places


async def apply(
    store: Store,
    change: ReaderChange,
    *,
    embedders: Mapping[str, Embedder] | None = None,
    listener: Listener = nobody,
) -> IngestReport:
    """Read the folder with the new reader, move the spans, and store the reader with the collection.

    The reader is stored last, so that after an interruption the collection still has the old one.
    """
    view = await collections.get(store, change.name)
    models = load.embedders_of(view, embedders or {})
    tokenizer = next(iter(models.values()), None) or embedder()
    ingest = Ingest(store, view, models, tokenizer, listener)
    report = await ingest.run(change.source.items(), total=change.source.size(), gone=change.removed)
    await _move_spans(store, view, change)
    async with query_sets.change_lock(store, view.name, DEFAULT_QUERY_SET):
        labelled = await query_sets.load(store, view.name)
        await query_sets.keep(store, view.name, labelled, {"documents": report.flaws})
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
        async with query_sets.change_lock(store, view.name, name):
            labelled = await query_sets.load(store, view.name, name=name)
            spans = [to for span in labelled.spans if (to := moves.get(span, span)) is not None]
            kept = LabelledQueries.ordered(labelled.queries, labelled.labels, spans, labelled.exclusions)
            flaws = []
            for span in (span for span, to in moves.items() if to is None and span in labelled.spans):
                message = (
                    f"The span {span.text!r:.200} of {span.item_id!r} ({span.start}:{span.end}, grade {span.grade}, "
                    f"split {span.split!r}) is not in the document as it is read now, or not just once. It was left "
                    "out."
                )
                place = Place(f"query set {name}")
                flaws.append(Flaw(place, sanitize.cleaned(message), "quarantined", span.query_id))
            edited = await revisions.last_edit(store, view.name, name=name)
            reason = f"answer spans moved with their texts to reader {change.source.reader}"
            # A load, unless an edit is the latest change: else a later load would replace the edited labels.
            cause = Cause(reason=reason, kind="edit" if edited else "load")
            await query_sets.keep(store, view.name, kept, {"spans": flaws}, name=name, cause=cause)


async def refresh(
    store: Store, name: str, folder: Path | None = None, *, prune: bool = False, listener: Listener = nobody
) -> load_labels.LoadReport:
    """Load what is new or changed in a collection's source, by the same reader; `prune` removes what is gone."""
    view = await collections.get(store, name)
    origin = view.row.origin
    if not origin or "attached" in origin:
        raise InputError(
            f"{view.name!r} keeps no source that it could be loaded from again. Name it: rankbook data add."
        )
    source = reader_source(view, folder) if folder or origin.get("kind") == "folder" else source_from(origin)
    plan = load.plan_of(view).model_copy(update={"prune": prune})
    return await load.load_collection(store, name, source, plan, listener=listener)
