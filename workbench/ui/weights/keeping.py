"""A point of the surface as a variant of one's own: its name, the button that keeps it, and where to go with it then.

Owns what is asked where a name is taken. What is kept is `evals.variants`'s.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from urllib.parse import urlencode

import streamlit as st

from core.errors import RankbookError
from core.store.engine import Store
from core.variant import Variant
from workbench.behind.weights import taken

LONGEST_NAME = 120


def keeping(store: Store, key: str, made: Variant) -> None:
    """A name, which is offered anew as the point moves until somebody types one, and the button."""
    _name(key, made)

    def asked() -> None:
        _keep(store, key, made, st.session_state[f"{key}.name"])  # what was typed on the way to the button too

    st.button("Keep as variant", icon=":material/bookmark:", key=f"{key}.keep", on_click=asked)


def _name(key: str, made: Variant) -> None:
    field, offered = f"{key}.name", f"{key}.offered"
    of, kept = st.session_state.get(f"{key}.kept", ("", ""))
    usual = kept if of == made.id else taken.usual_name(made)
    if st.session_state.get(field) in (None, "", st.session_state.get(offered)):
        st.session_state[field] = usual
    st.session_state[offered] = usual
    st.text_input("Name", key=field, max_chars=LONGEST_NAME, width=280)


def _keep(store: Store, key: str, made: Variant, name: str, *, over: bool = False) -> None:
    """In a callback, so that whatever is drawn knows of it."""
    said, asked = f"{key}.refused", f"{key}.taken"
    st.session_state.pop(said, None)
    st.session_state.pop(asked, None)
    try:
        if not over and taken.replaceable(made, name):
            st.session_state[asked] = (made.id, name.strip())
            return
        st.session_state[f"{key}.kept"] = (made.id, taken.keep(store, made, name, over=over))
    except RankbookError as error:
        st.session_state[said] = (made.id, str(error))


def kept(store: Store, key: str, made: Variant, use: Callable[[str], None]) -> None:
    """What became of it. `use` draws what puts it into a cell."""
    refused, name_taken, done = (
        st.session_state.get(f"{key}.{each}", ("", "")) for each in ("refused", "taken", "kept")
    )
    if name_taken[0] == made.id:
        _replace(store, key, made, name_taken[1])
    elif refused[0] == made.id:
        _say(html.escape(refused[1]), "alert")
    elif done[0] == made.id:
        _links(done[1], use)


def _replace(store: Store, key: str, made: Variant, name: str) -> None:
    _say(f"Another variant is kept as <b>{html.escape(name)}</b> already. Type another name, or replace it.", "alert")
    st.button(
        "Replace it",
        icon=":material/published_with_changes:",
        key=f"{key}.replace",
        on_click=_keep,
        args=(store, key, made, name),
        kwargs={"over": True},
    )


def _links(name: str, use: Callable[[str], None]) -> None:
    link = html.escape(f"./variants?{urlencode({'variant': name})}")
    with st.container(horizontal=True, vertical_alignment="center"):
        _say(
            f"Kept as <b>{html.escape(name)}</b>: notebooks and commands find it by that name. "
            f'<a class="rb-link" href="{link}" target="_self">Open in Variants</a>',
            "status",
        )
        use(name)


def _say(words: str, role: str) -> None:
    st.html(f'<p class="rb-summary" role="{role}">{words}</p>', width="content")
