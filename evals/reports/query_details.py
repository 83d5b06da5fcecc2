"""What a report keeps of single queries: their texts, labels, and each run's first hits, numbered to stay small.

Owns which queries are kept where there are too many, and says so. It must not know a format.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import ItemText, read_items
from evals.evaluation.board import Board
from evals.presentation.text import line, lines
from evals.reports.model import Limits, Part, QueryDetails
from evals.runs.rankings import Ranking

Span = tuple[int, int]


def query_details(part: Part, names: Sequence[str], limits: Limits, where: str, cut: list[str]) -> QueryDetails:
    """Rows in the order of the ids; rankings and scores in the order of `names`."""
    board = part.board
    kept = kept_queries(board, limits)
    if len(kept) < len(board.split.queries):
        cut.append(
            f"{where}: of {len(board.split.queries):,} queries, the {len(kept):,} whose scores differ most between the "
            "variants can be looked at one by one. All count in the scores."
        )
    return _Numbering(part, names, limits, where, cut).details(kept)


def kept_queries(board: Board, limits: Limits) -> list[str]:
    """As many as are allowed, those with the widest range of the first metric before others."""
    most = max(1, limits.rankings // len(board.runs))
    if len(board.split.queries) <= most:
        return sorted(board.split.queries)
    metric = board.metrics[0]
    spread = dict(zip(board.queries(metric), np.ptp(board.values(metric), axis=0).tolist(), strict=True))
    return sorted(sorted(board.split.queries, key=lambda query: (-spread.get(query, -1.0), query))[:most])


def first_hits(ranked: Ranking | None, most: int) -> Iterator[tuple[str, Span | None]]:
    """The first items, each at its best passage: as metrics count them."""
    if ranked is None:
        return
    seen: set[str] = set()
    for at, item in enumerate(ranked.items or ranked.ids):
        if item not in seen:
            seen.add(item)
            yield item, ranked.spans[at] if at < len(ranked.spans) else None
        if len(seen) == most:
            return


async def documents(
    store: Store, view: CollectionView, board: Board, limits: Limits | None = None
) -> dict[str, ItemText]:
    """Titles and texts of the items that a report on this board shows; one that is gone by now is left out."""
    limits = limits or Limits()
    wanted: set[str] = set()
    for query in kept_queries(board, limits):
        wanted.update(_relevant(board, query)[: limits.labels])
        for run in board.runs:
            wanted.update(item for item, _ in first_hits(run.rankings.get(query), limits.hits))
    return await read_items(store, view, wanted)


def _relevant(board: Board, query: str) -> list[str]:
    grades = board.split.grades.get(query, {})
    return sorted((item for item, grade in grades.items() if grade > 0), key=lambda item: (-grades[item], item))


class _Numbering:
    """The numbers given to items and passages so far."""

    def __init__(self, part: Part, names: Sequence[str], limits: Limits, where: str, cut: list[str]) -> None:
        self.part, self.board, self.limits, self.where, self.cut = part, part.board, limits, where, cut
        self.runs = [part.board.run(name) for name in names]
        self.items: dict[str, int] = {}
        self.passages: dict[tuple[str, Span | None], int] = {}
        self.scores = {metric: [part.board.of(name, metric) for name in names] for metric in part.board.metrics}
        self.warned: dict[str, list[int]] = {}
        for number, warned in enumerate(part.board.warnings):
            for query in warned.queries:
                self.warned.setdefault(query, []).append(number)

    def details(self, kept: Sequence[str]) -> QueryDetails:
        rows = tuple(self._row(query) for query in kept)
        excerpts = self._excerpts(rows)
        passages = tuple((self.items[item], excerpts.get(number, "")) for (item, _), number in self.passages.items())
        texts, most = self.part.documents, self.limits.name
        items = tuple((line(item, most), line(texts[item].title, most) if item in texts else "") for item in self.items)
        return QueryDetails(rows, items, passages)

    def _row(self, query: str) -> Mapping[str, Any]:
        labelled, most = self.board.split.queries[query], self.limits.name
        grades = self.board.split.grades.get(query, {})
        hits = []
        for run in self.runs:
            firsts = list(first_hits(run.rankings.get(query), self.limits.hits))
            for item, _ in firsts:
                self.items.setdefault(item, len(self.items))
            hits.append([self.passages.setdefault(each, len(self.passages)) for each in firsts])
        scores = []
        for of_runs in self.scores.values():  # nothing of a metric that cannot be computed for the query
            values = [each[query] for each in of_runs if query in each]
            scores.append([round(value, 4) for value in values] if len(values) == len(of_runs) else [])
        relevant = _relevant(self.board, query)
        listed = [self.items.setdefault(item, len(self.items)) for item in relevant[: self.limits.labels]]
        row = {
            "id": line(query, most),
            "text": lines(labelled.text, self.limits.query),
            "kind": line(labelled.kind, most),
            "tags": [line(tag, most) for tag in labelled.tags],
            "weight": labelled.weight,
            "scores": scores,
            "hits": hits,
            "relevant": listed,
            "unlisted": len(relevant) - len(listed),
            # of the items that have a number by now; others are not shown for this query
            "grades": {str(self.items[item]): grade for item, grade in sorted(grades.items()) if item in self.items},
            "failed": {
                str(at): line(run.failures[query], most) for at, run in enumerate(self.runs) if query in run.failures
            },
            "warned": self.warned.get(query, []),
        }
        return {name: value for name, value in row.items() if value or name in ("id", "text", "scores", "hits")}

    def _excerpts(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        """Passages' first words, while there is room: those of the first ranks before others."""
        deepest = max((len(hits) for row in rows for hits in row["hits"]), default=0)
        by_rank = (hits[rank] for rank in range(deepest) for row in rows for hits in row["hits"] if rank < len(hits))
        quoted: dict[int, str] = {}
        passages, left, most = list(self.passages), self.limits.texts, self.limits.excerpt
        for number in dict.fromkeys(by_rank):
            item, span = passages[number]
            text = self.part.documents[item].text if item in self.part.documents else ""
            start, end = span or (0, len(text))
            excerpt = line(" ".join(text[start : min(end, start + 4 * most)].split()), most)
            left -= len(excerpt.encode())
            if left < 0:
                self.cut.append(
                    f"{self.where}: only the first {len(quoted):,} of {len(passages):,} passages are quoted."
                )
                break
            quoted[number] = excerpt
        return quoted
