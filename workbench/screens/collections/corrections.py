"""The changes of a query set: who made which, when; taken back or made again. And one label, corrected."""

from __future__ import annotations

import html
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final

import streamlit as st

from core import bridge
from core.errors import InputError, RankbookError
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.labels import corrections
from evals.labels.label_checks import DEFAULT_MAX_GRADE, USUAL_GRADE
from evals.labels.revisions import Cause, Revision
from workbench.components import feedback, sign_in, table
from workbench.components.table import Column, Line
from workbench.services import permissions
from workbench.services.browse import Judgement
from workbench.services.collections import many

REMOVE: Final = "no label"
OUTCOME: Final = "changes.outcome"  # what the last click came to: a sentence or an error, and of which query set
COLUMNS: Final = (
    Column("when", "Coordinated universal time."),
    Column("who"),
    Column("what", "How many labels, before and after.", long=True),
    Column("why", long=True),
    Column("state"),
)


def author() -> str:
    """Under whose name a change is kept: whoever signed in, else the account on this machine."""
    return sign_in.signs() or ""


def draw(store: Store, view: CollectionView, of_set: str) -> None:
    """The list, with the way back and forth for whoever may change labels; and what the last click came to."""
    _draw_outcome(view, of_set)
    revisions = bridge.run(corrections.changes(store, view.name, name=of_set))
    if not revisions:
        return
    with st.expander(f"{many(len(revisions), 'change')} of this set"):
        if permissions.may_edit(store):
            _buttons(store, view, of_set, revisions)
        lines = [
            Line(
                str(each.key),
                (f"{each.made_at:%Y-%m-%d %H:%M}", each.author, each.change.sentence, each.reason, each.state),
            )
            for each in revisions
        ]
        table.draw("changes.list", "Changes of this query set", COLUMNS, lines, low=True)


def _buttons(store: Store, view: CollectionView, of_set: str, revisions: Sequence[Revision]) -> None:
    undoable, redoable = corrections.steps(list(revisions))
    ways: dict[str, tuple[str, Callable[..., Coroutine[Any, Any, corrections.HistoryStep]], Sequence[Revision]]] = {
        "Undo the last change": (":material/undo:", corrections.undo, undoable),
        "Make it again": (":material/redo:", corrections.redo, redoable),
    }
    with st.container(horizontal=True):
        for words, (icon, move, steps) in ways.items():
            st.button(
                words,
                key=f"changes.{words}",
                icon=icon,
                disabled=not steps,
                on_click=_moving(partial(_move, move, store, view, of_set), view, of_set),
            )


def _move(
    move: Callable[..., Coroutine[Any, Any, corrections.HistoryStep]], store: Store, view: CollectionView, of_set: str
) -> Coroutine[Any, Any, corrections.HistoryStep]:
    return move(store, view.name, name=of_set, author=author())


def _moving(work: Callable[[], Any], view: CollectionView, of_set: str) -> Callable[[], None]:
    """A button's callback: the change, whose outcome is told where the page is drawn anew."""

    def click() -> None:
        try:
            said: str | RankbookError = bridge.run(work()).sentence
        except RankbookError as error:
            said = error
        st.session_state[OUTCOME] = (view.name, of_set, said)

    return click


def has_outcome(view: CollectionView, of_set: str) -> bool:
    """Whether a click has changed the set since the page was drawn, counts and lists included."""
    return bool(st.session_state.get(OUTCOME, ("", "", ""))[:2] == (view.name, of_set))


def _draw_outcome(view: CollectionView, of_set: str) -> None:
    if not has_outcome(view, of_set):
        return
    *_, said = st.session_state.pop(OUTCOME)
    if isinstance(said, RankbookError):
        feedback.draw_error(said)
    else:
        st.html(f'<p class="rb-summary" role="status">{html.escape(said)}</p>')


# -- one label ---------------------------------------------------------------------------------------------------------


def correct(store: Store, view: CollectionView, of_set: str, query_id: str, judged: Sequence[Judgement]) -> None:
    """A form for one document's label; whoever may not change labels sees none."""
    if not permissions.may_edit(store):
        return
    with st.expander("Correct a label", icon=":material/edit:"):
        titles = {each.id: each.text.strip() or each.id for each in judged}
        key = f"correct.{view.name}.{of_set}.{query_id}"
        st.selectbox(
            "Document",
            list(titles),
            index=None,
            key=f"{key}.item",
            format_func=lambda item: titles.get(item, item),
            accept_new_options=True,
            placeholder="Choose one, or type a document's id",
        )
        left, right = st.columns(2)
        with left:
            grades = [*range(USUAL_GRADE + 1), REMOVE, *range(USUAL_GRADE + 1, DEFAULT_MAX_GRADE + 1)]
            st.selectbox("Grade", grades, index=None, key=f"{key}.grade", help="0 is judged and not relevant.")
        with right:
            splits = sorted({each.split for each in judged})
            st.selectbox(
                "Split",
                splits,
                index=None,
                key=f"{key}.split",
                accept_new_options=True,
                placeholder="the one it is labelled in",
            )
        st.text_input("Why", key=f"{key}.why", max_chars=200, placeholder="for whoever reads the list of changes")
        st.checkbox("Take grades beyond 0 to 3", key=f"{key}.all_grades")
        st.button(
            "Correct the label",
            key=f"{key}.do",
            icon=":material/check:",
            on_click=_moving(lambda: _relabel(store, view, of_set, query_id, key), view, of_set),
        )


def _relabel(
    store: Store, view: CollectionView, of_set: str, query_id: str, key: str
) -> Coroutine[Any, Any, corrections.Correction]:
    """Read here, in the page's own thread; the work itself runs elsewhere."""
    chosen = {name: st.session_state[f"{key}.{name}"] for name in ("item", "grade", "split", "why", "all_grades")}
    if not chosen["item"] or chosen["grade"] is None:
        raise InputError("Choose a document and the grade that it should have for this query.")
    return corrections.relabel(
        store,
        view,
        query_id,
        str(chosen["item"]).strip(),
        None if chosen["grade"] == REMOVE else int(chosen["grade"]),
        query_set=of_set,
        split=chosen["split"] or None,
        all_grades=chosen["all_grades"],
        cause=Cause(author(), chosen["why"] or ""),
    )
