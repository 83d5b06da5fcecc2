"""How a source is to be loaded: language, chunks, model, fields, as fields of `library.Plan`."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any, Final

import streamlit as st

from core import bridge
from core.embedding import DEFAULT_MODEL
from core.store import collections
from core.store.engine import Store
from core.store.names import composed
from evals.collections import load
from workbench.behind.collections import added as collections_added
from workbench.behind.collections import announced
from workbench.behind.collections.added import SourcePreview
from workbench.behind.collections.shown import CollectionSummary, known_models, told_chunker
from workbench.ui.collections import chunker as collections_chunker
from workbench.ui.collections import notes

USUAL_LANGUAGE: Final = "english"
_AS_IT_WISHES: Final = "add.wishes"
_WISHED: Final = "add.wished by"  # the source whose wishes the form began with
REFILLED: Final = "an earlier try"
Plain = dict[str, Any]


def draw(store: Store, shelf: Sequence[CollectionSummary], name: str, look: SourcePreview) -> Plain:
    there = next((row for row in shelf if row.name == composed(name)), None)
    if there is not None and not there.attached:
        return _refresh(store, name)
    _wished(look)
    left, right = st.columns(2, gap="large")
    with left:
        chunks = _chunks(look)
    with right:
        made = {**_model(shelf, look.size), **_language(store), **_fields(look)}
    return {**made, "chunks": chunks, **_more(new=True)}


def _wished(look: SourcePreview) -> None:
    """What the source wishes is what its form begins with."""
    state, of = st.session_state, repr(look.source)
    if state.get(_WISHED) not in (of, REFILLED):
        state["add.fields"] = list(look.wishes.get("fields", ()))
        state["add.language"] = look.wishes.get("language", USUAL_LANGUAGE)
        state[_AS_IT_WISHES] = True
    state[_WISHED] = of


def _chunks(look: SourcePreview) -> Plain:
    """The chunk sets that the source wishes for, or one of one's own."""
    if wished := look.wishes.get("chunks"):
        told = "; ".join(f"{name}: {told_chunker(spec)}" for name, spec in wished.items())
        if st.checkbox("Cut it as whoever made it recommends", key=_AS_IT_WISHES):
            st.html(f'<p class="rb-summary">{html.escape(told)}</p>')
            return dict(wished)
    chunker = collections_chunker.draw("add", optional=True)
    return {"default": chunker} if chunker else {}


def _refresh(store: Store, name: str) -> Plain:
    """Of a collection that is there: what it is made of stays."""
    st.html(
        f"<p>There is a collection <code>{html.escape(name)}</code> already. What is new or changed is brought in, cut "
        "and embedded as the rest of it; unchanged documents cost nothing. For another chunking or model take another "
        "name, or extend it afterwards.</p>"
    )
    made = load.plan_of(bridge.run(collections.get(store, name)))
    return {"chunks": made.chunks, "models": made.models, "embed_items": made.embed_items, **_more(new=False)}


def _model(shelf: Sequence[CollectionSummary], size: int | None) -> Plain:
    st.session_state.setdefault("add.model", DEFAULT_MODEL)
    model = st.selectbox(
        "Embedding model",
        [*known_models(shelf), ""],
        key="add.model",
        format_func=lambda name: name or "none: search by words only",
        accept_new_options=True,
        help="A sentence-transformers name, a folder, or openai:NAME for the endpoint at RANKBOOK_EMBEDDING_URL. More "
        "can be added later.",
    )
    many = f"The texts of about {size:,} documents go" if size is not None else "The texts of all documents go"
    notes.endpoint(announced.told((model or "").strip(), many))
    return {"models": (model.strip(),) if model and model.strip() else ()}


def _language(store: Store) -> Plain:
    known = bridge.run(collections_added.languages(store))
    if st.session_state.get("add.language") not in known:
        st.session_state["add.language"] = "simple"
    chosen = st.selectbox(
        "Language",
        known,
        key="add.language",
        help="PostgreSQL's text-search configuration: it knows stop words and inflections. `simple` knows none.",
    )
    return {"language": chosen}


def _fields(look: SourcePreview) -> Plain:
    chosen = st.multiselect(
        "Fields for filters",
        list(dict.fromkeys([*look.fields, *st.session_state["add.fields"]])),
        key="add.fields",
        accept_new_options=True,
        placeholder="None; type a name or choose",
        help="Metadata fields that get an index. Every field can be filtered by; an indexed one is fast.",
    )
    return {"fields": tuple(chosen)}


def _more(*, new: bool) -> Plain:
    with st.expander("More"):
        made: Plain = {}
        if new:
            made["embed_items"] = _switch("items", "Embed whole documents too", given=True)
            half = _switch("half", "Index vectors in half precision: half the size", given=False)
            made |= {"index": "halfvec"} if half else {}
        else:
            made["prune"] = _switch("prune", "Remove documents that the source no longer has", given=False)
        made["check"] = _switch("check", "Look for near-duplicates and leaked queries", given=True)
    return made


def _switch(name: str, label: str, *, given: bool) -> bool:
    st.session_state.setdefault(f"add.{name}", given)
    return st.checkbox(label, key=f"add.{name}")


def refill(plan: Mapping[str, Any]) -> None:
    """The widgets as a plan says."""
    state = st.session_state
    known = {"language": "language", "embed_items": "items", "prune": "prune", "check": "check"}
    for field, widget in known.items():
        if field in plan:
            state[f"add.{widget}"] = plan[field]
    state["add.model"] = next(iter(plan.get("models", ())), "")
    state["add.half"] = plan.get("index") == "halfvec"
    if "fields" in plan:
        state["add.fields"] = list(plan["fields"])
    if "chunks" in plan:
        state[_AS_IT_WISHES] = len(plan["chunks"]) > 1  # no form makes several
        collections_chunker.fill("add", plan["chunks"].get("default"))
    state[_WISHED] = REFILLED
