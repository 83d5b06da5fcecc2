"""A part of a notebook being edited: as a form, as TOML or Markdown, or its name.

Drafts stay in this window until they are saved, and are saved only over the text that they started from.
"""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st
from pydantic import BaseModel

from evals.variants import every_name
from workbench.components import form
from workbench.notebooks import history
from workbench.notebooks.cells import CellSpec, kinds
from workbench.notebooks.document import Cell, Part, Prose
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER, SharedOptions
from workbench.screens.notebook import actions
from workbench.screens.notebook.actions import CellDraft

LINE, LEAST, MOST = 22, 110, 560  # pixels
FORM, SOURCE = "Form", "Source"


def prose(session: NotebookSession, part: Prose) -> None:
    """The editor of Markdown."""
    draft = actions.draft(session, part)
    _area(session, part, draft, "Markdown")
    _conflict(session, part, draft)
    with st.container(horizontal=True):
        _button("Save", part, actions.save, session, part.id, first=True)
        _button("Discard", part, _discard, session, part.id)


def cell(session: NotebookSession, part: Cell) -> None:
    """The editor of TOML, by hand or by form: the same text."""
    draft = actions.draft(session, part)
    header = part.kind == HEADER
    with st.container(key=f"source-{part.id}"):
        view = st.segmented_control(
            "How to edit it", [FORM, SOURCE], default=SOURCE, key=f"view-{part.id}", label_visibility="collapsed"
        )
        if view == FORM:
            model = SharedOptions if header else kinds[part.kind]
            # Known values of what names something. Others can be typed.
            variants = [*(each["name"] for each in session.parsed.shared.variants), *every_name()]
            named = dict.fromkeys(("variants", "legs", "variant", "one", "other", "baseline"), variants)
            ground = session.collection
            splits = [*ground.labelled.splits, "all"] if ground is not None else []
            options = form.FormOptions(offered={**named, "split": splits, "looked_on": splits}, only=_own_first(model))
            changed = form.draw(model, draft.text, f"form-{session.name}-{part.id}", options)
            if changed is not None:
                actions.typed(session, part, changed)
        else:
            _area(session, part, draft, "TOML")
        _conflict(session, part, draft)
        with st.container(horizontal=True):
            if not header:
                _button("Save and run", part, _save_and_run, session, part.id, first=True, hint="Ctrl+Enter")
            _button("Save", part, actions.save, session, part.id, first=header)
            _button("Discard", part, _discard, session, part.id, hint="Forget what is typed.")


def name(session: NotebookSession, part: Cell) -> None:
    """The editor of a cell's name, by which links and commands find it."""
    key = f"name-{part.id}"
    st.text_input(
        "Name, then Enter",
        part.name,
        key=key,
        max_chars=60,
        help="Letters, digits, - and _. `rankbook notebook run --only NAME` means this cell.",
        on_change=lambda: _rename(session, part, st.session_state[key].strip()),
        width=360,
    )


def _rename(session: NotebookSession, part: Cell, wanted: str) -> None:
    def do(own: NotebookSession) -> None:
        made = own.change(f"name of {actions.label(part)}", history.rename(part.id, wanted))
        actions.close()
        actions.go(own, made)

    actions.apply(session, do)


def _own_first(model: type[BaseModel]) -> list[str]:
    """A cell's own fields before those that it inherits from the notebook. Variants are written as text."""
    names = [option.alias or name for name, option in model.model_fields.items()]
    shared = [name for name in names if name in CellSpec.model_fields]
    own = [name for name in names if name not in shared]
    return [
        name
        for name in (shared[:1] + own + shared[1:] if own else names)
        if (model, name) != (SharedOptions, "variant")
    ]


def _area(session: NotebookSession, part: Part, draft: CellDraft, label: str) -> None:
    """The text area, set where the text has changed other than by typing.

    The text is the default too: the browser knows no other for an area that comes back after the form.
    """
    key = f"text-{session.name}-{part.id}"
    if st.session_state.get(f"{key}.set") != draft.text or key not in st.session_state:
        st.session_state[key] = draft.text
    st.session_state[f"{key}.set"] = draft.text

    def heard() -> None:
        text = st.session_state[key]
        st.session_state[f"{key}.set"] = text
        actions.typed(session, part, text)
        actions.go(session, part.id)

    lines = draft.text.count("\n") + 2
    height = min(MOST, max(LEAST, lines * LINE))
    st.text_area(label, draft.text, key=key, height=height, on_change=heard, label_visibility="collapsed")


def _conflict(session: NotebookSession, part: Part, draft: CellDraft) -> None:
    """The part was changed elsewhere: both texts are shown, and the person decides."""
    if draft.began == history.editable_text(part):
        return
    st.html(
        '<div class="rb-box rb-complaint" role="alert"><strong>Changed in another window</strong><p>This was changed '
        "since you began to edit it. Your text is above, and is not saved. Save it over the other one, or take that "
        "one:</p></div>"
    )
    st.code(history.editable_text(part), language="toml" if isinstance(part, Cell) else "markdown")
    with st.container(horizontal=True):
        _button("Save mine over it", part, _save_over, session, part.id)
        _button("Take the other one", part, _take, session, part.id)


def _save_and_run(session: NotebookSession, identity: str) -> None:
    actions.save(session, identity, run=True)


def _save_over(session: NotebookSession, identity: str) -> None:
    actions.save(session, identity, over=True)


def _take(session: NotebookSession, identity: str) -> None:
    actions.forget(session, identity)


def _discard(session: NotebookSession, identity: str) -> None:
    actions.forget(session, identity)
    actions.close()


def _button(
    label: str,
    part: Part,
    do: Callable[[NotebookSession, str], None],
    *args: object,
    first: bool = False,
    hint: str | None = None,
) -> None:
    key = f"{label.lower().replace(' ', '-')}-{part.id}"
    st.button(label, key=key, type="primary" if first else "secondary", help=hint, on_click=do, args=args)
