"""The legs, each one file. Importing this registers them."""

from core.legs import fulltext, trigram, vector
from core.legs.base import Candidate, Leg, PreparedQuery, legs

__all__ = ["Candidate", "Leg", "PreparedQuery", "fulltext", "legs", "trigram", "vector"]
