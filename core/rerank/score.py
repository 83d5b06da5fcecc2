"""The score filter: what is below a minimum goes. Asks nobody."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from core.rerank.base import Reranked, Reranker, rerankers
from core.resources import Resources
from core.trace import Dropped
from core.types import Hit


@rerankers.register("score")
class ScoreReranker(Reranker):
    """Drops hits below a minimum score and sorts the rest by score."""

    depth: int = Field(10_000, ge=1, le=10_000, description="How many hits it looks at; the others keep their order.")
    min_score: float = Field(
        0.0, allow_inf_nan=False, description="The least normalised score that stays; 1 is the most a fusion gives."
    )

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> Reranked:  # noqa: ARG002
        looked_at = hits[: self.depth]
        kept = sorted(
            (hit for hit in looked_at if hit.score >= self.min_score), key=lambda hit: (-hit.score, hit.rank, hit.id)
        )
        dropped = [
            Dropped(hit.id, f"score {hit.score:.4g} is below the minimum {self.min_score:g}")
            for hit in looked_at
            if not hit.score >= self.min_score  # so that a score that is no number goes too
        ]
        notes = self._unreachable(looked_at) if looked_at and not kept else ()
        return self.cut([*kept, *hits[self.depth :]], dropped=dropped, notes=notes)

    def _unreachable(self, hits: Sequence[Hit]) -> tuple[str]:
        """Why nothing is left. Legs alone may score above 1, so this is said of what is there, not of the option."""
        if self.min_score > 1:
            return (f"No normalised score can reach the minimum {self.min_score:g}: scores end at 1.",)
        best = max(hit.score for hit in hits)
        return (f"No hit reaches the minimum {self.min_score:g}: the best score is {best:.4g}.",)
