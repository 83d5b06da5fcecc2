"""The variants page: published systems and one's own, each as a form and as the text that it is, held side by side."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from core.variant import Variant
from evals import variants
from evals.variants import SavedVariant
from workbench.behind.variants import asked as variants_asked
from workbench.behind.variants.asked import Entry, VariantsState
from workbench.ui import address, may
from workbench.ui.theme import read
from workbench.ui.variants import beside as variant_beside
from workbench.ui.variants import draft as variant_draft
from workbench.ui.variants import edit as variant_edit
from workbench.ui.variants import listing as variant_list
from workbench.ui.variants import upload as variant_upload
from workbench.ui.variants.draft import Draft

PAGE = "variants"
TABS = {"form": "Form", "toml": "TOML", "difference": "Difference", "sql": "SQL"}


def render(store: Store) -> None:
    st.html(f"<style>{read('variants/page.css')}</style>")
    st.html('<p class="rb-tagline">A variant is a whole pipeline as data: published systems, and your own.</p>')
    own = variants.listed()
    asked = VariantsState.of(address.said())
    name = asked.variant or (own[0].name if own else variants_asked.FIRST)
    there, opened = st.columns([2, 5], gap="large")
    with there:
        if may.edit(store):
            variant_upload.draw(store)
        variant_list.draw("variants.list", own, name, lambda chosen: address.go(variant=chosen))
    with opened:
        if may.edit(store):
            variant_edit.undo_bar(store)
        _opened(store, variant_draft.of(variants_asked.entry(name, own)), asked, own)


def _opened(store: Store, draft: Draft, asked: VariantsState, own: list[SavedVariant]) -> None:
    meant = variant_edit.read(draft)
    variant = meant if isinstance(meant, Variant) else None
    variant_edit.head(draft, variant)
    variant_edit.actions(store, draft, variant)
    address.tabs(PAGE, "What of it", "view", TABS, asked.shown)
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
        beside: Entry | None = Entry(against, draft.base)
    else:
        beside = variants_asked.entry(against, own) if against else None
    variant_beside.difference(Entry(draft.entry.name, draft.text), variant, [*saved, *others], beside)


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
