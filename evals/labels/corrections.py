"""Labels corrected one by one, and changes of query sets undone and done again.

Owns what a correction may say. How a change is kept is `label_revisions`'s, how a set is stored `query_sets`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from core.errors import InputError, SpecError, StoreError, UnknownName
from core.store import collections, names
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.labels import label_files, query_sets
from evals.labels import revisions as labels_revisions
from evals.labels.label_checks import DEFAULT_MAX_GRADE, USUAL_GRADE, refuse_unusual
from evals.labels.revisions import KEPT, TABLE, UNSAID, Cause, LabelChange, LabelDifference, LabelState, Revision
from evals.schema import QuerySet
from evals.types import DEFAULT_QUERY_SET, Label, LabelledQueries, Span

LONGEST_SPLIT: Final = 200  # bytes of a new one's name
EXCLUDED: Final = "The document is excluded from this query's rankings, so its label counts for nothing."

# -- one label ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Correction:
    """A label as it was and as it is now, None where there is none. `spans` counts answer spans that went with it."""

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
    cause: Cause = UNSAID,
) -> Correction:
    """Give a pair the grade that it should have; None takes its label away.

    Grade 0 and none take the pair's answer spans along: a document that does not answer has no answer in it. Without a
    split it is the one in which the pair is labelled, or else the query.
    """
    if grade is not None and (isinstance(grade, bool) or not 0 <= grade <= DEFAULT_MAX_GRADE):
        raise InputError(f"The grade {grade} is not one: 0 (not relevant) to {DEFAULT_MAX_GRADE} are.")
    async with query_sets.changing(store, view.name, query_set):
        labelled = await _there(store, view.name, query_set)
        if query_id not in (known := {query.id for query in labelled.queries}):
            raise UnknownName(f"query of {query_set!r} in {view.name!r}", query_id, known)
        split = _split(labelled, query_id, item_id, split)
        if grade is not None:
            await _refuse_strange(store, view, labelled, item_id, grade, all_grades=all_grades)
        made = _corrected(labelled, query_id, item_id, split, grade)
        before = next((each.grade for each in labelled.labels if _of(each, query_id, item_id, split)), None)
        spans = len(labelled.spans) - len(made.spans)
        if grade is None and before is None and not spans:
            raise InputError(f"{query_id!r:.80} and {item_id!r:.80} have no label in {split!r} that could be removed.")
        excluded = any((pair.query_id, pair.item_id) == (query_id, item_id) for pair in labelled.exclusions)
        note = EXCLUDED if excluded and grade is not None else ""
        done = Correction(query_id, item_id, split, before, grade, spans, note)
        if done.changed:
            why = f" ({cause.reason})" if cause.reason else ""
            full = Cause(cause.author, f"{done.pair}: {done.grades}{why}")
            await query_sets.keep(store, view.name, made, name=query_set, cause=full)
    return done


async def _there(store: Store, collection: str, name: str) -> LabelledQueries:
    labelled = await query_sets.load(store, collection, name=name)
    if not labelled.queries:
        known = [each.name for each in await query_sets.listed(store, collection)]
        if name in known:
            raise InputError(
                f"The query set {name!r} of {collection!r} holds no queries, so it has no labels to correct."
            )
        raise UnknownName(f"query set of {collection!r}", name, known)
    return labelled


def _of(each: Label, query_id: str, item_id: str, split: str) -> bool:
    return (each.query_id, each.item_id, each.split) == (query_id, item_id, split)


def _split(labelled: LabelledQueries, query_id: str, item_id: str, split: str | None) -> str:
    rows: tuple[Label | Span, ...] = (*labelled.labels, *labelled.spans)
    if split is not None:
        known = any(row.split == split for row in rows)
        return split if known else names.checked(split, what="The split", room=LONGEST_SPLIT)
    of_query = [row for row in rows if row.query_id == query_id]
    of_pair = {row.split for row in of_query if row.item_id == item_id}
    splits = sorted(of_pair or {row.split for row in of_query or rows} or {"test"})
    if len(splits) > 1:
        what = f"{query_id!r:.80} is labelled" if of_query else "There are labels"
        raise SpecError(f"{what} in several splits: {', '.join(splits)}. Name the split that is meant.")
    return splits[0]


async def _refuse_strange(
    store: Store, view: CollectionView, labelled: LabelledQueries, item_id: str, grade: int, *, all_grades: bool
) -> None:
    """A document that is not there, and a grade that is beyond the usual and beyond all that the set has."""
    if await label_files.absent(store, view, [item_id]):
        raise InputError(f"The document {item_id!r:.80} is not in {view.name!r}, so it cannot be labelled.")
    if grade > max([USUAL_GRADE, *(label.grade for label in labelled.labels)]) and not all_grades:
        refuse_unusual({grade: 1})


def _corrected(
    labelled: LabelledQueries, query_id: str, item_id: str, split: str, grade: int | None
) -> LabelledQueries:
    labels = [each for each in labelled.labels if not _of(each, query_id, item_id, split)]
    if grade is not None:
        labels.append(Label(query_id, item_id, grade, split))
    spans = labelled.spans
    if not grade:
        spans = tuple(span for span in spans if (span.query_id, span.item_id, span.split) != (query_id, item_id, split))
    return labelled.ordered(labelled.queries, labels, spans, labelled.exclusions)


# -- back and forth ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """A kept change undone or done again: what that came to, and how many more steps there are each way.

    `misplaced` counts answer spans that are there again, and not where their documents have that text now.
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
    """The kept changes of a query set, the latest first; a sentence where there is no such set."""
    revisions = await labels_revisions.listed(store, collection, name=name)
    known = [each.name for each in await query_sets.listed(store, collection)] if not revisions else [name]
    if name not in known:
        raise UnknownName(f"query set of {collection!r}", name, known)
    return revisions


async def undo(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET, author: str = "") -> HistoryStep:
    """Take back the last change of a query set that still holds, whoever made it."""
    return await _move(store, collection, name, author, back=True)


async def redo(store: Store, collection: str, *, name: str = DEFAULT_QUERY_SET, author: str = "") -> HistoryStep:
    """Do again what was undone last. Nothing is left to be done again once the set has been changed otherwise."""
    return await _move(store, collection, name, author, back=False)


async def _move(store: Store, collection: str, name: str, author: str, *, back: bool) -> HistoryStep:
    author = labels_revisions.signature(author)
    known = [each.name for each in await query_sets.listed(store, collection)]
    async with query_sets.changing(store, collection, name), store.begin() as connection:
        session = AsyncSession(connection)
        row = await query_sets.find(session, collection, name, locked=True)
        if row is None:
            raise UnknownName(f"query set of {collection!r}", name, known)
        undoable, redoable = steps(await labels_revisions.of_set(connection, row.key))
        revision = next(iter(undoable if back else redoable), None)
        if revision is None:
            raise InputError(_nothing(collection, name, back=back))
        content = select(TABLE.c.content).where(TABLE.c.key == revision.key)
        difference = LabelDifference.unpacked((await connection.execute(content)).scalar_one())
        leaving, coming = (difference.after, difference.before) if back else (difference.before, difference.after)
        if bytes(row.digest) != leaving.state.digest:
            raise StoreError(
                f"The query set {name!r} of {collection!r} was changed by what keeps no revisions, such as an older "
                "Rankbook or SQL. Its kept changes do not fit any more, and nothing was changed."
            )
        now = await query_sets.parts(session, row)
        then = difference.undone(now) if back else difference.redone(now)
        left = replace(leaving, state=LabelState.of(row))  # what is kept beside the rows may have changed without them
        _take_over(row, coming.state)
        await session.flush()
        await query_sets.write_parts(connection, row.key, now, then)
        difference = LabelDifference(coming, left) if back else LabelDifference(left, coming)
        marked = {"undone_by": author, "undone_at": func.now()} if back else {"undone_by": None, "undone_at": None}
        await connection.execute(
            update(TABLE).where(TABLE.c.key == revision.key).values(content=difference.packed(), **marked)
        )
    more, less = (len(undoable) - 1, len(redoable) + 1) if back else (len(undoable) + 1, len(redoable) - 1)
    again = list(set(then.spans) - set(now.spans))
    misplaced = await _misplaced(store, collection, again)
    return HistoryStep(back, revision, LabelChange.between(now, then), more, less, misplaced)


async def _misplaced(store: Store, collection: str, spans: Sequence[Span]) -> int:
    """How many of these do not stand where they say: the documents were changed, or read anew, since."""
    view = await collections.find(store, collection) if spans else None
    if view is None:
        return 0
    items = sorted({span.item_id for span in spans})
    texts = await label_files.stored_items(store, view, items, with_text=True)
    placed = ((span, texts.get(span.item_id)) for span in spans)
    return sum(text is not None and text[span.start : span.end] != span.text for span, text in placed)


def _take_over(row: QuerySet, state: LabelState) -> None:
    row.digest, row.flaws = state.digest, [dict(flaw) for flaw in state.flaws]
    row.merged_digest = state.merged_digest
    row.merged_from = dict(state.merged_from) if state.merged_from is not None else None
    row.changed_at, row.checked_version = func.now(), None


def steps(revisions: list[Revision]) -> tuple[list[Revision], list[Revision]]:
    """Of a set's kept changes, latest first: those that can be undone, and those that can be done again, next first."""
    undoable = [each for each in revisions if each.undone_at is None]
    last = undoable[0].key if undoable else 0
    return undoable, [each for each in reversed(revisions) if each.key > last and not each.lapsed]


def _nothing(collection: str, name: str, *, back: bool) -> str:
    if back:
        return (
            f"The query set {name!r} of {collection!r} has no change to undo: nothing was changed since it came in, or "
            f"only before the last {KEPT} changes, which are kept."
        )
    return f"There is nothing to do again: no change of the query set {name!r} of {collection!r} was undone last."
