"""The demo's frame: a page of its own, and nothing else. The workbench's pages are not in it."""

from __future__ import annotations

import streamlit as st

from workbench.demo import show
from workbench.ui import theme, waiting
from workbench.ui.demo import answers
from workbench.views import demo

st.set_page_config(page_title=demo.heading(), page_icon=str(theme.MARK), layout="wide")
st.html(f"<style>{theme.read('demo/page.css')}</style>")
with demo.mishaps_hidden(), waiting.drawn(answers.server_waited_for):
    demo.render(show.current())
