"""The legs, each one file. Importing this registers them."""

from core.legs import bm25, fulltext, fuzzy, trigram, vector
from core.legs.base import Candidate, Leg, PreparedQuery, Recalled, legs

__all__ = [
    "Candidate",
    "Leg",
    "PreparedQuery",
    "Recalled",
    "bm25",
    "fulltext",
    "fuzzy",
    "legs",
    "trigram",
    "vector",
]
