"""A variant that comes in as a TOML file, as `rankbook variant keep` takes it."""

from __future__ import annotations

import streamlit as st

from core.errors import InputError, RankbookError
from core.store import roles
from core.store.engine import Store
from evals import variants
from workbench.behind.variants import text as variant_text
from workbench.ui import address, errors

KEY, LARGEST = "variants.upload", 1  # megabytes


def draw(store: Store) -> None:
    with st.popover("Add from a file", icon=":material/upload_file:"):
        st.file_uploader("A variant's TOML file", key=KEY, max_upload_size=LARGEST, on_change=_taken, args=(store,))
        error = st.session_state.pop(f"{KEY}.problem", None)
        if error is not None:
            errors.draw(error)


def _taken(store: Store) -> None:
    given = st.session_state[KEY]
    if given is None:
        return
    try:
        roles.refuse_reader(store, "keep variants")
        address.go(variant=_kept(given.getvalue()), beside="", view="")
    except RankbookError as error:
        st.session_state[f"{KEY}.problem"] = error


def _kept(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("The file is not UTF-8, which TOML is written in.") from error
    variant_text.read(text)
    return variants.keep(text).name
