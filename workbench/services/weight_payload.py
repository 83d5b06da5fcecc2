"""The data of the weights component, as plain values.

Owns the packing. Each leg's part of a score comes from `evals.runs.batch_fusion.table`, so that the browser only adds
and sorts, to the last bit as a search does.
"""

from __future__ import annotations

import base64
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError, UnknownName
from core.legs import legs
from core.store.passages import read_items
from evals.evaluation.context import EvalContext
from evals.measures import Metric
from evals.presentation.weight_surface import weights_text
from evals.runs.batch_fusion import table
from evals.statistics import significance
from evals.statistics.mean_intervals import mean_intervals
from workbench.services.weights import WeighedSurface

DIGITS = 9  # values of a metric that agree so far are equal: what lies beyond is the order of addition
MOST_CODES = 1 << 16
SURFACES = 12  # whose values are kept ready for the page; some 2 MB each
Plain = dict[str, Any]


# -- the surface, packed -----------------------------------------------------------------------------------------------


@lru_cache(maxsize=SURFACES)
def pack_surface(found: WeighedSurface) -> Plain:
    """Every query's value at every point, as indexes into a list of distinct values, so that ties stay ties."""
    surface = found.surface
    distinct, codes, untuned = _coded(surface.values, surface.untuned)
    low, high = _interval(found)
    return {
        "legs": [{"name": leg, "kind": _kind(found, leg)} for leg in surface.legs],
        "steps": surface.steps,
        "metric": surface.metric,
        "definition": Metric.of(surface.metric).explanation,
        "grid": surface.grid.ravel().tolist(),
        "values": _packed(distinct, "<f8"),
        "codes": _packed(codes, "<u2"),
        "untuned": _packed(untuned, "<u2"),
        "alike": float(significance.means(surface.untuned[None, :], surface.weights)[0]),
        "means": _rounded(surface.means),
        "low": _rounded(low),
        "high": _rounded(high),
        "tied": [int(tied) for tied in found.summary.tied],
        "queries": [
            {"id": each, "text": found.split.queries[each].text, "kind": found.split.queries[each].kind}
            for each in surface.queries
        ],
        "marks": marks(found),
        "verdict": found.tuned.verdict,
    }


def _interval(found: WeighedSurface) -> tuple[Any, Any]:
    """The interval of the mean at each point, over the queries."""
    surface, how = found.surface, found.tuned.procedure
    options: Plain = {"level": how.level, "samples": how.samples, "seed": how.seed}
    return mean_intervals(surface.values, surface.weights, most=Metric.parse(surface.metric).most, **options)


def _coded(values: NDArray[np.float64], untuned: NDArray[np.float64]) -> tuple[Any, Any, Any]:
    for digits in (DIGITS, 4):
        every = np.round(np.vstack([values, untuned]), digits)
        distinct, codes = np.unique(every, return_inverse=True)
        if len(distinct) <= MOST_CODES:
            break
    codes = codes.reshape(every.shape)
    return distinct, codes[:-1], codes[-1]


def _kind(surface: WeighedSurface, leg: str) -> str:
    own = dict(zip(surface.base.leg_names, surface.base.legs, strict=True))[leg]
    return legs.name_of(type(own))


def _packed(values: Any, number: str) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype=number).tobytes()).decode("ascii")


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(each, 6) for each in values.tolist()]


# -- the marks, each with its sentence ---------------------------------------------------------------------------------


def marks(found: WeighedSurface) -> list[Plain]:
    """What is marked on the surface. `points` are (row of the grid, size); `level` is a score without a place."""
    surface, tuned, summary = found.surface, found.tuned, found.summary
    best, expected, _, tied, oracle, *_ = summary.sentences
    rows = {tuple(point): row for row, point in enumerate(surface.grid.tolist())}
    folds = Counter(fold.point for fold in tuned.folds)
    most = max(folds.values())
    own = {name: leg.weight for name, leg in zip(found.base.leg_names, found.base.legs, strict=True)}
    whole = math.fsum(own.values()) or 1.0
    exact = all(
        math.isclose(weight / whole, share / found.surface.steps)
        for weight, share in zip(own.values(), found.current, strict=True)
    )
    at = "" if exact else f", drawn at the nearest of the {len(found.surface.grid)} points"
    return [
        _mark(
            "current",
            "Current weights",
            f"What {found.base.name} has now, {weights_text(own)}{at}.",
            [[rows[found.current], 1.0]],
        ),
        _mark("best", "In-sample best", best, [[tuned.chosen.point, 1.0]], tuned.in_sample),
        _mark("band", "Tie band", tied, []),
        _mark(
            "expected",
            "Cross-fitted estimate",
            f"{expected} Crosses are the weights that its folds chose, larger where more did.",
            [[point, votes / most] for point, votes in sorted(folds.items())],
            tuned.cross_fitted,
        ),
        *_kinds(found, rows),
        _mark("oracle", "Oracle", oracle, [], surface.oracle().mean),
    ]


def _mark(key: str, name: str, says: str, points: list[list[float]], level: float | None = None) -> Plain:
    return {"key": key, "name": name, "says": says.removeprefix(f"{name}: "), "points": points, "level": level}


def _kinds(surface: WeighedSurface, rows: Mapping[tuple[int, ...], int]) -> list[Plain]:
    kinds = surface.summary.kinds
    if len(kinds) < 2:
        return []
    told = "; ".join(f"{each.kind or 'no kind'} ({each.queries}) {weights_text(each.weights)}" for each in kinds)
    steps = surface.surface.steps
    at = [rows[tuple(round(each.weights[leg] * steps) for leg in surface.surface.legs)] for each in kinds]
    says = f"Each kind of query by itself, drawn towards the weights for all: {told}."
    mark = _mark("kind", "Best by kind", says, [[row, 1.0] for row in at])
    return [{**mark, "labels": [each.kind or "no kind" for each in kinds]}]


# -- one query's candidates, packed ------------------------------------------------------------------------------------


@lru_cache(maxsize=4 * SURFACES)
def pack_query(found: WeighedSurface, query: str) -> Plain:
    """All that is needed to fuse one query at any point. Candidates are in the order that breaks ties."""
    arrays, cut = found.arrays, found.legs.cut.seen_by(found.surface.metric)
    if query not in found.surface.queries:
        raise UnknownName("query with a relevant item", query, found.surface.queries)
    if query not in arrays.queries:
        raise InputError(f"A leg failed at the query {query!r}, so it has no ranking, and scores 0 at every point.")
    row = arrays.queries.index(query)
    units = arrays.candidates[row]
    columns = np.flatnonzero(units >= 0).tolist()
    items = [arrays.items[int(units[at])] for at in columns]
    known = list(dict.fromkeys(items))
    number = {item: at for at, item in enumerate(known)}
    asked = found.split.queries[query]
    return {
        "id": query,
        "text": asked.text,
        "kind": asked.kind,
        "items": known,
        "item": [number[item] for item in items],
        "ranks": _packed(arrays.ranks[:, row, columns], "<u2"),
        "parts": _packed(_parts(found, row), "<f8"),
        "drop": found.base.fusion.absent == "drop",
        "cut": {
            "depth": cut.depth,
            "fused": cut.fused_depth,
            "rollup": cut.rollup is not None,
            "least": cut.min_score,
        },
        "ceilings": _ceilings(found) if cut.min_score > 0 else None,
    }


def _parts(surface: WeighedSurface, row: int) -> NDArray[np.float64]:
    """What each leg adds, legs x shares (0 to all steps) x (1 + depth); rank 0 is for what it did not return."""
    own, steps = surface.arrays.rows([row]), surface.surface.steps
    made = np.zeros((len(own.legs), steps + 1, own.scores.shape[2] + 1))
    for share in range(1, steps + 1):
        for leg, ranking in enumerate(own.hollow([share / steps] * len(own.legs))):
            made[leg, share] = table(own, surface.base.fusion, leg, ranking)[0]
    return made


def _ceilings(surface: WeighedSurface) -> list[float | None]:
    """The divisor of scores at each point and, last, at equal weights."""
    steps = surface.surface.steps
    weights = [*(surface.surface.grid / steps).tolist(), [1.0] * len(surface.surface.legs)]
    return [surface.base.fusion.ceiling(surface.arrays.hollow(each)) for each in weights]


async def titles(ctx: EvalContext, items: Sequence[str]) -> list[str]:
    """The items' titles, or their ids."""
    known = await read_items(ctx.store, ctx.view, items)
    return [(known[item].title.strip() or item) if item in known else item for item in items]
