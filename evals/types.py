"""Values that labels, runs and metrics share: labels, spans, exclusions, query sets and their splits.

Field names are part of digests, and must not change.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

from pydantic import BaseModel, ConfigDict, ValidationError

from core.errors import UnknownName
from core.types import Query


@dataclass(frozen=True, slots=True)
class Label:
    """The grade of an item for a query. 0 is judged and not relevant."""

    query_id: str
    item_id: str
    grade: int
    split: str = "test"


@dataclass(frozen=True, slots=True)
class Span:
    """A passage that answers a query: `item.text[start:end] == text`, offsets in Unicode code points."""

    query_id: str
    item_id: str
    start: int
    end: int
    text: str
    split: str = "test"
    grade: int = 1


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An item that one query's ranking leaves out, such as the document that the query was written from."""

    query_id: str
    item_id: str


DEFAULT_QUERY_SET = "default"


@dataclass(frozen=True)
class LabelledQueries:
    """The content of a query set: queries, labels, spans and exclusions."""

    queries: tuple[Query, ...] = ()
    labels: tuple[Label, ...] = ()
    spans: tuple[Span, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()

    @classmethod
    def ordered(
        cls, queries: Iterable[Query], labels: Iterable[Label], spans: Iterable[Span], exclusions: Iterable[Exclusion]
    ) -> LabelledQueries:
        """The values in a fixed order, because the digest depends on it and tables have none."""
        return cls(
            tuple(sorted(queries, key=lambda query: query.id)),
            tuple(sorted(labels, key=lambda label: (label.split, label.query_id, label.item_id))),
            tuple(sorted(spans, key=lambda span: (span.split, span.query_id, span.item_id, span.start, span.end))),
            tuple(sorted(exclusions, key=lambda pair: (pair.query_id, pair.item_id))),
        )

    @property
    def splits(self) -> dict[str, int]:
        """Each split and the number of queries that have labels in it."""
        pairs = {(label.split, label.query_id) for label in self.labels}
        return dict(sorted(Counter(split for split, _ in pairs).items()))

    def digest(self) -> bytes:
        return self._digest

    @cached_property
    def _digest(self) -> bytes:
        content = json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, default=str)
        return hashlib.blake2b(content.encode(), digest_size=16).digest()


Grades = Mapping[str, Mapping[str, int]]
ALL = "all"  # all splits together; a pair with labels in several has the highest grade


@dataclass(frozen=True, slots=True)
class QuerySplit:
    """Queries in the order of their ids, each with its grades, answer spans and exclusions where it has any.

    `digest` is the whole query set's: a change in any split makes a new set.
    """

    name: str
    queries: Mapping[str, Query]
    grades: Grades = field(default_factory=dict)
    spans: Mapping[str, tuple[Span, ...]] = field(default_factory=dict)
    excluded: Mapping[str, frozenset[str]] = field(default_factory=dict)
    digest: bytes = b""

    @classmethod
    def of(cls, labelled: LabelledQueries, name: str = "test") -> QuerySplit:
        """The queries with a label or a span in that split; `all` of a set without labels is every query."""
        splits = {*labelled.splits, *(span.split for span in labelled.spans)}
        if name != ALL and name not in splits:
            raise UnknownName("split", name, [*sorted(splits), ALL])
        grades: dict[str, dict[str, int]] = defaultdict(dict)
        for label in labelled.labels:
            if name in (ALL, label.split):
                of_query = grades[label.query_id]
                of_query[label.item_id] = max(label.grade, of_query.get(label.item_id, 0))
        excluded: dict[str, frozenset[str]] = defaultdict(frozenset)
        for pair in labelled.exclusions:
            excluded[pair.query_id] |= {pair.item_id}
        for query, items in excluded.items():
            for item in items:  # an item that may not be returned is not missing either
                grades.get(query, {}).pop(item, None)
        spans: dict[str, tuple[Span, ...]] = defaultdict(tuple)
        for span in labelled.spans:
            if name in (ALL, span.split):
                is_excluded = span.item_id in excluded.get(span.query_id, ())
                spans[span.query_id] += () if is_excluded else (span,)
        known = {*grades, *spans}
        queries = {query.id: query for query in labelled.queries if query.id in known or (name == ALL and not splits)}
        return cls(name, dict(sorted(queries.items())), dict(grades), dict(spans), dict(excluded), labelled.digest())

    def only(self, ids: set[str] | frozenset[str]) -> QuerySplit:
        """The split with these queries alone."""
        return replace(self, queries={each: query for each, query in self.queries.items() if each in ids})

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The ids of the queries of each kind; those without one have the empty kind."""
        ids: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for query in self.queries.values():
            ids[query.kind] += (query.id,)
        return dict(sorted(ids.items()))

    @property
    def tags(self) -> dict[str, tuple[str, ...]]:
        """The ids of the queries with each tag."""
        ids: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for query in self.queries.values():
            for tag in query.tags:
                ids[tag] += (query.id,)
        return dict(sorted(ids.items()))


class _StoredRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class MergeRule(_StoredRecord):
    """The rule by which judgements become labels of a split: models' grades too or not, overruling labels or not."""

    models: bool
    overrule: bool

    def __str__(self) -> str:
        """In words, to follow the split's name; empty for the default rule."""
        words = ["models' grades too"] * self.models + ["overruling labels"] * self.overrule
        return f" ({', '.join(words)})" if words else ""


class MergedFrom(_StoredRecord):
    """The query set that a merged set was copied from, and the splits into which judgements were merged."""

    query_set: str
    splits: Mapping[str, MergeRule]

    @classmethod
    def read(cls, stored: object) -> MergedFrom | None:
        """The stored value; None if there is none, or if it is not valid."""
        try:
            return cls.model_validate(stored)
        except ValidationError:
            return None
