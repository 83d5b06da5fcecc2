"""The demo's frame: a page of its own, and nothing else. The workbench's pages are not in it."""

from __future__ import annotations

import streamlit as st

from workbench.components import server_waits, theme
from workbench.demo import page, show

st.set_page_config(page_title=page.heading(), page_icon=str(theme.MARK), layout="wide")
st.html(f"<style>{theme.asset('demo/page.css')}</style>")
with page.mishaps_hidden(), server_waits.drawn(page.server_waited_for):
    page.render(show.current())
