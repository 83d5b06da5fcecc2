"""Legs as people see them: a name and a colour that are the same on every page, and what each is good at.

The colours are Okabe and Ito's (2008), darker on light ground: they stay apart with any colour blindness. They never
stand alone: position, label or tooltip says the same.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LegDescription:
    """A leg as people see it: what it looks for, what that is good and bad at, why a result may be empty."""

    label: str
    light: str
    dark: str
    finds: str
    strength: str
    nothing: str


LEGS = {
    "vector": LegDescription(
        "Vector",
        "#0072B2",
        "#56B4E9",
        "Passages that mean something alike, whatever the words.",
        "Good with questions and paraphrases. Weak with codes and names that its model has never met.",
        "There are no embedded passages to compare with.",
    ),
    "fulltext": LegDescription(
        "Full text",
        "#B4500A",
        "#F0A45C",
        "Passages that hold the query's words, in any inflection.",
        "Good with exact terms. Blind to synonyms and typing errors, and a common word counts as much as a rare one.",
        "No passage holds any of the query's words.",
    ),
    "trigram": LegDescription(
        "Trigram",
        "#00805D",
        "#3CC9A0",
        "Passages spelled alike: typing errors, part numbers, codes.",
        "Good with misspelled words and half-remembered codes. Knows nothing of meaning, and likes long passages.",
        "Nothing is spelled like the query's words.",
    ),
    "bm25": LegDescription(
        "BM25", "#A3487F", "#E79AC6", "Passages that hold the query's rare words.", "", "No passage holds them."
    ),
    "fuzzy": LegDescription(
        "Fuzzy", "#7A6A00", "#E5D44A", "Words of the collection spelled alike.", "", "No word is spelled alike."
    ),
}
