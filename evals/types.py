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
    """A judgement: how well an item answers a query. 0 is judged and not relevant."""

    query_id: str
    item_id: str
    grade: int
    split: str = "test"


@dataclass(frozen=True, slots=True)
class Span:
    """A passage that answers: `item.text[start:end] == text`, offsets in Unicode code points."""

    query_id: str
    item_id: str
    start: int
    end: int
    text: str
    split: str = "test"
    grade: int = 1


@dataclass(frozen=True, slots=True)
class Exclusion:
    """An item that is taken out of one query's ranking, such as the document that the query was written from."""

    query_id: str
    item_id: str


DEFAULT_QUERY_SET = "default"


def _label_order(label: Label) -> tuple[str, str, str]:
    return label.split, label.query_id, label.item_id


def _span_order(span: Span) -> tuple[str, str, str, int, int]:
    return span.split, span.query_id, span.item_id, span.start, span.end


@dataclass(frozen=True)
class LabelledQueries:
    """A collection's queries with what is known about them."""

    queries: tuple[Query, ...] = ()
    labels: tuple[Label, ...] = ()
    spans: tuple[Span, ...] = ()
    exclusions: tuple[Exclusion, ...] = ()

    @classmethod
    def ordered(
        cls, queries: Iterable[Query], labels: Iterable[Label], spans: Iterable[Span], exclusions: Iterable[Exclusion]
    ) -> LabelledQueries:
        """The values in a fixed order, which the digest hangs on: a table gives rows in any."""
        return cls(
            tuple(sorted(queries, key=lambda query: query.id)),
            tuple(sorted(labels, key=_label_order)),
            tuple(sorted(spans, key=_span_order)),
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
ALL = "all"  # every split at once; a pair that several of them judge has its highest grade


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
        """The queries that have a label or a span in that split; of a set without labels, `all` is every query."""
        splits = {*labelled.splits, *(span.split for span in labelled.spans)}
        if name != ALL and name not in splits:
            raise UnknownName("split", name, [*sorted(splits), ALL])
        grades: dict[str, dict[str, int]] = defaultdict(dict)
        for label in labelled.labels:
            if name in (ALL, label.split):
                given = grades[label.query_id]
                given[label.item_id] = max(label.grade, given.get(label.item_id, 0))
        excluded: dict[str, frozenset[str]] = defaultdict(frozenset)
        for pair in labelled.exclusions:
            excluded[pair.query_id] |= {pair.item_id}
        for query, items in excluded.items():
            for item in items:  # what may not be returned is not missed either
                grades.get(query, {}).pop(item, None)
        spans: dict[str, tuple[Span, ...]] = defaultdict(tuple)
        for span in labelled.spans:
            if name in (ALL, span.split):
                shut = span.item_id in excluded.get(span.query_id, ())
                spans[span.query_id] += () if shut else (span,)
        known = {*grades, *spans}
        asked = {query.id: query for query in labelled.queries if query.id in known or (name == ALL and not splits)}
        return cls(name, dict(sorted(asked.items())), dict(grades), dict(spans), dict(excluded), labelled.digest())

    def only(self, ids: set[str] | frozenset[str]) -> QuerySplit:
        """The same with these queries alone."""
        return replace(self, queries={each: query for each, query in self.queries.items() if each in ids})

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The ids of the queries of each kind, queries without one under the empty name."""
        found: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for query in self.queries.values():
            found[query.kind] += (query.id,)
        return dict(sorted(found.items()))

    @property
    def tags(self) -> dict[str, tuple[str, ...]]:
        """The ids of the queries that bear each tag."""
        found: dict[str, tuple[str, ...]] = defaultdict(tuple)
        for query in self.queries.values():
            for tag in query.tags:
                found[tag] += (query.id,)
        return dict(sorted(found.items()))


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Way(_Kept):
    """How judgements become labels of a split: with models' grades or without, and whether they overrule labels."""

    models: bool
    overrule: bool

    def __str__(self) -> str:
        """As it is told behind the split's name; empty where there is nothing to tell."""
        said = ["models' grades too"] * self.models + ["overruling labels"] * self.overrule
        return f" ({', '.join(said)})" if said else ""


class MergedFrom(_Kept):
    """The other query set whose copy it is, and into which of its splits judgements came, each in its way."""

    query_set: str
    splits: Mapping[str, Way]

    @classmethod
    def read(cls, kept: object) -> MergedFrom | None:
        """What was kept; None where that is nothing, or nothing that a merge leaves."""
        try:
            return cls.model_validate(kept)
        except ValidationError:
            return None
