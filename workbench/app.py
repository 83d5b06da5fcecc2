"""The workbench's frame: page settings, the way from page to page, and what is the same on all of them."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.store.engine import Store
from workbench import session
from workbench.ui import errors, theme
from workbench.views import collections, judging, notebook, runs, search, variants, weights


def page(render: Callable[[Store], None]) -> Callable[[], None]:
    """A page's function with the opened store, whose errors are drawn for people."""

    def draw() -> None:
        with errors.shown():
            with st.spinner("Opening the database"):
                store = session.store()
            render(store)

    return draw


st.set_page_config(page_title="Rankbook", page_icon=str(theme.MARK), layout="wide")
st.html(theme.stylesheet())
st.logo(str(theme.MARK), size="large")
pages = [
    st.Page(page(search.render), title="Search", url_path="search", icon=":material/search:", default=True),
    st.Page(page(notebook.render), title="Notebook", url_path="notebook", icon=":material/menu_book:"),
    st.Page(page(weights.render), title="Weights", url_path="weights", icon=":material/tune:"),
    st.Page(page(collections.render), title="Collections", url_path="collections", icon=":material/database:"),
    st.Page(page(variants.render), title="Variants", url_path="variants", icon=":material/account_tree:"),
    st.Page(page(runs.render), title="Runs", url_path="runs", icon=":material/history:"),
    st.Page(page(judging.render), title="Judge", url_path="judge", icon=":material/gavel:"),
]
st.navigation(pages, position="top").run()
