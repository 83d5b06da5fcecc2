"""`rankbook sql`: a variant as one SQL statement, to paste into a service or into psql."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.commands import telling


def export(
    name: Annotated[str, typer.Argument(metavar="VARIANT", help="A preset, or a TOML file.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Over which collection.")],
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Fill this query in: ready to run, as it stands, in psql.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a variant with stages that SQL cannot express.")
    ] = False,
) -> None:
    """Print a variant as one SQL statement that gives the same ranking, with what it needs above it in comments.

    Without --query its parameters are numbered ($1, $2 ...), as a service sends them.

    \b
    rankbook sql hybrid-retriever --collection handbook
    rankbook sql mine.toml -c handbook --query "how do I reset a hub 3" | psql "$RANKBOOK_DSN"
    """
    from core import bridge
    from core.legs.base import checked_text
    from core.retriever import RequestContext
    from core.sql_export import export as exported
    from core.store import collections
    from workbench.commands.variants import found
    from workbench.session import store

    variant = found(name)
    opened = store(telling.say)
    view = bridge.run(collections.get(opened, collection))
    made = bridge.run(exported(opened, view, variant, query=query, strict=strict))
    if query is None:
        typer.echo(made.script, nl=False)
        return
    vector = None
    if made.needs_vector and made.model is not None:
        vector = bridge.run(RequestContext(opened, view).embedder(made.model).embed([checked_text(query)], "query"))[0]
    typer.echo(made.filled(query, vector), nl=False)
