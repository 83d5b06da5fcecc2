"""Beside the judging: scores that follow the labels, agreement, a language model's suggestion, labels to download.

None of it blocks: what takes time is a job, and the last result is shown meanwhile.
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
from evals.judging.judgements import Judgement, change_mark
from evals.judging.llm_judge import SCALE, ModelJudge
from evals.judging.merging import WouldOverwrite, merge_judgements, remerged_splits
from evals.labels import query_sets
from evals.presentation.types import Text
from workbench.components import blocks, feedback, sign_in
from workbench.services import jobs, judging, permissions
from workbench.services.jobs import Key
from workbench.services.judging import Form, JudgingStatus
from workbench.services.judging_session import JudgingSession

BEAT: Final = 2.0  # seconds between two looks at what was judged
STATE: Final = "judging.state"
MERGED: Final = "judging.merged"
SUGGESTED: Final = "judging.suggested"
BLIND: Final = "Scores are of the whole pool: they tell nothing of the document that is shown."


# -- scores, agreement, export -----------------------------------------------------------------------------------------


@st.fragment(run_every=BEAT)
def follow(key: Key, ctx: EvalContext, session: JudgingSession) -> None:
    """The status of the pool, a few seconds behind the judge."""
    with feedback.draw_errors():
        # The last status is shown while the next is computed: one at a time, however fast somebody grades.
        kept: dict[Key, tuple[str, JudgingStatus | BaseException]] = st.session_state.setdefault(STATE, {})
        mark, job = bridge.run(change_mark(ctx.store, ctx.view.name)), ("judging state", *key)
        shown, pool = kept.get(key), session.pool
        work = jobs.find(job)
        if work is None and (shown is None or shown[0] != mark):

            async def counted(_: object, __: object) -> tuple[str, JudgingStatus]:
                return mark, await judging.pool_status(ctx, pool.runs, pool.split, pool.spec)

            work = jobs.start(job, "Scoring what is judged", counted)
        if work is not None and work.wait(0):
            jobs.forget(job)  # one that failed is tried again after the next judgement, and not every other second
            shown, work = (mark, work.problem) if work.problem else work.result(), None
            st.session_state[STATE] = {key: shown}
        latest = shown[1] if shown else None
        if isinstance(latest, BaseException):
            raise latest
        if latest is None:
            st.html('<p class="rb-summary" role="status">Scoring what is judged so far …</p>')
            return
        blocks.draw(Text(text=latest.figures.headline, tone="headline"), "judging.headline")
        blocks.draw(judging.scores_table(latest.figures), "judging.scores")
        st.html(
            f'<p class="rb-summary" role="status">{"Following the last grades …" if work is not None else BLIND}</p>'
        )
        with st.expander("Agreement between judges", icon=":material/group:"):
            blocks.draw_all(judging.agreement_blocks(latest.agreed), "judging.agreement")
        with st.expander("Take the labels along", icon=":material/download:"):
            name = ctx.view.name
            st.html(
                f'<p class="rb-summary">{len(latest.settled):,} pairs, of all judges: where several graded one, the '
                "median, the lower of the middle two. Language models' grades are not among them.</p>"
            )
            with st.container(horizontal=True):
                _download(latest, "trec", f"{name}.qrels")
                _download(latest, "beir", f"{name}.tsv")
            if permissions.may_edit(ctx.store):
                _merge(ctx, session)


def _download(state: JudgingStatus, form: Form, name: str) -> None:
    try:
        written = judging.settled_qrels(state, form)
    except RankbookError as error:  # TREC's columns have no room for blanks
        feedback.draw_error(error)
        return
    st.download_button(
        f"Qrels as {form.upper()}",
        written,
        file_name=name,
        mime="text/plain",
        key=f"judging.export.{form}",
        icon=":material/download:",
        on_click="ignore",
        disabled=not state.settled,
    )


def _merge(ctx: EvalContext, session: JudgingSession) -> None:
    into = st.text_input(
        "Into the query set",
        value="judged",
        key="judging.into",
        max_chars=60,
        help="A copy of this query set with the judgements among its labels. A label that is there already stays.",
    ).strip()
    split = session.pool.split.name if session.pool.split.name != "all" else "test"

    def about() -> tuple[object, ...]:
        """What a message is of: of another merge, or of a set that was changed since, it says nothing."""
        there = bridge.run(query_sets.last_check(ctx.store, ctx.view.name, name=into)) if into else None
        return ctx.view.name, ctx.query_set, split, into, there

    def merge(*, overwrite: bool = False) -> None:
        try:
            made, _ = bridge.run(
                merge_judgements(
                    ctx.store,
                    ctx.view,
                    into,
                    name=ctx.query_set,
                    split=split,
                    overwrite=overwrite,
                    author=sign_in.signature() or "",
                )
            )
            judged = sum(origin != "labels" for origin in made.origins.values())
            told = f"{into!r} has {judged:,} judgements among its labels of {split!r} now."
            said: str | RankbookError = f"{told} {remerged_splits(made, split)}".rstrip()
        except RankbookError as error:
            said = error
        st.session_state[MERGED] = (about(), said)

    st.button("Make them labels", key="judging.merge", on_click=merge, disabled=not into)
    of, last = st.session_state.get(MERGED, (None, ""))
    if of is None or of != about():
        return
    if isinstance(last, str):
        st.html(f'<p class="rb-summary" role="status">{html.escape(last)}</p>')
        return
    feedback.draw_error(last)
    if isinstance(last, WouldOverwrite):
        overwrite = {"overwrite": True}
        st.button("Overwrite it", key="judging.overwrite", icon=":material/warning:", on_click=merge, kwargs=overwrite)


# -- a language model --------------------------------------------------------------------------------------------------


def model() -> tuple[str, str]:
    """The configured language model's signature, or how to configure one."""
    try:
        return ModelJudge().signature(Resources()), ""
    except RankbookError as error:
        return "", str(error)


def without_model(way: str) -> None:
    with st.expander("Suggestions by a language model", icon=":material/smart_toy:"):
        st.html(f'<p class="rb-summary">They stand apart and never count. {feedback.as_html(way)}</p>')


def asking(session: JudgingSession) -> Callable[[PairId], None]:
    """Ask the model about one pair, in the background. A callback."""

    def ask(pair: PairId) -> None:
        roles.refuse_reader(session.store, "ask a language model, which may cost money")
        if (task := session.tasks.get(pair)) is None:
            return
        store, name, resources = session.store, session.view.name, Resources()

        async def work(_: object, __: object) -> Judgement:
            return await judging.suggest(store, name, ModelJudge(), resources, task)

        key = ("judging suggestion", store.where, name, *pair, task.item.version.hex())
        jobs.start(key, "Asking the language model", work)
        st.session_state[SUGGESTED] = (pair, key)

    return ask


@st.fragment(run_every=1.0)
def suggestion(session: JudgingSession, name: str) -> None:
    """The model's grade of the current document, apart from everything that counts."""
    pair, key = st.session_state.get(SUGGESTED, (None, ()))
    left = session.left()
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
        with feedback.draw_errors():
            given = work.result()
            words = f"{given.judge} suggests {given.grade}: it {SCALE[given.grade]}."
            st.html(
                f'<div class="rb-nothing" role="note">{html.escape(words)} Kept as a model\'s, and not as a label: '
                "grade for yourself.</div>"
            )
