"""The page Collections: the list, one of them with its tabs, the cache of embeddings, and the trash."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Final

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.store import collections
from core.store.chunk_and_embed import forget
from core.store.engine import Store
from core.store.trash_entries import TrashEntry, day
from evals import trash
from workbench import session
from workbench.components import deleted, feedback, table, theme
from workbench.components.feedback import Question
from workbench.components.page import Page
from workbench.components.table import Column, Line
from workbench.screens.collections import about as collections_about
from workbench.screens.collections import add as collections_add
from workbench.screens.collections import browse as collections_browse
from workbench.screens.collections import extend as collections_extend
from workbench.screens.collections import queries as collections_ask
from workbench.screens.collections import work as collections_work
from workbench.screens.collections.state import current, go, goes, tabs
from workbench.services import collection_jobs, permissions
from workbench.services import collections as collections_cached
from workbench.services import collections as collections_shown
from workbench.services.collections import Cached, CollectionSummary, many, told_bytes

KEPT: Final = 10  # seconds that sizes and counts may be old; versions are never
COLUMNS: Final = (
    Column("collection"),
    Column("documents", right=True),
    Column("chunks", "What a search can find of all chunk sets; parents are not counted.", right=True),
    Column("chunk sets", right=True, wide=True),
    Column("embedding sets", "One for each model and chunk set, whole documents included.", right=True, wide=True),
    Column("queries", "Those of the query set `default`.", right=True),
    Column("labels", "Judgements of all query sets: a query, a document and a grade.", right=True, wide=True),
    Column("on disk", "Tables with their indexes; of an attached table, what was built aside.", right=True),
    Column("changed", "Coordinated universal time.", wide=True),
    Column("kind", "Own: loaded, and kept here. Attached: somebody's table, only ever read.", wide=True),
    Column("state", wide=True),
)


def overview(store: Store) -> list[CollectionSummary]:
    """Every collection; looked at anew as soon as one of them changed, or work on them began or ended."""
    state = [(row.name, row.version, str(row.loaded_at)) for row in bridge.run(collections.listed(store))]
    work = [(doing.key, doing.job.ended) for doing in collection_jobs.begun(store)]
    return _overview(store.where, [*state, *work], _store=store)


@st.cache_data(ttl=KEPT, max_entries=20, show_spinner=False)
def _overview(where: str, state: Sequence[object], _store: Store) -> list[CollectionSummary]:  # noqa: ARG001 - the cache's key
    return bridge.run(collections_shown.overview(_store))


def draw_list(rows: Sequence[CollectionSummary]) -> None:
    table.draw(
        "collections.list",
        "Collections",
        COLUMNS,
        [_line(row) for row in rows],
        selected=current().collection,
        opened=goes("collection"),
    )


def _line(row: CollectionSummary) -> Line:
    glance = row.summary
    counts = (glance.items, row.chunks, row.chunk_sets, row.embedding_sets, glance.queries, row.labels)
    return Line(
        row.name,
        (
            row.name,
            *(f"{count:,}" for count in counts),
            told_bytes(row.bytes),
            f"{glance.changed:%Y-%m-%d %H:%M}",
            "attached" if row.attached else "own",
            glance.state,
        ),
    )


def head(*, adding: bool, offered: bool = True) -> None:
    """What the page is for, and the way to a new collection."""
    with st.container(horizontal=True, vertical_alignment="bottom", key="collections.head"):
        st.html('<p class="rb-tagline">What can be searched: documents, their chunks, queries and labels.</p>')
        if not offered:
            return
        if adding:
            st.button(
                "Close the form", key="collections.close", icon=":material/close:", on_click=go, kwargs={"add": ""}
            )
        else:
            st.button(
                "Add a collection",
                key="collections.new",
                icon=":material/add:",
                type="primary",
                on_click=go,
                kwargs={"add": "path"},
            )


def welcome(*, offered: bool = True) -> None:
    st.html(
        '<div class="rb-welcome"><h2>There is no collection yet</h2><p>A collection is a set of documents, cut into '
        "passages, embedded and indexed, with queries and labels where there are any. Add the demo, the handbook of a "
        "made-up company with 315 labelled queries, or documents of your own: a folder of Markdown, a CSV, JSONL or "
        "Parquet table, a BEIR archive.</p></div>"
    )
    if not offered:
        return
    with st.container(horizontal=True):
        ways = {"Add the demo": "public", "Add a folder or file": "path", "Upload files": "upload"}
        for words, way in ways.items():
            st.button(words, key=f"collections.welcome.{way}", on_click=go, kwargs={"add": way})
    st.html(f"<p>{html.escape('In a terminal:')} <code>rankbook data add handbook</code></p>")


CACHE_KEPT: Final = 30  # seconds
ALL: Final = ""
_forgetting: Final = Question("cached.asking", "Forget cached embeddings?")


def draw_cache(store: Store) -> None:
    rows = _cached(store.where, _store=store)
    if not rows:
        return
    texts = sum(row.texts for row in rows)
    with st.expander(f"Cached embeddings: {many(texts, 'text')}, {told_bytes(sum(row.bytes for row in rows))}"):
        st.html(
            "<p>A text that was embedded once is not embedded again, in whatever collection. Collections keep their "
            "vectors when the cache goes; adding the same texts again takes longer.</p>"
        )
        columns = (Column("model", long=True), Column("texts", right=True), Column("size", right=True))
        lines = [Line(row.model, (row.model, f"{row.texts:,}", told_bytes(row.bytes))) for row in rows]
        table.draw("cached.models", "Cached embeddings", columns, lines, low=True)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            model = st.selectbox(
                "Of", [ALL, *(row.model for row in rows)], key="cached.model", format_func=lambda name: name or "all"
            )
            st.button(
                "Forget them", key="cached.forget", icon=":material/delete:", on_click=_forgetting.ask, args=(model,)
            )
    if (about := _forgetting.about) is not None:
        _confirm_forgetting(store, about, rows)


@st.cache_data(ttl=CACHE_KEPT, max_entries=5, show_spinner="Counting what is cached")
def _cached(where: str, _store: Store) -> list[Cached]:  # noqa: ARG001 - the cache's key
    return bridge.run(collections_cached.cached(_store))


@_forgetting.dialog
def _confirm_forgetting(store: Store, model: str, rows: Sequence[Cached]) -> None:
    with feedback.draw_errors():
        texts = sum(row.texts for row in rows if model in (ALL, row.model))
        of = f"by <strong>{html.escape(model)}</strong>" if model else "by all models"
        st.html(f"<p>Embeddings of {many(texts, 'text')} {of}. What a paid endpoint made would be paid for again.</p>")
        if st.button("Forget them for good", key="cached.gone", type="primary"):
            with st.spinner("Forgetting"):
                bridge.run(forget(store, model or None))
            _cached.clear()
            _forgetting.answered()


MESSAGE: Final = "trash.message"
_emptying: Final = Question("trash.asking", "Empty the trash?")
TRASH_COLUMNS: Final = (
    Column("kind"),
    Column("name", long=True),
    Column("collection"),
    Column("size", right=True),
    Column("deleted", "Coordinated universal time."),
    Column("by", wide=True),
    Column("until"),
)


def draw_trash(store: Store) -> None:
    """Nothing where the trash is empty."""
    expired = bridge.run(trash.expire(store))
    entries = bridge.run(trash.listed(store))
    message = st.session_state.pop(MESSAGE, None) or deleted.expiry_notice(expired)
    if isinstance(message, RankbookError):
        feedback.draw_error(message)
    elif message:
        st.html(f'<p class="rb-summary" role="status">{feedback.as_html(message)}</p>')
    if not entries:
        return
    size = told_bytes(sum(each.bytes for each in entries))
    with st.expander(f"Trash: {many(len(entries), 'entry', 'entries')}, {size}"):
        st.html("<p>What was deleted can be brought back until the day in its line. Then it is gone for good.</p>")
        table.draw("trash.entries", "Trash", TRASH_COLUMNS, [_trash_line(each) for each in entries], low=True)
        with st.container(horizontal=True, vertical_alignment="bottom"):
            ids = [each.id for each in entries]
            titles = {each.id: f"{each.title}, deleted {each.deleted_at:%Y-%m-%d %H:%M}" for each in entries}
            chosen = st.selectbox("Bring back", ids, key="trash.chosen", format_func=titles.__getitem__)
            st.text_input("As", key="trash.as", placeholder="its old name", max_chars=200)
            st.button("Bring back", key="trash.back", icon=":material/undo:", on_click=_restore, args=(store, chosen))
            st.button(
                "Empty the trash", key="trash.empty", icon=":material/delete_forever:", on_click=_ask, args=(ids,)
            )
    if _emptying.about is not None:  # by their ids: what comes into the trash meanwhile was not named, and stays
        _confirm_emptying(store, [each for each in entries if each.id in _emptying.about.split()])


def _trash_line(entry: TrashEntry) -> Line:
    name, when = entry.name or entry.title, f"{entry.deleted_at:%Y-%m-%d %H:%M}"
    cells = (entry.kind, name, entry.collection, told_bytes(entry.bytes), when, entry.deleted_by, day(entry.until))
    return Line(entry.id, cells)


def _restore(store: Store, identity: str) -> None:
    """In a callback, so that the page that follows shows what there is then."""
    name = (st.session_state.get("trash.as") or "").strip() or None
    try:
        restored = bridge.run(trash.restore(store, identity, name=name, reader=session.store()))
        st.session_state[MESSAGE] = restored.sentence()
        st.session_state["trash.as"] = ""
    except RankbookError as error:
        st.session_state[MESSAGE] = error


def _ask(ids: Sequence[str]) -> None:
    _emptying.ask(" ".join(ids))


@_emptying.dialog
def _confirm_emptying(store: Store, entries: Sequence[TrashEntry]) -> None:
    with feedback.draw_errors():
        named = html.escape(", ".join(each.title for each in entries))
        st.html(f"<p>{named}: <strong>nothing brings them back after this.</strong></p>")
        if st.button("Destroy them for good", key="trash.gone", type="primary"):
            destroyed = [each for each in entries if bridge.run(trash.destroy(store, each))]
            freed = told_bytes(sum(each.bytes for each in destroyed))
            st.session_state[MESSAGE] = f"{many(len(destroyed), 'entry', 'entries')} destroyed, {freed} freed."
            _emptying.answered()


VIEWS = {
    "about": "About",
    "documents": "Documents",
    "queries": "Queries",
    "ask": "Add queries, labels",
    "extend": "Extend",
    "check": "Check",
    "out": "Export, drop",
}
READ = ("about", "documents", "queries")  # what is there for whoever may not change anything


def render(store: Store) -> None:
    st.html(f"<style>{theme.asset('screens/collections/page.css')}</style>")
    asked = current()
    shelf = overview(store)
    edits = permissions.may_edit(store)
    # Each part has its own slot, whether or not it has anything to show: a part that moved up or down the page would
    # stand there twice until the run ends, because the browser keeps what a run has not yet replaced.
    above, work, below = st.container(), st.container(), st.container()
    with above:
        if shelf or asked.way:
            head(adding=bool(asked.way), offered=edits)
        if edits:
            deleted.draw(store, "collections")
        feedback.draw_refused()
        if asked.way and edits:
            collections_add.draw(store, shelf)
        if shelf:
            draw_list(shelf)
        elif not asked.way:
            welcome(offered=edits)
    with work:
        collections_work.draw(store)
    with below, feedback.draw_errors():
        if shelf and asked.collection:
            _one(store, shelf, asked.collection)
        elif not asked.way and edits:
            if shelf:
                draw_cache(store)
            draw_trash(store)


def _one(store: Store, shelf: Sequence[CollectionSummary], name: str) -> None:
    view = bridge.run(collections.get(store, name))  # says what there is instead
    row = next((each for each in shelf if each.name == view.name), None)
    if row is None:
        return  # made this very moment: the list comes with the next look
    collections_about.head(store, row)
    views = VIEWS if permissions.may_edit(store) else {each: VIEWS[each] for each in READ}
    chosen = current().shown if current().shown in views else "about"
    tabs("What to see of it", "view", views, chosen)
    shown: dict[str, Callable[[], None]] = {
        "about": lambda: collections_about.draw(store, view, row),
        "documents": lambda: collections_browse.documents(store, view),
        "queries": lambda: collections_browse.queries(store, view),
        "ask": lambda: collections_ask.draw(store, view),
        "extend": lambda: collections_extend.extend(store, view, shelf),
        "check": lambda: collections_extend.check(store, view),
        "out": lambda: collections_extend.out(store, view, row),
    }
    shown[chosen]()


PAGE = Page("Collections", ":material/database:", render)
