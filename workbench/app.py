"""The workbench's frame: page settings, the way from page to page, and what is the same on all of them."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from core.store.engine import Store
from workbench import session
from workbench.components import feedback, server_waits, sign_in, theme
from workbench.components.page import Page
from workbench.screens.registry import PAGES
from workbench.server import access, logs
from workbench.server.access import AccessControl
from workbench.server.uploads import uploads
from workbench.services import permissions

gate = access.current()
told = sign_in.told() if gate else {}
role = gate.role_of(told) if gate else None


def opened() -> Store:
    """The store as whoever is here may see it."""
    return session.store() if gate is None else gate.store(role or "")


def drawn(page: Page) -> Callable[[], None]:
    """A page's function with the opened store, whose errors are drawn for people."""

    def draw() -> None:
        name, query = page.log_name or page.path, st.query_params.get("query", "")
        with feedback.draw_errors(), logs.page(name, told, query), server_waits.drawn() as place:
            with place, st.spinner("Opening the database"):
                store = opened()
            uploads.allow(permissions.may_edit(store))
            page.render(store)

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
    st.Page(shut or drawn(page), title=page.title, url_path=page.path, icon=page.icon, default=page is PAGES[0])
    for page in PAGES
    if page.roles is None or (role or "") in page.roles
]
if shut is None:
    st.logo(str(theme.MARK), size="large")
    if role is not None:
        sign_in.frame(told, role)
st.navigation(pages, position="hidden" if shut else "top").run()
