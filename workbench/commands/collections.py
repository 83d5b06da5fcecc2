"""`rankbook data`: collections added, listed, checked, extended, exported and dropped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core import bridge
from workbench.commands import attach, labels, output, runtime, trash

if TYPE_CHECKING:
    from evals.collections.load_labels import LoadReport
    from evals.collections.reload import ReaderChange

NAMES_SHOWN = 10
LONGEST_SPAN = 80  # characters

Prune = Annotated[bool, typer.Option("--prune", help="Remove documents that the source no longer has.")]

app = typer.Typer(no_args_is_help=True, help="Collections: list, add, show, verify, export, drop.")

app.command(cls=runtime.PluginCommand)(attach.attach)
app.command()(attach.aside)
app.command()(labels.label)
app.command()(labels.relabel)


@app.command()
def recall(
    name: runtime.Collection,
    chunks: Annotated[str | None, typer.Option(help="A chunk set, or 'items'; by default the first chunk set.")] = None,
    model: Annotated[str | None, typer.Option(help="The embedding model, where there are several.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="How many of the collection's queries, in the order of ids.")] = (
        100
    ),
    depth: Annotated[int, typer.Option("--top", "-k", min=1, max=1000, help="How many neighbours are looked at.")] = 10,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Measure the vector index: how many of the true nearest, by comparing with every vector, it brings up.

    \b
    rankbook data recall handbook
    rankbook data recall handbook --chunks items --queries 500 -k 100 --json
    """
    from core.store.resolve_target import search_target
    from evals.collections.overview import index_recall, query_texts

    context = runtime.open_request(name)
    chunks = chunks or context.view.default_chunk_set
    where = search_target(context.store, context.view, chunks, model)
    where.column("vectors")  # says in a sentence why there are none
    shares = bridge.run(index_recall(context, where, bridge.run(query_texts(context, queries)), depth))
    mean, perfect = sum(shares) / len(shares), sum(each == 1 for each in shares)
    if as_json:
        output.print_json(
            {
                "name": name,
                "chunks": chunks,
                "model": where.model,
                "index": where.index,
                "queries": len(shares),
                "k": depth,
                "recall": mean,
                "least": min(shares),
                "perfect": perfect,
            }
        )
        return
    columns = ("chunks", "model", "index", "queries", "recall", "least", "nothing missed")
    row = (chunks, where.model, where.index, len(shares), f"{mean:.4f}", f"{min(shares):.4f}", perfect)
    output.table(f"recall@{depth} of the vector index against exact search", columns, [row], right=columns[3:])


@app.command("list")
def list_collections(*, as_json: output.AsJson = False) -> None:
    """List every collection in the store.

    Example: rankbook data list --json | jq '.[].name'
    """
    from evals.collections.overview import overview

    rows = bridge.run(overview(runtime.open_store()))
    if as_json:
        output.print_json(rows)
    elif not rows:
        output.notice("There is no collection yet. Add the demo with: rankbook data add handbook")
    else:
        cells = [
            (row.name, row.items, row.chunk_sets, row.models, row.queries, f"{row.changed:%Y-%m-%d %H:%M}", row.state)
            for row in rows
        ]
        columns = ("name", "documents", "chunk sets", "models", "queries", "changed", "state")
        output.table("Collections", columns, cells, right=("documents", "queries"))


@app.command()
def add(  # noqa: PLR0913, PLR0917 - a flag each
    name: runtime.Collection,
    origin: Annotated[
        str | None, typer.Argument(metavar="[FROM]", help="A path, a bundled or public collection; by default NAME.")
    ] = None,
    source: Annotated[str | None, typer.Option("--as", help="The kind of source, where FROM does not tell.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="An option of the source, such as columns.id=doc_no.")
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(help="A glob of the files of a folder that are read, such as 'guide/**'.")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="A glob of files and folders that are left out, such as drafts.")
    ] = None,
    language: Annotated[str | None, typer.Option(help="Text-search configuration: english, german, simple ...")] = None,
    chunks: Annotated[
        list[str] | None, typer.Option(help="A chunk set, NAME=CHUNKER[,option=value...]; 'none' for none.")
    ] = None,
    model: Annotated[list[str] | None, typer.Option(help="An embedding model; 'none' for no vectors.")] = None,
    item_vectors: Annotated[bool, typer.Option(help="Embed whole documents too.")] = True,
    half: Annotated[bool, typer.Option("--half", help="Index vectors in half precision: half the size.")] = False,
    field: Annotated[list[str] | None, typer.Option(help="A metadata field to index for filters.")] = None,
    prune: Prune = False,
    check: Annotated[bool, typer.Option(help="Look for near-duplicates and leaked queries.")] = True,
    _dask: runtime.Dask = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Bring documents, queries and labels into a collection; run again to refresh or resume it.

    Unchanged documents cost nothing, and a text that was embedded once is not embedded again.

    \b
    rankbook data add handbook                         the demo that ships with Rankbook
    rankbook data add scifact ./beir/scifact.zip       a BEIR folder or zip
    rankbook data add scifact                          a public one (see: rankbook data catalog)
    rankbook data add faq faq.csv -o columns.id=nr -o columns.text=answer --field product
    rankbook data add docs ./docs --chunks small=fixed,max_tokens=100 --chunks sections=headings
    rankbook data add notes ./notes -o suffixes=.md,.log --exclude drafts --exclude '*.tmp.md'
    rankbook data add wiki --as ir_datasets -o id=wikir/en1k
    """
    from evals.collections import load
    from evals.sources.guess import chunk_set_of, source_of

    globs = [f"{word}={','.join(some)}" for word, some in (("include", include), ("exclude", exclude)) if some]
    resolved = source_of(origin or name, source, [*(option or []), *globs])
    options: dict[str, Any] = {
        "language": language,
        "chunks": None if chunks is None else dict(chunk_set_of(each) for each in chunks if each != "none"),
        "models": None if model is None else tuple(each for each in model if each != "none"),
        "embed_items": item_vectors,
        "index": "halfvec" if half else None,
        "fields": tuple(field) if field else None,
        "prune": prune,
        "check": check,
    }
    plan = load.plan_for(resolved, **{key: value for key, value in options.items() if value is not None})
    with output.progress(quiet=as_json) as listener:
        loaded = bridge.run(load.load_collection(runtime.open_store(), name, resolved, plan, listener=listener))
    output.print_json(loaded) if as_json else _show_loaded(loaded)


def _show_loaded(added: LoadReport) -> None:
    report = added.report
    if added.stay_reason:
        output.notice(added.stay_reason)
    if added.change is not None and added.change.before != added.change.after and added.change.before.queries:
        output.notice(f"default: {added.change.sentence}. To take that back: rankbook data label {added.name} --undo")
    output.flaws(added.flaws, len(added.flaws) - len(report.flaws) + report.flawed)
    output.notice(
        f"{added.name}: {report.added:,} documents added, {report.changed:,} changed, {report.unchanged:,} unchanged, "
        f"{report.removed:,} removed; {report.chunks:,} chunks made, {report.embedded:,} texts embedded; "
        f"{added.queries:,} queries, {added.labels:,} labels; {sum(report.seconds.values()):.1f} s."
    )
    if report.vanished:
        output.notice(f"{report.vanished:,} stored documents are not in this source and stay: --prune removes such.")


@app.command()
def reload(
    name: runtime.Collection,
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FROM]", help="The folder, where it is no longer where it was.")
    ] = None,
    prune: Prune = False,
    reader: Annotated[bool, typer.Option("--reader", help="Change to the newest reader of documents.")] = False,
    yes: runtime.Yes = False,
    _dask: runtime.Dask = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Load a collection from its source again: what is new or changed comes in.

    Documents that the source no longer has stay, and are counted; with --prune they go.
    A folder is read by the reader that the collection was first loaded by. With --reader it changes to the newest: it
    says first which documents that changes, what is embedded anew and which spans of labels move, and asks.

    \b
    rankbook data reload docs
    rankbook data reload docs --prune
    rankbook data reload docs --reader
    rankbook data reload docs ./docs-moved --reader --yes
    """
    from evals.collections import reload as reloading

    folder = folder and folder.expanduser()
    if not reader:
        store = runtime.open_store()
        with output.progress(quiet=as_json) as listener:
            added = bridge.run(reloading.refresh(store, name, folder, prune=prune, listener=listener))
        output.print_json(added) if as_json else _show_loaded(added)
        return
    with output.progress(quiet=as_json) as listener:
        change = bridge.run(reloading.preview(runtime.open_store(), name, folder, listener=listener))
    if change is None:
        output.result({"name": name, "changed": False}, f"{name} has the newest reader.", json=as_json)
        return
    _show_change(change)
    if change.any_document or change.lost:
        output.confirm(f"Change the reader of {output.printable(name)!r}?", yes=yes)
    with output.progress(quiet=as_json) as listener:
        report = bridge.run(reloading.apply(runtime.open_store(), change, listener=listener))
    sentence = (
        f"{name}: read by reader {change.source.reader} from now on. {report.added:,} documents added, "
        f"{report.changed:,} changed, {report.removed:,} removed; {report.embedded:,} texts embedded; "
        f"{len(change.moved):,} spans moved, {len(change.lost):,} left out."
    )
    output.result({**change.plain(), "report": report}, sentence, json=as_json)


def _show_change(change: ReaderChange) -> None:
    """What another reader will change, on standard error."""
    output.flaws(change.flaws, len(change.flaws), on=output.notices)
    models = f" by {', '.join(change.models)}" if change.models else ""
    output.notice(
        f"Reader {change.before} becomes {change.source.reader}: {change.changed:,} documents have another text or "
        f"title, {change.added:,} come in, {len(change.removed):,} go, {change.unchanged:,} stay as they are; "
        f"{change.texts:,} texts are embedded anew{models}."
    )
    if change.removed:
        names, more = ", ".join(change.removed[:NAMES_SHOWN]), len(change.removed) - NAMES_SHOWN
        names = f"{names} and {more:,} more" if more > 0 else names
        labels = f"; {change.labels_without_document:,} labels are about them" if change.labels_without_document else ""
        output.notice(f"No documents any more: {names}{labels}.")
    if change.moves:
        output.notice(f"Spans of labels: {len(change.moved):,} move with their texts, {len(change.lost):,} cannot.")
        rows = []
        for move in (*change.lost, *change.moved)[: output.FLAWS_SHOWN]:
            span = move.span
            place = f"{span.start}:{span.end} -> " + (f"{move.to.start}:{move.to.end}" if move.to else "left out")
            rows.append((move.query_set, span.query_id, span.item_id, place, span.text[:LONGEST_SPAN]))
        columns = ("query set", "query", "document", "where", "text")
        output.table("Spans that change, those that are left out first", columns, rows, on=output.notices)


@app.command()
def show(name: runtime.Collection, queries: runtime.Queries = "default", *, as_json: output.AsJson = False) -> None:
    """Show what a collection holds: documents, chunk sets, models, queries by split and kind, what import found odd.

    Example: rankbook data show handbook
    """
    from evals.collections.overview import describe

    described = bridge.run(describe(runtime.open_store(), name, query_set=queries))
    if as_json:
        output.print_json(described)
        return
    for title, facts in described.items():
        if isinstance(facts, dict):
            output.table(title, ("", ""), [(key, value) for key, value in facts.items()])
        elif facts:
            output.table(title, tuple(facts[0]), [tuple(row.values()) for row in facts])


@app.command()
def verify(name: runtime.Collection, *, as_json: output.AsJson = False) -> None:
    """Compare what should be in a collection's tables with what is. Exit code 1 where something is off.

    Example: rankbook data verify handbook
    """
    from core.store.verify import verify as check

    findings = bridge.run(check(*runtime.open_collection(name)))
    wrong = [finding for finding in findings if finding.wrong]
    if as_json:
        output.print_json(findings)
    else:
        rows = [(finding.check, finding.wrong or "none") for finding in findings]
        output.table(name, ("what must not be there", "found"), rows, right=("found",))
        for finding in wrong:
            output.notice(f"{finding.check}: {finding.wrong:,}. {finding.way_out}")
    raise typer.Exit(1 if wrong else 0)


@app.command()
def export(
    name: runtime.Collection,
    folder: Annotated[Path, typer.Argument(help="The folder to make; it must not be there.")],
    queries: runtime.Queries = "default",
    *,
    as_json: output.AsJson = False,
) -> None:
    """Write a collection, its queries and labels as a BEIR folder, which `rankbook data add` brings back.

    Example: rankbook data export handbook ./handbook-beir
    """
    from evals.collections import export_beir

    done = bridge.run(export_beir.export_beir(*runtime.open_collection(name), folder.expanduser(), query_set=queries))
    sentence = f"{done.documents:,} documents, {done.queries:,} queries and {done.labels:,} labels are in {folder}."
    output.result(done, sentence, json=as_json)


@app.command()
def drop(
    name: runtime.Collection,
    yes: runtime.Yes = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Remove a collection with its labels: into the trash. Asks first. Its judgements and kept runs stay.

    `rankbook trash restore` brings it back as it was.

    Example: rankbook data drop handbook --yes
    """
    from evals.collections import load

    store, view = runtime.open_collection(name)
    what = "the mapping; the table itself stays" if view.row.attached else "its documents, vectors and labels"
    output.confirm(f"Drop {output.printable(name)!r}, {what}?", yes=yes)
    entry = bridge.run(load.drop(store, name, by=runtime.user_name()))
    trash.report_deleted({"name": name, "dropped": True}, f"{name} is gone.", [entry], json=as_json)


@app.command()
def chunk(
    name: runtime.Collection,
    chunks: Annotated[str, typer.Argument(metavar="SET", help="NAME=CHUNKER[,option=value...]")],
    _dask: runtime.Dask = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Add a chunk set to a collection, beside those it has, and embed the chunks with its models.

    Example: rankbook data chunk handbook small=fixed,max_tokens=80,overlap=10
    """
    from evals.collections import load
    from evals.sources.guess import chunk_set_of

    chunk_set, chunker = chunk_set_of(chunks)
    with output.progress(quiet=as_json) as listener:
        report = bridge.run(load.add_chunk_set(*runtime.open_collection(name), chunk_set, chunker, listener=listener))
    sentence = f"{name}: {report.chunks:,} chunks made, {report.embedded:,} texts embedded."
    output.result({"name": name, "report": report}, sentence, json=as_json)


@app.command()
def embed(
    name: runtime.Collection,
    model: Annotated[str, typer.Argument(help="A name, a folder, or openai:NAME for an endpoint.")],
    over: Annotated[list[str] | None, typer.Option(help="A chunk set, or 'items'; all of them by default.")] = None,
    _dask: runtime.Dask = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Embed a collection with another model, beside those it has.

    \b
    rankbook data embed handbook all-MiniLM-L6-v2@fp32
    RANKBOOK_EMBEDDING_URL=http://localhost:8080/v1 rankbook data embed handbook openai:bge-m3 --over default
    """
    from evals.collections import load

    store, view = runtime.open_collection(name)
    chosen = tuple(over or [each.name for each in view.chunk_sets])
    with output.progress(quiet=as_json) as listener:
        report = bridge.run(load.add_model(store, view, model, chosen, listener=listener))
    output.result({"name": name, "report": report}, f"{name}: {report.embedded:,} texts embedded.", json=as_json)


@app.command()
def catalog(*, as_json: output.AsJson = False) -> None:
    """List well-known public collections that `rankbook data add NAME` downloads, with size and licence.

    Example: rankbook data catalog --json
    """
    from evals.sources import catalog as entries

    if as_json:
        output.print_json([entry.model_dump() for entry in entries()])
        return
    rows = [(e.name, f"{e.documents:,}", f"{e.queries:,}", e.download_mb or "?", e.licence, e.note) for e in entries()]
    columns = ("name", "documents", "queries", "MB", "licence", "what for")
    output.table("Public collections", columns, rows, right=columns[1:4])


@app.command()
def forget(
    model: Annotated[str | None, typer.Argument(help="Only the embeddings of this model.")] = None,
    yes: runtime.Yes = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Empty the cache of embeddings. Asks first. Collections keep their vectors; adding texts again will take longer.

    Example: rankbook data forget all-MiniLM-L6-v2@fp32 --yes
    """
    from core.store.chunk_and_embed import forget as forget_embeddings

    output.confirm("Forget the cached embeddings?", yes=yes)
    forgotten = bridge.run(forget_embeddings(runtime.open_store(), model))
    output.result({"model": model, "forgotten": forgotten}, f"{forgotten:,} embeddings forgotten.", json=as_json)
