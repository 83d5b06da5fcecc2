"""The runs page: everything that was evaluated and is kept, opened, held against each other, pinned, taken along."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.runs import run_store
from evals.runs.run_store import RunSummary
from workbench.components import deleted, feedback
from workbench.components.page import WorkbenchPage
from workbench.components.theme import asset
from workbench.screens.runs import history, new, run
from workbench.screens.runs.state import address
from workbench.services import permissions

MOST = 500  # runs, newest first


def render(store: Store) -> None:
    st.html(f"<style>{asset('screens/runs/page.css')}</style>")
    st.html('<p class="rb-tagline">Every run is kept with what it takes to repeat it: hold two against each other.</p>')
    state = address.current()
    names = [row.name for row in bridge.run(collections.listed(store))]
    with feedback.draw_errors():
        if permissions.may_edit(store):
            deleted.draw(store, "runs")
            new.draw(store, state, names)
    runs = bridge.run(run_store.listed(store, most=MOST))
    opened: RunSummary | None = None
    with feedback.draw_errors():
        opened = bridge.run(run_store.find(store, state.run)) if state.run else None
    history.draw(runs, state, opened.id if opened else "")
    if opened is not None:
        with st.container(key="runs-open"), feedback.draw_errors():
            run.draw(store, opened, runs, state)
    feedback.scroll_to("runs-open", opened.id if opened else "")


PAGE = WorkbenchPage("Runs", ":material/history:", render)
