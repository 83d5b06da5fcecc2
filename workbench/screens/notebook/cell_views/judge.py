"""The output of a judge cell, and for who may judge a link to the page with exactly this pool."""

from __future__ import annotations

import streamlit as st

from workbench.components import blocks, sign_in
from workbench.screens.notebook.cell_views.base import CellView
from workbench.services import permissions
from workbench.services.pool_request import JudgeState


def draw(view: CellView) -> None:
    """All blocks one by one: the table of what to judge is the last."""
    blocks.draw_all(view.output.blocks, view.key("block"))
    given = view.output.values.get("sitting")
    if given is None or not permissions.may_judge(view.context.store):
        return
    asked = _whose(JudgeState.of(given))
    others = bool(asked.again) and asked.judge != given.get("judge")  # what is left is of the judge whom the cell names
    left = 0 if others else view.output.values.get("left", 0)
    label = f"Judge the {left:,} that are left" if left else "Open the Judge page"
    st.link_button(label, asked.link("judge"), icon=":material/gavel:", type="primary" if left else "secondary")


def _whose(state: JudgeState) -> JudgeState:
    """With the signature of the person signed in, whomever the cell names."""
    signs = sign_in.signature()
    return state if signs is None else state.replace(judge=signs)
