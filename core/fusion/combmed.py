"""CombMED."""

from __future__ import annotations

from collections.abc import Sequence

from core.fusion.base import fusions
from core.fusion.combanz import Averaged


@fusions.register("combmed")
class CombMedFusion(Averaged):
    """The median of the normalised scores that the legs gave to a document; not weighted.

    Fox and Shaw, "Combination of multiple searches", TREC-2, 1994. The leg in the middle contributes all of it, or the
    two in the middle half of theirs each.
    """

    def spread(self, parts: Sequence[float | None]) -> Sequence[float | None]:
        given = sorted((part, leg) for leg, part in enumerate(parts) if part is not None)
        middle = {leg for _, leg in given[(len(given) - 1) // 2 : len(given) // 2 + 1]}
        return [
            None if part is None else part / len(middle) if leg in middle else 0.0 for leg, part in enumerate(parts)
        ]
