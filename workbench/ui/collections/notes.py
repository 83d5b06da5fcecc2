"""Sentences between widgets: plain ones, and what is to be known before a button is pressed."""

from __future__ import annotations

import html

import streamlit as st

from workbench.ui import errors


def say(sentence: str) -> None:
    st.html(f'<p class="rb-report">{errors.as_html(sentence)}</p>')


def note(title: str, sentence: str) -> None:
    st.html(
        f'<div class="rb-box rb-note" role="note"><strong>{html.escape(title)}</strong>'
        f"<p>{errors.as_html(sentence)}</p></div>"
    )


def endpoint(sentence: str) -> None:
    """What is sent away, where anything is."""
    if sentence:
        note("Asks an endpoint", sentence)
