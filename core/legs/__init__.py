"""The legs, each one file. Importing this registers them."""

from core.legs import bm25, fulltext, fuzzy, trigram, vector
from core.legs.base import Candidates, Leg, PreparedQuery, legs
from core.types import Candidate

__all__ = [
    "Candidate",
    "Candidates",
    "Leg",
    "PreparedQuery",
    "bm25",
    "fulltext",
    "fuzzy",
    "legs",
    "trigram",
    "vector",
]
