"""Result cards, example chips and a document in full, as components.

Python hands over plain values; the scripts set texts with `textContent`, so that no HTML or Markdown in them is
interpreted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from core.legs import describe
from core.types import Hit, Query
from evals.presentation.search_results import passage_of
from workbench.components.theme import asset
from workbench.services.search import LegResults, QueryLabels
from workbench.services.snippets import marked, plain, snippet

MOST_FACTS = 3
LONGEST_FACT = 40
Card = dict[str, Any]


def _component(name: str, html: str, *before: str) -> Any:
    """Scripts and styles are in files of its name, after those that it shares with others."""
    css = "\n".join(asset(f"components/assets/{each}.css") for each in ("shared", *before, name))
    js = "\n".join(asset(f"components/assets/{each}.js") for each in (*before, name))
    return st.components.v2.component(f"rankbook.{name}", html=html, css=css, js=js)


_cards = _component("cards", '<ol class="cards"></ol><button class="more" type="button" hidden></button>')
_chips = _component("chips", '<ul class="chips" aria-label="Example queries"></ul>')
_document = _component(
    "document", '<div class="head"></div><div class="parts"></div><div class="text" tabindex="0"></div>', "titled"
)


def draw_cards(key: str, label: str, cards: Sequence[Card], opened: Callable[[str], None]) -> None:
    """The cards of a column. `opened` is called with the id of a clicked one."""
    _mount(_cards, key, "open", {"label": label, "cards": list(cards)}, opened)


def draw_chips(key: str, queries: Sequence[Query], chosen: Callable[[str], None]) -> None:
    """Example queries, each with its kind."""
    chips = [{"text": query.text, "kind": query.kind} for query in queries]
    _mount(_chips, key, "choose", {"chips": chips}, chosen)


def draw_document(
    key: str,
    title: str,
    facts: Sequence[Sequence[str]],
    text: Sequence[Sequence[Any]],
    parts: Sequence[Sequence[Any]] = (),
) -> None:
    """A text of (piece, whether it is the passage), scrolled to the passage; `parts` can be chosen."""
    _document(key=key, data={"title": title, "facts": list(facts), "text": list(text), "parts": list(parts)})


def _mount(component: Any, key: str, event: str, values: dict[str, Any], told: Callable[[str], None]) -> None:
    def heard() -> None:
        if (value := st.session_state[key].get(event)) is not None:
            told(str(value))

    component(key=key, data=values, **{f"on_{event}_change": heard})


def cards_of(found: LegResults, kind: str, judged: QueryLabels, fields: Sequence[str]) -> list[Card]:
    """A column's hits as plain values."""
    hits = found.columns[kind].hits
    return [_card(hit, rank, found, judged, fields) for rank, hit in enumerate(hits, start=1)]


def _card(hit: Hit, rank: int, found: LegResults, judged: QueryLabels, fields: Sequence[str]) -> Card:
    ranks = found.ranks(hit.item_id)
    return {
        "id": hit.id,
        "item": hit.item_id,
        "rank": rank,
        "title": title_of(hit.title, hit.item_id),
        "heading": plain(marked(title_of(hit.title, hit.item_id), found.keywords)),
        "path": path_of(hit),
        "page": page_of(hit),
        "score": f"{hit.score:.3f}",
        "snippet": plain(snippet(passage_of(hit), found.keywords)),
        "facts": facts_of(hit.metadata, fields),
        "badge": badge_of(judged, hit.item_id),
        "dots": [
            {"leg": leg, "label": describe(leg).label, "how": describe(leg).phrase, "rank": ranks.get(leg)}
            for leg in found.columns
        ],
    }


def title_of(title: str, item_id: str) -> str:
    return title.strip() or item_id


def path_of(hit: Hit) -> list[str]:
    """The headings above the passage, without the first where the title is the same."""
    path = list(hit.heading_path)
    return path[1:] if path and path[0].strip() == hit.title.strip() else path


def page_of(hit: Hit) -> str:
    if hit.page_first is None:
        return ""
    if hit.page_last in (None, hit.page_first):
        return f"p. {hit.page_first}"
    return f"p. {hit.page_first}\u2013{hit.page_last}"


def facts_of(metadata: Mapping[str, Any], fields: Sequence[str]) -> list[list[str]]:
    """Names and values of the fields that filters use, else of the first simple ones; no value twice."""
    by_value: dict[str, str] = {}
    for name in fields or metadata:
        if isinstance(metadata.get(name), (str, int, float)) and str(metadata[name]).strip():
            by_value.setdefault(shortened(str(metadata[name])), name)
    return [[name, value] for value, name in by_value.items()][:MOST_FACTS]


def shortened(text: str, most: int = LONGEST_FACT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def badge_of(judged: QueryLabels, item_id: str) -> dict[str, str] | None:
    """What the labels say of a hit; None for a query without labels."""
    if not judged.grades:
        return None
    grade = judged.grades.get(item_id)
    if grade is None:
        return {"text": "unjudged", "tone": "unjudged", "hint": "Nobody has judged this document for this query."}
    if grade <= 0:
        return {"text": "judged 0", "tone": "zero", "hint": "Judged for this query: not relevant."}
    top = max(judged.grades.values())
    return {
        "text": f"grade {grade}",
        "tone": "best" if grade == top else "good",
        "hint": f"Judged relevant, grade {grade} of the {top} that this query's best document has.",
    }
