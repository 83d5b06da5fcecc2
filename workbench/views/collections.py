"""The Collections page: what there is, one of them at length, a form for another, and work under way."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from workbench.behind.collections.shown import CollectionSummary
from workbench.ui import deleted, errors, may, theme
from workbench.ui.collections import about as collections_about
from workbench.ui.collections import add as collections_add
from workbench.ui.collections import ask as collections_ask
from workbench.ui.collections import browse as collections_browse
from workbench.ui.collections import cached as collections_cached
from workbench.ui.collections import extend as collections_extend
from workbench.ui.collections import listing as collections_list
from workbench.ui.collections import refused
from workbench.ui.collections import trash as collections_trash
from workbench.ui.collections import work as collections_work
from workbench.ui.collections.state import current, tabs

VIEWS = {
    "about": "About",
    "documents": "Documents",
    "queries": "Queries",
    "ask": "Add queries, labels",
    "extend": "Extend",
    "check": "Check",
    "out": "Export, drop",
}
READ = ("about", "documents", "queries")  # what is there for whoever may not change anything


def render(store: Store) -> None:
    st.html(f"<style>{theme.read('collections/page.css')}</style>")
    asked = current()
    shelf = collections_list.shelf(store)
    edits = may.edit(store)
    # Each part has its own slot, whether or not it has anything to show: a part that moved up or down the page would
    # stand there twice until the run ends, because the browser keeps what a run has not yet replaced.
    above, work, below = st.container(), st.container(), st.container()
    with above:
        if shelf or asked.way:
            collections_list.head(adding=bool(asked.way), offered=edits)
        if edits:
            deleted.draw(store, "collections")
        refused.draw()
        if asked.way and edits:
            collections_add.draw(store, shelf)
        if shelf:
            collections_list.draw(shelf)
        elif not asked.way:
            collections_list.welcome(offered=edits)
    with work:
        collections_work.draw(store)
    with below, errors.shown():
        if shelf and asked.collection:
            _one(store, shelf, asked.collection)
        elif not asked.way and edits:
            if shelf:
                collections_cached.draw(store)
            collections_trash.draw(store)


def _one(store: Store, shelf: Sequence[CollectionSummary], name: str) -> None:
    view = bridge.run(collections.get(store, name))  # says what there is instead
    row = next((each for each in shelf if each.name == view.name), None)
    if row is None:
        return  # made this very moment: the list comes with the next look
    collections_about.head(store, row)
    views = VIEWS if may.edit(store) else {each: VIEWS[each] for each in READ}
    chosen = current().shown if current().shown in views else "about"
    tabs("What to see of it", "view", views, chosen)
    shown: dict[str, Callable[[], None]] = {
        "about": lambda: collections_about.draw(store, view, row),
        "documents": lambda: collections_browse.documents(store, view),
        "queries": lambda: collections_browse.queries(store, view),
        "ask": lambda: collections_ask.draw(store, view),
        "extend": lambda: collections_extend.extend(store, view, shelf),
        "check": lambda: collections_extend.check(store, view),
        "out": lambda: collections_extend.out(store, view, row),
    }
    shown[chosen]()
