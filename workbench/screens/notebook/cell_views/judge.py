"""The output of a judge cell: its blocks, and for whoever may judge the way to the page with exactly this pool."""

from __future__ import annotations

import streamlit as st

from workbench.components import blocks, sign_in
from workbench.screens.notebook.cell_views.base import CellView
from workbench.services import permissions
from workbench.services.pool_request import JudgeState


def draw(shown: CellView) -> None:
    """All of it. The blocks are drawn one by one: what to judge is the last of them to be looked at."""
    blocks.draw_all(shown.output.blocks, shown.key("block"))
    given = shown.output.values.get("sitting")
    if given is None or not permissions.may_judge(shown.context.store):
        return
    asked = _whose(JudgeState.of(given))
    others = bool(asked.again) and asked.judge != given.get("judge")  # what is left is of the judge whom the cell names
    left = 0 if others else shown.output.values.get("left", 0)
    label = f"Judge the {left:,} that are left" if left else "Open the Judge page"
    st.link_button(label, asked.link, icon=":material/gavel:", type="primary" if left else "secondary")


def _whose(asked: JudgeState) -> JudgeState:
    """Whoever signed in grades under that name, whomever the cell names."""
    signs = sign_in.signs()
    return asked if signs is None else asked.but(judge=signs)
