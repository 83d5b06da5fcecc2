"""The page Judge: who judges which pool, then the judging itself."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import replace

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core import bridge
from core.store import collections
from core.store.engine import Store
from evals.evaluation.context import EvalContext, default_split
from evals.runs import run_store
from evals.types import DEFAULT_QUERY_SET
from workbench.components import feedback, sign_in, url_state
from workbench.components.open_collection import opened
from workbench.components.page import Page
from workbench.screens.judge import desk as judging_desk
from workbench.services import pool_request
from workbench.services import pool_request as judging_asked
from workbench.services import weights as weights_asked
from workbench.services.permissions import JUDGING
from workbench.services.pool_request import JudgeState, joined

NAME = "judging"
CLEARED = ("begun",)  # another pool is another sitting
WHAT = {"pool": "The top of each", "settle": "What settles A against B"}
LAYOUTS = {"one": "One at a time", "list": "A list per query"}


def where(store: Store, asked: JudgeState, names: list[str]) -> Iterator[DeltaGenerator]:
    """Which collection and query set, first: the rest hangs on it. Gives the places beside them."""
    sets = bridge.run(weights_asked.query_sets_of(store, asked.collection)) if asked.collection in names else []
    places = iter(st.columns(4 if len(sets) > 1 else 3))
    with next(places):
        gone = ("query_set", "split", "variants", *CLEARED)
        url_state.chooser(NAME, "Collection", "collection", names, asked.collection, clears=gone)
    if len(sets) > 1:
        with next(places):
            url_state.chooser(
                NAME, "Query set", "query_set", sets, asked.query_set, clears=("split", "variants", *CLEARED)
            )
    return places


def how(
    store: Store, asked: JudgeState, ground: EvalContext, places: Iterator[DeltaGenerator], signs: str | None
) -> None:
    """Who judges what, how deep, and how it is shown. Whoever signed in grades under that name, and chooses none."""
    with next(places):
        splits = [*ground.labelled.splits, "all"]
        url_state.chooser(NAME, "Labelled queries", "split", splits, asked.split, clears=("variants", *CLEARED))
    with next(places):
        _whose(asked, signs)
    what, whose = st.columns(2)
    with what:
        _tabs("What to judge", "what", WHAT, asked.what)
    with whose:
        _variants(store, asked)
    _details(asked)
    _begin(asked)


def _whose(asked: JudgeState, signs: str | None) -> None:
    if signs is not None:
        st.text_input("You grade as", signs, disabled=True, help="You are signed in with it: it signs your grades.")
        return
    url_state.text(
        NAME,
        "Your name",
        "judge",
        asked.judge,
        max_chars=judging_asked.LONGEST_NAME,
        help="No password: it signs your grades.",
    )


def _details(asked: JudgeState) -> None:
    places = iter(st.columns([1, 1, 1, 1], vertical_alignment="bottom"))
    with next(places):
        if asked.settles:
            metrics = list(dict.fromkeys((*judging_asked.METRICS, asked.metric)))
            url_state.chooser(NAME, "By the metric", "metric", metrics, asked.metric, clears=CLEARED)
        else:
            depths = list(dict.fromkeys((*judging_asked.DEPTHS, asked.depth)))
            url_state.chooser(NAME, "How deep", "depth", depths, asked.depth, clears=CLEARED)
    with next(places):
        many = list(dict.fromkeys((*judging_asked.SITTINGS, asked.many)))
        url_state.chooser(NAME, "Documents a sitting", "many", many, asked.many, clears=CLEARED)
    with next(places):
        _tabs("Shown", "layout", LAYOUTS, asked.layout)
    with next(places):
        _again(asked)


def _begin(asked: JudgeState) -> None:
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Begin",
            key="judging.begin",
            type="primary",
            icon=":material/gavel:",
            disabled=bool(asked.missing or asked.begun),
            on_click=lambda: url_state.go(begun="1"),
        )
        if asked.missing:
            st.html(f'<p class="rb-summary">{html.escape(asked.missing)}</p>')


def _tabs(label: str, field: str, options: Mapping[str, str], chosen: str) -> None:
    """Buttons in a row; the first is what holds where the address says nothing."""
    key, first = f"{NAME}.{field}", next(iter(options))
    chosen = chosen if chosen in options else first
    if st.session_state.get(key) != chosen:
        st.session_state[key] = chosen

    def follow() -> None:
        if (value := st.session_state[key]) is not None:
            url_state.go(**{field: "" if value == first else value, **dict.fromkeys(CLEARED, "")})

    st.segmented_control(
        label, list(options), default=chosen, format_func=options.__getitem__, key=key, on_change=follow
    )


def _variants(store: Store, asked: JudgeState) -> None:
    """Variants by name, and kept runs by id. What the address names and nobody knows is not drawn: running it tells."""
    offered = pool_request.choices(bridge.run(run_store.listed(store, collection=asked.collection)), asked)
    chosen = pool_request.chosen(asked.entries, offered)
    key = f"{NAME}.variants"
    if st.session_state.get(key) != chosen:
        st.session_state[key] = chosen

    def follow() -> None:
        url_state.go(variants=joined(st.session_state[key]), **dict.fromkeys(CLEARED, ""))

    st.multiselect(
        "A and B" if asked.settles else "Whose results",
        list(offered),
        chosen,
        key=key,
        format_func=lambda name: offered.get(name, name),
        max_selections=2 if asked.settles else 8,
        placeholder="A variant; or, below them, a kept run",
        filter_mode="contains",  # the order stays, so that Enter takes a variant before a run of its name
        select_all=False,  # else Enter would take all that match
        help="A variant is run over these queries, or its latest run is taken. Kept runs, newest first, stay as they "
        "were found then.",
        on_change=follow,
    )


def _again(asked: JudgeState) -> None:
    key = f"{NAME}.again"
    if st.session_state.get(key) != bool(asked.again):
        st.session_state[key] = bool(asked.again)
    st.toggle(
        "Also what others judged",
        bool(asked.again),
        key=key,
        help="All that you have not judged yourself, for agreement. Else only what nobody has judged.",
        on_change=lambda: url_state.go(again="1" if st.session_state[key] else "", **dict.fromkeys(CLEARED, "")),
    )


def refused(asked: JudgeState) -> bool:
    """Whether the name is none that a person may sign with; said where it stands."""
    from core.errors import RankbookError
    from evals.judging.judgements import judge_name

    try:
        if asked.judge:
            judge_name(asked.judge)
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
    signs = sign_in.signs()
    asked = _filled(JudgeState.of(url_state.said()), names, signs)
    begun = bool(asked.begun) and not asked.missing
    with st.expander("What is judged, and by whom", expanded=not begun, icon=":material/tune:"):
        places = where(store, asked, names)
        ground, mark = opened(store, asked.collection, asked.query_set)
        asked = replace(asked, split=asked.split or default_split(ground.labelled))
        how(store, asked, ground, places, signs)
    if refused(asked):
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


PAGE = Page("Judge", ":material/gavel:", render, roles=JUDGING, log_name="judging")
