"""The page Variants: the list, one of them opened, and variants out of files."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.errors import InputError, RankbookError
from core.store import collections, roles
from core.store.engine import Store
from core.variant import Variant
from evals import variants
from evals.variants import SavedVariant
from workbench.components import feedback, url_state, variant_list
from workbench.components.page import Page
from workbench.components.theme import asset
from workbench.screens.variants import difference as variant_beside
from workbench.screens.variants import editor as variant_edit
from workbench.screens.variants import state as variant_draft
from workbench.screens.variants.state import FIRST, Draft, VariantsState
from workbench.services import permissions
from workbench.services import variants as variant_text
from workbench.services import variants as variants_asked
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
        url_state.go(variant=_kept(given.getvalue()), beside="", view="")
    except RankbookError as error:
        st.session_state[f"{KEY}.problem"] = error


def _kept(content: bytes) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError("The file is not UTF-8, which TOML is written in.") from error
    variant_text.read(text)
    return variants.keep(text).name


DELETED_HERE = "variants"
TABS = {"form": "Form", "toml": "TOML", "difference": "Difference", "sql": "SQL"}


def render(store: Store) -> None:
    st.html(f"<style>{asset('screens/variants/page.css')}</style>")
    st.html('<p class="rb-tagline">A variant is a whole pipeline as data: published systems, and your own.</p>')
    own = variants.listed()
    asked = VariantsState.of(url_state.said())
    name = asked.variant or (own[0].name if own else FIRST)
    there, opened = st.columns([2, 5], gap="large")
    with there:
        if permissions.may_edit(store):
            draw(store)
        variant_list.draw("variants.list", own, name, lambda chosen: url_state.go(variant=chosen))
    with opened:
        if permissions.may_edit(store):
            variant_edit.undo_bar(store)
        _opened(store, variant_draft.of(variants_asked.variant_entry(name, own)), asked, own)


def _opened(store: Store, draft: Draft, asked: VariantsState, own: list[SavedVariant]) -> None:
    meant = variant_edit.read(draft)
    variant = meant if isinstance(meant, Variant) else None
    variant_edit.head(draft, variant)
    variant_edit.actions(store, draft, variant)
    url_state.tabs(DELETED_HERE, "What of it", "view", TABS, asked.shown)
    if not isinstance(meant, Variant):
        variant_edit.complain(draft, meant)
    if asked.shown == "toml":
        variant_edit.as_text(draft)
    elif asked.shown == "form":
        variant_edit.as_form(draft, *_offered(store))
    elif variant is None:
        st.html('<div class="rb-nothing">Once the mistake above is mended, this is here again.</div>')
    elif asked.shown == "difference":
        _difference(draft, variant, asked, own)
    else:
        _sql(store, variant, asked)


def _difference(draft: Draft, variant: Variant, asked: VariantsState, own: list[SavedVariant]) -> None:
    others = [each for each in variants_asked.names(own) if each != draft.entry.name]
    saved = [f"{draft.entry.name} as it was saved"] if draft.changed else []
    against = asked.beside or next(iter(saved), "")  # what one changed is what one wants to see first
    if against in saved:
        beside: VariantEntry | None = VariantEntry(against, draft.base)
    else:
        beside = variants_asked.variant_entry(against, own) if against else None
    variant_beside.difference(VariantEntry(draft.entry.name, draft.text), variant, [*saved, *others], beside)


def _sql(store: Store, variant: Variant, asked: VariantsState) -> None:
    names = [row.name for row in bridge.run(collections.listed(store))]
    first = "handbook" if "handbook" in names else next(iter(names), "")
    variant_beside.sql(store, variant, asked.but(collection=asked.collection or first), names)


def _offered(store: Store) -> tuple[list[str], list[str]]:
    """Chunk sets and models that collections have: names to choose, any other can be typed."""
    views = [bridge.run(collections.get(store, row.name)) for row in bridge.run(collections.listed(store))]
    sets = dict.fromkeys(["default", "items", *(each.name for view in views for each in view.chunk_sets)])
    models = dict.fromkeys(each.model for view in views for each in view.embedding_sets)
    return list(sets), list(models)


PAGE = Page("Variants", ":material/account_tree:", render)
