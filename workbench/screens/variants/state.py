"""What the page Variants holds: what its address selects, and the text that is being edited."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st

from core.errors import SpecError
from core.store.trash_entries import day
from evals import variants
from evals.variants import SavedVariant
from workbench.components import deleted
from workbench.services import toml_edit
from workbench.services.url_state import UrlState
from workbench.services.variants import VariantEntry

VIEWS: Final = ("form", "toml", "difference", "sql")
FIRST: Final = "hybrid-retriever"


@dataclass(frozen=True)
class VariantsState(UrlState):
    """A view of the page, all of it text. `beside` is what it is held against; the last two are for its SQL."""

    variant: str = ""
    beside: str = ""
    view: str = ""
    collection: str = ""
    query: str = ""

    @property
    def shown(self) -> str:
        """What holds where the address does not say: a link with another variant beside is to their difference."""
        return self.view if self.view in VIEWS else "difference" if self.beside else VIEWS[0]


UNDO = "variants.undo"


@dataclass(frozen=True, slots=True)
class Draft:
    """The text in hand, and the one that it was made of."""

    entry: VariantEntry
    base: str
    text: str

    @property
    def changed(self) -> bool:
        return self.text != self.base


@dataclass(frozen=True, slots=True)
class Undo:
    """What was done, in words, and the file as it was before."""

    said: str
    before: SavedVariant


def of(entry: VariantEntry) -> Draft:
    base, text = st.session_state.get(_key(entry.name), (entry.text, entry.text))
    return Draft(entry, base, text) if text != base else Draft(entry, entry.text, entry.text)


def edit(draft: Draft, text: str) -> None:
    st.session_state[_key(draft.entry.name)] = (draft.base, text.replace("\r\n", "\n"))


def discard(name: str) -> None:
    st.session_state.pop(_key(name), None)


def save(draft: Draft) -> str:
    """In the place of the kept one; its name, which may be another now."""
    name = draft.entry.name
    before = variants.get(name)
    if before.text != draft.base:
        raise SpecError(
            f"{name!r} was changed elsewhere since you began. Save yours as new, or discard it to see what is there."
        )
    made = variants.keep(draft.text, over=name)
    discard(name)
    st.session_state[UNDO] = Undo(f"{name} was overwritten.", before)
    return made.name


def save_as(draft: Draft, name: str) -> str:
    """As one more of one's own, under that name."""
    made = variants.keep(toml_edit.put(draft.text, {("name",): name.strip()}))
    discard(draft.entry.name)
    st.session_state.pop(UNDO, None)
    return made.name


def drop(name: str) -> None:
    dropped = variants.drop(name, by=deleted.person())
    until = (
        f" It is in the trash (page Collections) until {day(dropped.trash_entry.until)}." if dropped.trash_entry else ""
    )
    expired = deleted.expiry_notice(variants.expire())
    st.session_state[UNDO] = Undo(f"{name} was deleted.{until} {expired}".rstrip(), dropped)
    discard(name)


def undo() -> str:
    """Back to what was before; its name."""
    done: Undo = st.session_state.pop(UNDO)
    if done.before.trash_entry is not None:
        return variants.restore(done.before.trash_entry).name
    variants.put_back(done.before)
    return done.before.name


def undoable() -> Undo | None:
    found: Undo | None = st.session_state.get(UNDO)
    return found


def _key(name: str) -> str:
    return f"variants.draft.{name}"
