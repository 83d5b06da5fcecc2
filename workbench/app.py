"""The workbench's frame: page settings, the way from page to page, and what is the same on all of them."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.store.engine import Store
from workbench import session
from workbench.behind import pages as titles
from workbench.server import access, logs
from workbench.server.access import AccessControl
from workbench.server.uploads import uploads
from workbench.ui import errors, may, sign_in, theme, waiting
from workbench.views import collections, judging, notebook, runs, search, variants, weights

gate = access.current()
told = sign_in.told() if gate else {}
role = gate.role_of(told) if gate else None


def opened() -> Store:
    """The store as whoever is here may see it."""
    return session.store() if gate is None else gate.store(role or "")


def page(render: Callable[[Store], None]) -> Callable[[], None]:
    """A page's function with the opened store, whose errors are drawn for people."""

    def draw() -> None:
        name = render.__module__.rpartition(".")[2]
        with errors.shown(), logs.page(name, told, st.query_params.get("query", "")), waiting.drawn() as place:
            with place, st.spinner("Opening the database"):
                store = opened()
            uploads.allow(may.edit(store))
            render(store)

    return draw


def stranger(at: AccessControl) -> Callable[[], None]:
    """What stands at every address for whoever may not come in."""

    def draw() -> None:
        uploads.allow(False)
        sign_in.draw(at, told)

    return draw


st.set_page_config(page_title="Rankbook", page_icon=str(theme.MARK), layout="wide")
st.html(theme.stylesheet())
shut = stranger(gate) if gate is not None and role is None else None
pages = [
    st.Page(shut or page(render), title=title, url_path=title.lower(), icon=icon, default=at == 0)
    for at, (render, title, icon) in enumerate(
        (
            (search.render, titles.SEARCH, ":material/search:"),
            (notebook.render, titles.NOTEBOOK, ":material/menu_book:"),
            (weights.render, titles.WEIGHTS, ":material/tune:"),
            (collections.render, titles.COLLECTIONS, ":material/database:"),
            (variants.render, titles.VARIANTS, ":material/account_tree:"),
            (runs.render, titles.RUNS, ":material/history:"),
            *([(judging.render, titles.JUDGE, ":material/gavel:")] if may.judges(role or "") else []),
        )
    )
]
if shut is None:
    st.logo(str(theme.MARK), size="large")
    if role is not None:
        sign_in.frame(told, role)
st.navigation(pages, position="hidden" if shut else "top").run()
