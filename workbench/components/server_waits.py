"""What a page says while the server is waited for: at its top, in the waiting process's own sentences."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.runtime.scriptrunner import add_script_run_ctx, get_script_run_ctx

from workbench.components import feedback
from workbench.server import waits


def note(sentence: str) -> str:
    return f'<div class="rb-box rb-note" role="status"><p>{feedback.as_html(sentence)}</p></div>'


@contextmanager
def drawn(as_html: Callable[[str], str] = note) -> Iterator[DeltaGenerator]:
    """A place at the top of the page, empty but for such a sentence while the page is drawn."""
    place, context, said = st.empty(), get_script_run_ctx(), list[str]()

    def draw(sentence: str) -> None:
        add_script_run_ctx(ctx=context)
        place.html(as_html(sentence))

    def tell(sentence: str) -> None:
        """In a thread of its own, which belongs to this page as long as it draws: the caller's belongs to nobody."""
        said.append(sentence)
        drawing = threading.Thread(target=draw, args=(sentence,), daemon=True)
        drawing.start()
        drawing.join()

    with waits.heard_by(tell):
        yield place
    if said:
        place.empty()
