"""Word overlap: the share of the query's words that a hit's text holds. Asks nobody."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pydantic import Field

from core.rerank.base import Reranked, Reranker, rerankers
from core.resources import Resources
from core.types import Hit

WORD = re.compile(r"\w+")


@rerankers.register("overlap")
class OverlapReranker(Reranker):
    """Orders by the query's words found in the text, each word once; ties keep their order, and scores stay."""

    whole_words: bool = Field(True, description="Whether a word must stand by itself: `cat` is not found in `concat`.")

    async def rerank(self, resources: Resources, query: str, hits: Sequence[Hit]) -> Reranked:  # noqa: ARG002
        wanted = list(dict.fromkeys(WORD.findall(query.lower())))
        if hits and not wanted:
            return self.cut(hits, notes=["The query holds no word, so nothing was reordered."])
        scores = [self._share(wanted, hit.text.lower()) for hit in hits[: self.depth]]
        return self.reordered(hits, scores, becomes_score=False)

    def _share(self, wanted: Sequence[str], text: str) -> float:
        held = set(WORD.findall(text)) if self.whole_words else text
        return sum(word in held for word in wanted) / len(wanted)
