"""The parts of a notebook as the page draws them: prose, cells with their state, tools and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from html import escape
from urllib.parse import quote

import streamlit as st

from core.errors import UnknownName
from evals.presentation.types import Output
from workbench.components import blocks, feedback, job_progress
from workbench.notebooks import history, markdown
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells import kinds
from workbench.notebooks.document import Cell, Part, Prose
from workbench.notebooks.history import Edit
from workbench.notebooks.session import NotebookSession
from workbench.notebooks.shared import HEADER
from workbench.screens.notebook import actions, editor
from workbench.screens.notebook import state as notebook_state
from workbench.screens.notebook.cell_views import VIEWS, CellView
from workbench.services.form_fields import summary

Menu = dict[str, Callable[[], object]]


def run_button(session: NotebookSession, cell: Cell, state: CellState) -> None:
    under_way = state.state in ("running", "waiting")
    if under_way:
        st.button("Stop", key=f"stop-{cell.id}", icon=":material/stop_circle:", on_click=session.stop)
        return
    st.button(
        "Run",
        key=f"run-{cell.id}",
        icon=":material/play_arrow:",
        type="secondary" if state.state == "fresh" else "primary",
        help="Run it anew." if state.state == "fresh" else "Run this cell.",
        on_click=run,
        args=(session, cell.id),
    )


def run(session: NotebookSession, identity: str) -> None:
    """Run a cell with its draft. A fresh one is run again."""
    cell = session.notebook[identity]
    actions.go(session, identity)
    if actions.unsaved(session, identity):
        actions.save(session, identity, run=True)
    elif isinstance(cell, Cell) and cell.kind != HEADER:
        actions.start(session, [identity], again=session.state(cell).state == "fresh")


def edit_button(session: NotebookSession, part: Part) -> None:
    opened = is_open(session, part)
    st.button(
        "Close" if opened else "Edit",
        key=f"edit-{part.id}",
        icon=":material/close:" if opened else ":material/edit:",
        help="Close. What is typed stays." if opened else "Edit it.",
        type="tertiary",
        on_click=actions.close if opened else partial(actions.edit, session, part.id),
    )


def is_open(session: NotebookSession, part: Part) -> bool:
    return actions.editing()[:2] == (session.name, part.id)


def menu(session: NotebookSession, part: Part, more: Menu | None = None) -> None:
    named = actions.label(part)

    def change(what: str, edit: Edit) -> Callable[[], object]:
        return lambda: actions.apply(session, lambda own: own.change(what, edit))

    options: Menu = {
        **(more or {}),
        "Move up": change(f"move of {named}", history.move(part.id, -1)),
        "Move down": change(f"move of {named}", history.move(part.id, 1)),
        "Duplicate": change(f"copy of {named}", history.duplicate(part.id)),
        "Delete": lambda: actions.remove(session, part),
    }
    if isinstance(part, Cell) and part.kind == HEADER:
        options = {"Delete": options["Delete"]}
    key = f"menu-{part.id}"

    def chosen() -> None:
        options[st.session_state[key]]()

    st.menu_button(
        "More",
        list(options),
        key=key,
        icon=":material/more_vert:",
        type="tertiary",
        help="More: move, duplicate, delete.",
        on_click=chosen,
    )


def more_of(session: NotebookSession, cell: Cell, *, hidden: bool) -> Menu:
    """The actions of a cell, beyond those of any part."""
    cells = [each.id for each in session.notebook.cells]
    fold = actions.folded()
    here = (session.name, cell.id)
    return {
        "Run to here": lambda: actions.start(session, cells[: cells.index(cell.id) + 1]),
        "Show output" if hidden else "Hide output": lambda: fold.discard(here) if hidden else fold.add(here),
        "Rename": lambda: actions.edit(session, cell.id, "name"),
        "Link to this cell": lambda: _link(session, cell),
    }


def _link(session: NotebookSession, cell: Cell) -> None:
    notebook_state.go(notebook_state.NotebookState(session.name, cell.id))
    actions.notice("The address of this page now leads to that cell. Copy it from the browser's address bar.")


BEAT = 0.5  # seconds between two looks at a cell under way


def draw(session: NotebookSession, part: Part) -> None:
    """The part, as a fragment that redraws itself while the cell runs."""
    running = isinstance(part, Cell) and part.kind != HEADER and session.state(part).state == "running"
    st.fragment(_part, run_every=BEAT if running else None)(session, part.id)


def _part(session: NotebookSession, identity: str) -> None:
    actions.keep_up(session)
    with (
        feedback.draw_errors(),
        st.container(key=f"part-{identity}"),
        st.container(key=f"cell-{identity}", gap="xsmall"),
    ):
        try:
            part = session.notebook[identity]
        except UnknownName:
            st.rerun()
        if isinstance(part, Prose):
            _prose(session, part)
        elif part.kind == HEADER:
            shared = session.parsed.shared
            said = [f"collection <b>{escape(shared.collection or 'none')}</b>"]
            said += [f"split <b>{escape(shared.split)}</b>"] if shared.split else []
            said += [f"queries <b>{escape(shared.query_set)}</b>"] if shared.query_set != "default" else []
            said += [f"{len(shared.variants)} variants of its own"] if shared.variants else []
            st.html(f'<p class="rb-shared"><span>For all cells</span> {" · ".join(said)}</p>')
            _tools(session, part)
            if is_open(session, part):
                editor.cell(session, part)
            elif part.id in session.parsed.problems:
                feedback.draw_error(session.parsed.problems[part.id])
        else:
            state = session.state(part)
            hidden = (session.name, part.id) in actions.folded()
            with st.container(horizontal=True, vertical_alignment="center", key=f"head-{part.id}", gap="xsmall"):
                st.html(_title(state), width="stretch")
                run_button(session, part, state)
                edit_button(session, part)
                menu(session, part, more_of(session, part, hidden=hidden))
            if is_open(session, part):
                if actions.editing()[2] == "name":
                    editor.name(session, part)
                else:
                    editor.cell(session, part)
            elif actions.unsaved(session, part.id):
                st.html('<p class="rb-draft">Something typed into this cell is not saved yet. Edit shows it.</p>')
            _progress(session, state)
            if hidden:
                st.html('<p class="rb-draft">The output is folded away. The menu brings it back.</p>')
            else:
                _came_to(session, part, state)


# -- prose, and what all cells share -----------------------------------------------------------------------------------


def _prose(session: NotebookSession, part: Prose) -> None:
    if is_open(session, part):
        editor.prose(session, part)
        return
    st.html(f'<div class="rb-prose">{markdown.html(part.text, lambda name: f"?notebook={quote(name)}")}</div>')
    _tools(session, part)


def _tools(session: NotebookSession, part: Part) -> None:
    """The actions, shown on hover and focus."""
    with st.container(horizontal=True, key=f"tools-{part.id}", width="content", gap="xsmall"):
        edit_button(session, part)
        menu(session, part)


# -- cells -------------------------------------------------------------------------------------------------------------


def _title(state: CellState) -> str:
    cell, title = state.cell, state.title
    kind, name = cell.kind, f"<code>{escape(cell.name)}</code>" if cell.name and cell.name != title else ""
    shown = escape(title) if title != kind else ""
    return (
        f'<div class="rb-title"><span class="rb-kind">{escape(kind)}</span><h3>{shown}</h3>{name}'
        f'<span class="rb-state rb-{state.state}">{escape(state_of(state))}</span></div>'
    )


def state_of(state: CellState) -> str:
    """The state of a cell, in a few words."""
    match state.state:
        case "never":
            return "stopped" if state.stopped else "not run yet"
        case "fresh":
            return f"{_when(state.made_at)}, {_duration(state.milliseconds)}"
        case "stale":
            return f"{'stopped, ' if state.stopped else ''}stale: {' and '.join(state.stale)}"
        case "asks":
            return "waits for your word"
    return state.state


def _when(moment: datetime | None) -> str:
    if moment is None:
        return "now"
    here = moment.astimezone()
    today = here.date() == datetime.now(UTC).astimezone().date()
    return f"{here:%H:%M}" if today else f"{here:%Y-%m-%d %H:%M}"


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _progress(session: NotebookSession, state: CellState) -> None:
    job = session.job
    if state.state != "running" or job is None:
        return
    share, words = job.progress if job.step or job.stopping else (0.0, "Beginning. The first time, models are loaded.")
    st.html(f'<p class="rb-draft" role="status">{escape(words)}</p>')
    st.progress(share)


def _came_to(session: NotebookSession, cell: Cell, state: CellState) -> None:
    """The output, or why there is none."""
    if state.state == "failed":
        st.html(
            '<div class="rb-box rb-complaint" role="alert"><strong>This cell failed</strong>'
            f"<p>{feedback.as_html(state.problem)}</p></div>"
        )
    if state.state == "asks":
        _asks(session, cell, state)
    if state.output is not None:
        old = state.state in ("stale", "failed")
        with st.container(key=f"{'old' if old else 'output'}-{cell.id}"), feedback.draw_errors():
            _output(session, cell, state, state.output)
    elif state.state in ("never", "waiting", "running"):
        shows = summary(kinds[cell.kind])
        st.html(f'<div class="rb-nothing"><b>Run</b> it to see: {escape(shows[:1].lower() + shows[1:])}</div>')


def _output(session: NotebookSession, cell: Cell, state: CellState, output: Output) -> None:
    view = VIEWS.get(cell.kind)
    if state.spec is None:
        st.html('<p class="rb-draft">What it showed is put aside until the cell is valid again.</p>')
        return
    if view is None:
        blocks.draw_all(output.blocks, f"cell.{cell.id}.output")
        return
    view(
        CellView(
            cell,
            state.spec,
            output,
            session.context,
            state.stale,
            change=partial(actions.change, session, cell),
            add=lambda kind, source: actions.add(session, kind, source, after=cell.id, run=True),
        )
    )


def _asks(session: NotebookSession, cell: Cell, state: CellState) -> None:
    """What the cell would spend."""
    job_progress.consent_note("This cell", state.asks)
    st.button(
        "Send and run",
        key=f"allow-{cell.id}",
        icon=":material/payments:",
        on_click=actions.start,
        args=(session, [cell.id]),
        kwargs={"allowed": True},
    )


def css_name(identity: str) -> str:
    """The class name that Streamlit makes of a key."""
    return re.sub(r"[^a-zA-Z0-9_-]", "-", identity.strip())
