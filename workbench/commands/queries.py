"""`rankbook queries`: queries from a file, or made of the collection's own documents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from core import bridge
from workbench.commands import output, runtime, trash

app = typer.Typer(no_args_is_help=True, help="Query sets: list, add your own, generate some, see their changes, drop.")


@app.command("list")
def list_sets(collection: runtime.Collection, *, as_json: output.AsJson = False) -> None:
    """List the query sets of a collection, with how many queries and labels each holds.

    Example: rankbook queries list handbook
    """
    from evals.labels import query_sets

    store, view = runtime.open_collection(collection)
    rows = bridge.run(query_sets.summaries(store, view.name))
    if as_json:
        output.print_json(rows)
        return
    cells = [(row.name, row.queries, row.labelled, row.labels, f"{row.changed:%Y-%m-%d %H:%M}") for row in rows]
    columns = ("name", "queries", "labelled", "labels", "changed")
    output.table("Query sets", columns, cells, right=columns[1:4])


@app.command()
def changes(
    collection: runtime.Collection,
    queries: runtime.Queries = "default",
    *,
    as_json: output.AsJson = False,
) -> None:
    """List the last changes of a query set and its labels: who made them, when, why, and whether they were undone.

    The last 20 are kept. `rankbook data label NAME --undo` takes the latest back that still holds.

    Example: rankbook queries changes handbook
    """
    from evals.labels import corrections

    store, view = runtime.open_collection(collection)
    rows = bridge.run(corrections.changes(store, view.name, name=queries))
    if as_json:
        output.print_json(rows)
        return
    if not rows:
        output.notice(f"No change of {queries} is kept: it is as it came in.")
        return
    cells = [(f"{row.made_at:%Y-%m-%d %H:%M}", row.author, row.change.sentence, row.reason, row.state) for row in rows]
    output.table(f"Changes of {queries}", ("when", "who", "what", "why", "state"), cells)


@app.command()
def drop(
    collection: runtime.Collection,
    queries: Annotated[str, typer.Argument(metavar="SET", help="The query set.")],
    yes: runtime.Yes = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Remove a query set with its labels: into the trash. Asks first. Documents, judgements and kept runs stay.

    `rankbook trash restore` brings it back as it was.

    Example: rankbook queries drop handbook known-items --yes
    """
    from evals.labels import query_sets

    store, view = runtime.open_collection(collection)
    output.confirm(f"Drop the query set {output.printable(queries)!r} with its labels?", yes=yes)
    entry = bridge.run(query_sets.drop(store, view.name, queries, by=runtime.user_name()))
    trash.report_deleted({"query_set": queries, "dropped": True}, f"{queries} is gone.", [entry], json=as_json)


@app.command()
def add(
    collection: runtime.Collection,
    file: Annotated[
        Path, typer.Argument(help="CSV, TSV, JSON, JSONL or Parquet with a column text; '-' reads a query a line.")
    ],
    queries: Annotated[str, typer.Option("--queries", help="The query set they join; made if it is not there.")] = (
        "default"
    ),
    *,
    as_json: output.AsJson = False,
) -> None:
    """Add queries that somebody wrote. They have no labels yet: judge what runs find for them.

    An id stands in the column query_id, qid or id, as in a file of labels. A query without one gets an id made of its
    text, so that adding a file twice adds nothing.

    \b
    printf 'text\\tkind\\thow do I reset a hub\\tquestion\\n' > mine.tsv     a header, then a query a line
    rankbook queries add handbook mine.tsv
    rankbook queries add handbook mine.jsonl --queries mine --json
    echo 'how do I reset a hub' | rankbook queries add handbook -
    """
    from evals.labels import query_generation

    store, view = runtime.open_collection(collection)
    typed = str(file) == "-"
    rows = (
        query_generation.typed_queries(sys.stdin.read()) if typed else query_generation.read_queries(file.expanduser())
    )
    written = bridge.run(query_generation.add(store, view.name, rows, name=queries))
    if as_json:
        output.print_json(written)
        return
    output.flaws(written.flaws, len(written.flaws))
    output.notice(f"{written.added} queries added; {written.queries} in {written.name!r}.")


@app.command()
def generate(
    collection: runtime.Collection,
    style: Annotated[str, typer.Option(help="title, terms (the rarest), sentence, or misspelled.")] = "terms",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many.")] = 50,
    seed: Annotated[int, typer.Option(help="Which documents, sentences and typos.")] = 0,
    terms: Annotated[int, typer.Option(min=1, max=20, help="How many of its rarest terms make a query.")] = 4,
    split: Annotated[str, typer.Option(help="The split that their labels are of.")] = "test",
    queries: Annotated[str, typer.Option("--queries", help="The query set that holds them afterwards.")] = (
        "known-items"
    ),
    *,
    as_json: output.AsJson = False,
) -> None:
    """Generate known-item queries: each is made of a document's own words, and that document is the right answer.

    \b
    rankbook queries generate handbook
    rankbook queries generate handbook --style misspelled -n 100 --queries typos
    """
    from evals.labels import query_generation

    store, view = runtime.open_collection(collection)
    options = {"style": style, "count": count, "seed": seed, "terms": terms, "split": split}
    request = query_generation.parse_known_items(options)
    bridge.run(query_generation.require_generated(store, view.name, queries))
    with output.progress(quiet=as_json) as listener:
        generated = bridge.run(query_generation.generate(store, view, request, listener))
    bridge.run(query_generation.save(store, view.name, generated, name=queries))
    if as_json:
        output.print_json({"query_set": queries, "queries": generated.labelled.queries, "note": generated.note})
        return
    output.table("Queries", ("id", "text"), [(query.id, query.text) for query in generated.labelled.queries[:10]])
    unfit = f" {generated.unfit} documents had not the words for one." if generated.unfit else ""
    output.notice(f"{len(generated.labelled.queries)} queries in {queries!r}.{unfit} {generated.note}")
