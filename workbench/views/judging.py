"""The judging page: documents one after the other, graded by keys, and scores that follow the labels."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.evaluation.context import default_split
from evals.types import DEFAULT_QUERY_SET
from workbench.behind.judging import asked as judging_asked
from workbench.behind.judging.asked import JudgeState
from workbench.ui import address, sign_in
from workbench.ui.judging import desk as judging_desk
from workbench.ui.judging import setup as judging_setup
from workbench.ui.outputs.grounds import opened

DEMO = "handbook"
INVITATION = (
    "Labels say which documents answer which queries: all scores hang on them. Choose variants, and judge what they "
    "found, one document at a time. Which variant found it, and how high, is hidden, so that nobody is favoured. Every "
    "grade is kept at once; several people can judge at once, each under a name of their own."
)


def render(store: Store) -> None:
    st.html('<p class="rb-tagline">What is relevant? Judge without knowing who found it, and see scores follow.</p>')
    names = [row.name for row in bridge.run(collections.listed(store))]
    if not names:
        st.html('<div class="rb-nothing">There is no collection yet. The Collections page adds one.</div>')
        return
    signs = sign_in.signs()
    asked = _filled(JudgeState.of(address.said()), names, signs)
    begun = bool(asked.begun) and not asked.missing
    with st.expander("What is judged, and by whom", expanded=not begun, icon=":material/tune:"):
        places = judging_setup.where(store, asked, names)
        ground, mark = opened(store, asked.collection, asked.query_set)
        asked = replace(asked, split=asked.split or default_split(ground.labelled))
        judging_setup.how(store, asked, ground, places, signs)
    if judging_setup.refused(asked):
        return
    if begun:
        judging_desk.draw(ground, mark, asked)
    else:
        st.html(f'<div class="rb-nothing">{INVITATION}</div>')


def _filled(asked: JudgeState, names: list[str], signs: str | None) -> JudgeState:
    """With what holds where the address says nothing; whoever signed in judges, whatever it says."""
    return replace(
        asked,
        collection=asked.collection or (DEMO if DEMO in names else names[0]),
        query_set=asked.query_set or DEFAULT_QUERY_SET,
        judge=asked.judge if signs is None else signs,
        depth=asked.depth or judging_asked.DEPTH,
        metric=asked.metric or judging_asked.METRICS[0],
        many=asked.many or judging_asked.SITTING,
    )
