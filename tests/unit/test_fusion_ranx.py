"""The same methods in ranx give the same scores.

Known differences, all in cases that the random input here avoids:
- Equal scores: ranx orders them by chance (its order of a hash table); ours keeps the rank before, then the id.
- Equal scores under min-max or sum, one hit included: ranx divides 0 by 1e-9 and gives 0; ours gives 1, or 1 / n.
- Spreads below 1e-9: ranx divides by 1e-9 instead; ours divides by the spread.
- One run alone, and runs without documents: ranx refuses or fails; ours fuses them.
- Condorcet: ranx sorts by majority in the order a hash table has, takes a draw as a win of whichever it looks at
  first and counts a run that has neither document as a vote for the second; its scores are n - place. Ours counts wins,
  so that only the order is compared, and only where majorities are strict and agree on one order.
- ranx has `wmnz` (the sum of scores times the sum of weights); our weighted CombMNZ weights the scores themselves, so
  only the unweighted one is compared.
- ranx has nothing like theoretical min-max, sigmoid or DBSF.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from core.fusion import LegRanking, fusion_from
from core.types import Candidate

Fuse = Callable[..., dict[str, float]]
WEIGHTS = [0.45, 0.2, 0.35]  # no two of which make up the third
NORMALISATIONS = {"minmax": "min-max", "zscore": "zmuv", "rank": "rank", "sum": "sum", "none": None}


def rankings(seed: int, *, complete: bool = False, weighted: bool = True) -> list[LegRanking]:
    """Three legs over 40 documents, each returning some of them, or all; no two scores are equal."""
    chance = random.Random(seed)
    legs = []
    for name, weight in zip(("one", "two", "three"), WEIGHTS, strict=True):
        ids = chance.sample([f"d{number}" for number in range(40)], 40 if complete else chance.randint(5, 30))
        scores = sorted((chance.uniform(-5, 20) for _ in ids), reverse=True)
        found = [Candidate(unit, score) for unit, score in zip(ids, scores, strict=True)]
        legs.append(LegRanking(name, weight if weighted else 1.0, found))
    return legs


@pytest.fixture(scope="module")
def by_ranx(plain_ranx: Callable[..., Any]) -> Fuse:
    return partial(plain_ranx, _by_ranx)


def _by_ranx(legs: list[LegRanking], method: str, norm: str | None = None, **params: Any) -> dict[str, float]:
    from ranx import Run, fuse

    runs = [Run({"q": {hit.id: hit.score for hit in leg.candidates}}, name=leg.leg) for leg in legs]
    options: dict[str, Any] = {"norm": norm, "params": params}  # None for no normalisation, whatever its signature says
    return {unit: float(score) for unit, score in fuse(runs, method=method, **options).run["q"].items()}


def by_us(legs: list[LegRanking], **spec: Any) -> dict[str, float]:
    return {hit.id: hit.score for hit in fusion_from(spec).fuse(legs)}


def same(ours: dict[str, float], theirs: dict[str, float]) -> None:
    assert ours.keys() == theirs.keys()
    for unit, score in ours.items():
        assert score == pytest.approx(theirs[unit], abs=1e-9), unit


every_seed = pytest.mark.parametrize("seed", range(5))


@every_seed
def test_rrf(by_ranx, seed) -> None:
    same(by_us(rankings(seed), method="rrf", k=42, weighted=False), by_ranx(rankings(seed), "rrf", k=42))


@every_seed
@pytest.mark.parametrize("normalize", NORMALISATIONS)
def test_linear(by_ranx, seed, normalize) -> None:
    legs = rankings(seed)
    same(
        by_us(legs, method="linear", normalize=normalize),
        by_ranx(legs, "wsum", NORMALISATIONS[normalize], weights=WEIGHTS),
    )


@every_seed
@pytest.mark.parametrize("normalize", NORMALISATIONS)
@pytest.mark.parametrize("method", ["sum", "mnz", "anz", "med"])
def test_the_comb_family(by_ranx, seed, normalize, method) -> None:
    legs = rankings(seed, weighted=False)
    same(
        by_us(legs, method=f"comb{method}", normalize=normalize),
        by_ranx(legs, method, NORMALISATIONS[normalize]),
    )


@every_seed
@pytest.mark.parametrize(("frequency", "theirs"), [("count", "isr"), ("log", "log_isr")])
def test_isr(by_ranx, seed, frequency, theirs) -> None:
    same(by_us(rankings(seed), method="isr", frequency=frequency, weighted=False), by_ranx(rankings(seed), theirs))


@every_seed
def test_borda(by_ranx, seed) -> None:
    same(by_us(rankings(seed), method="borda", weighted=False), by_ranx(rankings(seed), "bordafuse"))


@every_seed
def test_weighted_borda(by_ranx, seed) -> None:
    same(by_us(rankings(seed), method="borda"), by_ranx(rankings(seed), "w_bordafuse", weights=WEIGHTS))


@every_seed
def test_rbc(by_ranx, seed) -> None:
    ours = by_us(rankings(seed), method="rbc", persistence=0.8, weighted=False)
    same(ours, by_ranx(rankings(seed), "rbc", phi=0.8))


def _agreeing(weighted: bool) -> list[list[LegRanking]]:
    """Inputs in which strict majorities agree on one order: then every number of wins occurs once."""
    few = [[_first(leg, 5) for leg in rankings(seed, complete=True, weighted=weighted)] for seed in range(60)]
    return [legs for legs in few if len(set(by_us(legs, method="condorcet").values())) == 5]


def _first(leg: LegRanking, count: int) -> LegRanking:
    return LegRanking(leg.leg, leg.weight, [hit for hit in leg.candidates if int(hit.id[1:]) < count])


@pytest.mark.parametrize(("weighted", "theirs"), [(False, "condorcet"), (True, "w_condorcet")])
def test_condorcet_gives_the_same_order_where_majorities_agree_on_one(by_ranx, weighted, theirs) -> None:
    inputs = _agreeing(weighted)
    assert len(inputs) > 10
    for legs in inputs:
        params: dict[str, Any] = {"weights": WEIGHTS} if weighted else {}
        scores = by_ranx(legs, theirs, **params)
        assert list(by_us(legs, method="condorcet")) == sorted(scores, key=lambda unit: -scores[unit])
