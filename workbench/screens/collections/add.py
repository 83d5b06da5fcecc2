"""A collection to add: where it comes from, its first rows, how it is chunked and embedded."""

from __future__ import annotations

import asyncio
import html
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import streamlit as st

from core import bridge
from core.chunking import chunkers
from core.embedding import DEFAULT_MODEL
from core.errors import RankbookError
from core.store import collections
from core.store.engine import Store
from core.store.names import composed
from evals.collections import load
from evals.sources import sources
from workbench.components import feedback, form, table
from workbench.components.cards import shortened
from workbench.components.table import Column, Line
from workbench.screens.collections import attach as collections_attach
from workbench.screens.collections.about import draw_flaws, draw_problem, flaw_rows
from workbench.screens.collections.corrections import author
from workbench.screens.collections.state import current, go, tabs
from workbench.services import collection_jobs as collections_work
from workbench.services import collections as collections_added
from workbench.services import cost_notice, uploads
from workbench.services.collections import (
    SAMPLE,
    CollectionSummary,
    ImportRequest,
    SourcePreview,
    known_models,
    many,
    told_chunker,
)
from workbench.services.form_fields import summary
from workbench.services.uploads import SourceSpec


def draw_chunker(key: str, *, optional: bool = False, chosen: str = "headings") -> dict[str, Any] | None:
    """A chunker's spec; None where documents are to stay whole, which has to be `optional`."""
    kinds = sorted(each for each in chunkers if each != "none" or not optional)
    options = [*kinds, ""] if optional else kinds
    st.session_state.setdefault(f"{key}.chunker", chosen)
    kind = st.selectbox(
        "Cut documents by",
        options,
        key=f"{key}.chunker",
        format_func=lambda name: name.replace("_", " ") or "nothing: whole documents only",
    )
    if not kind:
        return None
    model = chunkers[kind]
    st.html(f'<p class="rb-summary">{html.escape(summary(model))}</p>')
    source = st.session_state.setdefault(f"{key}.chunker.{kind}", "")
    changed = form.drawn(model, source, f"{key}.options.{kind}") if model.model_fields else None
    if changed is not None:
        st.session_state[f"{key}.chunker.{kind}"] = source = changed
    return {"kind": kind, **tomllib.loads(source)}


def fill_chunker(key: str, spec: dict[str, Any] | None) -> None:
    """So that it is drawn with these options."""
    kind = spec["kind"] if spec else ""
    st.session_state[f"{key}.chunker"] = kind
    if spec:
        lines = [f"{name} = {_written(value)}" for name, value in spec.items() if name != "kind"]
        st.session_state[f"{key}.chunker.{kind}"] = "\n".join(lines)


def _written(value: Any) -> str:
    import json

    return json.dumps(value)  # numbers, texts and truth values read the same in TOML


USUAL_LANGUAGE: Final = "english"
_AS_IT_WISHES: Final = "add.wishes"
_WISHED: Final = "add.wished by"  # the source whose wishes the form began with
REFILLED: Final = "an earlier try"
Plain = dict[str, Any]


def draw_plan(store: Store, shelf: Sequence[CollectionSummary], name: str, look: SourcePreview) -> Plain:
    there = next((row for row in shelf if row.name == composed(name)), None)
    if there is not None and not there.attached:
        return _refresh(store, name)
    _wished(look)
    left, right = st.columns(2, gap="large")
    with left:
        chunks = _chunks(look)
    with right:
        made = {**_model(shelf, look.size), **_language(store), **_fields(look)}
    return {**made, "chunks": chunks, **_more(new=True)}


def _wished(look: SourcePreview) -> None:
    """What the source wishes is what its form begins with."""
    state, of = st.session_state, repr(look.source)
    if state.get(_WISHED) not in (of, REFILLED):
        state["add.fields"] = list(look.wishes.get("fields", ()))
        state["add.language"] = look.wishes.get("language", USUAL_LANGUAGE)
        state[_AS_IT_WISHES] = True
    state[_WISHED] = of


def _chunks(look: SourcePreview) -> Plain:
    """The chunk sets that the source wishes for, or one of one's own."""
    if wished := look.wishes.get("chunks"):
        told = "; ".join(f"{name}: {told_chunker(spec)}" for name, spec in wished.items())
        if st.checkbox("Cut it as whoever made it recommends", key=_AS_IT_WISHES):
            st.html(f'<p class="rb-summary">{html.escape(told)}</p>')
            return dict(wished)
    chunker = draw_chunker("add", optional=True)
    return {"default": chunker} if chunker else {}


def _refresh(store: Store, name: str) -> Plain:
    """Of a collection that is there: what it is made of stays."""
    st.html(
        f"<p>There is a collection <code>{html.escape(name)}</code> already. What is new or changed is brought in, cut "
        "and embedded as the rest of it; unchanged documents cost nothing. For another chunking or model take another "
        "name, or extend it afterwards.</p>"
    )
    made = load.plan_of(bridge.run(collections.get(store, name)))
    return {"chunks": made.chunks, "models": made.models, "embed_items": made.embed_items, **_more(new=False)}


def _model(shelf: Sequence[CollectionSummary], size: int | None) -> Plain:
    st.session_state.setdefault("add.model", DEFAULT_MODEL)
    model = st.selectbox(
        "Embedding model",
        [*known_models(shelf), ""],
        key="add.model",
        format_func=lambda name: name or "none: search by words only",
        accept_new_options=True,
        help="A sentence-transformers name, a folder, or openai:NAME for the endpoint at RANKBOOK_EMBEDDING_URL. More "
        "can be added later.",
    )
    many = f"The texts of about {size:,} documents go" if size is not None else "The texts of all documents go"
    feedback.endpoint_note(cost_notice.for_embedding((model or "").strip(), many))
    return {"models": (model.strip(),) if model and model.strip() else ()}


def _language(store: Store) -> Plain:
    known = bridge.run(collections_added.languages(store))
    if st.session_state.get("add.language") not in known:
        st.session_state["add.language"] = "simple"
    chosen = st.selectbox(
        "Language",
        known,
        key="add.language",
        help="PostgreSQL's text-search configuration: it knows stop words and inflections. `simple` knows none.",
    )
    return {"language": chosen}


def _fields(look: SourcePreview) -> Plain:
    chosen = st.multiselect(
        "Fields for filters",
        list(dict.fromkeys([*look.fields, *st.session_state["add.fields"]])),
        key="add.fields",
        accept_new_options=True,
        placeholder="None; type a name or choose",
        help="Metadata fields that get an index. Every field can be filtered by; an indexed one is fast.",
    )
    return {"fields": tuple(chosen)}


def _more(*, new: bool) -> Plain:
    with st.expander("More"):
        made: Plain = {}
        if new:
            made["embed_items"] = _switch("items", "Embed whole documents too", given=True)
            half = _switch("half", "Index vectors in half precision: half the size", given=False)
            made |= {"index": "halfvec"} if half else {}
        else:
            made["prune"] = _switch("prune", "Remove documents that the source no longer has", given=False)
        made["check"] = _switch("check", "Look for near-duplicates and leaked queries", given=True)
    return made


def _switch(name: str, label: str, *, given: bool) -> bool:
    st.session_state.setdefault(f"add.{name}", given)
    return st.checkbox(label, key=f"add.{name}")


def refill_plan(plan: Mapping[str, Any]) -> None:
    """The widgets as a plan says."""
    state = st.session_state
    known = {"language": "language", "embed_items": "items", "prune": "prune", "check": "check"}
    for field, widget in known.items():
        if field in plan:
            state[f"add.{widget}"] = plan[field]
    state["add.model"] = next(iter(plan.get("models", ())), "")
    state["add.half"] = plan.get("index") == "halfvec"
    if "fields" in plan:
        state["add.fields"] = list(plan["fields"])
    if "chunks" in plan:
        state[_AS_IT_WISHES] = len(plan["chunks"]) > 1  # no form makes several
        fill_chunker("add", plan["chunks"].get("default"))
    state[_WISHED] = REFILLED


SHOWN: Final = 5
LONGEST: Final = 160
COLUMNS: Final = {"id": "Id", "text": "Text", "title": "Title"}
USUAL: Final = "the usual one"


def draw_preview(look: SourcePreview, given: SourceSpec) -> None:
    st.html(f'<p class="rb-report">{_said(look)}</p>')
    for note in look.notes:
        st.html(f'<p class="rb-report">{html.escape(note)}</p>')
    if look.columns:
        _columns(look, given)
    if look.problem is not None:
        draw_problem(look.problem)
    else:
        _rows(look)
    if look.flaws:
        with st.expander(f"{many(len(look.flaws), 'remark')} on the first rows"):
            draw_flaws("look.flaws", flaw_rows(look.flaws), len(look.flaws))
    draw_options()


def draw_options() -> None:
    """Whatever the source can be told, as the command takes it."""
    with st.expander("Options of the source"):
        st.text_area(
            "One a line, as name=value",
            key="add.options",
            placeholder="columns.metadata=...\nqueries_path=/home/me/queries.csv\nlabels_path=/home/me/labels.csv",
            help="The same as `--option` of `rankbook data add`.",
        )


def _said(look: SourcePreview) -> str:
    taken = f"Taken for: <strong>{html.escape(look.taken_for)}</strong>"
    if look.fetched:
        return f"{taken} {_download(look)}"
    about = f"About {many(look.size, 'document')}. " if look.size is not None else ""
    labelled = _some(len(look.queries), "query", "queries") + _some(len(look.labels), "label")
    return f"{taken} {about}{labelled or 'No queries and no labels: it can be searched, not scored. '}"


def _some(count: int, one: str, more: str = "") -> str:
    """Of rows that were counted no further than the sample."""
    if count >= SAMPLE:
        return f"{count} or more {more or f'{one}s'}. "
    return f"{many(count, one, more)}. " if count else ""


def _download(look: SourcePreview) -> str:
    entry = look.download
    if entry is None:
        return "It is fetched by ir_datasets; how large it is, is not known here."
    size = f", {entry.download_mb:,g} MB to download" if entry.download_mb else ""
    said = f"{entry.documents:,} documents, {entry.queries:,} queries{size}. Licence: {entry.licence}. {entry.note}"
    return html.escape(said)


def _rows(look: SourcePreview) -> None:
    if not look.documents:
        return
    documents = [
        Line(str(at), (each.id, each.title, _start(each.text))) for at, each in enumerate(look.documents[:SHOWN])
    ]
    columns = (Column("first documents: id"), Column("title"), Column("text", long=True))
    table.draw("look.documents", "The first documents", columns, documents)
    if look.queries:
        grades = {label.query_id: 0 for label in look.labels}
        for label in look.labels:
            grades[label.query_id] += 1
        queries = [
            Line(str(at), (each.id, _start(each.text), str(grades.get(each.id, ""))))
            for at, each in enumerate(look.queries[:SHOWN])
        ]
        among = Column("labels", f"Among the first {SAMPLE} labels.", right=True)
        columns = (Column("first queries: id"), Column("text", long=True), among)
        table.draw("look.queries", "The first queries", columns, queries)


def _start(text: str) -> str:
    return shortened(" ".join(text[: LONGEST * 4].split()), LONGEST)


# -- columns of a table ------------------------------------------------------------------------------------------------


def _columns(look: SourcePreview, given: SourceSpec) -> None:
    """Which of them make a document; said once more where the guess is wrong."""
    for place, (name, label) in zip(st.columns(len(COLUMNS)), COLUMNS.items(), strict=True):
        with place:
            st.selectbox(
                f"{label} column",
                [USUAL, *look.columns],
                key=_key(given, name),
                help="By default the first there is of the usual names, such as id and text.",
            )


def column_options(given: SourceSpec) -> list[str]:
    """The choices made above, as options of the source."""
    chosen = {name: st.session_state.get(_key(given, name), USUAL) for name in COLUMNS}
    return [f"columns.{name}={column}" for name, column in chosen.items() if column != USUAL]


def _key(given: SourceSpec, name: str) -> str:
    """Of these files alone: other tables have other columns."""
    return f"add.column.{sha256(repr(given).encode()).hexdigest()[:12]}.{name}"


WAYS: Final = {
    "path": "On this machine",
    "public": "Public or bundled",
    "upload": "Upload files",
    "attach": "Attach a table",
}
LARGEST: Final = 500  # megabytes a file: an upload goes through memory
KEPT: Final = "kept"  # stands for the files of an upload that another try is made with


def draw(store: Store, shelf: Sequence[CollectionSummary]) -> None:
    with st.container(border=True, key="add.form"), feedback.draw_errors():
        st.html('<h2 class="rb-name">Add a collection</h2>')
        tabs("Where from", "add", WAYS, current().way)
        if current().way == "attach":
            collections_attach.draw(store, shelf)
            return
        given = _given(current().way, shelf)
        if given is None:
            return
        mapped = replace(given, options=(*given.options, *_options(given)))
        look = _looked(mapped)
        if look is None:
            return
        draw_preview(look, given)
        if look.problem is not None:
            return
        name = _name(given)
        plan = draw_plan(store, shelf, name, look)
        st.button(
            "Import",
            key="add.import",
            type="primary",
            icon=":material/download:",
            disabled=not name,
            on_click=_begin,
            args=(store, ImportRequest(name, mapped, plan)),
        )


def _begin(store: Store, wanted: ImportRequest) -> None:
    try:
        collections_work.add(store, wanted, author())
    except RankbookError as error:
        st.session_state["collections.refused"] = error
    else:
        st.session_state.pop("add.looked", None)
        st.session_state.pop("add.staged", None)  # the work puts the files away
        go(add="")


# -- where from --------------------------------------------------------------------------------------------------------


def _given(way: str, shelf: Sequence[CollectionSummary]) -> SourceSpec | None:
    if way == "upload":
        return _upload(shelf)
    return _public() if way == "public" else _path()


def _path() -> SourceSpec | None:
    left, right = st.columns([3, 1], vertical_alignment="bottom")
    with left:
        path = st.text_input(
            "Folder or file",
            key="add.from",
            placeholder="/home/me/docs, faq.csv, scifact.zip",
            help="A path on the machine that Rankbook runs on: a folder of documents (Markdown, text, HTML, "
            "reStructuredText, AsciiDoc; Word, PDF and notebooks with the extra `documents`); a CSV, TSV, JSON, JSONL "
            "or Parquet table; a BEIR folder or .zip; TREC documents.",
        )
    with right:
        st.session_state.setdefault("add.kind", "")
        kind = st.selectbox(
            "Read as", ["", *sorted(sources)], key="add.kind", format_func=lambda name: name or "what it looks like"
        )
    return SourceSpec(path.strip(), kind or None) if path.strip() else None


def _public() -> SourceSpec | None:
    known = collections_added.public()

    def named(name: str) -> str:
        entry = known[name]
        if entry is None:
            return f"{name} (ships with Rankbook)"
        size = f", {entry.download_mb:,g} MB" if entry.download_mb else ""
        return f"{name}: {entry.title}, {entry.documents:,} documents{size}"

    chosen = st.selectbox(
        "Collection", list(known), key="add.public", index=None, format_func=named, placeholder="Choose one"
    )
    return SourceSpec(chosen) if chosen else None


def _upload(shelf: Sequence[CollectionSummary]) -> SourceSpec | None:
    """The files in a folder of their own, put there once."""
    files = st.file_uploader(
        "Files",
        accept_multiple_files=True,
        key="add.files",
        max_upload_size=LARGEST,
        help="One .zip as BEIR has it; corpus.jsonl with queries.jsonl and judgements as .tsv; documents, a file each "
        "(.md, .html, .rst, .adoc, .pdf ...); or a table of documents (.csv, .tsv, .json, .jsonl, .parquet), with one "
        "of queries and one of labels.",
    )
    ids = tuple(file.file_id for file in files)
    staged: tuple[tuple[str, ...], SourceSpec] | None = st.session_state.get("add.staged")
    if staged is not None and staged[0] != ids and (ids or staged[0] != (KEPT,)):
        uploads.discard(Path(staged[1].origin))
        staged = st.session_state.pop("add.staged") and None
    if staged is None and files:
        with st.spinner("Keeping the files"):
            _sweep(shelf)
            staged = st.session_state["add.staged"] = (ids, _staged(files))
    return staged[1] if staged else None


def _staged(files: Sequence[Any]) -> SourceSpec:
    folder = uploads.stage(files)
    try:
        return uploads.taken_for(folder)
    except RankbookError:
        uploads.discard(folder)
        raise


def _sweep(shelf: Sequence[CollectionSummary]) -> None:
    collections_added.sweep([row.origin for row in shelf])


# -- how it is read ----------------------------------------------------------------------------------------------------


def _options(given: SourceSpec) -> list[str]:
    """What the columns were said to be below, and options as the command takes them."""
    typed = str(st.session_state.get("add.options") or "").splitlines()
    return [*column_options(given), *(line.strip() for line in typed if line.strip())]


def _looked(origin: SourceSpec) -> SourcePreview | None:
    """The look, taken once for the same files and options."""
    kept = st.session_state.get("add.looked")
    if kept is None or kept[0] != origin:
        with st.spinner("Looking into it"):
            try:
                kept = (origin, bridge.run(asyncio.to_thread(collections_added.looked_at, origin)))
            except RankbookError as error:
                feedback.draw_error(error)
                draw_options()
                return None
        st.session_state["add.looked"] = kept
    look: SourcePreview = kept[1]
    return look


def _name(given: SourceSpec) -> str:
    suggested = uploads.suggested_name(given.origin)
    if st.session_state.get("add.suggested") != suggested or "add.name" not in st.session_state:
        st.session_state["add.suggested"] = suggested
        st.session_state["add.name"] = st.session_state.pop("add.name again", suggested)
    name = st.text_input("Name", key="add.name", max_chars=60, placeholder="What it is to be called")
    if not name.strip():
        st.html(f"<p>{html.escape('Give it a name, by which it is searched and evaluated.')}</p>")
    return name.strip()


def refill(wanted: ImportRequest) -> str:
    """The form as it was filled in before; gives the way that it was."""
    origin, state = wanted.origin, st.session_state
    state["add.name again"] = wanted.name
    state.pop("add.suggested", None)
    refill_plan(wanted.plan)
    if uploads.holds(origin.origin):
        state["add.staged"] = ((KEPT,), origin)
        return "upload"
    state["add.options"] = "\n".join(origin.options)
    if origin.kind is None and origin.origin in collections_added.public() and not Path(origin.origin).exists():
        state["add.public"] = origin.origin
        return "public"
    state["add.from"], state["add.kind"] = origin.origin, origin.kind or ""
    return "path"
