"""`rankbook sql`: a variant as one SQL statement, to paste into a service or into psql, or to see it run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.sql_export import Exported
    from core.store.collections import View
    from core.store.engine import Store


def export(
    name: Annotated[str, typer.Argument(metavar="VARIANT", help="A preset, or a TOML file.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Over which collection.")],
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Fill this query in: ready to run, as it stands, in psql.")
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Send the statement to the store with this query; print its ranking.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a variant with stages that SQL cannot express.")
    ] = False,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="With --run: print its rows as JSON.")] = False,
) -> None:
    """Print a variant as one SQL statement that gives the same ranking, with what it needs above it in comments.

    Without --query its parameters are numbered ($1, $2 ...), as a service sends them.

    \b
    rankbook sql hybrid-retriever --collection handbook
    rankbook sql mine.toml -c handbook --query "how do I reset a hub 3" | psql "$RANKBOOK_DSN"
    rankbook sql mine.toml -c handbook --run "how do I reset a hub 3"
    """
    from core import bridge
    from core.errors import InputError
    from core.sql_export import export as exported
    from core.sql_export import run as run_on
    from core.store import collections
    from evals.references import variant_of
    from workbench.session import store

    if query is not None and run is not None:
        raise InputError("--query prints the statement and --run runs it. Give one of the two.")
    text = query if run is None else run
    variant = variant_of(name)
    opened = store(telling.say)
    view = bridge.run(collections.get(opened, collection))
    made = bridge.run(exported(opened, view, variant, query=text, strict=strict))
    if text is None:
        typer.echo(made.script, nl=False)
        return
    vector = _vector(opened, view, made, text)
    if run is None:
        typer.echo(made.filled(text, vector), nl=False)
        return
    _tell(made, bridge.run(run_on(opened, made, text, vector)), json=as_json)


def _vector(opened: Store, view: View, made: Exported, text: str) -> Any:
    """The query's vector, where the statement wants it."""
    from core import bridge
    from core.legs.base import checked_text
    from core.retriever import RequestContext

    if not made.needs_vector or made.model is None:
        return None
    return bridge.run(RequestContext(opened, view).embedder(made.model).embed([checked_text(text)], "query"))[0]


def _tell(made: Exported, rows: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        telling.as_json(rows)
        return
    cells = [(row["rank"], row["id"], f"{row['score']:.6f}") for row in rows]
    telling.table(f"{made.variant.name} over {made.collection}, by its statement", ("", "id", "score"), cells)
    for each in (*made.notes, *(f"Done outside the statement: {each}" for each in made.outside)):
        telling.say(each)
