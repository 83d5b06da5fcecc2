"""A collection to add: where it comes from, its first rows, how it is chunked and embedded."""

from __future__ import annotations

import asyncio
import html
import json
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
from workbench.components.table import DataColumn, DataRow, DataTable
from workbench.screens.collections import attach
from workbench.screens.collections.about import draw_flaws, draw_problem, flaw_rows
from workbench.screens.collections.corrections import author
from workbench.screens.collections.state import address
from workbench.services import collection_jobs, cost_notice, uploads
from workbench.services import collections as services_collections
from workbench.services.collections import (
    SAMPLE,
    CollectionSummary,
    ImportRequest,
    SourcePreview,
    chunker_text,
    known_models,
    plural,
)
from workbench.services.form_fields import summary
from workbench.services.uploads import SourceSpec

WAYS: Final = {
    "path": "On this machine",
    "public": "Public or bundled",
    "upload": "Upload files",
    "attach": "Attach a table",
}
LARGEST: Final = 500  # megabytes a file: an upload goes through memory
KEPT: Final = "kept"  # stands for the uploaded files of an earlier try
SHOWN: Final = 5  # rows of a preview
LONGEST: Final = 160  # characters of a text in it
COLUMNS: Final = {"id": "Id", "text": "Text", "title": "Title"}
USUAL: Final = "the usual one"
RECOMMENDED: Final = "add.wishes"  # whether the source's own chunk sets are taken
FILLED_FOR: Final = "add.wished by"  # the source whose recommendations the form began with
EARLIER_TRY: Final = "an earlier try"


def draw(store: Store, summaries: Sequence[CollectionSummary]) -> None:
    with st.container(border=True, key="add.form"), feedback.draw_errors():
        st.html('<h2 class="rb-name">Add a collection</h2>')
        way = address.current().way
        address.tabs("Where from", "add", WAYS, way)
        if way == "attach":
            attach.draw(store, summaries)
            return
        given = _upload(summaries) if way == "upload" else _public() if way == "public" else _path()
        if given is None:
            return
        typed = str(st.session_state.get("add.options") or "").splitlines()
        columns = {name: st.session_state.get(_column_key(given, name), USUAL) for name in COLUMNS}
        options = [f"columns.{name}={column}" for name, column in columns.items() if column != USUAL]
        options += [line.strip() for line in typed if line.strip()]
        source = replace(given, options=(*given.options, *options))
        preview = _preview(source)
        if preview is None:
            return
        _draw_preview(preview, given)
        if preview.problem is not None:
            return
        suggested = uploads.suggested_name(given.origin)
        if st.session_state.get("add.suggested") != suggested or "add.name" not in st.session_state:
            st.session_state["add.suggested"] = suggested
            st.session_state["add.name"] = st.session_state.pop("add.name again", suggested)
        name = st.text_input("Name", key="add.name", max_chars=60, placeholder="What it is to be called").strip()
        if not name:
            st.html("<p>Give it a name, by which it is searched and evaluated.</p>")
        plan = _plan(store, summaries, name, preview)
        st.button(
            "Import",
            key="add.import",
            type="primary",
            icon=":material/download:",
            disabled=not name,
            on_click=_start,
            args=(store, ImportRequest(name, source, plan)),
        )


def _start(store: Store, request: ImportRequest) -> None:
    try:
        collection_jobs.start(store, "add", request.name, request=request, author=author())
    except RankbookError as error:
        st.session_state["collections.refused"] = error
    else:
        st.session_state.pop("add.looked", None)
        st.session_state.pop("add.staged", None)  # the job deletes the files
        address.go(add="")


# -- where from --------------------------------------------------------------------------------------------------------


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
    known = services_collections.public_collections()

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


def _upload(summaries: Sequence[CollectionSummary]) -> SourceSpec | None:
    """The uploaded files, staged once."""
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
            services_collections.sweep([row.origin for row in summaries])
            folder = uploads.stage(files)
            try:
                staged = st.session_state["add.staged"] = (ids, uploads.detect_source(folder))
            except RankbookError:
                uploads.discard(folder)
                raise
    return staged[1] if staged else None


# -- its first rows ----------------------------------------------------------------------------------------------------


def _preview(source: SourceSpec) -> SourcePreview | None:
    """The preview, made once for the same files and options."""
    kept = st.session_state.get("add.looked")
    if kept is None or kept[0] != source:
        with st.spinner("Looking into it"):
            try:
                kept = (source, bridge.run(asyncio.to_thread(services_collections.preview_source, source)))
            except RankbookError as error:
                feedback.draw_error(error)
                _draw_options()
                return None
        st.session_state["add.looked"] = kept
    preview: SourcePreview = kept[1]
    return preview


def _draw_preview(preview: SourcePreview, given: SourceSpec) -> None:
    kind = f"Taken for: <strong>{html.escape(preview.taken_for)}</strong>"
    if not preview.fetched:
        about = f"About {plural(preview.size, 'document')}. " if preview.size is not None else ""
        labelled = _counted(len(preview.queries), "query", "queries") + _counted(len(preview.labels), "label", "labels")
        says = f"{about}{labelled or 'No queries and no labels: it can be searched, not scored. '}"
    elif (entry := preview.download) is None:
        says = "It is fetched by ir_datasets; how large it is, is not known here."
    else:
        size = f", {entry.download_mb:,g} MB to download" if entry.download_mb else ""
        counts = f"{entry.documents:,} documents, {entry.queries:,} queries"
        says = html.escape(f"{counts}{size}. Licence: {entry.licence}. {entry.note}")
    st.html(f'<p class="rb-report">{kind} {says}</p>')
    for note in preview.notes:
        st.html(f'<p class="rb-report">{html.escape(note)}</p>')
    if preview.columns:
        for column, (name, label) in zip(st.columns(len(COLUMNS)), COLUMNS.items(), strict=True):
            with column:
                st.selectbox(
                    f"{label} column",
                    [USUAL, *preview.columns],
                    key=_column_key(given, name),
                    help="By default the first there is of the usual names, such as id and text.",
                )
    if preview.problem is not None:
        draw_problem(preview.problem)
    elif preview.documents:
        _draw_rows(preview)
    if preview.flaws:
        with st.expander(f"{plural(len(preview.flaws), 'remark')} on the first rows"):
            draw_flaws("look.flaws", flaw_rows(preview.flaws), len(preview.flaws))
    _draw_options()


def _counted(count: int, one: str, more: str) -> str:
    """Counts end with the sample."""
    if count >= SAMPLE:
        return f"{count} or more {more}. "
    return f"{plural(count, one, more)}. " if count else ""


def _column_key(given: SourceSpec, name: str) -> str:
    """Keys for these files only: other tables have other columns."""
    return f"add.column.{sha256(repr(given).encode()).hexdigest()[:12]}.{name}"


def _draw_rows(preview: SourcePreview) -> None:
    def start(text: str) -> str:
        return shortened(" ".join(text[: LONGEST * 4].split()), LONGEST)

    documents = [
        DataRow(str(at), (each.id, each.title, start(each.text))) for at, each in enumerate(preview.documents[:SHOWN])
    ]
    columns = (DataColumn("first documents: id"), DataColumn("title"), DataColumn("text", long=True))
    table.draw("look.documents", DataTable("The first documents", columns, documents))
    if preview.queries:
        labels = {label.query_id: 0 for label in preview.labels}
        for label in preview.labels:
            labels[label.query_id] += 1
        queries = [
            DataRow(str(at), (each.id, start(each.text), str(labels.get(each.id, ""))))
            for at, each in enumerate(preview.queries[:SHOWN])
        ]
        among = DataColumn("labels", f"Among the first {SAMPLE} labels.", right=True)
        columns = (DataColumn("first queries: id"), DataColumn("text", long=True), among)
        table.draw("look.queries", DataTable("The first queries", columns, queries))


def _draw_options() -> None:
    """Options of the source, as the command takes them."""
    with st.expander("Options of the source"):
        st.text_area(
            "One a line, as name=value",
            key="add.options",
            placeholder="columns.metadata=...\nqueries_path=/home/me/queries.csv\nlabels_path=/home/me/labels.csv",
            help="The same as `--option` of `rankbook data add`.",
        )


# -- how it is loaded --------------------------------------------------------------------------------------------------


def _plan(store: Store, summaries: Sequence[CollectionSummary], name: str, preview: SourcePreview) -> dict[str, Any]:
    there = next((row for row in summaries if row.name == composed(name)), None)
    if there is not None and not there.attached:
        st.html(
            f"<p>There is a collection <code>{html.escape(name)}</code> already. What is new or changed is brought in, "
            "cut and embedded as the rest of it; unchanged documents cost nothing. For another chunking or model take "
            "another name, or extend it afterwards.</p>"
        )
        same = load.plan_of(bridge.run(collections.get(store, name)))
        return {"chunks": same.chunks, "models": same.models, "embed_items": same.embed_items, **_more(new=False)}
    state, of = st.session_state, repr(preview.source)
    if state.get(FILLED_FOR) not in (of, EARLIER_TRY):  # the form begins with what the source recommends
        state["add.fields"] = list(preview.wishes.get("fields", ()))
        state["add.language"] = preview.wishes.get("language", "english")
        state[RECOMMENDED] = True
    state[FILLED_FOR] = of
    left, right = st.columns(2, gap="large")
    with left:
        chunks = _chunks(preview)
    with right:
        state.setdefault("add.model", DEFAULT_MODEL)
        model = st.selectbox(
            "Embedding model",
            [*known_models(summaries), ""],
            key="add.model",
            format_func=lambda name: name or "none: search by words only",
            accept_new_options=True,
            help="A sentence-transformers name, a folder, or openai:NAME for the endpoint at RANKBOOK_EMBEDDING_URL. "
            "More can be added later.",
        )
        model = (model or "").strip()
        size = "all documents" if preview.size is None else f"about {preview.size:,} documents"
        feedback.endpoint_note(cost_notice.for_embedding(model, f"The texts of {size} go"))
        languages = bridge.run(services_collections.languages(store))
        if state.get("add.language") not in languages:
            state["add.language"] = "simple"
        language = st.selectbox(
            "Language",
            languages,
            key="add.language",
            help="PostgreSQL's text-search configuration: it knows stop words and inflections. `simple` knows none.",
        )
        fields = st.multiselect(
            "Fields for filters",
            list(dict.fromkeys([*preview.fields, *state["add.fields"]])),
            key="add.fields",
            accept_new_options=True,
            placeholder="None; type a name or choose",
            help="Metadata fields that get an index. Every field can be filtered by; an indexed one is fast.",
        )
    plan = {"models": (model,) if model else (), "language": language, "fields": tuple(fields), "chunks": chunks}
    return {**plan, **_more(new=True)}


def _chunks(preview: SourcePreview) -> dict[str, Any]:
    """The chunk sets that the source recommends, or one of the person's own."""
    if recommended := preview.wishes.get("chunks"):
        sets = "; ".join(f"{name}: {chunker_text(spec)}" for name, spec in recommended.items())
        if st.checkbox("Cut it as whoever made it recommends", key=RECOMMENDED):
            st.html(f'<p class="rb-summary">{html.escape(sets)}</p>')
            return dict(recommended)
    chunker = draw_chunker("add", optional=True)
    return {"default": chunker} if chunker else {}


def _more(*, new: bool) -> dict[str, Any]:
    def switch(name: str, label: str, *, default: bool) -> bool:
        st.session_state.setdefault(f"add.{name}", default)
        return st.checkbox(label, key=f"add.{name}")

    with st.expander("More"):
        plan: dict[str, Any] = {}
        if new:
            plan["embed_items"] = switch("items", "Embed whole documents too", default=True)
            if switch("half", "Index vectors in half precision: half the size", default=False):
                plan["index"] = "halfvec"
        else:
            plan["prune"] = switch("prune", "Remove documents that the source no longer has", default=False)
        plan["check"] = switch("check", "Look for near-duplicates and leaked queries", default=True)
    return plan


def draw_chunker(key: str, *, optional: bool = False, chosen: str = "headings") -> dict[str, Any] | None:
    """A chunker's spec; None for whole documents, where that is `optional`."""
    kinds = sorted(each for each in chunkers if each != "none" or not optional)
    st.session_state.setdefault(f"{key}.chunker", chosen)
    kind = st.selectbox(
        "Cut documents by",
        [*kinds, ""] if optional else kinds,
        key=f"{key}.chunker",
        format_func=lambda name: name.replace("_", " ") or "nothing: whole documents only",
    )
    if not kind:
        return None
    model = chunkers[kind]
    st.html(f'<p class="rb-summary">{html.escape(summary(model))}</p>')
    source = st.session_state.setdefault(f"{key}.chunker.{kind}", "")
    changed = form.draw(model, source, f"{key}.options.{kind}") if model.model_fields else None
    if changed is not None:
        st.session_state[f"{key}.chunker.{kind}"] = source = changed
    return {"kind": kind, **tomllib.loads(source)}


# -- another try -------------------------------------------------------------------------------------------------------


def refill(request: ImportRequest) -> str:
    """Fill the form as before; gives the way to add."""
    source, state = request.origin, st.session_state
    state["add.name again"] = request.name
    state.pop("add.suggested", None)
    _refill_plan(request.plan)
    if uploads.is_staged(source.origin):
        state["add.staged"] = ((KEPT,), source)
        return "upload"
    state["add.options"] = "\n".join(source.options)
    public = source.kind is None and source.origin in services_collections.public_collections()
    if public and not Path(source.origin).exists():
        state["add.public"] = source.origin
        return "public"
    state["add.from"], state["add.kind"] = source.origin, source.kind or ""
    return "path"


def _refill_plan(plan: Mapping[str, Any]) -> None:
    state = st.session_state
    for field, widget in {"language": "language", "embed_items": "items", "prune": "prune", "check": "check"}.items():
        if field in plan:
            state[f"add.{widget}"] = plan[field]
    state["add.model"] = next(iter(plan.get("models", ())), "")
    state["add.half"] = plan.get("index") == "halfvec"
    if "fields" in plan:
        state["add.fields"] = list(plan["fields"])
    if "chunks" in plan:
        state[RECOMMENDED] = len(plan["chunks"]) > 1  # no form makes several
        spec = plan["chunks"].get("default")
        state["add.chunker"] = spec["kind"] if spec else ""
        if spec:  # numbers, texts and truth values are written the same in JSON and TOML
            lines = [f"{name} = {json.dumps(value)}" for name, value in spec.items() if name != "kind"]
            state[f"add.chunker.{spec['kind']}"] = "\n".join(lines)
    state[FILLED_FOR] = EARLIER_TRY
