"""The question before something is gone for good: a button asks it, a dialog has it confirmed or is put away.

Owns whether it stands. What it says, and what is done then, is in the dialog's function.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import streamlit as st

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Question:
    """One at a time of this key, about one thing."""

    key: str
    title: str

    def ask(self, about: str) -> None:
        """In a callback: the run that follows draws the dialog."""
        st.session_state[self.key] = about

    @property
    def about(self) -> str | None:
        """What it is asked about; None while nobody asks."""
        found: str | None = st.session_state.get(self.key)
        return found

    def dialog(self, draw: F) -> F:
        """That function as the dialog."""
        return st.dialog(self.title, on_dismiss=self._withdraw)(draw)

    def answered(self) -> None:
        """Away with the dialog. Ends the run."""
        self._withdraw()
        st.rerun()

    def _withdraw(self) -> None:
        st.session_state.pop(self.key, None)
