"""Queries and labels for a collection that is there: written, made of its documents, or out of label files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import streamlit as st

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.labels.label_files import is_query_file
from evals.labels.query_generation import KNOWN_ITEMS, NOTE, KnownItems, parse_known_items
from evals.labels.query_sets import QuerySetSummary
from evals.types import DEFAULT_QUERY_SET
from workbench.components import feedback
from workbench.components.feedback import start_or_refuse
from workbench.screens.collections import about as collections_sets
from workbench.screens.collections.corrections import author
from workbench.screens.collections.state import current, tabs
from workbench.services import collection_jobs as collections_work
from workbench.services import form_fields, uploads
from workbench.services.collections import many
from workbench.services.jobs import Job
from workbench.services.queries import Files, Given

BYS: Final = {"write": "Write or bring queries", "generate": "Make them of the documents", "labels": "Bring labels"}
STYLES: Final = {
    "title": "the title",
    "terms": "the rarest terms",
    "sentence": "a sentence",
    "misspelled": "the rarest terms, misspelled",
}
LARGEST: Final = 500  # megabytes a file
QUERY_FILES: Final = ["csv", "tsv", "jsonl", "ndjson", "parquet", "gz"]


def draw(store: Store, view: CollectionView) -> None:
    sets = collections_sets.list_sets(store, view)
    tabs("How queries come in", "by", BYS, current().coming)
    drawn: dict[str, Callable[[], None]] = {
        "write": lambda: _write(store, view, sets),
        "generate": lambda: _generate(store, view, sets),
        "labels": lambda: _labels(store, view, sets),
    }
    drawn[current().coming]()


def _into(key: str, label: str, sets: Sequence[QuerySetSummary], usual: str) -> str:
    """The widget's key for the query set they go into: one that is there, or a new name."""
    key = f"{key}.{current().collection}.{current().set}"
    names = list(dict.fromkeys([current().set or usual, usual, *(each.name for each in sets)]))
    st.session_state.setdefault(key, names[0])
    st.selectbox(
        label,
        list(dict.fromkeys([*names, st.session_state[key] or usual])),
        key=key,
        accept_new_options=True,
        help="Choose one, or type a new name. The set `default` is the one that is used where none is named.",
    )
    return key


def _there(sets: Sequence[QuerySetSummary], name: str) -> QuerySetSummary | None:
    return next((each for each in sets if each.name == name), None)


# -- written -----------------------------------------------------------------------------------------------------------


def _write(store: Store, view: CollectionView, sets: Sequence[QuerySetSummary]) -> None:
    feedback.say(
        "Queries join those of a set; what is there stays, with its labels. New ones have no labels yet: judge what "
        "runs find for them, on the Judge page."
    )
    left, right = st.columns(2, gap="large")
    with left:
        typed = st.text_area(
            "Queries, one a line",
            key="ask.typed",
            height=140,
            placeholder="how do I reset a hub\nerror E-42",
        )
    with right:
        path = _file("ask.table", "Or a table of them", QUERY_FILES, "/home/me/queries.csv", several=False)
        st.html('<p class="rb-summary">With a column <code>text</code>; id, kind and tags too, if there are any.</p>')
        into = _into("ask.write.set", "Into the query set", sets, DEFAULT_QUERY_SET)
    count = sum(1 for line in typed.splitlines() if line.strip())
    st.button(
        f"Add {many(count, 'query', 'queries')}" if count and not path.there else "Add the queries",
        key="ask.write",
        type="primary",
        icon=":material/add:",
        on_click=start_or_refuse(lambda: _begin_write(store, view, path, into)),
    )


def _begin_write(store: Store, view: CollectionView, path: _Path, into: str) -> Job[Any]:
    collections_work.refuse_second(store, "write", view.name)
    typed = str(st.session_state["ask.typed"] or "")
    if not path.there:
        job = collections_work.write(store, view.name, Given(typed=typed), _now(into), author())
        st.session_state["ask.typed"] = ""
        return job
    if typed.strip():
        raise InputError("There are a table and typed queries. Add the one, take it away, then add the other.")
    return collections_work.write(store, view.name, Given(path=path.only()), _now(into), author())


def _now(key: str) -> str:
    """What stands in a box at the click, which may come before the page has heard of what was typed."""
    return str(st.session_state[key] or "").strip()


# -- made of the documents ---------------------------------------------------------------------------------------------


def _generate(store: Store, view: CollectionView, sets: Sequence[QuerySetSummary]) -> None:
    feedback.say(
        "Each is made of one document's own words, and that document is the one right answer: labels at no price, and "
        "no language model is asked."
    )
    feedback.note("What they are good for", NOTE)
    fields = {each.name: each for each in form_fields.entries(KnownItems)}
    columns = st.columns(4)
    with columns[0]:
        st.selectbox("A query is", list(STYLES), index=1, key="ask.style", format_func=STYLES.__getitem__)
    with columns[1]:
        st.number_input("How many", 1, 10_000, 50, key="ask.count", help=fields["count"].help)
    with columns[2]:
        st.number_input("Seed", 0, 2**31 - 1, 0, key="ask.seed", help=fields["seed"].help)
    with columns[3]:
        into = _into("ask.generate.set", "Into the query set", sets, KNOWN_ITEMS)
    with st.expander("More"):
        st.number_input("Terms a query", 1, 20, 4, key="ask.terms", help=fields["terms"].help)
        st.text_input("Split", "test", key="ask.split", help=fields["split"].help)
    if there := _there(sets, _now(into)):
        feedback.say(
            f"{there.name} has {many(there.queries, 'query', 'queries')}: generated ones give way to the new ones."
        )
    st.button(
        "Make queries",
        key="ask.generate",
        type="primary",
        icon=":material/auto_awesome:",
        on_click=start_or_refuse(
            lambda: collections_work.generate(store, view, parse_known_items(_wished()), _now(into), author())
        ),
    )


def _wished() -> dict[str, Any]:
    return {name: st.session_state[f"ask.{name}"] for name in ("style", "count", "seed", "terms", "split")}


# -- labels ------------------------------------------------------------------------------------------------------------


def _labels(store: Store, view: CollectionView, sets: Sequence[QuerySetSummary]) -> None:
    feedback.say(
        "Judgements that somebody has made: TREC's or BEIR's qrels, or a table with the columns query_id, item_id and "
        "grade. With a file of queries, or about the queries that are there. What names no query or document of this "
        "collection is left out, and listed."
    )
    left, right = st.columns(2, gap="large")
    with left:
        labels = _file("ask.labels", "Labels", None, "/home/me/qrels/test.tsv, a folder, scifact.zip", several=True)
    with right:
        st.text_input(
            "Queries, where they are in a file elsewhere",
            key="ask.asked",
            placeholder="/home/me/queries.jsonl",
            help="A path on this machine. Among uploaded files, the one with `queries` or `topics` in its name.",
        )
        into = _into("ask.labels.set", "Into the query set", sets, DEFAULT_QUERY_SET)
    _taken(labels)
    there = _there(sets, _now(into))
    if there and there.labels:
        feedback.note(
            "They take the place of what is there",
            f"{there.name} has {many(there.queries, 'query', 'queries')} and {many(there.labels, 'label')}. Bring them "
            "into another set to keep both. Under Queries, the last 20 changes of a set can be undone.",
        )
    st.checkbox("Replace them even if fewer labels, or none, are left", key="ask.even_so")
    st.checkbox(
        "Take grades beyond 0 to 3",
        key="ask.all_grades",
        help="Up to 10. In nDCG a higher grade counts for more than all that is on the usual scale.",
    )
    st.button(
        "Replace the labels" if there and there.labels else "Bring them in",
        key="ask.label",
        type="primary",
        icon=":material/label:",
        on_click=start_or_refuse(lambda: _begin_label(store, view, labels, into)),
    )


def _taken(labels: _Path) -> None:
    """What uploaded files are taken for, by their names."""
    names = [str(file.name) for file in labels.files]
    asked = [name for name in names if is_query_file(name)]
    judged = [name for name in names if name not in asked]
    if names:
        feedback.say(f"Labels: {', '.join(judged) or 'none'}. Queries: {', '.join(asked) or 'those that are there'}.")


def _begin_label(store: Store, view: CollectionView, labels: _Path, into: str) -> Job[Any]:
    if not labels.there:
        raise InputError("There is no file of labels yet. Upload one, or give its path on this machine.")
    collections_work.refuse_second(store, "label", view.name)
    insists = {name: bool(st.session_state.get(f"ask.{name}")) for name in ("even_so", "all_grades")}
    files = Files(labels.folder(), _now("ask.asked"), **insists)
    return collections_work.label(store, view.name, files, _now(into), author())


# -- files -------------------------------------------------------------------------------------------------------------


class _Path:
    """A path on this machine, or files of the browser's that are kept only once the work begins."""

    def __init__(self, key: str, files: Sequence[Any]) -> None:
        self.key, self.files = key, list(files)

    @property
    def typed(self) -> str:
        return _now(self.key)

    @property
    def there(self) -> bool:
        return bool(self.typed or self.files)

    def only(self) -> str:
        """The one file."""
        return str(next(uploads.stage(self.files).iterdir())) if self.files else self.typed

    def folder(self) -> str:
        """All of them, in a folder of their own; the only one as it is."""
        if not self.files:
            return self.typed
        folder = uploads.stage(self.files)
        inside = list(folder.iterdir())
        return str(inside[0] if len(inside) == 1 else folder)


def _file(key: str, label: str, types: list[str] | None, example: str, *, several: bool) -> _Path:
    files = st.file_uploader(
        label, type=types, accept_multiple_files=several, key=f"{key}.files", max_upload_size=LARGEST
    )
    st.text_input("or a path on this machine", key=f"{key}.path", placeholder=example)
    return _Path(f"{key}.path", files if isinstance(files, list) else [files] if files else [])
