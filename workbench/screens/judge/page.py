"""The page Judge: who judges which pool, then the judging itself."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.evaluation.context import EvalContext, default_split
from evals.labels import query_sets
from evals.runs import run_store
from evals.types import DEFAULT_QUERY_SET
from workbench.components import feedback, sign_in
from workbench.components.page import WorkbenchPage
from workbench.screens.judge import desk
from workbench.screens.judge.desk import address
from workbench.services import pool_request
from workbench.services.context import open_collection
from workbench.services.permissions import JUDGING
from workbench.services.pool_request import JudgeState

WHAT = {"pool": "The top of each", "settle": "What settles A against B"}
LAYOUTS = {"one": "One at a time", "list": "A list per query"}


def where(store: Store, state: JudgeState, names: list[str]) -> Iterator[DeltaGenerator]:
    """The collection and its query set, first: the rest depends on them. Gives the columns beside them."""
    known = state.collection in names
    sets = [each.name for each in bridge.run(query_sets.summaries(store, state.collection))] if known else []
    columns = iter(st.columns(4 if len(sets) > 1 else 3))
    with next(columns):
        address.select("Collection", "collection", names, state.collection)
    if len(sets) > 1:
        with next(columns):
            address.select("Query set", "query_set", sets, state.query_set)
    return columns


def how(
    store: Store, state: JudgeState, ctx: EvalContext, columns: Iterator[DeltaGenerator], signs: str | None
) -> None:
    """Who judges what, how deep, and in which layout. Whoever signed in grades under that name, and chooses none."""
    with next(columns):
        address.select("Labelled queries", "split", [*ctx.labelled.splits, "all"], state.split)
    with next(columns):
        if signs is not None:
            own = "You are signed in with it: it signs your grades."
            st.text_input("You grade as", signs, disabled=True, help=own)
        else:
            signature = "No password: it signs your grades."
            address.text("Your name", "judge", state.judge, max_chars=pool_request.LONGEST_NAME, help=signature)
    what, whose = st.columns(2)
    with what:
        address.tabs("What to judge", "what", WHAT, state.what or "pool", first="pool", label_visibility="visible")
    with whose:
        offered = pool_request.choices(bridge.run(run_store.listed(store, collection=state.collection)), state)
        address.several(
            "A and B" if state.settles else "Whose results",
            "variants",
            list(offered),
            pool_request.chosen(state.entries, offered),  # the session says which names nobody knows
            2 if state.settles else 8,
            named=lambda name: offered.get(name, name),
            separator=pool_request.SEPARATOR,
            placeholder="A variant; or, below them, a kept run",
            filter_mode="contains",  # the order stays, so that Enter takes a variant before a run of its name
            select_all=False,  # else Enter would take all that match
            help="A variant is run over these queries, or its latest run is taken. Kept runs, newest first, stay as "
            "they were found then.",
        )
    columns = iter(st.columns([1, 1, 1, 1], vertical_alignment="bottom"))
    with next(columns):
        if state.settles:
            metrics = list(dict.fromkeys((*pool_request.METRICS, state.metric)))
            address.select("By the metric", "metric", metrics, state.metric)
        else:
            address.select("How deep", "depth", list(dict.fromkeys((*pool_request.DEPTHS, state.depth))), state.depth)
    with next(columns):
        many = list(dict.fromkeys((*pool_request.SITTINGS, state.many)))
        address.select("Documents a sitting", "many", many, state.many)
    with next(columns):
        address.tabs("Shown", "layout", LAYOUTS, state.layout or "one", first="one", label_visibility="visible")
    with next(columns):
        address.toggle(
            "Also what others judged",
            "again",
            bool(state.again),
            help="All that you have not judged yourself, for agreement. Else only what nobody has judged.",
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Begin",
            key="judging.begin",
            type="primary",
            icon=":material/gavel:",
            disabled=bool(state.missing or state.begun),
            on_click=address.go,
            kwargs={"begun": "1"},
        )
        if state.missing:
            st.html(f'<p class="rb-summary">{html.escape(state.missing)}</p>')


def refused(state: JudgeState) -> bool:
    """Whether the judge's name is not allowed, which is drawn."""
    from core.errors import RankbookError
    from evals.judging.judgements import judge_name

    try:
        if state.judge:
            judge_name(state.judge)
    except RankbookError as error:
        feedback.draw_error(error)
        return True
    return False


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
    signs = sign_in.signature()
    state = _filled(address.current(), names, signs)
    begun = bool(state.begun) and not state.missing
    with st.expander("What is judged, and by whom", expanded=not begun, icon=":material/tune:"):
        places = where(store, state, names)
        ground, mark = open_collection(store, state.collection, state.query_set)
        state = replace(state, split=state.split or default_split(ground.labelled))
        how(store, state, ground, places, signs)
    if refused(state):
        return
    if begun:
        desk.draw(ground, mark, state)
    else:
        st.html(f'<div class="rb-nothing">{INVITATION}</div>')


def _filled(state: JudgeState, names: list[str], signs: str | None) -> JudgeState:
    """With defaults for what the address leaves out. Whoever is signed in judges, whatever it says."""
    return replace(
        state,
        collection=state.collection or (DEMO if DEMO in names else names[0]),
        query_set=state.query_set or DEFAULT_QUERY_SET,
        judge=state.judge if signs is None else signs,
        depth=state.depth or pool_request.DEPTH,
        metric=state.metric or pool_request.METRICS[0],
        many=state.many or pool_request.SITTING,
    )


PAGE = WorkbenchPage("Judge", ":material/gavel:", render, roles=JUDGING, log_name="judging")
