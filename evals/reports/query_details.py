"""What a report keeps of single queries: their texts, labels, and each run's first hits, numbered to stay small.

Owns which queries are kept where there are too many, and says so. It must not know a format.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from evals.evaluation.board import Board
from evals.reports.model import Document, Limits, Part, Queries, line, lines
from evals.runs.rankings import Ranking

Span = tuple[int, int]


def looked_at(part: Part, names: Sequence[str], limits: Limits, where: str, cut: list[str]) -> Queries:
    """Rows in the order of the ids; rankings and scores in the order of `names`."""
    board = part.board
    kept = kept_queries(board, limits)
    if len(kept) < len(board.split.queries):
        cut.append(
            f"{where}: of {len(board.split.queries):,} queries, the {len(kept):,} whose scores differ most between the "
            "variants can be looked at one by one. All count in the scores."
        )
    return _Keeping(part, names, limits, where, cut).of(kept)


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
) -> dict[str, Document]:
    """Titles and texts of the items that a report on this board shows; one that is gone by now is left out."""
    limits = limits or Limits()
    wanted = {
        item
        for query in kept_queries(board, limits)
        for run in board.runs
        for item, _ in first_hits(run.rankings.get(query), limits.hits)
    }
    wanted |= {item for query in kept_queries(board, limits) for item in _relevant(board, query)[: limits.labels]}
    items = await read_items(store, view, wanted)
    return {each.id: Document(each.title, each.text) for each in items.values()}


def _relevant(board: Board, query: str) -> list[str]:
    given = board.split.grades.get(query, {})
    return sorted((item for item, grade in given.items() if grade > 0), key=lambda item: (-given[item], item))


class _Keeping:
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

    def of(self, kept: Sequence[str]) -> Queries:
        rows = tuple(self._row(query) for query in kept)
        excerpts = self._excerpts(rows)
        passages = tuple((self.items[item], excerpts.get(number, "")) for (item, _), number in self.passages.items())
        return Queries(rows, tuple(self._item(item) for item in self.items), passages)

    def _item(self, item: str) -> tuple[str, str]:
        known = self.part.documents.get(item)
        return line(item, self.limits.name), line(known.title, self.limits.name) if known else ""

    def _row(self, query: str) -> Mapping[str, Any]:
        asked = self.board.split.queries[query]
        given = self.board.split.grades.get(query, {})
        hits = [
            [self._passage(*hit) for hit in first_hits(run.rankings.get(query), self.limits.hits)] for run in self.runs
        ]
        relevant = _relevant(self.board, query)
        listed = [self._number(item) for item in relevant[: self.limits.labels]]
        row = {
            "id": line(query, self.limits.name),
            "text": lines(asked.text, self.limits.query),
            "kind": line(asked.kind, self.limits.name),
            "tags": [line(tag, self.limits.name) for tag in asked.tags],
            "weight": asked.weight,
            "scores": [self._scores(metric, query) for metric in self.board.metrics],
            "hits": hits,
            "relevant": listed,
            "unlisted": len(relevant) - len(listed),
            "grades": self._grades(given),
            "failed": {
                str(at): line(run.failures[query], self.limits.name)
                for at, run in enumerate(self.runs)
                if query in run.failures
            },
            "warned": self.warned.get(query, []),
        }
        return {name: value for name, value in row.items() if value or name in ("id", "text", "scores", "hits")}

    def _grades(self, given: Mapping[str, int]) -> dict[str, int]:
        """Of the items that have a number by now; others are not shown for this query."""
        return {str(self.items[item]): grade for item, grade in sorted(given.items()) if item in self.items}

    def _scores(self, metric: str, query: str) -> list[float | None]:
        """Of each run, or nothing where the metric cannot be told of the query."""
        scores = [each.get(query) for each in self.scores[metric]]
        return [] if None in scores else [None if score is None else round(score, 4) for score in scores]

    def _number(self, item: str) -> int:
        return self.items.setdefault(item, len(self.items))

    def _passage(self, item: str, span: Span | None) -> int:
        self._number(item)
        return self.passages.setdefault((item, span), len(self.passages))

    # -- excerpts ----------------------------------------------------------------------------------------------------

    def _excerpts(self, rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
        """Passages' first words, while there is room: those of the first ranks before others."""
        found: dict[int, str] = {}
        of = list(self.passages)
        left = self.limits.texts
        for number in _by_rank(rows):
            text = self._excerpt(*of[number])
            left -= len(text.encode())
            if left < 0:
                self.cut.append(f"{self.where}: only the first {len(found):,} of {len(of):,} passages are quoted.")
                break
            found[number] = text
        return found

    def _excerpt(self, item: str, span: Span | None) -> str:
        known = self.part.documents.get(item)
        if known is None:
            return ""
        start, end = span or (0, len(known.text))
        return line(
            " ".join(known.text[start : min(end, start + 4 * self.limits.excerpt)].split()), self.limits.excerpt
        )


def _by_rank(rows: Sequence[Mapping[str, Any]]) -> Iterable[int]:
    """Numbers of passages, each once: all firsts, then all seconds."""
    deepest = max((len(hits) for row in rows for hits in row["hits"]), default=0)
    seen = (hits[rank] for rank in range(deepest) for row in rows for hits in row["hits"] if rank < len(hits))
    return dict.fromkeys(seen)
