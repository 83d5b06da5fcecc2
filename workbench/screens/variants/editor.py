"""The open variant: its form and its text, what is wrong with it, and what can be done with it."""

from __future__ import annotations

import html
import re
from hashlib import sha256

import streamlit as st

from core.errors import InputError, RankbookError
from core.store import roles
from core.store.engine import Store
from core.variant import Variant
from evals import variants
from workbench.components import feedback, form, url_state, variant_list
from workbench.screens.variants import state as variant_draft
from workbench.screens.variants.state import Draft
from workbench.services import permissions
from workbench.services import variants as variant_text

AROUND = 2  # lines shown above and below a mistake
DO = "variants.do"


def key_of(name: str, *more: str) -> str:
    """Widget keys become class names, which strangers' names must not be."""
    return ".".join(("variants", sha256(name.encode()).hexdigest()[:10], *more))


def read(draft: Draft) -> Variant | InputError:
    """What the text means, or the mistake in it."""
    try:
        return variant_text.read(draft.text)
    except InputError as error:
        return error


def complain(draft: Draft, mistake: InputError) -> None:
    """The mistake, and its line among those around it."""
    feedback.draw_error(mistake)
    _line(draft.text, mistake.line or 1)


def _line(text: str, line: int) -> None:
    lines = text.splitlines() or [""]
    first = max(1, line - AROUND)
    rows = [
        f'<span class="{"wrong" if at == line else ""}"><i>{at}</i>{html.escape(said[:200]) or " "}</span>'
        for at, said in enumerate(lines[first - 1 : line + AROUND], start=first)
    ]
    st.html(f'<pre class="rb-lines">{"".join(rows)}</pre>')


def head(draft: Draft, variant: Variant | None) -> None:
    what = "Kept by you" if draft.entry.kept else "Published system"
    changed = ", with changes that are not saved" if draft.changed else ""
    described = f"<p>{html.escape(variant.description)}</p>" if variant and variant.description else ""
    st.html(
        f'<div class="rb-head"><h2>{html.escape(draft.entry.name)}</h2><span>{what}{changed}</span>{described}</div>'
    )
    if variant is not None:
        variant_list.pipeline(key_of(draft.entry.name, "pipeline"), variant)


def as_form(draft: Draft, chunk_sets: list[str], models: list[str]) -> None:
    offered = {"chunks": chunk_sets, "model": models, "stored": chunk_sets}
    changed = form.drawn(Variant, draft.text, key_of(draft.entry.name, "form"), form.Options(offered=offered))
    if changed is not None:
        variant_draft.edit(draft, changed)
        st.rerun()


def as_text(draft: Draft) -> None:
    """The text itself. It is taken when the field is left, or with Ctrl and Enter."""
    key = key_of(draft.entry.name, "toml")
    seen = f"{key}.seen"
    if key not in st.session_state or st.session_state.get(seen) != draft.text:
        st.session_state[key] = draft.text
    st.session_state[seen] = draft.text

    def taken() -> None:
        variant_draft.edit(draft, st.session_state[key])

    rows = max(12, draft.text.count("\n") + 3)
    with st.container(key="variants-toml"):
        st.text_area("TOML", key=key, height=min(rows, 40) * 22, on_change=taken, label_visibility="collapsed")


# -- what can be done with it ------------------------------------------------------------------------------------------


def undo_bar(store: Store) -> None:
    done = variant_draft.undoable()
    if done is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", key="variants-undo"):
        st.html(f'<p class="rb-summary" role="status">{html.escape(done.said)}</p>')
        st.button("Undo", key="variants.undo.it", icon=":material/undo:", on_click=_do, args=("undo", store))


def actions(store: Store, draft: Draft, variant: Variant | None) -> None:
    """Who may not keep it here may try it and take it along."""
    keeps, name = permissions.may_edit(store), draft.entry.name
    own = draft.entry.kept is not None and keeps
    with st.container(horizontal=True, key="variants-actions"):
        if own:
            st.button(
                "Save",
                key=key_of(name, "save"),
                type="primary",
                icon=":material/save:",
                disabled=not draft.changed or variant is None,
                on_click=_do,
                args=("save", store, draft),
            )
        if keeps:
            with st.popover("Save as new", icon=":material/bookmark_add:", disabled=variant is None):
                _save_as(store, draft, variant)
        if draft.changed:
            st.button(
                "Discard changes",
                key=key_of(name, "discard"),
                icon=":material/restart_alt:",
                on_click=variant_draft.discard,
                args=(name,),
            )
        st.download_button(
            "TOML",
            draft.text,
            f"{re.sub('[^A-Za-z0-9]+', '-', name).strip('-') or 'variant'}.toml",
            "application/toml",
            key=key_of(name, "download"),
            on_click="ignore",
            icon=":material/download:",
        )
        if own:
            st.button(
                "Delete",
                key=key_of(name, "delete"),
                icon=":material/delete:",
                on_click=_do,
                args=("drop", store, draft),
            )
    _problem(DO)


def _save_as(store: Store, draft: Draft, variant: Variant | None) -> None:
    key = key_of(draft.entry.name, "as")
    # As the widget's own default: what only the session says is lost on a field that is not on the screen yet.
    free = variants.free_name(variant.name) if variant else ""
    st.text_input("Its name", free, key=key, max_chars=200, help="Commands, notebooks and pages find it by this name.")
    st.button("Save", key=f"{key}.save", type="primary", on_click=_do, args=("save as", store, draft, key))
    _problem(f"{DO}.as")


def _do(what: str, store: Store, draft: Draft | None = None, key: str = "") -> None:
    """In a callback, so that the page that follows shows what there is then. What went wrong is drawn there too."""
    try:
        roles.refuse_reader(store, "keep variants")
        match what, draft:
            case "save", Draft():
                _open(variant_draft.save(draft))
            case "save as", Draft():
                _open(variant_draft.save_as(draft, st.session_state[key]))
            case "drop", Draft():
                variant_draft.drop(draft.entry.name)
                url_state.go(variant="", beside="", view="")
            case "undo", _:
                _open(variant_draft.undo())
    except RankbookError as error:
        st.session_state[f"{DO}.as" if key else DO] = error


def _open(name: str) -> None:
    url_state.go(variant=name)


def _problem(key: str) -> None:
    error = st.session_state.pop(key, None)
    if error is not None:
        feedback.draw_error(error)
