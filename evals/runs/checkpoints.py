"""Rankings that are kept while they are made, some queries at a time: of a leg, or of a variant that is not done yet.

They are found by digest, depth and query, and belong to one state of one collection: those of an older state are of no
use any more, and are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from core.errors import StoreError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import Collection
from evals.runs.types import QueryResults
from evals.schema import RankingBatch


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one collection in one state."""

    store: Store
    view: CollectionView
    state: str

    async def load(self, digest: str, depth: int, *, deeper: bool = False) -> QueryResults:
        """The rankings at that depth; with `deeper` those of a deeper run too, to be cut by the caller."""
        wanted = RankingBatch.depth >= depth if deeper else RankingBatch.depth == depth
        query = (
            select(RankingBatch.rankings)
            .where(RankingBatch.digest == digest, RankingBatch.state == self.state, wanted)
            .order_by(RankingBatch.depth.desc(), RankingBatch.key.desc())
        )
        async with self.store.begin(read_only=True) as connection:
            contents = list(await connection.scalars(query))
        kept = QueryResults()
        for content in contents:  # the least deep of them, and the first made, have the last word
            kept.add(QueryResults.from_bytes(content))
        return kept

    async def save(self, digest: str, depth: int, results: QueryResults) -> None:
        """The queries that are whole: one that failed, or lacked a leg, is run again after a stop.

        Refused where the collection has moved on: these rankings may be partly of another state.
        """
        partial = results.failures.keys() | {query for of in results.unavailable.values() for query in of}
        rankings = {query: ranking for query, ranking in results.rankings.items() if query not in partial}
        if not rankings or not self.store.keeps:
            return
        remarks = {
            remark: left
            for remark, queries in results.remarks.items()
            if (left := [query for query in queries if query not in partial])
        }
        whole = QueryResults(rankings, {}, results.milliseconds, results.stages, remarks=remarks)
        async with self.store.begin() as connection:
            found = select(Collection.version, Collection.created_at).where(Collection.name == self.view.name)
            row = (await connection.execute(found)).one_or_none()
            if row is None or tuple(row) != (self.view.row.version, self.view.row.created_at):
                raise moved_on(self.view.name)
            await connection.execute(
                insert(RankingBatch).values(
                    digest=digest,
                    depth=depth,
                    collection=self.view.name,
                    state=self.state,
                    queries=len(rankings),
                    rankings=whole.to_bytes(),
                )
            )

    async def forget(self, digests: Iterable[str]) -> None:
        if not self.store.keeps:
            return
        async with self.store.begin() as connection:
            await connection.execute(delete(RankingBatch).where(RankingBatch.digest.in_(list(digests))))

    async def forget_older(self) -> None:
        """Drop what was found in an older state of this collection, or by other code."""
        if not self.store.keeps:
            return
        older = (RankingBatch.collection == self.view.name, RankingBatch.state != self.state)
        async with self.store.begin() as connection:
            await connection.execute(delete(RankingBatch).where(*older))


def moved_on(collection: str) -> StoreError:
    """The collection is not what it was when the evaluation began."""
    return StoreError(
        f"The collection {collection!r} was changed while it was being evaluated. Run it again when the loading is "
        "done; runs that were complete are kept."
    )
