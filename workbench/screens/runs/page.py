"""The runs page: everything that was evaluated and is kept, opened, held against each other, pinned, taken along."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.runs import run_store
from evals.runs.run_store import RunSummary
from workbench.components import deleted, feedback, url_state
from workbench.components.page import Page
from workbench.components.theme import asset
from workbench.screens.runs import history as runs_history
from workbench.screens.runs import new as runs_new
from workbench.screens.runs import run as runs_open
from workbench.services import permissions
from workbench.services.runs import RunsState

MOST = 500  # runs, newest first


def render(store: Store) -> None:
    st.html(f"<style>{asset('screens/runs/page.css')}</style>")
    st.html('<p class="rb-tagline">Every run is kept with what it takes to repeat it: hold two against each other.</p>')
    asked = RunsState.of(url_state.said())
    names = [row.name for row in bridge.run(collections.listed(store))]
    with feedback.draw_errors():
        if permissions.may_edit(store):
            deleted.draw(store, "runs")
            runs_new.draw(store, asked, names)
    runs = bridge.run(run_store.listed(store, most=MOST))
    opened: RunSummary | None = None
    with feedback.draw_errors():
        opened = bridge.run(run_store.find(store, asked.run)) if asked.run else None
    runs_history.draw(runs, asked, opened.id if opened else "")
    if opened is not None:
        with st.container(key="runs-open"), feedback.draw_errors():
            runs_open.draw(store, opened, runs, asked)
    feedback.scroll_to("runs-open", opened.id if opened else "")


PAGE = Page("Runs", ":material/history:", render)
