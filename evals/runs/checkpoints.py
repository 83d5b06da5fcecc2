"""Rankings that are kept while they are made, some queries at a time: of a leg, or of a variant that is not done yet.

Found by digest, depth and query. They are derived and belong to one state of one collection: those of an older state
can never be asked for again, and are dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, insert, select

from core.errors import StoreError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.schema import Collection
from evals.runs.rankings import Rankings, decode_rankings, encode_rankings
from evals.runs.types import QueryResults
from evals.schema import RankingBatch


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one collection in one state."""

    store: Store
    view: CollectionView
    state: str

    async def load(self, digest: str, depth: int, *, deeper: bool = False) -> QueryResults:
        """The rankings at that depth; with `deeper` those of a deeper run too, to be cut by whoever wants less."""
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
            batch = decode_rankings(content)
            kept.add(QueryResults(batch.rankings, **batch.more))
        return kept

    async def save(
        self,
        digest: str,
        depth: int,
        rankings: Rankings,
        milliseconds: Mapping[str, float],
        stages: Mapping[str, Mapping[str, float]] | None = None,
        remarks: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Refused where the collection has moved on: these rankings may be partly of another state."""
        if not rankings or not self.store.keeps:
            return
        content = encode_rankings(rankings, milliseconds=dict(milliseconds), stages=stages or {}, remarks=remarks or {})
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
                    rankings=content,
                )
            )

    async def forget(self, digests: Iterable[str]) -> None:
        if not self.store.keeps:
            return
        async with self.store.begin() as connection:
            await connection.execute(delete(RankingBatch).where(RankingBatch.digest.in_(list(digests))))

    async def forget_older(self) -> None:
        """What was found in this collection when it was another, or by another version of the code."""
        if not self.store.keeps:
            return
        of = (RankingBatch.collection == self.view.name, RankingBatch.state != self.state)
        async with self.store.begin() as connection:
            await connection.execute(delete(RankingBatch).where(*of))


def moved_on(collection: str) -> StoreError:
    """The collection is not what it was when the evaluation began."""
    return StoreError(
        f"The collection {collection!r} was changed while it was being evaluated. Run it again when the loading is "
        "done; runs that were complete are kept."
    )
