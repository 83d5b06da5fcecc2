"""A part of a notebook while it is edited: as a form, as TOML or Markdown, or its name.

What is typed is kept in this window until it is saved, and saved only over what it began from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import streamlit as st
from pydantic import BaseModel

from evals.variants import every_name
from workbench.components import form
from workbench.notebooks import history
from workbench.notebooks.cells import CellSpec, kinds
from workbench.notebooks.document import Cell, Part, Prose
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER, Shared
from workbench.screens.notebook import actions as notebook_acts
from workbench.screens.notebook.actions import Draft

LINE, LEAST, MOST = 22, 110, 560  # pixels
FORM, SOURCE = "Form", "Source"


def prose(desk: NotebookSession, part: Prose) -> None:
    """Markdown, in its place."""
    draft = notebook_acts.draft(desk, part)
    _area(desk, part, draft, "Markdown")
    _conflict(desk, part, draft)
    with st.container(horizontal=True):
        _button("Save", part, notebook_acts.save, desk, part.id, first=True)
        _button("Discard", part, _discard, desk, part.id)


def cell(desk: NotebookSession, part: Cell) -> None:
    """TOML, by hand or by form: the same text."""
    draft = notebook_acts.draft(desk, part)
    header = part.kind == HEADER
    with st.container(key=f"source-{part.id}"):
        view = st.segmented_control(
            "How to edit it", [FORM, SOURCE], default=SOURCE, key=f"view-{part.id}", label_visibility="collapsed"
        )
        if view == FORM:
            _form(desk, part, draft, Shared if header else kinds[part.kind])
        else:
            _area(desk, part, draft, "TOML")
        _conflict(desk, part, draft)
        with st.container(horizontal=True):
            if not header:
                _button("Save and run", part, _save_and_run, desk, part.id, first=True, hint="Ctrl+Enter")
            _button("Save", part, notebook_acts.save, desk, part.id, first=header)
            _button("Discard", part, _discard, desk, part.id, hint="Forget what is typed.")


def name(desk: NotebookSession, part: Cell) -> None:
    """By what the cell is known in links and on the command line."""
    key = f"name-{part.id}"
    st.text_input(
        "Name, then Enter",
        part.name,
        key=key,
        max_chars=60,
        help="Letters, digits, - and _. `rankbook notebook run --only NAME` means this cell.",
        on_change=lambda: _rename(desk, part, st.session_state[key].strip()),
        width=360,
    )


def _rename(desk: NotebookSession, part: Cell, wanted: str) -> None:
    def do(own: NotebookSession) -> None:
        made = own.change(f"name of {notebook_acts.label(part)}", history.renamed(part.id, wanted))
        notebook_acts.close()
        notebook_acts.go(own, made)

    notebook_acts.act(desk, do)


def _form(desk: NotebookSession, part: Cell, draft: Draft, model: type[BaseModel]) -> None:
    options = form.Options(offered=_offered(desk), only=_own_first(model))
    changed = form.drawn(model, draft.text, f"form-{desk.name}-{part.id}", options)
    if changed is not None:
        notebook_acts.typed(desk, part, changed)


def _own_first(model: type[BaseModel]) -> list[str]:
    """What makes the cell what it is before what it has from the notebook anyway. Variants are written as text."""
    names = [option.alias or name for name, option in model.model_fields.items()]
    shared = [name for name in names if name in CellSpec.model_fields]
    own = [name for name in names if name not in shared]
    return [name for name in (shared[:1] + own + shared[1:] if own else names) if (model, name) != (Shared, "variant")]


def _offered(desk: NotebookSession) -> dict[str, Sequence[str]]:
    """Known values of what names something. Others can be typed."""
    variants = [*(each["name"] for each in desk.meaning.shared.variants), *every_name()]
    named = dict.fromkeys(("variants", "legs", "variant", "one", "other", "baseline"), variants)
    ground = desk.ground
    splits = [*ground.labelled.splits, "all"] if ground is not None else []
    return {**named, "split": splits, "looked_on": splits}


def _area(desk: NotebookSession, part: Part, draft: Draft, label: str) -> None:
    """The text. It is set where it changed elsewhere than under somebody's hands.

    It is the default too: the browser knows no other text for an area that comes back after the form.
    """
    key = f"text-{desk.name}-{part.id}"
    if st.session_state.get(f"{key}.set") != draft.text or key not in st.session_state:
        st.session_state[key] = draft.text
    st.session_state[f"{key}.set"] = draft.text

    def heard() -> None:
        text = st.session_state[key]
        st.session_state[f"{key}.set"] = text
        notebook_acts.typed(desk, part, text)
        notebook_acts.go(desk, part.id)

    lines = draft.text.count("\n") + 2
    height = min(MOST, max(LEAST, lines * LINE))
    st.text_area(label, draft.text, key=key, height=height, on_change=heard, label_visibility="collapsed")


def _conflict(desk: NotebookSession, part: Part, draft: Draft) -> None:
    """Somebody else was faster: both texts are there, and the person decides."""
    if draft.began == history.said(part):
        return
    st.html(
        '<div class="rb-box rb-complaint" role="alert"><strong>Changed in another window</strong><p>This was changed '
        "since you began to edit it. Your text is above, and is not saved. Save it over the other one, or take that "
        "one:</p></div>"
    )
    st.code(history.said(part), language="toml" if isinstance(part, Cell) else "markdown")
    with st.container(horizontal=True):
        _button("Save mine over it", part, _save_over, desk, part.id)
        _button("Take the other one", part, _take, desk, part.id)


def _save_and_run(desk: NotebookSession, identity: str) -> None:
    notebook_acts.save(desk, identity, run=True)


def _save_over(desk: NotebookSession, identity: str) -> None:
    notebook_acts.save(desk, identity, over=True)


def _take(desk: NotebookSession, identity: str) -> None:
    notebook_acts.forget(desk, identity)


def _discard(desk: NotebookSession, identity: str) -> None:
    notebook_acts.forget(desk, identity)
    notebook_acts.close()


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
