"""The legs, each one file. Importing this registers them."""

from core.legs import bm25, fulltext, fuzzy, trigram, vector
from core.legs.base import (
    Candidates,
    Leg,
    LegDescription,
    LegOpening,
    PreparedQuery,
    describe,
    leg_descriptions,
    legs,
)
from core.types import Candidate

__all__ = [
    "Candidate",
    "Candidates",
    "Leg",
    "LegDescription",
    "LegOpening",
    "PreparedQuery",
    "bm25",
    "describe",
    "fulltext",
    "fuzzy",
    "leg_descriptions",
    "legs",
    "trigram",
    "vector",
]
