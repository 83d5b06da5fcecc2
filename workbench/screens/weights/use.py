"""From the Weights page to a notebook: which one, and the cell there that scores a kept variant beside its legs."""

from __future__ import annotations

import html
from urllib.parse import urlencode

import streamlit as st

from core.errors import RankbookError
from core.store.engine import Store
from evals.types import DEFAULT_QUERY_SET
from workbench.components import feedback
from workbench.notebooks import insert
from workbench.notebooks.insert import CellLocation
from workbench.services.weights import METRICS, WeightsState

NEW = "A new notebook"


def draw(key: str, store: Store, asked: WeightsState, name: str) -> None:
    """The notebooks, and once a cell is placed the way there."""
    field, placed, refused = f"{key}.use", f"{key}.placed", f"{key}.unplaced"

    def chosen() -> None:
        st.session_state.pop(refused, None)
        wanted = st.session_state[field]
        if not wanted:
            return
        st.session_state[field] = None
        try:
            put = insert.place(store, "" if wanted == NEW else wanted, source(asked, name))
            st.session_state[placed] = (name, put)
        except RankbookError as error:
            st.session_state[refused] = error

    st.selectbox(
        "Use in an evaluate cell",
        [NEW, *insert.notebooks()],
        index=None,
        key=field,
        placeholder="Use in an evaluate cell of …",
        label_visibility="collapsed",
        help="A cell at the end of that notebook, that scores it beside what it was made of.",
        on_change=chosen,
        width=280,
    )
    of, where = st.session_state.get(placed, ("", CellLocation("", "")))
    if refused in st.session_state:
        feedback.draw_error(st.session_state[refused])
    elif of == name:
        link = html.escape(f"./notebook?{urlencode({'notebook': where.notebook, 'cell': where.cell})}")
        st.html(f'<a class="rb-placed" href="{link}" target="_self">Open the cell in {html.escape(where.notebook)}</a>')


def source(asked: WeightsState, name: str) -> str:
    """Over the same collection; on which of its queries the notebook says, for weights are not proved where found."""
    where = {
        "collection": asked.collection,
        "query_set": "" if asked.query_set == DEFAULT_QUERY_SET else asked.query_set,
    }
    legs = [asked.variant] if asked.variant else asked.legs.split(",")
    return insert.source(where, asked.metric or METRICS[0], [*legs, name])
