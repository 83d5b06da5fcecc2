"""What a leg adds to a document's score, in SQL: for each fusion that can be exported, to the last bit as in Python.

Sums and quotients of doubles are the same in both. What is not, powers and exponentials of another library, is refused.
"""

# ruff: noqa: S608 - put together from constants of this file and from numbers

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from core.errors import SpecError
from core.fusion import CombSumFusion, Fusion, LegRanking, LinearFusion, RrfFusion, fusions
from core.fusion.normalise import normalised
from core.sql_export.parameters import number

LIMB: Final = 2**53  # integers up to it are doubles
# min-max, `every` being the window of all rows of the leg; equal scores are all the best there is
MINMAX: Final = """CASE WHEN min(score) OVER every = max(score) OVER every THEN 1::float8
             ELSE (score - min(score) OVER every) / (max(score) OVER every - min(score) OVER every) END"""
# The shares' whole, added as whole numbers of 2^-106, without rounding, as math.fsum does.
SHARE: Final = f"""CASE WHEN min(score) OVER every = max(score) OVER every THEN 1::float8 / count(*) OVER every
             ELSE above / ((sum(trunc(above * {LIMB}::float8)::bigint::numeric) OVER every * {LIMB}
                            + sum(((above * {LIMB}::float8 - trunc(above * {LIMB}::float8)) * {LIMB}::float8)
                                  ::bigint::numeric) OVER every)::float8 / {LIMB**2}::float8) END"""


@dataclass(frozen=True, slots=True)
class Part:
    """What a leg adds: to a document that it returned (`own`, over `source`'s rank and score), and to another."""

    own: str
    absent: str
    source: str


def part(fusion: Fusion, ranking: LegRanking, at: int) -> Part:
    """The part of the leg at that place, ranked in `ranked_{at}`, scored in `scored_{at}`."""
    if type(fusion) not in PARTS or (isinstance(fusion, LinearFusion) and fusion.normalize not in NORMALISATIONS):
        able = ", ".join(sorted(fusions.name_of(each) for each in PARTS))
        how = f" with normalize = {fusion.normalize!r}" if isinstance(fusion, LinearFusion) else ""
        raise SpecError(
            f"The fusion {fusions.name_of(type(fusion))!r}{how} cannot be exported as SQL to the last bit. What can: "
            f"{able}; with normalize = {', '.join(NORMALISATIONS)}."
        )
    if fusion.weight_of(ranking) <= 0:
        return Part("0::float8", "0", f"ranked_{at}")
    return PARTS[type(fusion)](fusion, ranking, at)


def _rrf(fusion: Fusion, ranking: LegRanking, at: int) -> Part:
    assert isinstance(fusion, RrfFusion)  # noqa: S101 - PARTS says so
    weight = number(fusion.weight_of(ranking))
    share = f"{weight} / ({number(fusion.k)} + {{rank}})"
    after = 0 if fusion.origin == 1 else 1
    own = share.format(rank=f"(rank - {after})" if after else "rank")
    last = f"((SELECT count(*) FROM ranked_{at}) + {fusion.origin})"
    return Part(own, share.format(rank=last) if fusion.absent == "bottom_rank" else "0", f"ranked_{at}")


def _linear(fusion: Fusion, ranking: LegRanking, at: int) -> Part:
    assert isinstance(fusion, LinearFusion)  # noqa: S101 - PARTS says so
    weight = number(fusion.weight_of(ranking))
    normal = NORMALISATIONS[fusion.normalize](ranking)
    least = f"coalesce((SELECT min(part) FROM scored_{at}), 0)" if fusion.absent == "least" else "0"
    source = f"ranked_{at}"
    if fusion.normalize == "sum":
        above = f"SELECT id, score, rank,\n             {MINMAX} AS above"
        source = f"({above}\n      FROM {source} WINDOW every AS ()) AS shares"
    return Part(f"{weight} * ({normal})", least, source)


def _theoretical(ranking: LegRanking) -> str:
    normalised(ranking, "theoretical-minmax")  # says why, where the leg has no least score
    least = number((ranking.bounds or (0.0, 0.0))[0])
    return f"""CASE WHEN max(score) OVER every <= {least} THEN 0::float8
             ELSE (greatest(score, {least}) - {least}) / (max(score) OVER every - {least}) END"""


def _bounds(ranking: LegRanking) -> str:
    normalised(ranking, "bounds")
    least, greatest = map(number, ranking.bounds or (0.0, 1.0))
    return f"(least(greatest(score, {least}), {greatest}) - {least}) / ({greatest} - {least})"


NORMALISATIONS: Final[dict[str, Callable[[LegRanking], str]]] = {
    "minmax": lambda _: MINMAX,
    "none": lambda _: "score",
    "rank": lambda _: "1::float8 - (rank - 1)::float8 / count(*) OVER every",
    "sum": lambda _: SHARE,
    "theoretical-minmax": _theoretical,
    "bounds": _bounds,
}
PARTS: Final[dict[type[Fusion], Callable[[Fusion, LegRanking, int], Part]]] = {
    RrfFusion: _rrf,
    LinearFusion: _linear,
    CombSumFusion: _linear,
}
