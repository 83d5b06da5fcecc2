"""One open run: what it is, what can be done with it, and its views; work that takes long goes on in the background."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store.engine import Store
from evals.presentation.types import Block
from evals.runs import candidates, exchange, run_store
from evals.runs.run_store import SHOWN, RunSummary
from evals.runs.types import not_comparable
from workbench.components import blocks, deleted, feedback, job_progress, variant_list
from workbench.screens.runs.state import BY, RunsState, address
from workbench.services import permissions
from workbench.services import runs as services_runs

TABS = {"scores": "Scores", "made": "How it was made", "compare": "Compare"}
BASELINE = "main"
DO = "runs.do"
ENDINGS = {".trec": "TREC run", ".csv": "CSV", ".jsonl": "JSON lines", ".parquet": "Parquet"}


def draw(store: Store, run: RunSummary, runs: Sequence[RunSummary], state: RunsState) -> None:
    _head(run)
    _actions(store, run, runs, state)
    address.tabs("What of it", "view", TABS, state.shown)
    match state.shown:
        case "scores":
            _scores(store, run, state)
        case "made":
            whole = bridge.run(run_store.load(store, run.id))
            blocks.draw_all(services_runs.details(run, whole), "runs.made")
        case _:
            _compare(store, run, runs, state)


def _head(run: RunSummary) -> None:
    of = run.subject
    pins = "".join(f'<b class="rb-pin">{html.escape(pin)}</b>' for pin in run.pins)
    about = f"run {run.id[:SHOWN]}, {of.collection} version {of.version}, {of.split}, {run.queries:,} queries"
    st.html(f'<div class="rb-head"><h2>{html.escape(run.name)} {pins}</h2><span>{html.escape(about)}</span></div>')
    if run.variant is not None:
        variant_list.pipeline(f"runs.pipeline.{run.id}", run.variant)


# -- what can be done with it ------------------------------------------------------------------------------------------


def _actions(store: Store, run: RunSummary, runs: Sequence[RunSummary], state: RunsState) -> None:
    with st.container(horizontal=True, key="runs-actions"):
        if permissions.may_edit(store):
            with st.popover("Pin", icon=":material/keep:"):
                _pin(store, run, runs)
            if not run.depth:
                _aside(store, run)
        with st.popover("Download", icon=":material/download:"):
            _downloads(store, run, state)
        if permissions.may_edit(store):
            with st.popover("Delete", icon=":material/delete:"):
                _delete(store, run)
    if (error := st.session_state.pop(DO, None)) is not None:
        feedback.draw_error(error)


def _pin(store: Store, run: RunSummary, runs: Sequence[RunSummary]) -> None:
    st.html(
        '<p class="rb-summary">A pinned run is a baseline: gates and comparisons find it by the name, and it is never '
        "cleared away. A name that is taken moves here.</p>"
    )
    key = f"runs.pin.{run.id}"
    taken = {pin for each in runs for pin in each.pins}
    free = "" if BASELINE in taken else BASELINE
    st.text_input("The baseline's name", free, key=key, max_chars=100, placeholder=BASELINE)
    pin: Callable[[], None] = lambda: bridge.run(run_store.pin(store, run.id, st.session_state[key].strip()))  # noqa: E731
    st.button("Pin it", key=f"{key}.do", type="primary", on_click=_done, args=(pin,))
    for at, name in enumerate(run.pins):
        unpin: Callable[[], None] = lambda name=name: bridge.run(run_store.unpin(store, name))  # type: ignore[misc]  # noqa: E731
        st.html(f'<p class="rb-summary">It is <b>{html.escape(name)}</b>.</p>')
        st.button("Unpin", key=f"{key}.un.{at}", on_click=_done, args=(unpin,))


def _aside(store: Store, run: RunSummary) -> None:
    """Out of what verdicts over these queries are made with in view, or back into it."""
    out = bridge.run(candidates.is_aside(store, run))
    label, icon = ("Make it a candidate", "undo") if out else ("Set aside", "do_not_disturb_on")
    move: Callable[[], None] = lambda: bridge.run(candidates.set_aside(store, run, back=out))  # noqa: E731
    st.button(
        label,
        icon=f":material/{icon}:",
        key=f"runs.aside.{run.id}",
        help="Verdicts over the same queries are made with all candidates in view. They say how many were set aside.",
        on_click=_done,
        args=(move,),
    )


def _downloads(store: Store, run: RunSummary, state: RunsState) -> None:
    """Made when they are asked for."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", run.name).strip("-") or "run"
    for ending, label in ENDINGS.items():
        st.download_button(
            label,
            lambda ending=ending: rankings(store, run.id, ending),  # type: ignore[misc]
            f"{stem}{ending}",
            key=f"runs.out.{run.id}{ending}",
            on_click="ignore",
            width="stretch",
        )
    other = state.beside or None
    st.download_button(
        f"Report{' with the comparison' if other else ''}, HTML",
        lambda: bridge.run(services_runs.report_html(store, run.id, _metrics(run, state), other)),
        f"{stem}.html",
        "text/html",
        key=f"runs.out.{run.id}.html",
        on_click="ignore",
        width="stretch",
    )


def rankings(store: Store, identity: str, ending: str) -> bytes:
    """The run's rankings in one of the formats of `rankbook runs export`."""
    whole = bridge.run(run_store.load(store, identity))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"run{ending}"
        exchange.write_run(whole, path)
        return path.read_bytes()


def _delete(store: Store, run: RunSummary) -> None:
    if run.pins:
        st.html('<p class="rb-summary">It is pinned, and stays while it is. Unpin it first.</p>')
        return
    st.html(
        '<p class="rb-summary">Its rankings and scores go into the trash, and can be brought back. What its legs found '
        "stays, so that evaluating the variant again is quick.</p>"
    )

    def delete() -> None:
        entry = bridge.run(run_store.remove(store, run.id, by=deleted.person()))
        deleted.announce(store, "runs", f"{run.name} was deleted.", [entry])
        address.go(run="", beside="", view="")

    st.button("Delete it", key=f"runs.delete.{run.id}", type="primary", on_click=_done, args=(delete,))


def _done(do: Callable[[], None]) -> None:
    """In a callback, so that the page that follows shows what there is then. What went wrong is drawn there too."""
    try:
        do()
    except RankbookError as error:
        st.session_state[DO] = error


# -- its views ---------------------------------------------------------------------------------------------------------


def _metrics(run: RunSummary, state: RunsState) -> list[str]:
    """What it was scored by, the one that is shown first."""
    there = services_runs.metrics_of([run]) or ["ndcg@10"]
    first = state.metric if state.metric in there else there[0]
    return [first, *(each for each in there if each != first)]


def _scores(store: Store, run: RunSummary, state: RunsState) -> None:
    address.tabs("Broken down by", "by", {"kind": "By kind of query", "tag": "By tag"}, state.grouped)
    metrics = _metrics(run, state)
    key = ("run scores", store.where, run.id, str(run.made_at), state.grouped, *metrics)
    made: list[Block] | None = job_progress.result(
        "runs.scores", key, "Scoring", lambda *_: services_runs.scores(store, run.id, metrics, state.grouped)
    )
    if made is not None:
        blocks.draw_all(made, "runs.scores.of")


def _compare(store: Store, run: RunSummary, runs: Sequence[RunSummary], state: RunsState) -> None:
    others = {each.id: each for each in runs if each.id != run.id}
    beside = _meant(store, state.beside, run)
    metrics = services_runs.metrics_of([run]) or ["ndcg@10"]
    where = st.columns([3, 1, 1], vertical_alignment="bottom")
    with where[0]:
        chosen = beside.id if beside else ""
        address.select("Held against", "beside", list(others), chosen, named=lambda each: named(others[each]))
    with where[1]:
        address.widgets("runs.compared").select("Metric", "metric", metrics, _metrics(run, state)[0])
    with where[2]:
        address.widgets("runs.compared").select("Broken down by", "by", list(BY), state.grouped)
    if beside is None:
        st.html(
            '<div class="rb-nothing">Choose another run: whether this one is better, by how much, on which queries, '
            "and in what the two differ.</div>"
        )
        return
    _compared(store, run, beside, _metrics(run, state)[0], state.grouped)


def _compared(store: Store, run: RunSummary, beside: RunSummary, metric: str, by: str) -> None:
    """Runs over other data are only held together: how alike they are needs no labels."""
    stamps = (str(run.made_at), str(beside.made_at))
    key = ("runs compared", store.where, run.id, beside.id, *stamps, metric, by)
    why_not = not_comparable(run, beside)
    if why_not:
        st.html(
            '<div class="rb-box rb-note" role="note"><strong>Not scored against each other</strong>'
            f"<p>{html.escape(why_not)}</p></div>"
        )
    ask = (
        (lambda *_: services_runs.comparison(store, run.id, beside.id, metric, by))
        if not why_not
        else (lambda *_: services_runs.similarity(store, run.id, beside.id))
    )
    made: list[Block] | None = job_progress.result("runs.compared", key, "Comparing", ask)
    if made is not None:
        blocks.draw_all(made, "runs.compared.of")


def _meant(store: Store, reference: str, run: RunSummary) -> RunSummary | None:
    """The other run, by its id, name or pin."""
    if not reference:
        return None
    found = bridge.run(run_store.find(store, reference))
    return None if found.id == run.id else found


def named(run: RunSummary) -> str:
    """In a list to choose from."""
    pins = f" ({', '.join(run.pins)})" if run.pins else ""
    of = run.subject
    return f"{run.name}{pins}: {of.collection}, {of.split}, {run.made_at:%Y-%m-%d %H:%M}, {run.id[:SHOWN]}"
