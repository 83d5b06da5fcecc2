"""`rankbook data attach`: somebody's table as a collection, read and never altered."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.commands import labels as labelling
from workbench.commands import output

Name = Annotated[str, typer.Argument(help="The name the collection will have here.")]


def attach(  # noqa: PLR0913, PLR0917 - a flag each
    name: Name,
    table: Annotated[
        str, typer.Option(help="The table or view, such as public.docs; with --like, what that asks for.")
    ],
    like: Annotated[str | None, typer.Option(help="langchain, llamaindex or haystack: fills the mapping in.")] = None,
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
    from core import bridge
    from workbench.services import attach
    from workbench.session import store

    given = {
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
    wanted = attach.AttachRequest(name, table, like or "", given, aside, labels or "")
    opened = store(output.notice)
    with output.progress(quiet=as_json) as listener:
        made = bridge.run(attach.attach(opened, wanted, listener))
    if as_json:
        output.as_json({"name": name, "table": made.table, "advice": made.advice, "labels": made.labels})
        return
    if made.labels:
        labelling.tell(made.labels)
    output.notice(f"{name} is attached to {made.table}.")
    for each in made.advice:
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
    from core import bridge
    from core.errors import InputError
    from core.store import attached, collections
    from workbench.services import attach
    from workbench.session import store

    if drop and refresh:
        raise InputError("--drop removes what stands aside, and --refresh brings it up to date. Give one of them.")
    opened = store(output.notice)
    if drop:
        bridge.run(attached.drop_aside(opened, bridge.run(collections.get(opened, name))))
        output.done({"name": name, "aside": False}, f"{name} has nothing aside any more.", json=as_json)
        return
    if refresh:
        with output.progress(quiet=as_json) as listener:
            view, found = bridge.run(attach.refreshed(opened, name, listener))
        counts = {"new": found.new, "changed": found.changed, "gone": found.gone, "rebuilt": bool(found.unknown)}
        sentence = f"{name}: {attach.told_difference(view, found)}"
        output.done({"name": name, "aside": True, **counts}, sentence, json=as_json)
        return
    with output.progress(quiet=as_json) as listener:
        bridge.run(attach.aside(opened, name, listener))
    sentence = f"{name} has its lexemes, postings and vocabulary aside."
    output.done({"name": name, "aside": True}, sentence, json=as_json)
