"""Merging queries, labels and judgements of a backup into those of a collection, which all stay.

A query that has another text here is another question, so nothing about it is restored. Of two grades by the same judge
the newer is kept. Everything is in the caller's transaction.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import ColumnElement, Table, and_, exists, func, insert, literal, not_, or_, select, union
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.types import Text

from evals.backup import file_format
from evals.backup.archive_reader import RowReader, count_written
from evals.backup.file_format import LABELS
from evals.judging.judgements import MODEL_PREFIX
from evals.labels import query_sets, revisions
from evals.labels.label_checks import DEFAULT_MAX_GRADE
from evals.labels.revisions import Cause, LabelChange, LabelDifference, LabelState
from evals.schema import QuerySet
from evals.types import LabelledQueries, MergedFrom

FindMissing = Callable[[Collection[str]], Awaitable[list[str]]]  # those of the ids that the collection lacks
OTHER_QUESTION = "of queries that read otherwise here"
NO_QUESTION = "of queries that are not here"
OTHER_GRADE = "labels graded otherwise here"
NO_DOCUMENT = "for documents that are not here"
OLDER = "judgements that are here already, or newer"
RESTORED: Final = "merged from a backup"
SET_COLUMNS = ("digest", "checked_version", "merged_digest", "merged_from", "changed_at")


@dataclass(slots=True)
class RestoredLabels:
    """How many rows were added by table, and left out by reason."""

    name: str
    added: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    note: str = ""

    def add(self, what: str, count: int) -> None:
        self.added[what] = self.added.get(what, 0) + count

    def leave(self, why: str, count: int) -> None:
        self.left[why] = self.left.get(why, 0) + count


@dataclass(slots=True)
class LabelMerge:
    """One merge, between temporary tables of the backup and the tables of the store."""

    reader: RowReader
    name: str
    incoming: dict[str, Table]
    merged: RestoredLabels
    find_missing: FindMissing | None = None

    @property
    def connection(self) -> AsyncConnection:
        return self.reader.connection

    @classmethod
    async def begin(cls, reader: RowReader, name: str, find_missing: FindMissing | None = None) -> LabelMerge:
        incoming = {part.name: await reader.read_temporary(part) for part in LABELS}
        return cls(reader, name, incoming, RestoredLabels(name), find_missing)

    async def run(self) -> RestoredLabels:
        sets, queries, labels, spans = (self.incoming[name] for name in ("query_sets", "queries", "labels", "spans"))
        # Rows that no check of queries and labels would have passed.
        is_weight = queries.c.weight.between(0, sys.float_info.max)  # which NaN and infinity are not
        is_place = and_(spans.c.start_at >= 0, spans.c.end_at >= spans.c.start_at)
        await self._refuse_where(queries, or_(not_(is_weight), func.array_position(queries.c.tags, None).is_not(None)))
        await self._refuse_where(labels, labels.c.grade < 0)
        await self._refuse_where(spans, or_(spans.c.grade < 0, not_(is_place)))
        others: set[str] = set()
        for row in (await self.connection.execute(select(sets).order_by(sets.c.key))).all():
            others |= await self._merge_set(row)
        await self._merge_judgements(sorted(others))
        return self.merged

    # -- query sets ------------------------------------------------------------------------------------------------

    async def _merge_set(self, row: Any) -> set[str]:
        """Merge a query set; the ids of queries that are other questions here."""
        wrong = row.merged_from is not None and MergedFrom.read(row.merged_from) is None
        if wrong or not query_sets.are_flaws(row.flaws):  # JSON must have the form that is read later
            what = "what no merge of judgements leaves" if wrong else "flaws that no check finds"
            raise self.reader.archive.wrong(f"It says of the query set {row.name!r:.80} {what}. Nothing was restored.")
        table = file_format.table_of_sets()
        stored = select(table.c.key).where(table.c.collection == self.name, table.c.name == row.name)
        key = await self.connection.scalar(stored.with_for_update())
        before, others = None, list[str]()
        if key is not None:
            before = await read_state(self.connection, key)
            incoming, queries = self.incoming["queries"], _stored("queries")
            same = and_(incoming.c.set_key == row.key, queries.c.set_key == key, queries.c.id == incoming.c.id)
            texts = select(queries.c.id).join(incoming, same).where(queries.c.text != incoming.c.text)
            others = list(await self.connection.scalars(texts.order_by(queries.c.id)))
        else:
            new = insert(table).values(collection=self.name, name=row.name, digest=row.digest, flaws=row.flaws)
            key = (await self.connection.execute(new.returning(table.c.key))).scalar_one()
        missing: list[str] = []
        if self.find_missing is not None:
            tables = [self.incoming[name] for name in ("labels", "spans", "exclusions")]
            items = union(*(select(each.c.item_id).where(each.c.set_key == row.key) for each in tables))
            missing = await self.find_missing(list(await self.connection.scalars(items)))
        count = sum(self.merged.added.values())
        for part in LABELS[1:-1]:
            await self._add(part.table, row.key, key, others, missing)
        if before is None and self.find_missing is None:  # the whole set, whose checks hold here too
            values = {name: getattr(row, name) for name in SET_COLUMNS}
            await self.connection.execute(table.update().where(table.c.key == key).values(values))
        elif sum(self.merged.added.values()) > count or before is None:
            labelled = await query_sets.read_parts(self.connection, key)
            values = {"digest": labelled.digest(), "checked_version": None, "changed_at": func.now()}
            await self.connection.execute(table.update().where(table.c.key == key).values(values))
        if before is not None:
            labelled, state = before
            now, then = await read_state(self.connection, key)
            if then.digest != state.digest:  # recorded, so that it can be undone
                change = LabelChange.between(labelled, now)
                difference = LabelDifference.between(labelled, state, now, then)
                await revisions.record(self.connection, key, change, difference, Cause(reason=RESTORED))
        return set(others)

    async def _add(self, table: Table, old: int, key: int, others: list[str], missing: list[str]) -> None:
        """Add the rows of a table that are not here yet, and count those that are left out."""
        incoming = self.incoming[table.name]
        names = [name for name in file_format.columns(table) if not (table.name == "spans" and name == "key")]
        of_set = incoming.c.set_key == old
        query_id = incoming.c.id if table.name == "queries" else incoming.c.query_id
        is_other = query_id == func.any(_array(others))
        queries = _stored("queries")
        stored = exists().where(queries.c.set_key == key, queries.c.id == query_id)
        known: ColumnElement[bool] = literal(True) if table.name == "queries" else stored
        lacks = incoming.c.item_id == func.any(_array(missing)) if "item_id" in names else literal(False)
        if table.name != "queries":
            await self._leave(OTHER_QUESTION, incoming, and_(of_set, is_other))
            await self._leave(NO_QUESTION, incoming, and_(of_set, not_(is_other), not_(known)))
            await self._leave(NO_DOCUMENT, incoming, and_(of_set, not_(is_other), known, lacks))
        wanted = and_(of_set, not_(is_other), known, not_(lacks))
        # Stored already: by the table's key, or of spans, which have none, by all columns.
        same_columns = [column.name for column in table.primary_key if column.name != "set_key"]
        if table.name == "spans":
            same_columns = [name for name in names if name != "set_key"]
        same = and_(table.c.set_key == key, *(table.c[name] == incoming.c[name] for name in same_columns))
        if table.name == "labels":
            otherwise = exists().where(same, table.c.grade != incoming.c.grade)
            await self._leave(OTHER_GRADE, incoming, and_(wanted, otherwise))
        values = [literal(key) if name == "set_key" else incoming.c[name] for name in names]
        rows = select(*values).where(wanted, not_(exists().where(same)))
        add = insert(table).from_select(names, rows, include_defaults=False)
        self.merged.add(table.name, await count_written(self.connection, add))

    async def _leave(self, why: str, incoming: Table, condition: Any) -> None:
        count = await self.connection.scalar(select(func.count()).select_from(incoming).where(condition))
        self.merged.leave(why, int(count or 0))

    # -- judgements ------------------------------------------------------------------------------------------------

    async def _merge_judgements(self, others: list[str]) -> None:
        incoming, table = self.incoming["judgements"], _stored("judgements")
        # What `save_judgements` would have refused.
        is_signed = incoming.c.judge.startswith(MODEL_PREFIX, autoescape=True)
        forged = (is_signed != incoming.c.is_model) | not_(incoming.c.grade.between(0, DEFAULT_MAX_GRADE))
        await self._refuse_where(incoming, forged)
        is_other = incoming.c.query_id == func.any(_array(others))
        await self._leave(OTHER_QUESTION, incoming, is_other)
        names = file_format.columns(table)
        values = [literal(self.name) if name == "collection" else incoming.c[name] for name in names]
        add = upsert(table).from_select(names, select(*values).where(not_(is_other)), include_defaults=False)
        keys = [column.name for column in table.primary_key]
        changed = {name: add.excluded[name] for name in names if name not in keys}
        newer = add.on_conflict_do_update(
            index_elements=keys, set_=changed, where=add.excluded.judged_at > table.c.judged_at
        )
        wanted = await self.connection.scalar(select(func.count()).select_from(incoming).where(not_(is_other)))
        added = await count_written(self.connection, newer)
        self.merged.add("judgements", added)
        self.merged.leave(OLDER, int(wanted or 0) - added)

    async def _refuse_where(self, incoming: Table, wrong: ColumnElement[bool]) -> None:
        if await self.connection.scalar(select(func.count()).select_from(incoming).where(wrong)):
            what = incoming.name.removeprefix("incoming_")
            raise self.reader.archive.wrong(f"It holds {what} that nobody can have given. Nothing was restored.")


def _array(values: Sequence[str]) -> Any:
    return literal(list(values), ARRAY(Text(collation="C")))


def _stored(name: str) -> Table:
    return next(part.table for part in LABELS if part.name == name)


async def read_state(connection: AsyncConnection, key: int) -> tuple[LabelledQueries, LabelState]:
    """A set with its columns, as of this transaction."""
    row = await AsyncSession(connection).get_one(QuerySet, key)
    return await query_sets.read_parts(connection, key), LabelState.of(row)
