"""Scrolls to what was just opened, where it is drawn below what it was opened from. Draws nothing that is seen."""

from __future__ import annotations

import streamlit as st

from workbench.ui.theme import read

_reveal = st.components.v2.component("rankbook.reveal", html="<span></span>", js=read("reveal.js"))


def show(place: str, of: str) -> None:
    """Bring the container of that key into view once for each `of`: an id, empty where nothing is open."""
    with st.container(key="reveal"):
        _reveal(key=f"reveal.{place}", data={"place": place, "of": of})
