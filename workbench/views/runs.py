"""The runs page: everything that was evaluated and is kept, opened, held against each other, pinned, taken along."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.runs import run_store
from evals.runs.run_store import RunSummary
from workbench.behind.runs.asked import RunsState
from workbench.ui import address, deleted, errors, may, reveal
from workbench.ui.runs import history as runs_history
from workbench.ui.runs import new as runs_new
from workbench.ui.runs import opened as runs_open
from workbench.ui.theme import read

MOST = 500  # runs, newest first


def render(store: Store) -> None:
    st.html(f"<style>{read('runs/page.css')}</style>")
    st.html('<p class="rb-tagline">Every run is kept with what it takes to repeat it: hold two against each other.</p>')
    asked = RunsState.of(address.said())
    names = [row.name for row in bridge.run(collections.listed(store))]
    with errors.shown():
        if may.edit(store):
            deleted.draw(store, "runs")
            runs_new.draw(store, asked, names)
    runs = bridge.run(run_store.listed(store, most=MOST))
    opened: RunSummary | None = None
    with errors.shown():
        opened = bridge.run(run_store.find(store, asked.run)) if asked.run else None
    runs_history.draw(runs, asked, opened.id if opened else "")
    if opened is not None:
        with st.container(key="runs-open"), errors.shown():
            runs_open.draw(store, opened, runs, asked)
    reveal.show("runs-open", opened.id if opened else "")
