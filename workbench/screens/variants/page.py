"""The page Variants: the list, one of them opened, and variants out of files."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.errors import InputError, RankbookError
from core.store import collections, roles
from core.store.engine import Store
from core.variant import Variant
from evals import variants
from workbench.components import feedback, variant_list
from workbench.components.page import WorkbenchPage
from workbench.components.theme import asset
from workbench.screens.variants import difference, editor
from workbench.screens.variants import state as variants_state
from workbench.screens.variants.state import FIRST, address
from workbench.services import permissions
from workbench.services import variants as services_variants
from workbench.services.variants import VariantEntry

KEY, LARGEST = "variants.upload", 1  # megabytes


def draw(store: Store) -> None:
    with st.popover("Add from a file", icon=":material/upload_file:"):
        st.file_uploader("A variant's TOML file", key=KEY, max_upload_size=LARGEST, on_change=_taken, args=(store,))
        error = st.session_state.pop(f"{KEY}.problem", None)
        if error is not None:
            feedback.draw_error(error)


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
    services_variants.read(text)
    return variants.keep(text).name


TABS = {"form": "Form", "toml": "TOML", "difference": "Difference", "sql": "SQL"}


def render(store: Store) -> None:
    st.html(f"<style>{asset('screens/variants/page.css')}</style>")
    st.html('<p class="rb-tagline">A variant is a whole pipeline as data: published systems, and your own.</p>')
    own = variants.listed()
    state = address.current()
    name = state.variant or (own[0].name if own else FIRST)
    there, opened = st.columns([2, 5], gap="large")
    with there:
        if permissions.may_edit(store):
            draw(store)
        variant_list.draw("variants.list", own, name, lambda chosen: address.go(variant=chosen))
    with opened:
        if permissions.may_edit(store):
            editor.undo_bar(store)
        draft = variants_state.of(services_variants.variant_entry(name, own))
        meant = editor.read(draft)
        variant = meant if isinstance(meant, Variant) else None
        editor.head(draft, variant)
        editor.actions(store, draft, variant)
        address.tabs("What of it", "view", TABS, state.shown)
        if not isinstance(meant, Variant):
            editor.complain(draft, meant)
        if state.shown == "toml":
            editor.as_text(draft)
        elif state.shown == "form":
            editor.as_form(draft, *_offered(store))
        elif variant is None:
            st.html('<div class="rb-nothing">Once the mistake above is mended, this is here again.</div>')
        elif state.shown == "difference":
            others = [each for each in services_variants.variant_names(own) if each != draft.entry.name]
            saved = [f"{draft.entry.name} as it was saved"] if draft.changed else []
            against = state.beside or next(iter(saved), "")  # what one changed is what one wants to see first
            if against in saved:
                beside: VariantEntry | None = VariantEntry(against, draft.base)
            else:
                beside = services_variants.variant_entry(against, own) if against else None
            difference.difference(VariantEntry(draft.entry.name, draft.text), variant, [*saved, *others], beside)
        else:
            names = [row.name for row in bridge.run(collections.listed(store))]
            first = "handbook" if "handbook" in names else next(iter(names), "")
            difference.sql(store, variant, state.replace(collection=state.collection or first), names)


def _offered(store: Store) -> tuple[list[str], list[str]]:
    """Chunk sets and models of the collections, as suggestions."""
    views = [bridge.run(collections.get(store, row.name)) for row in bridge.run(collections.listed(store))]
    sets = dict.fromkeys(["default", "items", *(each.name for view in views for each in view.chunk_sets)])
    models = dict.fromkeys(each.model for view in views for each in view.embedding_sets)
    return list(sets), list(models)


PAGE = WorkbenchPage("Variants", ":material/account_tree:", render)
