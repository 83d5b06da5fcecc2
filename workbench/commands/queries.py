"""`rankbook queries`: queries from a file, or made of the collection's own documents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.commands import telling

app = typer.Typer(no_args_is_help=True, help="Queries where there are none: add your own, or generate some.")

Collection = Annotated[str, typer.Argument(help="The collection's name.")]


@app.command()
def add(
    collection: Collection,
    file: Annotated[Path, typer.Argument(help="CSV, TSV, JSONL or Parquet with a column text; kind and tags too.")],
    queries: Annotated[str, typer.Option("--queries", help="The query set they join; made if it is not there.")] = (
        "default"
    ),
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Queries that somebody wrote, put beside those that are there. Without labels yet: judge what runs find for them.

    A query without an id gets one made of its text, so that adding a file twice adds nothing.

    \b
    printf 'text\\tkind\\thow do I reset a hub\\tquestion\\n' > mine.tsv     a header, then a query a line
    rankbook queries add handbook mine.tsv
    rankbook queries add handbook mine.jsonl --queries mine --json
    """
    from core import bridge
    from core.store import collections, names
    from evals import authoring
    from workbench.session import store

    opened = store(telling.say)
    view = bridge.run(collections.get(opened, collection))
    name = names.checked(queries, what="The query set's name")
    written = bridge.run(authoring.add(opened, view.name, authoring.read_queries(file.expanduser()), name=name))
    if as_json:
        telling.as_json(written)
        return
    telling.flaws(written.flaws, len(written.flaws))
    telling.say(f"{written.added} queries added; {written.queries} in {name!r}.")


@app.command()
def generate(
    collection: Collection,
    style: Annotated[str, typer.Option(help="title, terms (the rarest), sentence, or misspelled.")] = "terms",
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=10_000, help="How many.")] = 50,
    seed: Annotated[int, typer.Option(help="Which documents, sentences and typos.")] = 0,
    queries: Annotated[str, typer.Option("--queries", help="The query set that holds them afterwards.")] = (
        "known-items"
    ),
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Known-item queries: each made of a document's own words, with that document as the one that is right.

    \b
    rankbook queries generate handbook
    rankbook queries generate handbook --style misspelled -n 100 --queries typos
    """
    from core import bridge
    from core.store import collections
    from evals import authoring
    from workbench.session import store

    opened = store(telling.say)
    view = bridge.run(collections.get(opened, collection))
    wanted = authoring.known_items({"style": style, "count": count, "seed": seed})
    made = bridge.run(authoring.generated(opened, view, wanted))
    bridge.run(authoring.save(opened, view.name, made, name=queries))
    if as_json:
        telling.as_json({"query_set": queries, "queries": made.labelled.queries, "note": made.note})
        return
    telling.table("Queries", ("id", "text"), [(query.id, query.text) for query in made.labelled.queries[:10]])
    unfit = f" {made.unfit} documents had not the words for one." if made.unfit else ""
    telling.say(f"{len(made.labelled.queries)} queries in {queries!r}.{unfit} {made.note}")
