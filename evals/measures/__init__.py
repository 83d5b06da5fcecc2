"""Measures by which rankings are scored, each with its formula in words and over arrays of ranks.

A new one is a module of this package that registers it, and its import here.
"""

from evals.measures import shipped as shipped
from evals.measures.base import (
    CHUNKS,
    DEFAULT_METRIC,
    MEASURES,
    METRICS,
    HeldCharacters,
    Level,
    Measure,
    Metric,
    RelevantRanks,
    cut_off,
    register,
)
from evals.measures.ranks import Relevant

__all__ = [
    "CHUNKS",
    "DEFAULT_METRIC",
    "MEASURES",
    "METRICS",
    "HeldCharacters",
    "Level",
    "Measure",
    "Metric",
    "Relevant",
    "RelevantRanks",
    "cut_off",
    "register",
]
