"""A table of somebody's to attach, and what is built beside one that is attached."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

import streamlit as st

from core import bridge
from core.embedding import DEFAULT_MODEL
from core.errors import RankbookError
from core.store import attached
from core.store.attached import Advice, Attachment, likes
from core.store.attached.attach import Relation
from core.store.collections import CollectionView
from core.store.engine import Store
from workbench.components import feedback
from workbench.components import table as components_table
from workbench.components.cards import shortened
from workbench.components.feedback import start_or_refuse
from workbench.components.table import Column, Line
from workbench.screens.collections.state import current, go, reader
from workbench.services import attach, cost_notice, table_discovery
from workbench.services import collection_jobs as collections_work
from workbench.services import collections as collections_added
from workbench.services.attach import AttachRequest
from workbench.services.collections import CollectionSummary, known_models, many
from workbench.services.table_discovery import TablePreview


def draw_aside(store: Store, view: CollectionView) -> None:
    feedback.note(
        "An attached table is only ever read",
        "It gets no chunks and no vectors here. What bm25 and fuzzy search need can be built aside, and its owner can "
        "give it indexes.",
    )
    left, right = st.columns(2, gap="large")
    with left:
        _aside(store, view, Attachment.of(view))
    with right, feedback.draw_errors():
        st.html("<h3>Indexes that would help</h3>")
        with st.spinner("Asking the planner"):
            given = bridge.run(attached.advice(store, view))
        advice(given)


def _aside(store: Store, view: CollectionView, attachment: Attachment) -> None:
    st.html(
        "<h3>Aside</h3><p>Lexemes, postings and vocabulary of its rows, in a schema of our own. They stand for the "
        "rows as they were when it was built.</p>"
    )
    there = attachment.aside
    if there is not None:
        st.html(
            f'<p class="rb-summary">Built of {many(there.rows, "row")} on {there.built_at:%Y-%m-%d at %H:%M} UTC.</p>'
        )
        with feedback.draw_errors():
            if late := bridge.run(attached.behind(store, view)):
                st.html(f'<p class="rb-report">{feedback.as_html(late)}</p>')
    with st.container(horizontal=True):
        if there is not None:
            st.button(
                "Refresh",
                key="aside.refresh",
                icon=":material/sync:",
                help="Takes in rows that are new, redoes those that have changed, removes those that are gone.",
                on_click=start_or_refuse(lambda: collections_work.refresh(store, view.name)),
            )
        st.button(
            "Build it again" if there else "Build aside",
            key="aside.build",
            icon=":material/construction:",
            on_click=start_or_refuse(lambda: collections_work.aside(store, view.name)),
        )
        if there is not None:
            with st.popover("Remove it", icon=":material/delete:"):
                st.html("<p>bm25 and fuzzy search do without then. The table stays as it is.</p>")
                st.button("Remove what is aside", key="aside.drop", on_click=_drop, args=(store, view))


def _drop(store: Store, view: CollectionView) -> None:
    try:
        bridge.run(attached.drop_aside(store, view))
    except RankbookError as error:
        st.session_state["collections.refused"] = error


def advice(given: Iterable[Advice]) -> None:
    """Statements to copy; none is run here."""
    given = list(given)
    if not given:
        feedback.say("None: every search finds an index that serves it.")
    for each in given:
        st.html(f'<p class="rb-report"><strong>{html.escape(each.subject)}</strong>: {feedback.as_html(each.why)}</p>')
        if each.statement:
            st.code(each.statement, language="sql", wrap_lines=True)


NONE: Final = ""
LIBRARIES: Final = {"langchain": "LangChain", "llamaindex": "LlamaIndex", "haystack": "Haystack"}
COLUMNS: Final = {
    "id": ("Id column", "Identifies a row. Any type; shown as text."),
    "text": ("Text column", "What is searched."),
    "title": ("Title column", "Shown above the text."),
    "embedding": ("Vector column", "vector or halfvec. Without one there is no vector search."),
    "tsv": ("Full-text column", "A tsvector. Without one texts are taken apart at every search, or aside."),
}
NEEDED: Final = ("id", "text")
LONGEST: Final = 160


def draw(store: Store, shelf: Sequence[CollectionSummary]) -> None:
    feedback.say(
        "A table or view on this server becomes a collection without a copy: it is read, with the indexes it has, and "
        "never altered."
    )
    table = _table(store)
    if not table:
        return
    wanted = _found(store, shelf, AttachRequest("", table, current().like))
    if wanted is None:
        return
    look = _looked(store, wanted)
    if look is None:
        return
    _draw_look(look)
    _last(wanted, look)
    st.button(
        "Attach", key="attach.attach", type="primary", icon=":material/link:", on_click=_begin, args=(store, wanted)
    )


def _begin(store: Store, wanted: AttachRequest) -> None:
    """With what stands in the last boxes now: a click may come before the page has heard of what was typed."""
    name, labels, aside = (st.session_state[_key(wanted, field)] for field in ("name", "labels", "aside"))
    try:
        collections_work.attach(store, replace(wanted, name=name.strip(), labels=labels.strip(), aside=aside))
    except RankbookError as error:
        st.session_state["collections.refused"] = error
    else:
        go(add="")


# -- which table -------------------------------------------------------------------------------------------------------


def _table(store: Store) -> str:
    """As the address has it; whose it is beside it."""
    whose, which = st.columns([1, 2], vertical_alignment="bottom")
    names = ["", *sorted(likes)]
    with whose:
        reader(
            "Made by",
            "like",
            names,
            current().like,
            named=lambda name: LIBRARIES.get(name, name) or "anybody: I say what is what",
            help="Tables of these libraries are mapped by themselves.",
        )
    like = current().like
    known = bridge.run(attached.made_by(like, store) if like in likes else table_discovery.tables(store))
    if not known and not like:
        st.html(
            '<div class="rb-nothing">There is no table on this server besides Rankbook\'s own. To attach one of a '
            "product's database, start Rankbook on it: <code>RANKBOOK_DSN=postgresql://... rankbook</code></div>"
        )
        return ""
    table = current().table
    with which:
        reader(
            "LangChain's collection, or its table" if like == "langchain" else "Table or view",
            "table",
            known if table in known or not table else [table, *known],
            table,
            placeholder="Choose, or type as in SQL: public.docs",
            accept_new_options=True,
        )
    return table


def _key(wanted: AttachRequest, field: str) -> str:
    """Of this table alone: another has other columns."""
    return f"attach.{sha256(repr((wanted.table, wanted.like)).encode()).hexdigest()[:12]}.{field}"


# -- which column is what ----------------------------------------------------------------------------------------------


def _found(store: Store, shelf: Sequence[CollectionSummary], wanted: AttachRequest) -> AttachRequest | None:
    """With what its columns are said to be; nothing where there is no such table."""
    with feedback.draw_errors():
        model = _model(wanted, shelf) if wanted.like else ""
        mapped = bridge.run(attach.mapping(store, replace(wanted, given={"model": model}))) if wanted.like else None
        table = attached.written_name(mapped.namespace, mapped.table) if mapped else wanted.table
        relation = bridge.run(table_discovery.relation(store, table))
        first = dict(mapped.columns()) if mapped else table_discovery.guessed(relation)
        given = _columns(wanted, relation, first)
        left, middle, right = st.columns(3)
        with left:
            given["metadata"] = _metadata(wanted, relation, first.get("metadata", NONE))
        with middle:
            given["parent"] = _parent(wanted, relation, mapped.parent_name if mapped else NONE)
        with right:
            if given.get("embedding"):
                given["model"] = model or _model(wanted, shelf)
        given |= _rows(store, wanted, mapped.where if mapped else {})
        return replace(wanted, table=table, like="", given=given)
    return None


def _model(wanted: AttachRequest, shelf: Sequence[CollectionSummary]) -> str:
    key = _key(wanted, "model")
    st.session_state.setdefault(key, DEFAULT_MODEL)
    chosen = st.selectbox(
        "Model that made the vectors",
        list(dict.fromkeys([*known_models(shelf), st.session_state[key] or DEFAULT_MODEL])),
        key=key,
        accept_new_options=True,
        help="Queries are embedded with it. Type any name, such as openai:text-embedding-3-small.",
    )
    model = (chosen or "").strip()
    feedback.endpoint_note(cost_notice.for_embedding(model, "Each query goes"))
    return model


def _columns(wanted: AttachRequest, relation: Relation, first: Mapping[str, str]) -> dict[str, Any]:
    given = {}
    for place, (field, (label, hint)) in zip(st.columns(len(COLUMNS)), COLUMNS.items(), strict=True):
        options = table_discovery.fitting(relation, field)
        key = _key(wanted, field)
        nothing = None if field in NEEDED else NONE
        if st.session_state.get(key, nothing) not in (nothing, *options):
            del st.session_state[key]
        st.session_state.setdefault(key, first.get(field, nothing))
        with place:
            given[field] = st.selectbox(
                label,
                options if field in NEEDED else [NONE, *options],
                key=key,
                index=None if field in NEEDED else 0,
                format_func=lambda name: name or "none",
                placeholder="Choose",
                help=hint,
            )
    return given


def _metadata(wanted: AttachRequest, relation: Relation, first: str) -> str | tuple[str, ...] | None:
    key = _key(wanted, "metadata")
    st.session_state.setdefault(key, [first] if first else [])
    chosen = st.multiselect(
        "Fields for filters",
        list(relation.columns),
        key=key,
        placeholder="None; one JSON column, or several plain ones",
        help="A json or jsonb column whose keys are the fields, or columns that are a field each.",
    )
    json = table_discovery.fitting(relation, "metadata")
    return chosen[0] if len(chosen) == 1 and chosen[0] in json else tuple(chosen)


def _parent(wanted: AttachRequest, relation: Relation, first: str) -> str | None:
    """A column of theirs, or a path that is typed."""
    key = _key(wanted, "parent")
    st.session_state.setdefault(key, first or None)
    known = [*relation.columns, *([first] if first and first not in relation.columns else [])]
    typed = st.session_state[key]
    chosen = st.selectbox(
        "Document of a row",
        known if typed is None or typed in known else [*known, typed],
        key=key,
        accept_new_options=True,
        placeholder="Each row is a document",
        help="Where rows are parts of documents: the column that says of which, or a path into a JSON column, such as "
        "metadata.source. Labels, roll-up and the most per document then go by documents.",
    )
    return (chosen or "").strip() or None


def _rows(store: Store, wanted: AttachRequest, where: Mapping[str, Any]) -> dict[str, Any]:
    """Which rows belong to it, and in which language they are."""
    left, right = st.columns([2, 1])
    written, language = _key(wanted, "where"), _key(wanted, "language")
    st.session_state.setdefault(written, "\n".join(f"{name}={value}" for name, value in where.items()))
    st.session_state.setdefault(language, "english")
    with left:
        lines = st.text_area(
            "Only rows with",
            key=written,
            height=68,
            placeholder="every row; or a line each, as COLUMN=VALUE",
            help="Rows in which these columns have these values belong to the collection.",
        )
    with right:
        known = bridge.run(collections_added.languages(store))
        chosen = st.selectbox("Language", known, key=language, help="PostgreSQL's text-search configuration.")
    return {"where": attach.conditions([each for each in lines.splitlines() if each.strip()]), "language": chosen}


# -- a look ------------------------------------------------------------------------------------------------------------


def _looked(store: Store, wanted: AttachRequest) -> TablePreview | None:
    """The first rows under this mapping, taken once; or why they cannot be had."""
    given = wanted.given or {}
    if missing := [COLUMNS[field][0] for field in NEEDED if not given.get(field)]:
        st.html(f"<p>Choose the {html.escape(' and the '.join(name.lower() for name in missing))}.</p>")
        return None
    kept = st.session_state.get("attach.looked")
    if kept is None or kept[0] != wanted:
        with feedback.draw_errors(), st.spinner("Looking into it"):
            mapping = bridge.run(attach.mapping(store, wanted))
            kept = st.session_state["attach.looked"] = (wanted, bridge.run(table_discovery.looked_at(store, mapping)))
    found: TablePreview | None = kept[1] if kept is not None and kept[0] == wanted else None
    return found


def _draw_look(look: TablePreview) -> None:
    st.html(
        f'<p class="rb-report"><strong>{html.escape(look.mapping.full_name)}</strong>: {html.escape(look.told)}.</p>'
    )
    columns = (Column("first rows: id"), Column("title"), Column("text", long=True))
    lines = [Line(str(at), (each.id, each.title, _start(each.text))) for at, each in enumerate(look.first)]
    components_table.draw("attach.rows", "The first rows", columns, lines, empty="No row is in it yet.")


def _start(written: str) -> str:
    return shortened(" ".join(written[: LONGEST * 4].split()), LONGEST)


def _last(wanted: AttachRequest, look: TablePreview) -> None:
    """Its name, and what else is to be done."""
    key = _key(wanted, "name")
    st.session_state.setdefault(key, st.session_state.pop("attach.name again", look.mapping.table[:40]))
    st.text_input("Name", key=key, max_chars=60, placeholder="What the collection is to be called")
    with st.expander("More"):
        st.text_input(
            "Labels for it",
            key=_key(wanted, "labels"),
            placeholder="/home/me/qrels, faq-labels.csv",
            help="A path on this machine: a folder or file with queries and labels. They can come later too.",
        )
        st.checkbox(
            "Build aside what bm25 and fuzzy search need",
            key=_key(wanted, "aside"),
            help="Lexemes, postings and vocabulary, in a schema of our own. Built anew when you ask for it again.",
        )


def refill(wanted: AttachRequest) -> dict[str, str]:
    """The form as it was filled in before; gives what the address has to say for it."""
    given, state = dict(wanted.given or {}), st.session_state
    metadata = given.pop("metadata", ()) or ()
    where = given.pop("where", {})
    for field, value in given.items():
        state[_key(wanted, field)] = value
    state[_key(wanted, "metadata")] = [metadata] if isinstance(metadata, str) else list(metadata)
    state[_key(wanted, "where")] = "\n".join(f"{name}={value}" for name, value in where.items())
    state[_key(wanted, "name")] = wanted.name
    state[_key(wanted, "labels")], state[_key(wanted, "aside")] = wanted.labels, wanted.aside
    return {"add": "attach", "table": wanted.table}
