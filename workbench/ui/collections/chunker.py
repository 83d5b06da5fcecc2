"""The choice of a chunker and its options, as a form made of the chunker's own fields."""

from __future__ import annotations

import html
import tomllib
from typing import Any

import streamlit as st

from core.chunking import chunkers
from workbench.behind.summaries import summary
from workbench.ui import form


def draw(key: str, *, optional: bool = False, chosen: str = "headings") -> dict[str, Any] | None:
    """A chunker's spec; None where documents are to stay whole, which has to be `optional`."""
    kinds = sorted(each for each in chunkers if each != "none" or not optional)
    options = [*kinds, ""] if optional else kinds
    st.session_state.setdefault(f"{key}.chunker", chosen)
    kind = st.selectbox(
        "Cut documents by",
        options,
        key=f"{key}.chunker",
        format_func=lambda name: name.replace("_", " ") or "nothing: whole documents only",
    )
    if not kind:
        return None
    model = chunkers[kind]
    st.html(f'<p class="rb-summary">{html.escape(summary(model))}</p>')
    source = st.session_state.setdefault(f"{key}.chunker.{kind}", "")
    changed = form.drawn(model, source, f"{key}.options.{kind}") if model.model_fields else None
    if changed is not None:
        st.session_state[f"{key}.chunker.{kind}"] = source = changed
    return {"kind": kind, **tomllib.loads(source)}


def fill(key: str, spec: dict[str, Any] | None) -> None:
    """So that it is drawn with these options."""
    kind = spec["kind"] if spec else ""
    st.session_state[f"{key}.chunker"] = kind
    if spec:
        lines = [f"{name} = {_written(value)}" for name, value in spec.items() if name != "kind"]
        st.session_state[f"{key}.chunker.{kind}"] = "\n".join(lines)


def _written(value: Any) -> str:
    import json

    return json.dumps(value)  # numbers, texts and truth values read the same in TOML
