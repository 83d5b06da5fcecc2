"""One cell on the page, or a piece of prose: its head, how it stands, its source while it is edited, what it shows.

Each is a fragment: what is done inside one redraws nothing else. Running and changing are the acts'.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import partial
from html import escape
from urllib.parse import quote

import streamlit as st

from core.errors import UnknownName
from evals.presentation.types import Output
from workbench.behind.summaries import summary
from workbench.notebooks import markdown
from workbench.notebooks.cells import kinds
from workbench.notebooks.document import Cell, Part, Prose
from workbench.notebooks.runner import CellResult
from workbench.notebooks.session import NotebookSession, Standing
from workbench.notebooks.shared import HEADER
from workbench.ui import blocks, errors, sending
from workbench.ui.notebook import acts as notebook_acts
from workbench.ui.notebook import menu as notebook_menu
from workbench.ui.notebook import source as notebook_source
from workbench.ui.outputs import VIEWS, CellView

BEAT = 0.5  # seconds between two looks at a cell under way
ICONS = {
    "search": ":material/search:",
    "evaluate": ":material/leaderboard:",
    "fusion": ":material/tune:",
    "compare": ":material/compare_arrows:",
    "context": ":material/article:",
    "judge": ":material/gavel:",
    "note": ":material/notes:",
}


def draw(desk: NotebookSession, part: Part) -> None:
    """The part, which looks again by itself while it runs."""
    running = isinstance(part, Cell) and part.kind != HEADER and desk.standing(part).state == "running"
    st.fragment(_part, run_every=BEAT if running else None)(desk, part.id)


def _part(desk: NotebookSession, identity: str) -> None:
    notebook_acts.keep_up(desk)
    with errors.shown(), st.container(key=f"part-{identity}"), st.container(key=f"cell-{identity}", gap="xsmall"):
        try:
            part = desk.notebook[identity]
        except UnknownName:
            st.rerun()
        if isinstance(part, Prose):
            _prose(desk, part)
        elif part.kind == HEADER:
            _header(desk, part)
        else:
            _cell(desk, part)


# -- prose, and what all cells share -----------------------------------------------------------------------------------


def _prose(desk: NotebookSession, part: Prose) -> None:
    if notebook_menu.is_open(desk, part):
        notebook_source.prose(desk, part)
        return
    st.html(f'<div class="rb-prose">{markdown.html(part.text, lambda name: f"?notebook={quote(name)}")}</div>')
    _tools(desk, part)


def _header(desk: NotebookSession, part: Cell) -> None:
    shared = desk.meaning.shared
    said = [f"collection <b>{escape(shared.collection or 'none')}</b>"]
    said += [f"split <b>{escape(shared.split)}</b>"] if shared.split else []
    said += [f"queries <b>{escape(shared.query_set)}</b>"] if shared.query_set != "default" else []
    said += [f"{len(shared.variants)} variants of its own"] if shared.variants else []
    st.html(f'<p class="rb-shared"><span>For all cells</span> {" · ".join(said)}</p>')
    _tools(desk, part)
    if notebook_menu.is_open(desk, part):
        notebook_source.cell(desk, part)
    elif part.id in desk.meaning.problems:
        errors.draw(desk.meaning.problems[part.id])


def _tools(desk: NotebookSession, part: Part) -> None:
    """What can be done to it, shown where the pointer or the keyboard is."""
    with st.container(horizontal=True, key=f"tools-{part.id}", width="content", gap="xsmall"):
        notebook_menu.edit_button(desk, part)
        notebook_menu.menu(desk, part)


# -- cells -------------------------------------------------------------------------------------------------------------


def _cell(desk: NotebookSession, cell: Cell) -> None:
    standing = desk.standing(cell)
    hidden = (desk.name, cell.id) in notebook_acts.folded()
    with st.container(horizontal=True, vertical_alignment="center", key=f"head-{cell.id}", gap="xsmall"):
        st.html(_title(standing), width="stretch")
        notebook_menu.run_button(desk, cell, standing)
        notebook_menu.edit_button(desk, cell)
        notebook_menu.menu(desk, cell, notebook_menu.more_of(desk, cell, hidden=hidden))
    if notebook_menu.is_open(desk, cell):
        if notebook_acts.editing()[2] == "name":
            notebook_source.name(desk, cell)
        else:
            notebook_source.cell(desk, cell)
    elif notebook_acts.unsaved(desk, cell.id):
        st.html('<p class="rb-draft">Something typed into this cell is not saved yet. Edit shows it.</p>')
    _progress(desk, standing)
    if hidden:
        st.html('<p class="rb-draft">The output is folded away. The menu brings it back.</p>')
    else:
        _came_to(desk, cell, standing)


def _title(standing: Standing) -> str:
    result = standing.result
    kind, title = result.cell.kind, result.title
    name = f"<code>{escape(result.cell.name)}</code>" if result.cell.name and result.cell.name != title else ""
    shown = escape(title) if title != kind else ""
    return (
        f'<div class="rb-title"><span class="rb-kind">{escape(kind)}</span><h3>{shown}</h3>{name}'
        f'<span class="rb-state rb-{standing.state}">{escape(state_of(standing))}</span></div>'
    )


def state_of(standing: Standing) -> str:
    """How the cell stands, in a few words."""
    result = standing.result
    match standing.state:
        case "never":
            return "stopped" if standing.stopped else "not run yet"
        case "fresh":
            return f"{_when(result.made_at)}, {_duration(result.milliseconds)}"
        case "stale":
            return f"{'stopped, ' if standing.stopped else ''}stale: {' and '.join(result.stale)}"
        case "asks":
            return "waits for your word"
    return standing.state


def _when(moment: datetime | None) -> str:
    if moment is None:
        return "now"
    here = moment.astimezone()
    today = here.date() == datetime.now(UTC).astimezone().date()
    return f"{here:%H:%M}" if today else f"{here:%Y-%m-%d %H:%M}"


def _duration(milliseconds: float) -> str:
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def _progress(desk: NotebookSession, standing: Standing) -> None:
    job = desk.job
    if standing.state != "running" or job is None:
        return
    share, words = job.told if job.step or job.stopping else (0.0, "Beginning. The first time, models are loaded.")
    st.html(f'<p class="rb-draft" role="status">{escape(words)}</p>')
    st.progress(share)


def _came_to(desk: NotebookSession, cell: Cell, standing: Standing) -> None:
    """The output, or why there is none."""
    result = standing.result
    if standing.state == "failed":
        st.html(
            '<div class="rb-box rb-complaint" role="alert"><strong>This cell failed</strong>'
            f"<p>{errors.as_html(result.problem)}</p></div>"
        )
    if standing.state == "asks":
        _asks(desk, cell, standing)
    if result.output is not None:
        old = standing.state in ("stale", "failed")
        with st.container(key=f"{'old' if old else 'output'}-{cell.id}"), errors.shown():
            _output(desk, cell, result, result.output)
    elif standing.state in ("never", "waiting", "running"):
        shows = summary(kinds[cell.kind])
        st.html(f'<div class="rb-nothing"><b>Run</b> it to see: {escape(shows[:1].lower() + shows[1:])}</div>')


def _output(desk: NotebookSession, cell: Cell, result: CellResult, output: Output) -> None:
    view = VIEWS.get(cell.kind)
    if result.spec is None:
        st.html('<p class="rb-draft">What it showed is put aside until the cell is valid again.</p>')
        return
    if view is None:
        blocks.draw_all(output.blocks, f"cell.{cell.id}.output")
        return
    view(
        CellView(
            cell,
            result.spec,
            output,
            desk.context,
            result.stale,
            change=partial(notebook_acts.change, desk, cell),
            add=lambda kind, source: notebook_acts.add(desk, kind, source, after=cell.id, run=True),
        )
    )


def _asks(desk: NotebookSession, cell: Cell, standing: Standing) -> None:
    """What it would spend, before it spends anything."""
    sending.told("This cell", standing.asks)
    st.button(
        "Send and run",
        key=f"allow-{cell.id}",
        icon=":material/payments:",
        on_click=notebook_acts.start,
        args=(desk, [cell.id]),
        kwargs={"allowed": True},
    )


def css_name(identity: str) -> str:
    """As Streamlit writes a key into a class."""
    return re.sub(r"[^a-zA-Z0-9_-]", "-", identity.strip())
