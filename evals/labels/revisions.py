"""Stored changes of query sets: author, time, reason, counts before and after, and the rows that differ.

Owns their form and their table. `query_sets.keep` records each change of a stored set; `corrections` undoes and redoes
them.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from getpass import getuser
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from sqlalchemy import Table, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from core.errors import InputError
from core.store import names, sanitize
from core.store.engine import Store
from core.types import Flaw, Query
from evals.schema import LabelRevision, QuerySet
from evals.types import Exclusion, Label, Span

if TYPE_CHECKING:
    from evals.types import LabelledQueries

KEPT: Final = 20  # changes of a query set; older ones cannot be undone
LONGEST_AUTHOR: Final = 200  # bytes
LONGEST_REASON: Final = 500  # characters
UNKNOWN: Final = "unknown"
Kind = Literal["load", "edit"]
TABLE: Final = cast("Table", LabelRevision.__table__)
PARTS: Final[dict[str, Any]] = {"queries": Query, "labels": Label, "spans": Span, "exclusions": Exclusion}


@dataclass(frozen=True, slots=True)
class Cause:
    """Who changes a query set (by default the account on this machine), why, and whether by loading its source."""

    author: str = ""
    reason: str = ""
    kind: Kind = "edit"


NO_CAUSE: Final = Cause()


@dataclass(frozen=True, slots=True)
class Counts:
    """The size of a query set, labels and spans by split."""

    queries: int = 0
    labels: Mapping[str, int] = field(default_factory=dict)
    spans: Mapping[str, int] = field(default_factory=dict)
    exclusions: int = 0

    @classmethod
    def of(cls, labelled: LabelledQueries) -> Counts:
        return cls(
            len(labelled.queries),
            dict(sorted(Counter(label.split for label in labelled.labels).items())),
            dict(sorted(Counter(span.split for span in labelled.spans).items())),
            len(labelled.exclusions),
        )


@dataclass(frozen=True, slots=True)
class LabelChange:
    """A change in numbers."""

    before: Counts
    after: Counts

    @classmethod
    def between(cls, before: LabelledQueries, after: LabelledQueries) -> LabelChange:
        return cls(Counts.of(before), Counts.of(after))

    @property
    def sentence(self) -> str:
        """`47 labels -> 0`, by split where there are several; and whatever else changes in number."""
        before, after = self.before, self.after
        parts = [_by_split("label", before.labels, after.labels)]
        if before.queries != after.queries:
            parts.append(f"{_many(before.queries, 'query', 'queries')} -> {after.queries:,}")
        if before.spans != after.spans:
            parts.append(_by_split("answer span", before.spans, after.spans))
        if before.exclusions != after.exclusions:
            parts.append(f"{_many(before.exclusions, 'exclusion')} -> {after.exclusions:,}")
        return ", ".join(parts)

    @property
    def loses(self) -> bool:
        """Whether there is less of anything afterwards, in any split."""
        before, after = self.before, self.after
        return (
            after.queries < before.queries
            or after.exclusions < before.exclusions
            or any(after.labels.get(split, 0) < count for split, count in before.labels.items())
            or any(after.spans.get(split, 0) < count for split, count in before.spans.items())
        )


class FewerLabels(InputError):
    """A query set would hold less than it does. `flaws` are those of the rows that were read."""

    def __init__(self, name: str, change: LabelChange, flaws: Sequence[Flaw]) -> None:
        self.change, self.flaws = change, tuple(flaws)
        lost = [flaw for flaw in flaws if flaw.outcome == "quarantined"]
        none = not change.after.labels and not change.after.spans
        problem = f"No label of it can be used for {name!r}" if none else f"The query set {name!r} would hold less"
        why = f" Unusable rows: {len(lost):,}; the first, {lost[0].place}: {lost[0].message}" if lost else ""
        super().__init__(
            f"{problem}: {change.sentence}. Nothing was changed.{why} If it is meant so, insist: `--even-so` in a "
            "command, `even_so=True` in Python, a tick on the page."
        )


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or f'{one}s'}"


def _by_split(what: str, before: Mapping[str, int], after: Mapping[str, int]) -> str:
    total = f"{_many(sum(before.values()), what)} -> {sum(after.values()):,}"
    splits = sorted({*before, *after})
    if len(splits) < 2 or before == after:
        return total
    each = (f"{split} {before.get(split, 0):,} -> {after.get(split, 0):,}" for split in splits)
    return f"{total} ({', '.join(each)})"


@dataclass(frozen=True, slots=True)
class LabelState:
    """The columns of a query set that change with its rows."""

    digest: bytes
    flaws: Sequence[Mapping[str, Any]]
    merged_digest: bytes | None
    merged_from: Mapping[str, Any] | None

    @classmethod
    def of(cls, row: QuerySet) -> LabelState:
        return cls(bytes(row.digest), list(row.flaws), row.merged_digest, row.merged_from)

    def plain(self) -> dict[str, Any]:
        merged = None if self.merged_digest is None else bytes(self.merged_digest).hex()
        return {**asdict(self), "digest": self.digest.hex(), "merged_digest": merged}

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> LabelState:
        merged = plain["merged_digest"]
        return cls(
            bytes.fromhex(plain["digest"]),
            plain["flaws"],
            None if merged is None else bytes.fromhex(merged),
            plain["merged_from"],
        )


@dataclass(frozen=True, slots=True)
class Side:
    """The state before or after a change: the rows that only it has, and the columns of its set."""

    rows: Mapping[str, Sequence[Any]]
    state: LabelState


@dataclass(frozen=True, slots=True)
class LabelDifference:
    """A change, row by row."""

    before: Side
    after: Side

    @classmethod
    def between(
        cls, before: LabelledQueries, was: LabelState, after: LabelledQueries, now: LabelState
    ) -> LabelDifference:
        return cls(Side(rows_only_in(before, after), was), Side(rows_only_in(after, before), now))

    def encode(self) -> bytes:
        plain = {
            name: {
                "rows": {part: [asdict(row) for row in rows] for part, rows in side.rows.items()},
                "state": side.state.plain(),
            }
            for name, side in (("before", self.before), ("after", self.after))
        }
        return zlib.compress(json.dumps(plain).encode())

    @classmethod
    def decode(cls, content: bytes) -> LabelDifference:
        plain = json.loads(zlib.decompress(content))
        for side in plain.values():
            for query in side["rows"]["queries"]:
                query["tags"] = tuple(query["tags"])
        return cls(
            *(
                Side(
                    {part: [PARTS[part](**row) for row in rows] for part, rows in plain[name]["rows"].items()},
                    LabelState.read(plain[name]["state"]),
                )
                for name in ("before", "after")
            )
        )

    def undo(self, labelled: LabelledQueries) -> LabelledQueries:
        """The query set before the change, made from the one after it."""
        return _replaced(labelled, self.after.rows, self.before.rows)

    def redo(self, labelled: LabelledQueries) -> LabelledQueries:
        """The query set after the change, made from the one before it."""
        return _replaced(labelled, self.before.rows, self.after.rows)


def rows_only_in(one: LabelledQueries, other: LabelledQueries) -> dict[str, list[Any]]:
    """By part, the rows that `other` does not have in the same form."""
    known = {query.id: query for query in other.queries}
    rows = {"queries": [query for query in one.queries if known.get(query.id) != query]}
    for part in ("labels", "spans", "exclusions"):
        others = set(getattr(other, part))
        rows[part] = [row for row in getattr(one, part) if row not in others]
    return rows


def _replaced(
    labelled: LabelledQueries, out: Mapping[str, Sequence[Any]], back: Mapping[str, Sequence[Any]]
) -> LabelledQueries:
    gone = {query.id for query in out["queries"]}
    kept: dict[str, Iterable[Any]] = {"queries": [each for each in labelled.queries if each.id not in gone]}
    for part in ("labels", "spans", "exclusions"):
        leaving = set(out[part])
        kept[part] = [row for row in getattr(labelled, part) if row not in leaving]
    return labelled.ordered(**{part: [*rows, *back[part]] for part, rows in kept.items()})


# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Revision:
    """A stored change. `undone_by` and `undone_at` are empty while it holds; a `lapsed` one cannot be redone."""

    key: int
    author: str
    kind: Kind
    reason: str
    change: LabelChange
    made_at: datetime
    undone_by: str | None = None
    undone_at: datetime | None = None
    lapsed: bool = False

    @property
    def state(self) -> str:
        if self.undone_at is None:
            return "holds"
        return f"undone by {self.undone_by}, {self.undone_at:%Y-%m-%d %H:%M}"


def signature(author: str = "") -> str:
    """The name that signs a change: the given one, or that of the account on this machine."""
    if author:
        return names.checked(author, what="The author's name", room=LONGEST_AUTHOR)
    try:
        return sanitize.cleaned(getuser())[:LONGEST_AUTHOR] or UNKNOWN
    except (KeyError, OSError):  # a container's user may have no name
        return UNKNOWN


async def record(
    connection: AsyncConnection, key: int, change: LabelChange, difference: LabelDifference, cause: Cause
) -> None:
    """Store a change of the set with that key, and delete all but the last `KEPT`.

    Changes undone before it lapse: they do not fit the set any more.
    """
    values = {
        "set_key": key,
        "author": signature(cause.author),
        "kind": cause.kind,
        "reason": sanitize.cleaned(cause.reason)[:LONGEST_REASON],
        "counts": asdict(change),
        "content": difference.encode(),
    }
    undone = update(TABLE).where(TABLE.c.set_key == key, TABLE.c.undone_at.is_not(None))
    await connection.execute(undone.values(lapsed=True))
    await connection.execute(insert(TABLE).values(values))
    latest = select(TABLE.c.key).where(TABLE.c.set_key == key).order_by(TABLE.c.key.desc()).limit(KEPT)
    await connection.execute(delete(TABLE).where(TABLE.c.set_key == key, TABLE.c.key.not_in(latest)))


async def list_revisions(store: Store, collection: str, *, name: str) -> list[Revision]:
    """The stored changes of a query set, the latest first."""
    key = select(QuerySet.key).where(QuerySet.collection == collection, QuerySet.name == name)
    async with store.begin(read_only=True) as connection:
        set_key = await connection.scalar(key)
        return [] if set_key is None else await revisions_of(connection, set_key)


async def revisions_of(connection: AsyncConnection, key: int) -> list[Revision]:
    """The stored changes of the set with that key, the latest first."""
    columns = [column for column in TABLE.c if column.name != "content"]
    wanted = select(*columns).where(TABLE.c.set_key == key).order_by(TABLE.c.key.desc())
    return [
        Revision(
            row.key,
            row.author,
            row.kind,
            row.reason,
            LabelChange(Counts(**row.counts["before"]), Counts(**row.counts["after"])),
            row.made_at,
            row.undone_by,
            row.undone_at,
            row.lapsed,
        )
        for row in await connection.execute(wanted)
    ]


async def last_edit(store: Store, collection: str, *, name: str) -> Revision | None:
    """The latest change that is not undone, if it is an edit; None if it is a load of the source."""
    holding = [each for each in await list_revisions(store, collection, name=name) if each.undone_at is None]
    return holding[0] if holding and holding[0].kind == "edit" else None
