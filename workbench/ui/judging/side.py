"""Beside a sitting: scores that follow the labels, agreement, a language model's suggestion, and labels to take along.

None of it holds the sitting up: what takes time is a job, and what is there is shown while the next is made.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Final

import streamlit as st

from core import bridge
from core.context import Resources
from core.errors import RankbookError
from core.store import roles
from evals.evaluation.context import EvalContext
from evals.judging.agreement import PairId
from evals.judging.judgements import Judgement
from evals.judging.llm_judge import SCALE, ModelJudge
from evals.judging.merging import WouldOverwrite, merge_judgements, others_anew
from evals.labels import query_sets
from evals.presentation.types import Text
from workbench.behind import jobs
from workbench.behind.jobs import Key
from workbench.behind.judging import shown as judging_shown
from workbench.behind.judging.shown import Form, State
from workbench.behind.judging.sitting import JudgingSession
from workbench.ui import blocks, errors, may, sign_in

BEAT: Final = 2.0  # seconds between two looks at what was judged
STATE: Final = "judging.state"
MERGED: Final = "judging.merged"
SUGGESTED: Final = "judging.suggested"
BLIND: Final = "Scores are of the whole pool: they tell nothing of the document that is shown."


# -- scores, agreement, export -----------------------------------------------------------------------------------------


@st.fragment(run_every=BEAT)
def follow(key: Key, ground: EvalContext, sitting: JudgingSession) -> None:
    """Where judging stands, a few seconds behind whoever judges."""
    with errors.shown():
        found, busy = _state(key, ground, sitting)
        if found is None:
            st.html('<p class="rb-summary" role="status">Scoring what is judged so far …</p>')
            return
        blocks.draw(Text(text=found.figures.headline, tone="headline"), "judging.headline")
        blocks.draw(judging_shown.scores_table(found.figures), "judging.scores")
        st.html(f'<p class="rb-summary" role="status">{"Following the last grades …" if busy else BLIND}</p>')
        with st.expander("Agreement between judges", icon=":material/group:"):
            blocks.draw_all(judging_shown.agreement_blocks(found.agreed), "judging.agreement")
        with st.expander("Take the labels along", icon=":material/download:"):
            _taken_along(ground, sitting, found)


def _state(key: Key, ground: EvalContext, sitting: JudgingSession) -> tuple[State | None, bool]:
    """The latest there is, and whether a later one is being made: one at a time, however fast somebody grades."""
    kept: dict[Key, tuple[str, State | BaseException]] = st.session_state.setdefault(STATE, {})
    mark, job = bridge.run(judging_shown.mark(ground.store, ground.view.name)), ("judging state", *key)
    shown, pool = kept.get(key), sitting.pool
    work = jobs.find(job)
    if work is None and (shown is None or shown[0] != mark):

        async def counted(_: object, __: object) -> tuple[str, State]:
            return mark, await judging_shown.state(ground, pool.runs, pool.split, pool.spec)

        work = jobs.begin(job, "Scoring what is judged", counted)
    if work is not None and work.wait(0):
        jobs.forget(job)  # one that failed is tried again after the next judgement, and not every other second
        shown, work = (mark, work.problem) if work.problem else work.result(), None
        st.session_state[STATE] = {key: shown}
    latest = shown[1] if shown else None
    if isinstance(latest, BaseException):
        raise latest
    return latest, work is not None


def _taken_along(ground: EvalContext, sitting: JudgingSession, found: State) -> None:
    name = ground.view.name
    st.html(
        f'<p class="rb-summary">{len(found.settled):,} pairs, of all judges: where several graded one, the median, the '
        "lower of the middle two. Language models' grades are not among them.</p>"
    )
    with st.container(horizontal=True):
        _download(found, "trec", f"{name}.qrels")
        _download(found, "beir", f"{name}.tsv")
    if may.edit(ground.store):
        _merge(ground, sitting)


def _download(found: State, form: Form, name: str) -> None:
    try:
        written = judging_shown.exported(found, form)
    except RankbookError as error:  # TREC's columns have no room for blanks
        errors.draw(error)
        return
    st.download_button(
        f"Qrels as {form.upper()}",
        written,
        file_name=name,
        mime="text/plain",
        key=f"judging.export.{form}",
        icon=":material/download:",
        on_click="ignore",
        disabled=not found.settled,
    )


def _merge(ground: EvalContext, sitting: JudgingSession) -> None:
    into = st.text_input(
        "Into the query set",
        value="judged",
        key="judging.into",
        max_chars=60,
        help="A copy of this query set with the judgements among its labels. A label that is there already stays.",
    ).strip()
    split = sitting.pool.split.name if sitting.pool.split.name != "all" else "test"

    def about() -> tuple[object, ...]:
        """What a message is of: of another merge, or of a set that was changed since, it says nothing."""
        there = bridge.run(query_sets.checked(ground.store, ground.view.name, name=into)) if into else None
        return ground.view.name, ground.query_set, split, into, there

    def merge(*, overwrite: bool = False) -> None:
        try:
            made, _ = bridge.run(
                merge_judgements(
                    ground.store,
                    ground.view,
                    into,
                    name=ground.query_set,
                    split=split,
                    overwrite=overwrite,
                    author=sign_in.signs() or "",
                )
            )
            judged = sum(origin != "labels" for origin in made.origins.values())
            told = f"{into!r} has {judged:,} judgements among its labels of {split!r} now."
            said: str | RankbookError = f"{told} {others_anew(made, split)}".rstrip()
        except RankbookError as error:
            said = error
        st.session_state[MERGED] = (about(), said)

    st.button("Make them labels", key="judging.merge", on_click=merge, disabled=not into)
    of, last = st.session_state.get(MERGED, (None, ""))
    if of is not None and of == about():
        _merged(last, merge)


def _merged(said: str | RankbookError, merge: Callable[..., None]) -> None:
    if isinstance(said, str):
        st.html(f'<p class="rb-summary" role="status">{html.escape(said)}</p>')
        return
    errors.draw(said)
    if isinstance(said, WouldOverwrite):
        overwrite = {"overwrite": True}
        st.button("Overwrite it", key="judging.overwrite", icon=":material/warning:", on_click=merge, kwargs=overwrite)


# -- a language model --------------------------------------------------------------------------------------------------


def model() -> tuple[str, str]:
    """How a configured language model signs; or, without one, how to come by it."""
    try:
        return ModelJudge().signature(Resources()), ""
    except RankbookError as error:
        return "", str(error)


def without_model(way: str) -> None:
    with st.expander("Suggestions by a language model", icon=":material/smart_toy:"):
        st.html(f'<p class="rb-summary">They stand apart and never count. {errors.as_html(way)}</p>')


def asking(sitting: JudgingSession) -> Callable[[PairId], None]:
    """Ask the model about one pair, in the background. In a callback."""

    def ask(pair: PairId) -> None:
        roles.refuse_reader(sitting.store, "ask a language model, which may cost money")
        if (task := sitting.tasks.get(pair)) is None:
            return
        store, name, resources = sitting.store, sitting.view.name, Resources()

        async def work(_: object, __: object) -> Judgement:
            return await judging_shown.suggested(store, name, ModelJudge(), resources, task)

        key = ("judging suggestion", store.where, name, *pair, task.item.version.hex())
        jobs.begin(key, "Asking the language model", work)
        st.session_state[SUGGESTED] = (pair, key)

    return ask


@st.fragment(run_every=1.0)
def suggestion(sitting: JudgingSession, name: str) -> None:
    """What the model said of the document that is shown, apart from everything that counts."""
    pair, key = st.session_state.get(SUGGESTED, (None, ()))
    left = sitting.left()
    if not left or pair != (left[0].query.id, left[0].item.id) or (work := jobs.find(key)) is None:
        st.html(f'<p class="rb-summary">L asks {html.escape(name)} about this document. Its answer never counts.</p>')
        return
    if not work.wait(0.1):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.html(f'<p class="rb-summary" role="status">Asking {html.escape(name)} …</p>')
            st.button("Stop", key="judging.suggestion.stop", on_click=work.stop, icon=":material/stop_circle:")
    elif work.stopped:
        st.html('<p class="rb-summary">Stopped. L asks again.</p>')
        jobs.forget(key)
    else:
        with errors.shown():
            _suggested(work.result())


def _suggested(given: Judgement) -> None:
    words = f"{given.judge} suggests {given.grade}: it {SCALE[given.grade]}."
    st.html(
        f'<div class="rb-nothing" role="note">{html.escape(words)} Kept as a model\'s, and not as a label: grade for '
        "yourself.</div>"
    )
