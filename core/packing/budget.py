"""What is left out so that the context fits. Order of going: neighbours across pages, siblings, parents, hits.

Of each kind the last goes first. The first `min_primary_hits_to_keep` hits never go, fit or not. What is counted is the
text that would be emitted, marks, citations and blank lines included: tokens of parts do not add up to those of one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from core.packing.assembling import Draft
from core.packing.context import Role
from core.packing.rendering import TokenCounter, rendered
from core.packing.spec import Packing

ORDER_OF_GOING: Final[tuple[Role, ...]] = ("neighbour", "sibling", "parent", "primary")


@dataclass(frozen=True, slots=True)
class Fitted:
    """What stays and what goes, the first to go first; the text of what stays, and its tokens."""

    kept: tuple[Draft, ...]
    gone: tuple[Draft, ...]
    context: str
    tokens: int


def fitted(drafts: Sequence[Draft], packing: Packing, mark: str, count_tokens: TokenCounter) -> Fitted:
    """As few go as must. Found by halving, since leaving out more never takes more: few texts need to be counted."""
    going = list(_going(drafts, packing.min_primary_hits_to_keep))

    def left_by(number: int) -> tuple[Draft, ...]:
        gone = {draft.id for draft in going[:number]}
        return tuple(draft for draft in drafts if draft.id not in gone)

    def fits(number: int) -> bool:
        return count_tokens(rendered(left_by(number), mark)) <= packing.final_max_tokens

    number = bisect_left(range(len(going)), True, key=fits)
    context = rendered(left_by(number), mark)
    return Fitted(left_by(number), tuple(going[:number]), context, count_tokens(context))


def _going(drafts: Sequence[Draft], safe: int) -> Iterable[Draft]:
    primaries = [draft for draft in drafts if draft.role == "primary"]
    staying = {draft.id for draft in primaries[:safe]}
    for role in ORDER_OF_GOING:
        yield from (draft for draft in reversed(drafts) if draft.role == role and draft.id not in staying)
