"""Queries and labels into a collection: with its source, or by themselves from files.

Owns what happens to labels that are stored already. They are lost only where a person insists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath

from core.errors import InputError
from core.progress import Listener
from core.store import collections, names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import IngestReport
from core.store.passages import read_titles
from core.types import Flaw, Place, Query, Row
from evals.labels import corpus_checks, label_files, query_sets, revisions
from evals.labels.label_checks import refuse_unusual
from evals.labels.revisions import Cause, FewerLabels, LabelChange
from evals.sources import Source
from evals.types import DEFAULT_QUERY_SET, Exclusion, Label, LabelledQueries, Span


@dataclass(slots=True)
class LoadReport:
    """The outcome of loading: the ingest's report, the sizes of the labels, and all flaws."""

    name: str
    report: IngestReport
    queries: int = 0
    labels: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    flaws: list[Flaw] = field(default_factory=list)
    change: LabelChange | None = None  # of the query set
    stay_reason: str = ""  # why its labels stayed, where the source has others

    def count(self, before: LabelledQueries, after: LabelledQueries) -> None:
        self.queries, self.labels, self.splits = len(after.queries), len(after.labels), after.splits
        self.change = LabelChange.between(before, after)


async def load_source_labels(
    store: Store,
    view: CollectionView,
    source: Source,
    report: LoadReport,
    listener: Listener,
    *,
    check: bool,
    author: str,
) -> None:
    """Replace the stored queries and labels by those of the source, unless a person's work would be lost."""
    labels = await label_files.check_against_items(store, view, source)
    new, stored = labels.labelled_queries(), await query_sets.load(store, view.name)
    reason = await _reason_to_stay(store, view, stored, new)
    version = (await collections.get(store, view.name)).row.version if check else None
    flaws: dict[str, Sequence[Flaw]] = {"documents": report.report.flaws}
    if version is not None:
        place = Place(f"the query set {DEFAULT_QUERY_SET!r}")
        queries = labels.queries if reason is None else [Row(each, place) for each in stored.queries]
        digest = (new if reason is None else stored).digest()
        flaws |= await _check_corpus(store, view, queries, digest, version, listener)
    async with query_sets.change_lock(store, view.name, DEFAULT_QUERY_SET):
        now = await query_sets.load(store, view.name)
        if now != stored:  # changed while the source was read, which must not be lost
            reason, version = await _reason_to_stay(store, view, now, new), None
        if reason is None:
            flaws["labels"] = labels.flaws  # of labels that stay, the flaws of their own load are kept
        report.flaws += [*labels.flaws, *flaws.get("leaks", ()), *flaws.get("repeats", ())]
        report.stay_reason = reason or ""
        labelled, cause = new if reason is None else now, Cause(author, f"loaded from {_origin(source)}", "load")
        report.count(now, labelled)
        await query_sets.keep(store, view.name, labelled, flaws, checked_version=version, cause=cause)


async def _check_corpus(
    store: Store, view: CollectionView, queries: Sequence[Row[Query]], digest: bytes, version: int, listener: Listener
) -> dict[str, Sequence[Flaw]]:
    """The checks that read every text, each one only if what it compares has changed since it ran last."""
    last = await query_sets.last_check(store, view.name)
    flaws: dict[str, Sequence[Flaw]] = {}
    if last is None or (last.digest, last.version) != (digest, version):
        flaws["leaks"] = await corpus_checks.queries_in_corpus(store, view, queries)
    if last is None or last.version != version:
        flaws["repeats"] = await corpus_checks.near_duplicates(store, view, listener)
    return flaws


async def _reason_to_stay(
    store: Store, view: CollectionView, stored: LabelledQueries, new: LabelledQueries
) -> str | None:
    """Why the stored queries and labels stay, empty if that needs no saying; None if the source's replace them.

    They stay if the source has no queries, if a person changed them since they were loaded, and if there would be
    fewer. Labels of documents that are no longer in the collection are no loss.
    """
    last = await query_sets.last_check(store, view.name)
    if not stored.queries or (last is not None and last.digest == new.digest()):
        return None
    rows: tuple[Label | Span | Exclusion, ...] = (*stored.labels, *stored.spans, *stored.exclusions)
    named = sorted({row.item_id for row in rows})
    present = await read_titles(store, view, named)
    if not new.queries:
        if not (gone := [item for item in named if item not in present]):
            return ""
        count = sum(row.item_id not in present for row in rows)
        return (
            f"{count:,} labels of the query set {DEFAULT_QUERY_SET!r} are about documents that are not in the "
            f"collection any more, such as {gone[0]!r:.80}."
        )
    change = LabelChange.between(stored, new)
    if edit := await revisions.last_edit(store, view.name, name=DEFAULT_QUERY_SET):
        why = f"was changed since it was loaded, last by {edit.author} at {edit.made_at:%Y-%m-%d %H:%M}"
    elif LabelChange.between(_about(stored, present), new).loses:
        why = "would hold less with what the source brings"
    else:
        return None
    way_out = f"rankbook data label {view.name} FROM{' --even-so' if change.loses else ''}"
    sentence = f"The query set {DEFAULT_QUERY_SET!r} {why}, so what is there stays: {change.sentence}."
    return f"{sentence} To replace it: {way_out}"


def _about(labelled: LabelledQueries, items: Collection[str]) -> LabelledQueries:
    """The labelled queries without labels, spans and exclusions of other items."""
    parts = {
        part: tuple(row for row in getattr(labelled, part) if row.item_id in items)
        for part in ("labels", "spans", "exclusions")
    }
    return replace(labelled, **parts)


def no_announcement(_: LabelChange) -> None:
    """Announce a change to nobody."""


async def load_labels(
    store: Store,
    view: CollectionView,
    source: Source,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    even_so: bool = False,
    all_grades: bool = False,
    announce: Callable[[LabelChange], None] = no_announcement,
    author: str = "",
) -> LoadReport:
    """Load queries and labels from files into a query set of a collection, of an attached one for instance.

    Refused if the set would hold less than it does, or no label can be used, unless `even_so`; and if grades are
    beyond 0 to 3, unless `all_grades`. The change is announced before anything is written.
    """
    names.checked(query_set, what="The query set's name")
    report = LoadReport(view.name, IngestReport())
    async with query_sets.change_lock(store, view.name, query_set):
        source = await label_files.with_known_queries(store, view, source, query_set)
        if not await asyncio.to_thread(lambda: any(next(rows(), None) for rows in (source.labels, source.spans))):
            raise InputError(
                "There are no labels in it, and those that are there stay. See `rankbook queries add --help`."
            )
        labels = await label_files.check_against_items(store, view, source)
        stored = await query_sets.load(store, view.name, name=query_set)
        labelled = labels.labelled_queries()
        report.count(stored, labelled)
        change, report.flaws = LabelChange.between(stored, labelled), list(labels.flaws)
        if not even_so and (change.loses or not (labelled.labels or labelled.spans)):
            raise FewerLabels(query_set, change, labels.flaws)
        if not all_grades:
            refuse_unusual(labels.unusual)
        announce(change)
        cause = Cause(author, f"labels from {_origin(source)}")
        await query_sets.keep(store, view.name, labelled, {"labels": labels.flaws}, name=query_set, cause=cause)
    return report


def _origin(source: Source) -> str:
    """The name of what the source reads."""
    if isinstance(source, label_files.LabelFiles):
        return ", ".join(path.name for path in source.labels_paths.values())
    spec = source.spec()
    named = next((str(value) for name, value in spec.items() if name != "kind" and isinstance(value, str)), "")
    return PurePath(named).name or str(spec.get("kind", "a source"))
