"""The demo's page: a box, examples, answers side by side, and in a blind demo a vote. For people, not for engineers.

It says nothing of SQL, ids, settings or errors: those go to the terminal. The address bar holds the query.
"""

from __future__ import annotations

import html
import logging
from collections.abc import Iterator
from concurrent import futures
from contextlib import contextmanager

import streamlit as st

from core.errors import DeadlineExceeded, InputError
from workbench.demo import show as shows
from workbench.demo.answers import DemoAnswer
from workbench.demo.show import Demo, clean_query
from workbench.ui.demo import answers as demo
from workbench.ui.demo import ballot

AT_ONCE = 0.15  # seconds before the page shows that it is waiting
BEAT = 0.25  # seconds between two looks; each line drawn also lets a newer query end this run

_log = logging.getLogger("rankbook")


def heading() -> str:
    """The title of the page and of its window."""
    try:
        return shows.current().title
    except InputError:
        return "Demo"


@contextmanager
def mishaps_hidden() -> Iterator[None]:
    """What goes wrong is a plain sentence here, and told in full in the terminal."""
    try:
        yield
    except DeadlineExceeded as error:
        _log.warning("a visitor's search: %s", error)
        demo.say("That took too long", "Many people may be searching at this moment. Try again, or use fewer words.")
    except Exception as error:
        _log.error("the demo's page", exc_info=error)
        demo.say("That did not work", "It is not your fault. Try again in a moment, or ask something else.")


def render(show: Demo) -> None:
    visitor = ballot.visitor()
    query = clean_query(st.query_params.get("query", ""))
    demo.head(show.title, _about(show))
    demo.box(query)
    demo.chips(show.examples)
    place = st.container(key="demo-answers").empty()
    if not query:
        place.html(demo.welcome([each.name for each in show.columns], blind=show.blind))
        return
    answer = _answered(show, query, place)
    order = show.order(visitor, query)
    choice = ballot.standing(show, visitor, query) if show.blind else None
    with place.container():
        demo.columns(show, answer, order, reasons=not show.blind or choice is not None)
    if show.blind and any(column.hits for column in answer.columns):
        ballot.draw(show, visitor, query, order)


def _about(show: Demo) -> str:
    """What there is to find, in a line."""
    documents = next((each.units for each in show.view.chunk_sets if each.key == 0), 0)
    return f"{documents:,} documents. Ask in your own words." if documents else "Ask in your own words."


def _answered(show: Demo, query: str, place: st.delta_generator.DeltaGenerator) -> DemoAnswer:
    """The answer: at once where it is there, else after a while in which the page says so."""
    search = show.answers.ask(query)
    if futures.wait([search], AT_ONCE).not_done:
        waited = 0.0
        while futures.wait([search], BEAT).not_done:
            waited += BEAT
            place.html(demo.waiting(len(show.columns), html.escape(query), waited))
    return search.result()
