"""One split of a query set, as the harness uses it: what is asked, what is right, what may not be returned.

Owns the choice of the split and the weights; it must not know how anything is retrieved or scored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from core.errors import UnknownName
from core.types import Query
from evals.labels import Span
from evals.query_sets import Labelled

Grades = Mapping[str, Mapping[str, int]]
ALL = "all"  # every split at once; a pair that several of them judge has its highest grade


@dataclass(frozen=True, slots=True)
class Split:
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
    def of(cls, labelled: Labelled, name: str = "test") -> Split:
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

    def only(self, ids: set[str] | frozenset[str]) -> Split:
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
