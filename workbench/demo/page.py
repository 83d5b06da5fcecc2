"""The page of the demo: one search box, answers side by side, and a vote for the better ones."""

from __future__ import annotations

import hashlib
import html
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from contextlib import contextmanager
from typing import Any

import streamlit as st

from core import bridge
from core.errors import DeadlineExceeded, InputError, RankbookError
from core.types import Hit
from evals.judging import votes
from evals.judging.votes import BOTH, LONGEST_QUERY, NEITHER, Vote
from evals.presentation.search_results import passage_of
from workbench.components import cards
from workbench.components.theme import asset
from workbench.demo import show as demo_show
from workbench.demo.answers import AnswerColumn, AnswerHit, DemoAnswer
from workbench.demo.show import LETTERS, Demo, clean_query
from workbench.services.snippets import marked, plain, snippet

COOKIE = "rankbook_visitor"
QUESTION = "Which is better?"
OF_TWO = ("Both good", "Neither")
OF_MORE = ("All good", "None")
MINE, PROBLEM, KNOWN = "ballot.visitor", "ballot.problem", "ballot.known"

_log = logging.getLogger("rankbook")
_visitor = st.components.v2.component("rankbook.visitor", html="<span></span>", js=asset("demo/visitor.js"))


def visitor_id() -> str:
    """The id in the cookie, else a new one for the cookie."""
    if MINE not in st.session_state:
        kept = str(st.context.cookies.get(COOKIE, ""))
        st.session_state[MINE] = kept if re.fullmatch(r"[0-9a-f]{32}", kept) else secrets.token_hex(16)
    return str(st.session_state[MINE])


def vote_of(show: Demo, mine: str, query: str) -> str | None:
    """This visitor's vote on the query, read once a session and query."""
    known: dict[str, str | None] = st.session_state.setdefault(KNOWN, {})
    if query not in known:
        known[query] = bridge.run(votes.choice_of(show.store, show.contest, mine, query))
    return known[query]


def draw_ballot(show: Demo, mine: str, query: str, order: Sequence[int]) -> None:
    """The question, its answers in the order of the columns, and how many have voted."""
    ways = [*(show.columns[at].variant.id for at in order), BOTH, NEITHER]
    names = [*LETTERS[: len(order)], *(OF_TWO if len(order) == 2 else OF_MORE)]
    choice = vote_of(show, mine, query)
    key = f"ballot.choice.{hashlib.sha256(query.encode()).hexdigest()[:16]}"
    wanted = names[ways.index(choice)] if choice in ways else None
    if st.session_state.get(key) != wanted:
        st.session_state[key] = wanted
    with st.container(key="demo-ballot"):
        _visitor(key="ballot.keeper", data={"cookie": COOKIE, "visitor": mine})
        st.segmented_control(
            QUESTION, names, key=key, on_change=_heard(show, mine, query, key, dict(zip(names, ways, strict=True)))
        )
        st.html(f'<p class="demo-thanks" role="status">{_thanks(show, choice)}</p>')


def _heard(show: Demo, mine: str, query: str, key: str, ways: dict[str, str]) -> Callable[[], None]:
    def follow() -> None:
        choice = ways.get(st.session_state[key] or "")
        try:
            bridge.run(votes.cast(show.store, show.contest, Vote(mine, query, choice)))
        except Exception as error:
            if not isinstance(error, RankbookError):
                _log.error("a vote could not be kept", exc_info=error)
            st.session_state[PROBLEM] = True
        else:
            st.session_state[KNOWN][query] = choice

    return follow


def _thanks(show: Demo, choice: str | None) -> str:
    if st.session_state.pop(PROBLEM, False):
        return "Your vote could not be kept. Try again in a moment."
    if choice is None:
        return "Vote, and see why each result was found."
    given = bridge.run(votes.count(show.store, show.contest))
    return f"Thank you. {given:,} vote{'s' * (given != 1)} so far. Click again to take yours back."


SNIPPET = 260
MARKS = re.compile(r"^[ ]{0,3}#{1,6}[ ]+|\*\*(?=\S)([^*\n]+?)(?<=\S)\*\*", re.MULTILINE)
LONGEST_TITLE = 110
NOTHING = "Nothing found this way."
NOT_NOW = "This one cannot answer at the moment."
BOX = "demo.query"

_answers = st.components.v2.component(
    "rankbook.demo",
    html='<div class="answers"></div>',
    css=f"{asset('components/assets/shared.css')}\n{asset('demo/answers.css')}",
    js=asset("demo/answers.js"),
)


_chips = st.components.v2.component(
    "rankbook.demo_chips",
    html='<ul class="chips" aria-label="Examples"></ul>',
    css=f"{asset('components/assets/shared.css')}\n{asset('components/assets/chips.css')}\n{asset('demo/chips.css')}",
    js=asset("components/assets/chips.js"),
)


def head(title: str, about: str) -> None:
    st.html(f'<header class="demo-head"><h1>{html.escape(title)}</h1><p>{html.escape(about)}</p></header>')


def say(title: str, sentence: str) -> None:
    """What a visitor reads in place of an error."""
    words = f"<strong>{html.escape(title)}</strong><p>{html.escape(sentence)}</p>"
    st.html(f'<div class="demo-said" role="alert">{words}</div>')


def server_waited_for(sentence: str) -> str:
    """The message while the server is waited for."""
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
    """Placeholders for the answers. The query is escaped already."""
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
    """The search box, set only where it differs: setting it anew would wipe out what somebody is typing."""
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
    """Example questions to click."""
    key = "demo.chips"

    def heard() -> None:
        if (value := st.session_state[key].get("choose")) is not None:
            go(str(value))

    if examples:
        _chips(key=key, data={"chips": [{"text": each, "kind": ""} for each in examples]}, on_choose_change=heard)


# -- answers ---------------------------------------------------------------------------------------------------------


def columns(show: Demo, answer: DemoAnswer, order: Sequence[int], *, reasons: bool) -> None:
    """The columns in that order; without names in a blind demo, and without reasons before the vote."""
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
        "snippet": plain(snippet(MARKS.sub(lambda found: found[1] or "", passage_of(hit)), keywords, SNIPPET)),
        "why": found.why if reasons else "",
    }


def title_of(hit: Hit) -> str:
    """The title, or the text's first words: never an id."""
    title = hit.title.strip() or next((line for line in hit.text.splitlines() if line.strip(" #")), "")
    return cards.shortened(" ".join(title.strip(" #").split()), LONGEST_TITLE) or "Untitled"


AT_ONCE = 0.15  # seconds before the page shows that it is waiting
BEAT = 0.25  # seconds between two looks; each line drawn also lets a newer query end this run


def heading() -> str:
    """The title of the page and of its window."""
    try:
        return demo_show.current().title
    except InputError:
        return "Demo"


@contextmanager
def mishaps_hidden() -> Iterator[None]:
    """Errors are plain sentences here; the terminal has them in full."""
    try:
        yield
    except DeadlineExceeded as error:
        _log.warning("a visitor's search: %s", error)
        say("That took too long", "Many people may be searching at this moment. Try again, or use fewer words.")
    except Exception as error:
        _log.error("the demo's page", exc_info=error)
        say("That did not work", "It is not your fault. Try again in a moment, or ask something else.")


def render(show: Demo) -> None:
    visitor = visitor_id()
    query = clean_query(st.query_params.get("query", ""))
    head(show.title, _about(show))
    box(query)
    chips(show.examples)
    place = st.container(key="demo-answers").empty()
    if not query:
        place.html(welcome([each.name for each in show.columns], blind=show.blind))
        return
    # The answer: at once where it is there, else after a while in which the page says so.
    search = show.answers.ask(query)
    if futures.wait([search], AT_ONCE).not_done:
        waited = 0.0
        while futures.wait([search], BEAT).not_done:
            waited += BEAT
            place.html(waiting(len(show.columns), html.escape(query), waited))
    answer = search.result()
    order = show.order(visitor, query)
    choice = vote_of(show, visitor, query) if show.blind else None
    with place.container():
        columns(show, answer, order, reasons=not show.blind or choice is not None)
    if show.blind and any(column.hits for column in answer.columns):
        draw_ballot(show, visitor, query, order)


def _about(show: Demo) -> str:
    """How many documents there are."""
    documents = next((each.units for each in show.view.chunk_sets if each.key == 0), 0)
    return f"{documents:,} documents. Ask in your own words." if documents else "Ask in your own words."
