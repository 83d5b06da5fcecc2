"""The exported statement as text: a CTE for each step of the pipeline, in the pipeline's order, with a comment each.

It owns the layout and the order of rows. Nothing that a person wrote enters here but in comments, line by line.
"""

# ruff: noqa: S608 - put together from constants of this file, from numbers, and from what SQLAlchemy compiled

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from core.fusion import Fusion, LegRanking
from core.legs.base import LegSql
from core.sql_export.fusing import Part
from core.sql_export.layout import laid_out
from core.sql_export.parameters import number
from core.variant import Rollup

SINGLE = "Its scores have single precision, and are read as clients read them: as the shortest decimal."


@dataclass(frozen=True, slots=True)
class Piece:
    """One leg: what it is called, its statement as text, and what it adds."""

    ranking: LegRanking
    sql: LegSql
    text: str
    part: Part
    depth: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What the statement does after its legs.

    `details` are the units as text, empty where nothing is read of them. Without `top_k` nothing is cut.
    """

    fusion: Fusion
    pieces: Sequence[Piece]
    details: str
    show_details: bool
    fused_depth: int | None
    rollup: Rollup | None
    per_item_cap: int | None
    replace_by_parents: bool
    min_score: float
    top_k: int | None


def statement(plan: Plan) -> str:
    """The whole of it, without a semicolon."""
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
    return "WITH\n" + ",\n\n".join(ctes) + "\n\n" + _shown(plan)


def comment(text: str, width: int = 118) -> str:
    """Lines that are comments whatever the text holds; nothing in it can end one early."""
    lines = [line for part in text.splitlines() or [""] for line in textwrap.wrap(part, width - 3) or [""]]
    return "\n".join(f"-- {verbatim(line)}".rstrip() for line in lines)


def verbatim(line: str) -> str:
    """The line without characters that would break it, or play tricks in a terminal."""
    return "".join(
        letter if unicodedata.category(letter) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} else "\N{REPLACEMENT CHARACTER}"
        for letter in line
    )


def _leg(at: int, piece: Piece) -> list[str]:
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


def _fused(plan: Plan) -> str:
    places = range(1, len(plan.pieces) + 1)
    rankings = [piece.ranking for piece in plan.pieces]
    parts = " + ".join(f"coalesce(scored_{at}.part, {plan.pieces[at - 1].part.absent})" for at in places)
    before = ", ".join(f"scored_{at + 1}.rank" for at in plan.fusion.tie_order(rankings))
    told = "".join(
        f",\n           scored_{at}.rank AS rank_{at}, scored_{at}.score AS score_{at}, scored_{at}.part AS part_{at}"
        for at in places
    )
    joined = "".join(f"\n    FULL JOIN scored_{at} USING (id)" for at in places[1:])
    heard = [f"scored_{at}.rank IS NOT NULL" for at in places if plan.fusion.weight_of(rankings[at - 1]) > 0]
    where = "\n    WHERE " + " AND ".join(heard) if plan.fusion.absent == "drop" and heard else ""
    about = comment("Fusion: what the legs add, leg by leg in this order, as sums of doubles depend on it.")
    return f"""{about}
fused AS (
    SELECT id, 0::float8 + {parts} AS raw_score,
           coalesce({before}) AS rank_before{told}
    FROM scored_1{joined}{where}
)"""


def _hits(plan: Plan) -> str:
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


def _rolled_up(plan: Plan, rollup: Rollup, last: str) -> str:
    score = f"{last}.score"
    if rollup.method == "sum":
        frame = f"ROWS BETWEEN CURRENT ROW AND {rollup.of_best - 1} FOLLOWING"
        score = f"sum({last}.score) OVER (PARTITION BY units.item_id ORDER BY {last}.rank {frame})"
    about = comment("Roll-up: the best chunk stands for its item.")
    return f"""{about}
rolled_up AS (
    SELECT id, item_score AS score, raw_score, {_told(plan)},
           row_number() OVER (ORDER BY item_score DESC, rank, id COLLATE "C") AS rank
    FROM (
        SELECT {last}.*, {score} AS item_score,
               row_number() OVER (PARTITION BY units.item_id ORDER BY {last}.rank) AS nth
        FROM {last}
        JOIN units ON units.id = {last}.id
    ) AS chunks
    WHERE nth = 1
)"""


def _capped(plan: Plan, most: int, last: str) -> str:
    about = comment(f"Per-item cap: of each item the best {most}, in the order they stood.")
    return f"""{about}
capped AS (
    SELECT id, score, raw_score, {_told(plan)}, rank
    FROM (
        SELECT {last}.*, row_number() OVER (PARTITION BY units.item_id ORDER BY {last}.rank) AS nth
        FROM {last}
        JOIN units ON units.id = {last}.id
    ) AS of_items
    WHERE nth <= {most}
)"""


def _replaced(plan: Plan, last: str) -> str:
    about = comment("Parents: a child that was found is replaced by its parent; of several children the best stands.")
    return f"""{about}
replaced AS (
    SELECT shown AS id, score, raw_score, {_told(plan)}, rank
    FROM (
        SELECT {last}.*, coalesce(units.parent_id, {last}.id) AS shown,
               row_number() OVER (PARTITION BY coalesce(units.parent_id, {last}.id) ORDER BY {last}.rank) AS nth
        FROM {last}
        JOIN units ON units.id = {last}.id
    ) AS children
    WHERE nth = 1
)"""


def _cut(plan: Plan, last: str) -> str:
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


def _told(plan: Plan, of: str = "", margin: int = 11) -> str:
    """The columns that say what each leg has to do with a row."""
    places = range(1, len(plan.pieces) + 1)
    return f",\n{' ' * margin}".join(f"{of}rank_{at}, {of}score_{at}, {of}part_{at}" for at in places)


def _shown(plan: Plan) -> str:
    details = "units.item_id, units.title, units.text,\n       " if plan.show_details else ""
    join = "\nJOIN units ON units.id = cut.id" if plan.show_details else ""
    return f"""SELECT row_number() OVER (ORDER BY cut.rank) AS rank, cut.id, cut.score, cut.raw_score,
       {details}{_told(plan, "cut.", 7)}
FROM cut{join}
ORDER BY cut.rank"""
