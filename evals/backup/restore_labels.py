"""Queries, labels and judgements from a backup, merged into what a collection has. What is there stays.

Of a query that reads otherwise here, nothing comes in: its labels are about another question. A judge's newer grade of
a pair takes the place of the older. All of it in the caller's transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, exists, func, insert, literal, not_, or_, select, union
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import Text

from core.types import Query
from evals.backup import file_format
from evals.backup.archive_reader import RowReader, counted
from evals.backup.file_format import LABELS
from evals.judging.judgements import MODEL_PREFIX
from evals.labels import query_sets, revisions
from evals.labels.label_checks import DEFAULT_MAX_GRADE
from evals.labels.revisions import Cause, LabelChange, LabelDifference, LabelState
from evals.types import Exclusion, Label, LabelledQueries, MergedFrom, Span

Absent = Callable[[Collection[str]], Awaitable[list[str]]]  # those of the ids that the collection does not hold
OTHER_QUESTION = "of queries that read otherwise here"
NO_QUESTION = "of queries that are not here"
OTHER_GRADE = "labels graded otherwise here"
NO_DOCUMENT = "for documents that are not here"
OLDER = "judgements that are here already, or newer"
RESTORED: Final = "merged from a backup"
OF_A_SET = ("digest", "checked_version", "merged_digest", "merged_from", "changed_at")


@dataclass(slots=True)
class RestoredLabels:
    """What came in, and what was left out, each counted."""

    name: str
    added: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    note: str = ""

    def add(self, what: str, count: int) -> None:
        self.added[what] = self.added.get(what, 0) + count

    def leave(self, why: str, count: int) -> None:
        self.left[why] = self.left.get(why, 0) + count


@dataclass(slots=True)
class Merging:
    """The incoming tables beside those of the store."""

    taking: RowReader
    name: str
    incoming: dict[str, Table]
    merged: RestoredLabels
    absent: Absent | None = None

    @property
    def connection(self) -> AsyncConnection:
        return self.taking.connection

    @classmethod
    async def begun(cls, taking: RowReader, name: str, absent: Absent | None = None) -> Merging:
        incoming = {part.name: await taking.aside(part) for part in LABELS}
        return cls(taking, name, incoming, RestoredLabels(name), absent)

    async def run(self) -> RestoredLabels:
        sets = self.incoming["query_sets"]
        await self._refuse_impossible()
        others: set[str] = set()
        for row in (await self.connection.execute(select(sets).order_by(sets.c.key))).all():
            others |= await self._merge_set(row)
        await self._judgements(sorted(others))
        return self.merged

    # -- query sets ------------------------------------------------------------------------------------------------

    async def _merge_set(self, row: Any) -> set[str]:
        """The ids of queries that are other questions here."""
        self._refuse_made_up(row)
        key, digest = await self._own_set(row)
        here = None if digest is None else await kept_state(self.connection, key)
        others = [] if digest is None else await self._other_questions(row.key, key)
        missing = await self._missing(row.key)
        before = sum(self.merged.added.values())
        for part in LABELS[1:-1]:
            await self._add(part.table, row.key, key, others, missing)
        whole = digest is None and self.absent is None  # all of it has been checked
        if sum(self.merged.added.values()) > before or digest is None:
            await self._mark(row, key, whole=whole)
        if here is not None:
            await self._keep_revision(key, *here)
        return set(others)

    async def _keep_revision(self, key: int, labelled: LabelledQueries, state: LabelState) -> None:
        """What the backup changed of a set that was here, so that it can be undone."""
        now, then = await kept_state(self.connection, key)
        if then.digest != state.digest:
            change, difference = LabelChange.between(labelled, now), LabelDifference.between(labelled, state, now, then)
            await revisions.record(self.connection, key, change, difference, Cause(reason=RESTORED))

    def _refuse_made_up(self, row: Any) -> None:
        """What is kept as JSON has the form that later work takes it to have."""
        wrong = row.merged_from is not None and MergedFrom.read(row.merged_from) is None
        what = "what no merge of judgements leaves" if wrong else "flaws that no check finds"
        if wrong or not query_sets.are_flaws(row.flaws):
            raise self.taking.archive.wrong(f"It says of the query set {row.name!r:.80} {what}. Nothing was restored.")

    async def _own_set(self, row: Any) -> tuple[int, bytes | None]:
        """The key of the set of that name, held until the end, and its digest; None where it is new."""
        table = file_format.table_of_sets()
        here = select(table.c.key, table.c.digest).where(table.c.collection == self.name, table.c.name == row.name)
        found = (await self.connection.execute(here.with_for_update())).first()
        if found is not None:
            return found.key, bytes(found.digest)
        made = insert(table).values(collection=self.name, name=row.name, digest=row.digest, flaws=row.flaws)
        return int((await self.connection.execute(made.returning(table.c.key))).scalar_one()), None

    async def _other_questions(self, old: int, key: int) -> list[str]:
        theirs, ours = self.incoming["queries"], _stored("queries")
        same = and_(theirs.c.set_key == old, ours.c.set_key == key, ours.c.id == theirs.c.id)
        query = select(ours.c.id).join(theirs, same).where(ours.c.text != theirs.c.text).order_by(ours.c.id)
        return list(await self.connection.scalars(query))

    async def _missing(self, old: int) -> list[str]:
        if self.absent is None:
            return []
        tables = [self.incoming[name] for name in ("labels", "spans", "exclusions")]
        wanted = union(*(select(each.c.item_id).where(each.c.set_key == old) for each in tables))
        return await self.absent(list(await self.connection.scalars(wanted)))

    async def _add(self, table: Table, old: int, key: int, others: list[str], missing: list[str]) -> None:
        theirs = self.incoming[table.name]
        names = [name for name in file_format.columns(table) if not (table.name == "spans" and name == "key")]
        of_set = theirs.c.set_key == old
        asked = theirs.c.id if table.name == "queries" else theirs.c.query_id
        is_other = asked == func.any(_array(others))
        queries = _stored("queries")
        stored = exists().where(queries.c.set_key == key, queries.c.id == asked)
        known: ColumnElement[bool] = literal(True) if table.name == "queries" else stored
        lacks = theirs.c.item_id == func.any(_array(missing)) if "item_id" in names else literal(False)
        if table.name != "queries":
            await self._leave(OTHER_QUESTION, theirs, and_(of_set, is_other))
            await self._leave(NO_QUESTION, theirs, and_(of_set, not_(is_other), not_(known)))
            await self._leave(NO_DOCUMENT, theirs, and_(of_set, not_(is_other), known, lacks))
        wanted = and_(of_set, not_(is_other), known, not_(lacks))
        same = _same(table, theirs, key)
        if table.name == "labels":
            otherwise = exists().where(same, table.c.grade != theirs.c.grade)
            await self._leave(OTHER_GRADE, theirs, and_(wanted, otherwise))
        values = [literal(key) if name == "set_key" else theirs.c[name] for name in names]
        rows = select(*values).where(wanted, not_(exists().where(same)))
        add = insert(table).from_select(names, rows, include_defaults=False)
        self.merged.add(table.name, await counted(self.connection, add))

    async def _leave(self, why: str, theirs: Table, condition: Any) -> None:
        count = await self.connection.scalar(select(func.count()).select_from(theirs).where(condition))
        self.merged.leave(why, int(count or 0))

    async def _mark(self, row: Any, key: int, *, whole: bool) -> None:
        """The set's digest follows what is in it now; one that came in as it was keeps all that was said of it."""
        table = file_format.table_of_sets()
        if whole:
            values = {name: getattr(row, name) for name in OF_A_SET}
        else:
            labelled = await labelled_of(self.connection, key)
            values = {"digest": labelled.digest(), "checked_version": None, "changed_at": func.now()}
        await self.connection.execute(table.update().where(table.c.key == key).values(values))

    # -- judgements ------------------------------------------------------------------------------------------------

    async def _judgements(self, others: list[str]) -> None:
        theirs, table = self.incoming["judgements"], _stored("judgements")
        await self._refuse_forged(theirs)
        is_other = theirs.c.query_id == func.any(_array(others))
        await self._leave(OTHER_QUESTION, theirs, is_other)
        names = file_format.columns(table)
        values = [literal(self.name) if name == "collection" else theirs.c[name] for name in names]
        add = upsert(table).from_select(names, select(*values).where(not_(is_other)), include_defaults=False)
        keys = [column.name for column in table.primary_key]
        changed = {name: add.excluded[name] for name in names if name not in keys}
        newer = add.on_conflict_do_update(
            index_elements=keys, set_=changed, where=add.excluded.judged_at > table.c.judged_at
        )
        wanted = await self.connection.scalar(select(func.count()).select_from(theirs).where(not_(is_other)))
        done = await counted(self.connection, newer)
        self.merged.add("judgements", done)
        self.merged.leave(OLDER, int(wanted or 0) - done)

    async def _refuse_forged(self, theirs: Table) -> None:
        """What `judgements.give` would have refused."""
        is_signed = theirs.c.judge.startswith(MODEL_PREFIX, autoescape=True)
        forged = (is_signed != theirs.c.is_model) | not_(theirs.c.grade.between(0, DEFAULT_MAX_GRADE))
        await self._refuse_where(theirs, forged)

    async def _refuse_impossible(self) -> None:
        """What no check of queries and labels lets through."""
        queries, labels, spans = (self.incoming[name] for name in ("queries", "labels", "spans"))
        is_weight = queries.c.weight.between(0, sys.float_info.max)  # neither NaN nor infinity is
        is_place = and_(spans.c.start_at >= 0, spans.c.end_at >= spans.c.start_at)
        await self._refuse_where(queries, or_(not_(is_weight), func.array_position(queries.c.tags, None).is_not(None)))
        await self._refuse_where(labels, labels.c.grade < 0)
        await self._refuse_where(spans, or_(spans.c.grade < 0, not_(is_place)))

    async def _refuse_where(self, theirs: Table, wrong: ColumnElement[bool]) -> None:
        if await self.connection.scalar(select(func.count()).select_from(theirs).where(wrong)):
            what = theirs.name.removeprefix("incoming_")
            raise self.taking.archive.wrong(f"It holds {what} that nobody can have given. Nothing was restored.")


def _array(values: Sequence[str]) -> Any:
    return literal(list(values), ARRAY(Text(collation="C")))


def _stored(name: str) -> Table:
    return next(part.table for part in LABELS if part.name == name)


def _same(table: Table, theirs: Table, key: int) -> Any:
    """Whether a row stands here already: by the table's key, and of spans, which have none, by all they say."""
    given = [column.name for column in table.primary_key if column.name != "set_key"]
    if table.name == "spans":
        given = [name for name in file_format.columns(table) if name not in {"key", "set_key"}]
    return and_(table.c.set_key == key, *(table.c[name] == theirs.c[name] for name in given))


async def kept_state(connection: AsyncConnection, key: int) -> tuple[LabelledQueries, LabelState]:
    """A set as it stands in this very transaction, with what is kept beside its rows."""
    table = file_format.table_of_sets()
    row = (await connection.execute(select(table).where(table.c.key == key))).one()
    merged = None if row.merged_digest is None else bytes(row.merged_digest)
    return await labelled_of(connection, key), LabelState(bytes(row.digest), row.flaws, merged, row.merged_from)


async def labelled_of(connection: AsyncConnection, key: int) -> LabelledQueries:
    """A set as it stands in this very transaction, in the order that its digest wants."""

    async def of(name: str) -> Sequence[Any]:
        table = _stored(name)
        return (await connection.execute(select(table).where(table.c.set_key == key))).all()

    return LabelledQueries.ordered(
        (Query(row.id, row.text, row.kind, tuple(row.tags), row.weight, row.metadata) for row in await of("queries")),
        (Label(row.query_id, row.item_id, row.grade, row.split) for row in await of("labels")),
        (
            Span(row.query_id, row.item_id, row.start_at, row.end_at, row.text, row.split, row.grade)
            for row in await of("spans")
        ),
        (Exclusion(row.query_id, row.item_id) for row in await of("exclusions")),
    )
