"""`rankbook sql`: a variant as one SQL statement, to paste into a service or into psql, or to see it run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.retriever import RequestContext
    from core.sql_export import Exported
    from core.variant import Variant


def export(
    name: Annotated[str, typer.Argument(metavar="VARIANT", help="A preset, or a TOML file.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Over which collection.")],
    query: Annotated[
        str | None, typer.Option("--query", "-q", help="Fill this query in: ready to run, as it stands, in psql.")
    ] = None,
    run: Annotated[
        str | None, typer.Option("--run", help="Send the statement to the store with this query; print its ranking.")
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option("--explain", help="Run the statement with this query, and print how the server went about it."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse a variant with stages that SQL cannot express.")
    ] = False,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="With --run: its rows, with --explain: its plan.")] = False,
) -> None:
    """Print a variant as one SQL statement that gives the same ranking, with what it needs above it in comments.

    Without --query its parameters are numbered ($1, $2 ...), as a service sends them.

    \b
    rankbook sql hybrid-retriever --collection handbook
    rankbook sql mine.toml -c handbook --query "how do I reset a hub 3" | psql "$RANKBOOK_DSN"
    rankbook sql mine.toml -c handbook --run "how do I reset a hub 3"
    rankbook sql mine.toml -c handbook --explain "how do I reset a hub 3"
    """
    from core import bridge
    from core.retriever import RequestContext
    from core.sql_export import export as exported
    from core.sql_export import run as run_on
    from core.sql_export import vector_of
    from core.store import collections
    from evals.references import variant_of
    from workbench.session import store

    text = _one_of(query, run, explain)
    variant = variant_of(name)
    opened = store(telling.say)
    context = RequestContext(opened, bridge.run(collections.get(opened, collection)))
    made = bridge.run(exported(opened, context.view, variant, query=text, strict=strict))
    if text is None:
        telling.raw(made.script)
    elif query is not None:
        telling.raw(made.filled(text, bridge.run(vector_of(context, made, text))))
    elif run is not None:
        _tell(made, bridge.run(run_on(opened, made, text, bridge.run(vector_of(context, made, text)))), json=as_json)
    else:
        _tell_plan(context, variant, text, json=as_json)


DOES = {"--query": "prints the statement", "--run": "runs it", "--explain": "shows its plan"}


def _one_of(*texts: str | None) -> str | None:
    """The query, by whichever option it came."""
    from core.errors import InputError

    given = [(name, text) for name, text in zip(DOES, texts, strict=True) if text is not None]
    if len(given) > 1:
        said = " and ".join(f"{name} {DOES[name]}" for name, _ in given)
        raise InputError(f"{said}. Give one of the {'two' if len(given) == 2 else 'three'}.")
    return given[0][1] if given else None


def _tell_plan(context: RequestContext, variant: Variant, text: str, *, json: bool) -> None:
    from core import bridge
    from core.sql_export import explained

    found = bridge.run(explained(context, variant, text))
    if json:
        telling.as_json({"variant": variant.name, "query": text, "plan": found.plan.split("\n")})
    else:
        typer.echo(telling.printable(found.plan))


def _tell(made: Exported, rows: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        telling.as_json(rows)
        return
    cells = [(row["rank"], row["id"], f"{row['score']:.6f}") for row in rows]
    telling.table(f"{made.variant.name} over {made.collection}, by its statement", ("", "id", "score"), cells)
    for each in (*made.notes, *(f"Done outside the statement: {each}" for each in made.outside)):
        telling.say(each)
