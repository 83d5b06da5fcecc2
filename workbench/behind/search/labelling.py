"""What a collection's labels say about a query on screen, and which of its queries make good examples. No Streamlit."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from core.types import Query
from evals.types import LabelledQueries

EXAMPLES = 6
LONGEST_EXAMPLE = 90


@dataclass(frozen=True, slots=True)
class QueryLabels:
    """A query that somebody labelled. Without grades it is any other query."""

    kind: str = ""
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def relevant(self) -> frozenset[str]:
        return frozenset(item_id for item_id, grade in self.grades.items() if grade > 0)


def judged(labelled: LabelledQueries, text: str) -> QueryLabels:
    """The grades of the query with that very text, over all splits."""
    same = {query.id: query for query in labelled.queries if query.text.strip() == text}
    grades: dict[str, int] = {}
    for label in labelled.labels:
        if label.query_id in same:
            grades[label.item_id] = max(label.grade, grades.get(label.item_id, label.grade))
    return QueryLabels(next((query.kind for query in same.values()), ""), grades)


def examples(labelled: LabelledQueries, most: int = EXAMPLES) -> list[Query]:
    """A few labelled queries, of as many kinds as there are: of each kind, the one with most judged documents."""
    judgements = Counter(label.query_id for label in labelled.labels if label.grade > 0)
    kinds: dict[str, list[Query]] = defaultdict(list)
    for query in labelled.queries:
        if judgements[query.id] and query.text.strip():
            kinds[query.kind].append(query)
    for queries in kinds.values():
        queries.sort(key=lambda query: (len(query.text) > LONGEST_EXAMPLE, -judgements[query.id], query.id))
    return _in_turn(list(kinds.values()), most)


def _in_turn(kinds: Sequence[Sequence[Query]], most: int) -> list[Query]:
    """The first of each kind, then the second of each, and so on."""
    deepest = max(map(len, kinds), default=0)
    turns = (queries[at] for at in range(min(deepest, most)) for queries in kinds if at < len(queries))
    return [query for query, _ in zip(turns, range(most), strict=False)]
