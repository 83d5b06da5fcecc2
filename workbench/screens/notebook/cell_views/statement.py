"""Each column as SQL, ready to copy, with its plan one click away: what `rankbook sql` prints, filled in or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core.sql_export import Explained, explained, export, vector_of
from core.variant import Variant
from evals.evaluation.context import EvalContext
from workbench.components import feedback
from workbench.components.job_progress import forget, result
from workbench.screens.notebook.cell_views.base import CellView

HELP = "Runs the statement with this query in a read-only transaction, for 10 s at most, and shows what each step took."
WINDOW = 420  # pixels; what is longer scrolls in it


@dataclass(frozen=True, slots=True)
class Choice:
    """A column that is to be shown as SQL; filled in with the query, and with its plan, where that is asked for."""

    variant: Variant
    filled: bool
    plan: bool


def chosen(shown: CellView, columns: Sequence[Variant]) -> Choice | None:
    """The chooser of a column; nothing is exported before one is chosen."""
    by_name = {each.name: each for each in columns}
    name = st.selectbox(
        "As SQL", list(by_name), index=None, key=shown.key("sql"), placeholder="Choose a column", width=240
    )
    if name is None or name not in by_name:
        return None
    filled = st.toggle("With this query, for psql", key=shown.key("sql.filled"))
    plan = st.toggle("Plan (EXPLAIN ANALYZE)", key=shown.key("sql.plan"), help=HELP)
    return Choice(by_name[name], filled, plan)


def draw(shown: CellView, ground: EvalContext, mark: str, choice: Choice, query: str) -> None:
    """The statement, and how the server goes about it."""
    with feedback.draw_errors():
        _statement(shown, ground, mark, choice.variant, query if choice.filled else "")
    if choice.plan:
        with feedback.draw_errors():
            _plan(shown, ground, mark, choice.variant, query)


def _statement(shown: CellView, ground: EvalContext, mark: str, variant: Variant, query: str) -> None:
    key = ("sql", mark, variant.id, query)
    text = result(shown.key("sql.wait"), key, "Writing the statement", lambda *_: _text(ground, variant, query))
    if text is not None:
        st.code(text, language="sql", height=WINDOW)


async def _text(ground: EvalContext, variant: Variant, query: str) -> str:
    made = await export(ground.store, ground.view, variant, query=query or None)
    return made.filled(query, await vector_of(ground.context, made, query)) if query else made.script


def _plan(shown: CellView, ground: EvalContext, mark: str, variant: Variant, query: str) -> None:
    key = ("plan", mark, variant.id, query)
    found: Explained | None = result(
        shown.key("plan.wait"),
        key,
        "Running the statement to see how the server goes about it",
        lambda *_: explained(ground.context, variant, query),
    )
    if found is not None:
        st.code(found.plan, language=None, height=WINDOW)
        st.button("Run it again", key=shown.key("plan.again"), icon=":material/refresh:", on_click=forget, args=(key,))
