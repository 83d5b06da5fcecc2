"""`rankbook why` and `rankbook sql`: one query explained, and its statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output

if TYPE_CHECKING:
    from core.context import RequestContext
    from core.sql_export import ExportedSql
    from core.store.collections import CollectionView
    from core.variant import Variant


def why(  # noqa: PLR0913, PLR0917 - a flag each
    document: Annotated[str, typer.Argument(help="The id of a document, or of a chunk.")],
    query: Annotated[str, typer.Argument(help="What was looked for.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where.")] = "handbook",
    variant: Annotated[str | None, typer.Option("--variant", "-v", help="A preset or a TOML file.")] = None,
    leg: Annotated[
        str | None, typer.Option(help="A leg by itself, such as bm25 or vector; an unknown name lists all.")
    ] = None,
    chunks: Annotated[
        str | None, typer.Option(help="For --leg: a chunk set, or 'items'; by default the first chunk set.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="For --leg: the embedding model, where there are several.")] = None,
    top_k: Annotated[
        int | None, typer.Option("--top", "-k", min=1, max=1000, help="How many hits; by default the variant's own.")
    ] = None,
    costly: Annotated[
        bool, typer.Option("--costly", help="Try remedies even where each try asks a paid endpoint.")
    ] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Say why a document is among the results or not, and what would bring it in. Every remedy named was tried.

    \b
    rankbook why acc-sla "how long may the service be unavailable" --leg bm25
    rankbook why acc-sla#0003 "late fee" --variant local-rag --collection handbook
    rankbook why acc-sla "late fee" --variant mine.toml --json
    """
    from core import bridge
    from core.context import RequestContext
    from core.explain import explain
    from core.store import collections
    from workbench.session import store

    opened = store(output.notice)
    view = bridge.run(collections.get(opened, collection))
    chosen = _chosen(view, variant, leg, chunks, model, top_k)
    account = bridge.run(explain(RequestContext(opened, view), query, chosen, document, costly=costly))
    if as_json:
        output.as_json(account.to_data())
        return
    for each in account.lines():
        typer.echo(output.printable(each.text))
        if each.exact:  # for engineers, quieter
            typer.secho(f"    {output.printable(each.exact)}", dim=True)


def _chosen(
    view: CollectionView, variant: str | None, leg: str | None, chunks: str | None, model: str | None, top_k: int | None
) -> Variant:
    from core.errors import SpecError
    from core.legs import legs
    from core.variant import Variant
    from evals.variants import resolve_variant

    if variant and (leg or chunks or model):
        raise SpecError("A variant says its legs, chunks and model itself. Give --variant or --leg, not both.")
    if variant:
        chosen = resolve_variant(variant)
        return chosen.model_copy(update={"top_k": top_k}) if top_k else chosen
    return Variant.of_leg(
        legs[leg or "vector"](), chunks=chunks or view.default_chunk_set, model=model, top_k=top_k or 10
    )


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
    from core.context import RequestContext
    from core.sql_export import export as exported
    from core.sql_export import run as run_on
    from core.sql_export import vector_of
    from core.store import collections
    from evals.variants import resolve_variant
    from workbench.session import store

    text = _one_of(query, run, explain)
    variant = resolve_variant(name)
    opened = store(output.notice)
    context = RequestContext(opened, bridge.run(collections.get(opened, collection)))
    made = bridge.run(exported(opened, context.view, variant, query=text, strict=strict))
    if text is None:
        output.raw(made.script)
    elif query is not None:
        output.raw(made.filled(text, bridge.run(vector_of(context, made, text))))
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
        output.as_json({"variant": variant.name, "query": text, "plan": found.plan.split("\n")})
    else:
        typer.echo(output.printable(found.plan))


def _tell(made: ExportedSql, rows: list[dict[str, Any]], *, json: bool) -> None:
    if json:
        output.as_json(rows)
        return
    cells = [(row["rank"], row["id"], f"{row['score']:.6f}") for row in rows]
    output.table(f"{made.variant.name} over {made.collection}, by its statement", ("", "id", "score"), cells)
    for each in (*made.notes, *(f"Done outside the statement: {each}" for each in made.outside)):
        output.notice(each)
