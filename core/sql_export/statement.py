"""The exported statement clause by clause: legs, fusion, roll-up, parents and cuts as common table expressions."""

# ruff: noqa: S608 - put together from constants of this file and from numbers

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import SpecError
from core.fusion import CombSumFusion, Fusion, LegRanking, LinearFusion, RrfFusion, fusions
from core.fusion.normalise import normalised
from core.legs.base import LegSql
from core.sql_export.parameters import laid_out, number
from core.variant import Rollup

LIMB: Final = 2**53  # integers up to it are doubles
# min-max, `every` being the window of all rows of the leg; equal scores are all the best there is
MINMAX: Final = """CASE WHEN min(score) OVER every = max(score) OVER every THEN 1::float8
             ELSE (score - min(score) OVER every) / (max(score) OVER every - min(score) OVER every) END"""
# The sum of the shares, added without rounding as whole numbers of 2^-106, as math.fsum does.
SHARE: Final = f"""CASE WHEN min(score) OVER every = max(score) OVER every THEN 1::float8 / count(*) OVER every
             ELSE above / ((sum(trunc(above * {LIMB}::float8)::bigint::numeric) OVER every * {LIMB}
                            + sum(((above * {LIMB}::float8 - trunc(above * {LIMB}::float8)) * {LIMB}::float8)
                                  ::bigint::numeric) OVER every)::float8 / {LIMB**2}::float8) END"""


@dataclass(frozen=True, slots=True)
class LegTerm:
    """What a leg adds to a document that it returned (`own`, over `source`'s rank and score) or not (`absent`)."""

    own: str
    absent: str
    source: str


def part(fusion: Fusion, ranking: LegRanking, at: int) -> LegTerm:
    """The term of the leg at that place, whose CTEs are `ranked_{at}` and `scored_{at}`."""
    if type(fusion) not in PARTS or (isinstance(fusion, LinearFusion) and fusion.normalize not in NORMALISATIONS):
        able = ", ".join(sorted(fusions.name_of(each) for each in PARTS))
        how = f" with normalize = {fusion.normalize!r}" if isinstance(fusion, LinearFusion) else ""
        raise SpecError(
            f"The fusion {fusions.name_of(type(fusion))!r}{how} cannot be exported as SQL to the last bit. What can: "
            f"{able}; with normalize = {', '.join(NORMALISATIONS)}."
        )
    if fusion.weight_of(ranking) <= 0:
        return LegTerm("0::float8", "0", f"ranked_{at}")
    return PARTS[type(fusion)](fusion, ranking, at)


def _rrf(fusion: Fusion, ranking: LegRanking, at: int) -> LegTerm:
    assert isinstance(fusion, RrfFusion)  # noqa: S101 - PARTS says so
    weight = number(fusion.weight_of(ranking))
    share = f"{weight} / ({number(fusion.k)} + {{rank}})"
    after = 0 if fusion.origin == 1 else 1
    own = share.format(rank=f"(rank - {after})" if after else "rank")
    last = f"((SELECT count(*) FROM ranked_{at}) + {fusion.origin})"
    return LegTerm(own, share.format(rank=last) if fusion.absent == "bottom_rank" else "0", f"ranked_{at}")


def _linear(fusion: Fusion, ranking: LegRanking, at: int) -> LegTerm:
    assert isinstance(fusion, LinearFusion)  # noqa: S101 - PARTS says so
    weight = number(fusion.weight_of(ranking))
    normal = NORMALISATIONS[fusion.normalize](ranking)
    least = f"coalesce((SELECT min(part) FROM scored_{at}), 0)" if fusion.absent == "least" else "0"
    source = f"ranked_{at}"
    if fusion.normalize == "sum":
        above = f"SELECT id, score, rank,\n             {MINMAX} AS above"
        source = f"({above}\n      FROM {source} WINDOW every AS ()) AS shares"
    return LegTerm(f"{weight} * ({normal})", least, source)


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
PARTS: Final[dict[type[Fusion], Callable[[Fusion, LegRanking, int], LegTerm]]] = {
    RrfFusion: _rrf,
    LinearFusion: _linear,
    CombSumFusion: _linear,
}

SINGLE = "Its scores have single precision, and are read as clients read them: as the shortest decimal."


@dataclass(frozen=True, slots=True)
class LegStatement:
    """One leg: its ranking's options, its statement as text, and what it adds."""

    ranking: LegRanking
    sql: LegSql
    text: str
    part: LegTerm
    depth: int


@dataclass(frozen=True, slots=True)
class StatementPlan:
    """What the statement does after its legs.

    `details` selects the units, and is empty where nothing of them is read. Without `top_k` nothing is cut.
    """

    fusion: Fusion
    pieces: Sequence[LegStatement]
    details: str
    show_details: bool
    fused_depth: int | None
    rollup: Rollup | None
    per_item_cap: int | None
    replace_by_parents: bool
    min_score: float
    top_k: int | None


def statement(plan: StatementPlan) -> str:
    """The whole statement, without a semicolon."""
    ctes = [cte for at, piece in enumerate(plan.pieces, start=1) for cte in _leg(at, piece)]
    ctes += [_fused(plan), _hits(plan)]
    if plan.details:
        about = "What is known of a unit; written out, so that only those that are shown are read."
        ctes.append(f"{comment(about)}\nunits AS NOT MATERIALIZED (\n{laid_out(plan.details)}\n)")
    last = "hits"
    if plan.rollup:
        ctes.append(_rolled_up(plan, plan.rollup, last))
        last = "rolled_up"
    if plan.per_item_cap:
        ctes.append(_capped(plan, plan.per_item_cap, last))
        last = "capped"
    if plan.replace_by_parents:
        ctes.append(_replaced(plan, last))
        last = "replaced"
    ctes.append(_cut(plan, last))
    details = "units.item_id, units.title, units.text,\n       " if plan.show_details else ""
    join = "\nJOIN units ON units.id = cut.id" if plan.show_details else ""
    ctes_text = ",\n\n".join(ctes)
    return f"""WITH
{ctes_text}

SELECT row_number() OVER (ORDER BY cut.rank) AS rank, cut.id, cut.score, cut.raw_score,
       {details}{_leg_columns(plan, "cut.", 7)}
FROM cut{join}
ORDER BY cut.rank"""


def comment(text: str, width: int = 118) -> str:
    """The text as comment lines; nothing in it can end a comment early."""
    lines = [line for part in text.splitlines() or [""] for line in textwrap.wrap(part, width - 3) or [""]]
    return "\n".join(f"-- {verbatim(line)}".rstrip() for line in lines)


def verbatim(line: str) -> str:
    """The line without characters that would break it, or change how a terminal shows it."""
    return "".join(
        letter if unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else "\N{REPLACEMENT CHARACTER}"
        for letter in line
    )


def _leg(at: int, piece: LegStatement) -> list[str]:
    every = "\n    WINDOW every AS ()" if "OVER every" in piece.part.own else ""
    weight = f"weight {piece.ranking.weight:g}, " if piece.ranking.weight else "without weight, "
    notes = (*piece.sql.notes, *((SINGLE,) if piece.sql.single else ()))
    about = comment(" ".join([f"Leg {at}, {piece.ranking.leg}: {weight}depth {piece.depth}.", *notes]))
    score = "score::text::float8" if piece.sql.single else "score::float8"
    kept = f"\n    WHERE {score} >= {number(piece.sql.least)}" if piece.sql.least is not None else ""
    ranked = f"""ranked_{at} AS (
    SELECT id, {score} AS score,
           row_number() OVER (ORDER BY {piece.sql.order}, id COLLATE "C") AS rank
    FROM leg_{at}{kept}
)"""
    scored = f"""scored_{at} AS (
    SELECT id, rank, score,
           {piece.part.own} AS part
    FROM {piece.part.source}{every}
)"""
    return [f"{about}\nleg_{at} AS (\n{laid_out(piece.text)}\n)", ranked, scored]


def _fused(plan: StatementPlan) -> str:
    places = range(1, len(plan.pieces) + 1)
    rankings = [piece.ranking for piece in plan.pieces]
    parts = " + ".join(f"coalesce(scored_{at}.part, {plan.pieces[at - 1].part.absent})" for at in places)
    before = ", ".join(f"scored_{at + 1}.rank" for at in plan.fusion.tie_order(rankings))
    of_legs = "".join(
        f",\n           scored_{at}.rank AS rank_{at}, scored_{at}.score AS score_{at}, scored_{at}.part AS part_{at}"
        for at in places
    )
    joined = "".join(f"\n    FULL JOIN scored_{at} USING (id)" for at in places[1:])
    voting = [f"scored_{at}.rank IS NOT NULL" for at in places if plan.fusion.weight_of(rankings[at - 1]) > 0]
    where = "\n    WHERE " + " AND ".join(voting) if plan.fusion.absent == "drop" and voting else ""
    about = comment("Fusion: what the legs add, leg by leg in this order, as sums of doubles depend on it.")
    return f"""{about}
fused AS (
    SELECT id, 0::float8 + {parts} AS raw_score,
           coalesce({before}) AS rank_before{of_legs}
    FROM scored_1{joined}{where}
)"""


def _hits(plan: StatementPlan) -> str:
    ceiling = plan.fusion.ceiling([piece.ranking for piece in plan.pieces])
    relative = "raw_score" if ceiling is None else f"least(raw_score / {number(ceiling)}, 1::float8)"
    relative = "0::float8" if ceiling == 0 else relative
    depth = f"\n    ORDER BY rank\n    LIMIT {plan.fused_depth}" if plan.fused_depth else ""
    about = comment("One total order: score, then the rank before, then id, bytewise. Scores relative to the greatest.")
    return f"""{about}
hits AS (
    SELECT *, {relative} AS score
    FROM (
        SELECT *, row_number() OVER (ORDER BY raw_score DESC, rank_before, id COLLATE "C") AS rank
        FROM fused
    ) AS ordered{depth}
)"""


def _rolled_up(plan: StatementPlan, rollup: Rollup, last: str) -> str:
    score = f"{last}.score"
    if rollup.method == "sum":
        frame = f"ROWS BETWEEN CURRENT ROW AND {rollup.of_best - 1} FOLLOWING"
        score = f"sum({last}.score) OVER (PARTITION BY units.item_id ORDER BY {last}.rank {frame})"
    about = comment("Roll-up: the best chunk stands for its item.")
    return f"""{about}
rolled_up AS (
    SELECT id, item_score AS score, raw_score, {_leg_columns(plan)},
           row_number() OVER (ORDER BY item_score DESC, rank, id COLLATE "C") AS rank
    FROM (
        SELECT {last}.*, {score} AS item_score,
               row_number() OVER (PARTITION BY units.item_id ORDER BY {last}.rank) AS nth
        FROM {last}
        JOIN units ON units.id = {last}.id
    ) AS chunks
    WHERE nth = 1
)"""


def _capped(plan: StatementPlan, most: int, last: str) -> str:
    about = comment(f"Per-item cap: of each item the best {most}, in the order they stood.")
    return f"""{about}
capped AS (
    SELECT id, score, raw_score, {_leg_columns(plan)}, rank
    FROM (
        SELECT {last}.*, row_number() OVER (PARTITION BY units.item_id ORDER BY {last}.rank) AS nth
        FROM {last}
        JOIN units ON units.id = {last}.id
    ) AS of_items
    WHERE nth <= {most}
)"""


def _replaced(plan: StatementPlan, last: str) -> str:
    about = comment("Parents: a child that was found is replaced by its parent; of several children the best stands.")
    return f"""{about}
replaced AS (
    SELECT shown AS id, score, raw_score, {_leg_columns(plan)}, rank
    FROM (
        SELECT {last}.*, coalesce(units.parent_id, {last}.id) AS shown,
               row_number() OVER (PARTITION BY coalesce(units.parent_id, {last}.id) ORDER BY {last}.rank) AS nth
        FROM {last}
        JOIN units ON units.id = {last}.id
    ) AS children
    WHERE nth = 1
)"""


def _cut(plan: StatementPlan, last: str) -> str:
    if plan.top_k is None:
        about = "Everything that was fused: the cut by min_score and top_k comes after what is done outside."
        return f"{comment(about)}\ncut AS (\n    SELECT * FROM {last}\n)"
    return f"""{comment("The cut.")}
cut AS (
    SELECT * FROM {last}
    WHERE score >= {number(plan.min_score)}
    ORDER BY rank
    LIMIT {plan.top_k}
)"""


def _leg_columns(plan: StatementPlan, of: str = "", margin: int = 11) -> str:
    """Each leg's rank, score and part of a row."""
    places = range(1, len(plan.pieces) + 1)
    return f",\n{' ' * margin}".join(f"{of}rank_{at}, {of}score_{at}, {of}part_{at}" for at in places)
