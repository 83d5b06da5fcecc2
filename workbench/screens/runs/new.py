"""More runs: variants evaluated in the background, another engine's run from a file; and old ones cleared away."""

from __future__ import annotations

import asyncio
import html
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import streamlit as st

from core import bridge
from core.progress import Listener
from core.store.engine import Store
from evals.evaluation import evaluate
from evals.evaluation.context import EvalContext, default_split, open_eval
from evals.measures import METRICS
from evals.presentation.types import Output
from evals.runs import run_store
from evals.runs.exchange import ForeignRun
from evals.runs.plan import EvalOptions
from evals.variants import every_name, resolve_variant
from workbench.components import blocks, deleted, feedback, job_progress
from workbench.notebooks.cells import evaluate as cells_evaluate
from workbench.screens.runs.state import RunsState, address
from workbench.services import cost_notice, uploads
from workbench.services.cost_notice import ConsentNeeded

WAYS = {"evaluate": "Evaluate variants", "file": "Add another engine's run", "clear": "Clear old runs"}
ADDED = "runs.added"
MOST_VARIANTS, MOST_FLAWS, LARGEST = 12, 8, 200


def draw(store: Store, state: RunsState, collections: list[str]) -> None:
    address.tabs("More runs", "new", WAYS, state.new)
    ways: dict[str, Callable[[], None]] = {
        "evaluate": lambda: _evaluate(store, state, collections),
        "file": lambda: _file(store, state, collections),
        "clear": lambda: _clear(store, state, collections),
    }
    if state.new in ways:
        with st.container(border=True, key="runs-new"):
            ways[state.new]()
            st.button("Close", key="runs.new.close", type="tertiary", on_click=lambda: address.go(new="", variants=""))


def _where(store: Store, state: RunsState, collections: list[str]) -> tuple[EvalContext, str] | None:
    """The collection and its labelled queries, with a chooser for each."""
    if not collections:
        st.html('<div class="rb-nothing">There is no collection yet. The Collections page adds one.</div>')
        return None
    first = "handbook" if "handbook" in collections else collections[0]
    chosen = state.collection or first
    columns = st.columns(2)
    with columns[0]:
        address.widgets("runs.new").select("Over the collection", "collection", collections, chosen, clears=("split",))
    ground = bridge.run(open_eval(store, chosen))
    splits = [*ground.labelled.splits, "all"]
    split = state.split or default_split(ground.labelled)
    with columns[1]:
        address.widgets("runs.new").select("Labelled queries", "split", splits, split)
    return ground, split


# -- variants evaluated ------------------------------------------------------------------------------------------------


def _evaluate(store: Store, state: RunsState, collections: list[str]) -> None:
    where = _where(store, state, collections)
    if where is None:
        return
    ground, split = where
    known = every_name()
    key = "runs.new.variants"
    chosen = [name for name in state.variants.split("\n") if name in known]
    if st.session_state.get(key) is None or (not st.session_state[key] and chosen):
        st.session_state[key] = chosen
    st.multiselect(
        "Variants",
        known,
        st.session_state[key],
        key=key,
        max_selections=MOST_VARIANTS,
        placeholder="Presets, legs, and your own",
    )
    names = st.session_state[key]
    st.button(
        "Evaluate",
        key="runs.new.go",
        type="primary",
        icon=":material/play_arrow:",
        disabled=not names,
        on_click=lambda: address.go(
            variants="\n".join(st.session_state[key]), collection=ground.view.name, split=split
        ),
    )
    if chosen:
        _made(ground, split, chosen)


def _made(ctx: EvalContext, split: str, names: list[str]) -> None:
    """The table of what was asked for last, once it is there. A reload finds the work under way, then the kept runs."""
    made = [resolve_variant(name, chunks=ctx.view.default_chunk_set) for name in names]
    ids = [f"{each.name} {each.id}" for each in made]
    view, digest = ctx.view, ctx.labelled.digest().hex()
    key = ("runs evaluated", ctx.store.where, view.name, view.version_key, digest, split, *ids)

    async def work(listener: Listener, token: asyncio.Event, *, allowed: bool) -> Output | ConsentNeeded:
        here, part = ctx.until(token), ctx.split(split)
        if sends := await cost_notice.for_runs(here, made, part, allowed=allowed):
            return sends
        result = await evaluate.evaluate(here, made, part, EvalOptions(METRICS), progress=listener)
        return cells_evaluate.board_output(result.board)

    found: Output | None = job_progress.result_with_consent("runs.evaluated", key, "Evaluating", work)
    if found is not None:
        blocks.draw_all(found.blocks, "runs.evaluated.of")


# -- another engine's --------------------------------------------------------------------------------------------------


def _file(store: Store, state: RunsState, collections: list[str]) -> None:
    where = _where(store, state, collections)
    if where is None:
        return
    ground, split = where
    given = st.file_uploader(
        "Its rankings: TREC's run format, CSV, TSV, JSON lines or Parquet",
        key="runs.new.file",
        max_upload_size=LARGEST,
        help="Tables have the columns query, item and score. Ids are the collection's own.",
    )

    if st.button("Add it", key="runs.new.add", type="primary", disabled=given is None) and given is not None:
        with feedback.draw_errors():
            with st.spinner("Reading and scoring it"):
                found = bridge.run(taken(ground, split, given))
            st.session_state[ADDED] = found
            address.go(run=found.run.id, beside="", view="", new="file")
            st.rerun()
    if (added := st.session_state.get(ADDED)) is not None:
        _added(added)


async def taken(ctx: EvalContext, split: str, given: uploads.Uploaded) -> ForeignRun:
    """The run out of an uploaded file, kept and scored like any other."""
    staged = uploads.stage([given])
    try:
        part = ctx.split(split)
        (found,) = await evaluate.foreign_runs(ctx, part, sorted(staged.iterdir()))
        await evaluate.score_runs(ctx, part, [found.run], EvalOptions(METRICS), None)
        return found
    finally:
        uploads.discard(staged)


def _added(foreign: ForeignRun) -> None:
    """How the file met the queries, and what was wrong with it."""
    said = [f"{foreign.run.name} is kept. Of its queries {len(foreign.run.rankings):,} are asked here."]
    if foreign.missing:
        said.append(f"It has nothing for {len(foreign.missing):,} of the queries; they score 0.")
    if foreign.unasked:
        said.append(f"{len(foreign.unasked):,} are not; they do not count.")
    said += foreign.run.notes
    flaws = [f"Line {each.place.line or '?'}: {each.message}" for each in foreign.flaws[:MOST_FLAWS]]
    if len(foreign.flaws) > MOST_FLAWS:
        flaws.append(f"and {len(foreign.flaws) - MOST_FLAWS:,} more")
    lines = "".join(f"<p>{html.escape(each)}</p>" for each in (*said, *flaws))
    st.html(f'<div class="rb-box rb-note" role="status"><strong>Added</strong>{lines}</div>')


# -- cleared away ------------------------------------------------------------------------------------------------------


def _clear(store: Store, state: RunsState, collections: list[str]) -> None:
    st.html(
        '<p class="rb-summary">Deletes all but the newest runs of each name over one split. Baselines stay. What legs '
        "found stays too, but for collections that are gone.</p>"
    )
    columns = st.columns(3)
    with columns[0]:
        keep = st.number_input("Newest to keep of each name", 0, 1000, 1, key="runs.clear.keep")
    with columns[1]:
        days = st.number_input(
            "Only what is older than, days", 0, 10_000, None, key="runs.clear.days", placeholder="any"
        )
    with columns[2]:
        address.widgets("runs.clear").select(
            "Of the collection", "collection", collections, state.collection, empty="All"
        )

    def clear() -> None:
        before = None if days is None else datetime.now(UTC) - timedelta(days=days)
        of = state.collection or None
        entries = bridge.run(run_store.prune(store, keep=keep, before=before, collection=of, by=deleted.person()))
        deleted.announce(store, "runs", f"{sum(each.count for each in entries):,} runs deleted.", entries)

    st.button("Delete them", key="runs.clear.do", type="primary", icon=":material/delete_sweep:", on_click=clear)
