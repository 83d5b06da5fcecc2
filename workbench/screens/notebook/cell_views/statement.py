"""Each column as SQL, as `rankbook sql` prints it, with the query filled in or not, and with its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import streamlit as st

from core.sql_export import Explained, explained, export_sql, vector_of
from core.variant import Variant
from evals.evaluation.context import EvalContext
from workbench.components import feedback
from workbench.components.job_progress import forget, result
from workbench.screens.notebook.cell_views.base import CellView

HELP = "Runs the statement with this query in a read-only transaction, for 10 s at most, and shows what each step took."
WINDOW = 420  # pixels; what is longer scrolls in it


@dataclass(frozen=True, slots=True)
class Choice:
    """The column to show as SQL; with the query filled in, and with its plan, if wanted."""

    variant: Variant
    filled: bool
    plan: bool


def chosen(view: CellView, columns: Sequence[Variant]) -> Choice | None:
    """The chooser of a column; nothing is exported before one is chosen."""
    by_name = {each.name: each for each in columns}
    name = st.selectbox(
        "As SQL", list(by_name), index=None, key=view.key("sql"), placeholder="Choose a column", width=240
    )
    if name is None or name not in by_name:
        return None
    filled = st.toggle("With this query, for psql", key=view.key("sql.filled"))
    plan = st.toggle("Plan (EXPLAIN ANALYZE)", key=view.key("sql.plan"), help=HELP)
    return Choice(by_name[name], filled, plan)


def draw(view: CellView, ctx: EvalContext, mark: str, choice: Choice, query: str) -> None:
    """The statement, and its plan on the server."""
    with feedback.draw_errors():
        _statement(view, ctx, mark, choice.variant, query if choice.filled else "")
    if choice.plan:
        with feedback.draw_errors():
            key = ("plan", mark, choice.variant.id, query)
            found: Explained | None = result(
                view.key("plan.wait"),
                key,
                "Running the statement to see how the server goes about it",
                lambda *_: explained(ctx.context, choice.variant, query),
            )
            if found is not None:
                st.code(found.plan, language=None, height=WINDOW)
                st.button(
                    "Run it again", key=view.key("plan.again"), icon=":material/refresh:", on_click=forget, args=(key,)
                )


def _statement(view: CellView, ctx: EvalContext, mark: str, variant: Variant, query: str) -> None:
    key = ("sql", mark, variant.id, query)
    text = result(view.key("sql.wait"), key, "Writing the statement", lambda *_: _text(ctx, variant, query))
    if text is not None:
        st.code(text, language="sql", height=WINDOW)


async def _text(ctx: EvalContext, variant: Variant, query: str) -> str:
    made = await export_sql(ctx.store, ctx.view, variant, query=query or None)
    return made.filled(query, await vector_of(ctx.context, made, query)) if query else made.script
