"""Buttons that begin work, and what refuses to begin: told where the page is drawn anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from core.errors import RankbookError
from workbench.behind.jobs import Job
from workbench.ui import errors


def asked_for(begin: Callable[[], Job[Any]]) -> Callable[[], None]:
    """A button's callback that begins work; what refuses to begin is told where the page is drawn anew."""

    def click() -> None:
        try:
            begin()
        except RankbookError as error:
            st.session_state["collections.refused"] = error

    return click


def draw() -> None:
    if (refused := st.session_state.pop("collections.refused", None)) is not None:
        errors.draw(refused)
