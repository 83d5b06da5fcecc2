"""Which is better? A blind demo's vote: one a visitor and query, changed or taken back by another click.

A visitor is a random number in a cookie of this page, so that a reload finds the vote again. It says nothing of a
person, and the demo keeps nothing else of them.
"""

from __future__ import annotations

import hashlib
import logging
import re
import secrets
from collections.abc import Callable, Sequence

import streamlit as st

from core import bridge
from core.errors import RankbookError
from evals.judging import votes
from evals.judging.votes import BOTH, NEITHER, Vote
from workbench.demo.show import LETTERS, Demo
from workbench.ui.theme import read

COOKIE = "rankbook_visitor"
QUESTION = "Which is better?"
OF_TWO = ("Both good", "Neither")
OF_MORE = ("All good", "None")
MINE, PROBLEM, KNOWN = "ballot.visitor", "ballot.problem", "ballot.known"

_log = logging.getLogger("rankbook")
_visitor = st.components.v2.component("rankbook.visitor", html="<span></span>", js=read("demo/visitor.js"))


def visitor() -> str:
    """The number in the cookie, else a new one, which the page is told to keep."""
    if MINE not in st.session_state:
        kept = str(st.context.cookies.get(COOKIE, ""))
        st.session_state[MINE] = kept if re.fullmatch(r"[0-9a-f]{32}", kept) else secrets.token_hex(16)
    return str(st.session_state[MINE])


def standing(show: Demo, mine: str, query: str) -> str | None:
    """What this visitor said of the query, asked of the store once a session and query."""
    known: dict[str, str | None] = st.session_state.setdefault(KNOWN, {})
    if query not in known:
        known[query] = bridge.run(votes.choice_of(show.store, show.contest, mine, query))
    return known[query]


def draw(show: Demo, mine: str, query: str, order: Sequence[int]) -> None:
    """The question, its answers in the order of the columns, and how many have answered."""
    ways = [*(show.columns[at].variant.id for at in order), BOTH, NEITHER]
    names = [*LETTERS[: len(order)], *(OF_TWO if len(order) == 2 else OF_MORE)]
    choice = standing(show, mine, query)
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
