"""`rankbook data attach`: somebody's table as a collection, read and never altered."""

from __future__ import annotations

from typing import Annotated

import typer

from core import bridge
from workbench.commands import output, runtime
from workbench.commands.labels import show_labels


def attach(  # noqa: PLR0913, PLR0917 - a flag each
    name: Annotated[str, typer.Argument(help="The name the collection will have here.")],
    table: Annotated[
        str, typer.Option(help="The table or view, such as public.docs; with --like, what that asks for.")
    ],
    like: Annotated[str | None, typer.Option(help="{likes}: fills the mapping in.")] = None,
    identifier: Annotated[str | None, typer.Option("--id", help="The column that identifies a row.")] = None,
    text: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    title: Annotated[str | None, typer.Option(help="The column with a title.")] = None,
    embedding: Annotated[str | None, typer.Option(help="The vector or halfvec column.")] = None,
    model: Annotated[str | None, typer.Option(help="The model that made the embeddings.")] = None,
    tsv: Annotated[str | None, typer.Option(help="A tsvector column.")] = None,
    metadata: Annotated[list[str] | None, typer.Option(help="A JSON column, or several plain columns.")] = None,
    parent: Annotated[
        str | None,
        typer.Option(help="What says which document a row is part of: a column, or a JSON path as metadata.source."),
    ] = None,
    where: Annotated[list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE.")] = None,
    language: Annotated[str, typer.Option(help="The text-search configuration.")] = "english",
    labels: Annotated[str | None, typer.Option(help="A source of queries and labels for it.")] = None,
    aside: Annotated[
        bool, typer.Option("--aside", help="Build lexemes, postings and vocabulary in Rankbook's own schema.")
    ] = (False),
    *,
    as_json: output.AsJson = False,
) -> None:
    """Search a table or view that exists on the server of RANKBOOK_DSN. It is read, and never altered.

    For --like langchain, --table names the collection; for llamaindex and haystack the table.
    Indexes that would help are shown as statements to copy, not run.

    \b
    rankbook data attach docs --table public.docs --id id --text body --embedding emb --model all-MiniLM-L6-v2
    rankbook data attach faq --table faq --id nr --text answer --metadata product --metadata lang --aside
    rankbook data attach kb --like langchain --table my_collection --model openai:text-embedding-3-small
    rankbook data attach parts --table parts --id nr --text body --metadata meta --parent meta.source
    """
    from workbench.services import attach

    options = {
        "id": identifier,
        "text": text,
        "title": title,
        "embedding": embedding,
        "model": model,
        "tsv": tsv,
        "metadata": attach.metadata(metadata or []),
        "parent": parent,
        "where": attach.conditions(where or []),
        "language": language,
    }
    request = attach.AttachRequest(name, table, like or "", options, aside, labels or "")
    store = runtime.open_store()
    with output.progress(quiet=as_json) as listener:
        attached = bridge.run(attach.attach(store, request, listener))
    if as_json:
        output.print_json({"name": name, "table": attached.table, "advice": attached.advice, "labels": attached.labels})
        return
    if attached.labels:
        show_labels(attached.labels)
    output.notice(f"{name} is attached to {attached.table}.")
    for each in attached.advice:
        output.notice(f"\n{each.subject}: {each.why}")
        if each.statement:
            output.notice(f"    {each.statement}")


def aside(
    name: Annotated[str, typer.Argument(help="The attached collection's name.")],
    drop: Annotated[bool, typer.Option("--drop", help="Remove what was built aside.")] = False,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Do only what differs: rows that are new, have changed, or are gone.")
    ] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Build lexemes, postings and vocabulary of an attached table in Rankbook's own schema.

    After its rows changed, --refresh takes in what is new. Without it everything is built anew.

    \b
    rankbook data aside docs
    rankbook data aside docs --refresh
    """
    from core.errors import InputError
    from core.store import attached, collections
    from workbench.services import attach

    if drop and refresh:
        raise InputError("--drop removes what stands aside, and --refresh brings it up to date. Give one of them.")
    store = runtime.open_store()
    if drop:
        bridge.run(attached.drop_side_tables(store, bridge.run(collections.get(store, name))))
        output.result({"name": name, "aside": False}, f"{name} has nothing aside any more.", json=as_json)
        return
    counts: dict[str, object] = {}
    sentence = f"{name} has its lexemes, postings and vocabulary aside."
    with output.progress(quiet=as_json) as listener:
        if refresh:
            view, found = bridge.run(attach.refresh_aside(store, name, listener))
            counts = {"new": found.new, "changed": found.changed, "gone": found.gone, "rebuilt": bool(found.unknown)}
            sentence = f"{name}: {attach.difference_sentence(view, found)}"
        else:
            bridge.run(attach.build_aside(store, name, listener))
    output.result({"name": name, "aside": True, **counts}, sentence, json=as_json)
