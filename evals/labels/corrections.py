"""Corrections of single labels, and undo and redo of changes of query sets.

Owns which corrections are allowed. How a change is stored is in `revisions`, how a query set is in `query_sets`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from core.errors import InputError, SpecError, StoreError, UnknownName
from core.store import collections, names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from evals.labels import label_files, query_sets, revisions
from evals.labels.label_checks import DEFAULT_MAX_GRADE, USUAL_GRADE, refuse_unusual
from evals.labels.revisions import KEPT, NO_CAUSE, TABLE, Cause, LabelChange, LabelDifference, LabelState, Revision
from evals.types import DEFAULT_QUERY_SET, Label, LabelledQueries, Span

LONGEST_SPLIT: Final = 200  # bytes of a new one's name
EXCLUDED: Final = "The document is excluded from this query's rankings, so its label counts for nothing."

# -- one label ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correction:
    """A label's grade before and after, None for no label. `spans` counts the answer spans removed with it."""

    query_id: str
    item_id: str
    split: str
    before: int | None
    after: int | None
    spans: int = 0
    note: str = ""

    @property
    def changed(self) -> bool:
        return self.before != self.after or self.spans > 0

    @property
    def pair(self) -> str:
        return f"{self.query_id!r:.80} and {self.item_id!r:.80} in {self.split!r}"

    @property
    def grades(self) -> str:
        spans = f", {self.spans} answer span{'' if self.spans == 1 else 's'} removed" if self.spans else ""
        return f"{_grade(self.before)} -> {_grade(self.after)}{spans}"

    @property
    def sentence(self) -> str:
        if not self.changed:
            return f"{self.pair}: the grade is {_grade(self.before)} already."
        return f"{self.pair}: {self.grades}.{f' {self.note}' if self.note else ''}"


def _grade(grade: int | None) -> str:
    return "no label" if grade is None else str(grade)


async def relabel(  # noqa: PLR0913 - a label has that many sides
    store: Store,
    view: CollectionView,
    query_id: str,
    item_id: str,
    grade: int | None,
    *,
    query_set: str = DEFAULT_QUERY_SET,
    split: str | None = None,
    all_grades: bool = False,
    cause: Cause = NO_CAUSE,
) -> Correction:
    """Set the grade of a query and an item; None removes their label.

    Grade 0 and None also remove the pair's answer spans, as a document that is no answer contains none. The default
    split is the one in which the pair is labelled, or else the query.
    """
    if grade is not None and (isinstance(grade, bool) or not 0 <= grade <= DEFAULT_MAX_GRADE):
        raise InputError(f"The grade {grade} is not one: 0 (not relevant) to {DEFAULT_MAX_GRADE} are.")
    async with query_sets.change_lock(store, view.name, query_set):
        labelled = await _require_queries(store, view.name, query_set)
        if query_id not in (known := {query.id for query in labelled.queries}):
            raise UnknownName(f"query of {query_set!r} in {view.name!r}", query_id, known)
        split = _split_of(labelled, query_id, item_id, split)
        if grade is not None:
            if await label_files.missing_items(store, view, [item_id]):
                raise InputError(f"The document {item_id!r:.80} is not in {view.name!r}, so it cannot be labelled.")
            if grade > max([USUAL_GRADE, *(label.grade for label in labelled.labels)]) and not all_grades:
                refuse_unusual({grade: 1})
        key = (query_id, item_id, split)
        before = next((each.grade for each in labelled.labels if _key(each) == key), None)
        labels = [each for each in labelled.labels if _key(each) != key]
        if grade is not None:
            labels.append(Label(query_id, item_id, grade, split))
        kept_spans = labelled.spans if grade else tuple(each for each in labelled.spans if _key(each) != key)
        corrected = labelled.ordered(labelled.queries, labels, kept_spans, labelled.exclusions)
        spans = len(labelled.spans) - len(kept_spans)
        if grade is None and before is None and not spans:
            raise InputError(f"{query_id!r:.80} and {item_id!r:.80} have no label in {split!r} that could be removed.")
        excluded = any((pair.query_id, pair.item_id) == (query_id, item_id) for pair in labelled.exclusions)
        note = EXCLUDED if excluded and grade is not None else ""
        correction = Correction(query_id, item_id, split, before, grade, spans, note)
        if correction.changed:
            why = f" ({cause.reason})" if cause.reason else ""
            cause = Cause(cause.author, f"{correction.pair}: {correction.grades}{why}")
            await query_sets.keep(store, view.name, corrected, name=query_set, cause=cause)
    return correction


async def _require_queries(store: Store, collection: str, name: str) -> LabelledQueries:
    labelled = await query_sets.load(store, collection, name=name)
    if labelled.queries:
        return labelled
    known = [each.name for each in await query_sets.summaries(store, collection)]
    if name not in known:
        raise UnknownName(f"query set of {collection!r}", name, known)
    raise InputError(f"The query set {name!r} of {collection!r} holds no queries, so it has no labels to correct.")


def _key(row: Label | Span) -> tuple[str, str, str]:
    return row.query_id, row.item_id, row.split


def _split_of(labelled: LabelledQueries, query_id: str, item_id: str, named: str | None) -> str:
    rows: tuple[Label | Span, ...] = (*labelled.labels, *labelled.spans)
    if named is not None:
        known = any(row.split == named for row in rows)
        return named if known else names.checked(named, what="The split", room=LONGEST_SPLIT)
    of_query = [row for row in rows if row.query_id == query_id]
    of_pair = {row.split for row in of_query if row.item_id == item_id}
    splits = sorted(of_pair or {row.split for row in of_query or rows} or {"test"})
    if len(splits) > 1:
        what = f"{query_id!r:.80} is labelled" if of_query else "There are labels"
        raise SpecError(f"{what} in several splits: {', '.join(splits)}. Name the split that is meant.")
    return splits[0]


# -- undo and redo ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A stored change that was undone or redone, its effect, and how many more steps there are each way.

    `misplaced` counts restored answer spans whose documents have another text at that place now.
    """

    back: bool
    revision: Revision
    change: LabelChange
    undoable: int
    redoable: int
    misplaced: int = 0

    @property
    def sentence(self) -> str:
        last = self.revision
        what = f"{last.reason or 'a change'}, by {last.author} at {last.made_at:%Y-%m-%d %H:%M}"
        moved = f"{self.change.sentence}. {'Undone' if self.back else 'Done again'}: {what}."
        if not self.misplaced:
            return moved
        return (
            f"{moved} Answer spans whose documents have another text in their place now: {self.misplaced:,}. "
            f"{'Make the change again' if self.back else 'Undo it'} unless you replace them."
        )


async def changes(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET) -> list[Revision]:
    """The stored changes of a query set, the latest first."""
    stored = await revisions.list_revisions(store, collection, name=name)
    known = [each.name for each in await query_sets.summaries(store, collection)] if not stored else [name]
    if name not in known:
        raise UnknownName(f"query set of {collection!r}", name, known)
    return stored


async def undo(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET, author: str = "") -> HistoryStep:
    """Undo the latest change of a query set that is not undone, whoever made it."""
    return await _move(store, collection, name, author, back=True)


async def redo(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET, author: str = "") -> HistoryStep:
    """Redo what was undone last. Once the set has been changed in another way, nothing can be redone."""
    return await _move(store, collection, name, author, back=False)


async def _move(store: Store, collection: str, name: str, author: str, *, back: bool) -> HistoryStep:
    author = revisions.signature(author)
    known = [each.name for each in await query_sets.summaries(store, collection)]
    async with query_sets.change_lock(store, collection, name), store.begin() as connection:
        session = AsyncSession(connection)
        row = await query_sets.find(session, collection, name, locked=True)
        if row is None:
            raise UnknownName(f"query set of {collection!r}", name, known)
        undoable, redoable = steps(await revisions.revisions_of(connection, row.key))
        revision = next(iter(undoable if back else redoable), None)
        if revision is None and back:
            raise InputError(
                f"The query set {name!r} of {collection!r} has no change to undo: nothing was changed since it came "
                f"in, or only before the last {KEPT} changes, which are kept."
            )
        if revision is None:
            raise InputError(
                f"There is nothing to do again: no change of the query set {name!r} of {collection!r} was undone last."
            )
        content = select(TABLE.c.content).where(TABLE.c.key == revision.key)
        difference = LabelDifference.decode((await connection.execute(content)).scalar_one())
        leaving, coming = (difference.after, difference.before) if back else (difference.before, difference.after)
        if bytes(row.digest) != leaving.state.digest:
            raise StoreError(
                f"The query set {name!r} of {collection!r} was changed by what keeps no revisions, such as an older "
                "Rankbook or SQL. Its kept changes do not fit any more, and nothing was changed."
            )
        now = await query_sets.read_parts(connection, row.key)
        then = difference.undo(now) if back else difference.redo(now)
        left = replace(leaving, state=LabelState.of(row))  # flaws, say, may have changed without the rows
        state = coming.state
        row.digest, row.flaws = state.digest, [dict(flaw) for flaw in state.flaws]
        row.merged_digest = state.merged_digest
        row.merged_from = dict(state.merged_from) if state.merged_from is not None else None
        row.changed_at, row.checked_version = func.now(), None
        await session.flush()
        await query_sets.write_parts(connection, row.key, now, then)
        difference = LabelDifference(coming, left) if back else LabelDifference(left, coming)
        marked = {"undone_by": author, "undone_at": func.now()} if back else {"undone_by": None, "undone_at": None}
        await connection.execute(
            update(TABLE).where(TABLE.c.key == revision.key).values(content=difference.encode(), **marked)
        )
    more, less = (len(undoable) - 1, len(redoable) + 1) if back else (len(undoable) + 1, len(redoable) - 1)
    restored, misplaced = set(then.spans) - set(now.spans), 0
    if restored and (view := await collections.find(store, collection)) is not None:
        items = await read_items(store, view, {span.item_id for span in restored})
        placed = ((span, items[span.item_id].text) for span in restored if span.item_id in items)
        misplaced = sum(text[span.start : span.end] != span.text for span, text in placed)
    return HistoryStep(back, revision, LabelChange.between(now, then), more, less, misplaced)


def steps(revisions: list[Revision]) -> tuple[list[Revision], list[Revision]]:
    """Of a set's stored changes, latest first: those that can be undone, and those that can be redone, next first."""
    undoable = [each for each in revisions if each.undone_at is None]
    last = undoable[0].key if undoable else 0
    return undoable, [each for each in reversed(revisions) if each.key > last and not each.lapsed]
