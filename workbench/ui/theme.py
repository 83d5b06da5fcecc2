"""How things look: a colour per leg that is the same on every page, and Streamlit's theme. Knows no Streamlit.

The leg colours are Okabe and Ito's (2008), darker on light ground: they stay apart with any colour blindness. They
never stand alone: position, label or tooltip says the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Look:
    """A leg as people see it: what it looks for, what that is good and bad at, why a result may be empty."""

    label: str
    light: str
    dark: str
    finds: str
    strength: str
    nothing: str


LEGS = {
    "vector": Look(
        "Vector",
        "#0072B2",
        "#56B4E9",
        "Passages that mean something alike, whatever the words.",
        "Good with questions and paraphrases. Weak with codes and names that its model has never met.",
        "There are no embedded passages to compare with.",
    ),
    "fulltext": Look(
        "Full text",
        "#B4500A",
        "#F0A45C",
        "Passages that hold the query's words, in any inflection.",
        "Good with exact terms. Blind to synonyms and typing errors, and a common word counts as much as a rare one.",
        "No passage holds any of the query's words.",
    ),
    "trigram": Look(
        "Trigram",
        "#00805D",
        "#3CC9A0",
        "Passages spelled alike: typing errors, part numbers, codes.",
        "Good with misspelled words and half-remembered codes. Knows nothing of meaning, and likes long passages.",
        "Nothing is spelled like the query's words.",
    ),
    "bm25": Look(
        "BM25", "#A3487F", "#E79AC6", "Passages that hold the query's rare words.", "", "No passage holds them."
    ),
    "fuzzy": Look(
        "Fuzzy", "#7A6A00", "#E5D44A", "Words of the collection spelled alike.", "", "No word is spelled alike."
    ),
}

_LIGHT = {
    "primaryColor": "#33475F",
    "backgroundColor": "#FBFBF9",
    "secondaryBackgroundColor": "#F1F2EE",
    "textColor": "#1E242B",
    "borderColor": "#DFE1DB",
    "linkColor": "#2F5D8A",
}
_DARK = {
    "primaryColor": "#A9BDD6",
    "backgroundColor": "#14171B",
    "secondaryBackgroundColor": "#1D2127",
    "textColor": "#E6E8EA",
    "borderColor": "#30363E",
    "linkColor": "#8DBBE8",
}
OPTIONS = {
    **{f"theme.light.{name}": value for name, value in _LIGHT.items()},
    **{f"theme.dark.{name}": value for name, value in _DARK.items()},
    "theme.baseRadius": "8px",
    "theme.showWidgetBorder": True,
}

MARK = Path(__file__).with_name("mark.svg")


def stylesheet() -> str:
    """The frame's rules, and the legs' colours as variables that reach into components too."""
    colours = "".join(f"--leg-{kind}: light-dark({look.light}, {look.dark});" for kind, look in LEGS.items())
    headings = "".join(f".rb-leg-{kind} {{ --leg: var(--leg-{kind}); }}" for kind in LEGS)
    return f"<style>:root {{ {colours} }} {headings} {read('frame.css')}</style>"


def read(name: str) -> str:
    """A style sheet or script that lies beside this file, and comes along in a wheel."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
