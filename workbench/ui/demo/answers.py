"""What the demo's page is made of: a heading, a box, chips, and answers side by side as plain values for a component.

Titles and passages are a stranger's text: the component sets them with `textContent`. No id of a document is shown or
handed over; where there is no title, its own first words stand for it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Any

import streamlit as st

from core.types import Hit
from evals.judging.votes import LONGEST_QUERY
from workbench.behind.headings import passage_of
from workbench.behind.search.marking import marked, plain, snippet
from workbench.demo.answers import AnswerColumn, AnswerHit, DemoAnswer
from workbench.demo.show import LETTERS, Demo
from workbench.ui import cards
from workbench.ui.theme import read

SNIPPET = 260
MARKS = re.compile(r"^[ ]{0,3}#{1,6}[ ]+|\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*", re.MULTILINE)
LONGEST_TITLE = 110
NOTHING = "Nothing found this way."
NOT_NOW = "This one cannot answer at the moment."
BOX = "demo.query"

_answers = st.components.v2.component(
    "rankbook.demo",
    html='<div class="answers"></div>',
    css=f"{read('shared.css')}\n{read('demo/answers.css')}",
    js=read("demo/answers.js"),
)


_chips = st.components.v2.component(
    "rankbook.demo_chips",
    html='<ul class="chips" aria-label="Examples"></ul>',
    css=f"{read('shared.css')}\n{read('chips.css')}\n{read('demo/chips.css')}",
    js=read("chips.js"),
)


def head(title: str, about: str) -> None:
    st.html(f'<header class="demo-head"><h1>{html.escape(title)}</h1><p>{html.escape(about)}</p></header>')


def say(title: str, sentence: str) -> None:
    """What a visitor reads in the place of an error."""
    words = f"<strong>{html.escape(title)}</strong><p>{html.escape(sentence)}</p>"
    st.html(f'<div class="demo-said" role="alert">{words}</div>')


def server_waited_for(sentence: str) -> str:
    """For what the server is waited for, as on the workbench's pages."""
    words = f"<strong>The database is not ready yet</strong><p>{html.escape(sentence)}</p>"
    return f'<div class="demo-said" role="status">{words}</div>'


def welcome(names: Sequence[str], *, blind: bool) -> str:
    if blind:
        line = "Ask something. You will see the same search done in different ways: tell us which you like better."
    elif len(names) > 1:
        line = f"Ask something, and see what {_joined(names)} find, side by side."
    else:
        line = "Ask something, and see what is found, and why."
    return f'<p class="demo-welcome">{html.escape(line)}</p>'


def _joined(names: Sequence[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    return f"{', '.join(quoted[:-1])} and {quoted[-1]}"


def waiting(columns: int, query: str, seconds: float) -> str:
    """Cards to be, in the place where the answers will stand. The query is escaped already."""
    cards_to_be = '<div class="demo-wait">' + "<i></i>" * 3 + "</div>"
    said = f"Searching for “{query}” …" if seconds < 3 else f"Still searching for “{query}” … {seconds:.0f} s"
    return f'<p class="demo-searching" role="status">{said}</p><div class="demo-waits">{cards_to_be * columns}</div>'


# -- asking: both write to the address bar, which the page is drawn from ----------------------------------------------


def go(query: str) -> None:
    if query:
        st.query_params["query"] = query
    else:
        st.query_params.clear()


def box(query: str) -> None:
    """The one search box. Set only where it differs: setting it anew would wipe out what somebody is typing."""
    if st.session_state.get(BOX) != query:
        st.session_state[BOX] = query
    st.text_input(
        "Search",
        key=BOX,
        placeholder="What are you looking for?",
        max_chars=LONGEST_QUERY,
        label_visibility="collapsed",
        icon=":material/search:",
        on_change=lambda: go(" ".join((st.session_state[BOX] or "").split())),
    )


def chips(examples: Sequence[str]) -> None:
    """Questions to click on."""
    key = "demo.chips"

    def heard() -> None:
        if (value := st.session_state[key].get("choose")) is not None:
            go(str(value))

    if examples:
        _chips(key=key, data={"chips": [{"text": each, "kind": ""} for each in examples]}, on_choose_change=heard)


# -- answers ---------------------------------------------------------------------------------------------------------


def columns(show: Demo, answer: DemoAnswer, order: Sequence[int], *, reasons: bool) -> None:
    """The columns in that order; without names in a blind demo, and without reasons until somebody may read them."""
    shown = [
        _column(show.columns[at].name if not show.blind else LETTERS[place], answer.columns[at], answer, reasons)
        for place, at in enumerate(order)
    ]
    _answers(key="demo.answers", data={"columns": shown, "blind": show.blind})


def _column(name: str, column: AnswerColumn, answer: DemoAnswer, reasons: bool) -> dict[str, Any]:
    nothing = NOT_NOW if column.problem is not None else NOTHING
    return {
        "name": name,
        "nothing": "" if column.hits else nothing,
        "results": [_result(each, answer.keywords, reasons) for each in column.hits],
    }


def _result(found: AnswerHit, keywords: Sequence[str], reasons: bool) -> dict[str, Any]:
    hit = found.hit
    return {
        "title": plain(marked(title_of(hit), keywords)),
        "where": " · ".join(filter(None, [" \u203a ".join(cards.path_of(hit)), cards.page_of(hit)])),
        "snippet": plain(snippet(_plain(passage_of(hit)), keywords, SNIPPET)),
        "why": found.why if reasons else "",
    }


def _plain(text: str) -> str:
    """Without the marks by which Markdown sets headings and bold type, which mean nothing to most readers."""
    return MARKS.sub(lambda found: found[1] or "", text)


def title_of(hit: Hit) -> str:
    """The title, or the text's own first words: never an id."""
    title = hit.title.strip() or next((line for line in hit.text.splitlines() if line.strip(" #")), "")
    return cards.shortened(" ".join(title.strip(" #").split()), LONGEST_TITLE) or "Untitled"
