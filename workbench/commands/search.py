"""`rankbook search`, `rankbook why` and `rankbook sql`: one query, an account of a document, the statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from core import bridge
from workbench.commands import output, runtime

if TYPE_CHECKING:
    from core.store.collections import CollectionView
    from core.variant import Variant

SNIPPET = 160  # characters

Where = Annotated[str, typer.Option("--collection", "-c", help="Where.")]
Chunks = Annotated[str | None, typer.Option(help="For --leg: a chunk set, or 'items'; by default the first chunk set.")]
Model = Annotated[str | None, typer.Option(help="For --leg: the embedding model, where there are several.")]


def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    collection: Where = runtime.DEMO,
    variant: Annotated[
        list[str] | None, typer.Option("--variant", "-v", help="A preset or a TOML file; several side by side.")
    ] = None,
    leg: Annotated[list[str] | None, typer.Option(help="A leg by itself, or several: {legs}.")] = None,
    chunks: Chunks = None,
    model: Model = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top", "-k", min=1, max=1000, help="How many hits; by default the variant's own, or 10."),
    ] = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Search a collection by a variant or a leg, or by several side by side.

    \b
    rankbook search "how do I reset a hub 3"
    rankbook search "FL-4021" --leg fulltext --leg trigram -k 5
    rankbook search "late fee" --leg bm25 --chunks items --json
    rankbook search "late fee" --variant local-rag --variant mine.toml
    """
    from core.errors import InputError
    from core.pipeline.cost_estimate import estimate_calls
    from core.pipeline.retriever import search

    if not query.strip():
        raise InputError('The query is empty. Say what to look for: rankbook search "reset hub 3"')
    context = runtime.open_request(collection)
    variants = [_variant(name, top_k) for name in variant or []]
    names = leg or ([] if variants else ["vector"])
    variants += [_leg(context.view, name, chunks, model, top_k) for name in names]
    for each in variants:
        for sentence in bridge.run(estimate_calls(context, query, each)):  # of all, before anything is sent for one
            output.notice(f"{each.name}: {sentence}")
    bundles = [bridge.run(search(context, query, each)) for each in variants]
    if as_json:
        output.print_json(
            [
                {
                    "variant": bundle.variant.name,
                    "id": bundle.variant.id,
                    "hits": bundle.hits,
                    "evidence": bundle.evidence,
                    "milliseconds": bundle.trace.milliseconds,
                    "stages": bundle.trace.timing_ms,
                    "notes": bundle.trace.notes,
                }
                for bundle in bundles
            ]
        )
        return
    for bundle in bundles:
        rows = []
        for hit in bundle.hits:
            place = " > ".join(hit.heading_path) or hit.title
            place = f"{place} (p. {hit.page_first})" if hit.page_first else place
            text = " ".join(hit.text.split())
            text = text if len(text) <= SNIPPET else f"{text[: SNIPPET - 1]}…"
            rows.append((hit.rank, f"{hit.score:.3f}", hit.item_id, place, text))
        title = f"{bundle.variant.name}, {bundle.trace.milliseconds:.0f} ms"
        output.table(title, ("", "score", "document", "where", "text"), rows, right=("", "score"))
        for note in bundle.trace.notes:
            output.notice(note)


def _variant(name: str, top_k: int | None) -> Variant:
    from evals.variants import resolve_variant

    variant = resolve_variant(name)
    return variant.model_copy(update={"top_k": top_k}) if top_k else variant


def _leg(view: CollectionView, name: str, chunks: str | None, model: str | None, top_k: int | None) -> Variant:
    from core.legs import legs
    from core.variant import Variant

    return Variant.of_leg(legs[name](), chunks=chunks or view.default_chunk_set, model=model, top_k=top_k or 10)


def why(  # noqa: PLR0913, PLR0917 - a flag each
    document: Annotated[str, typer.Argument(help="The id of a document, or of a chunk.")],
    query: Annotated[str, typer.Argument(help="What was looked for.")],
    collection: Where = runtime.DEMO,
    variant: Annotated[str | None, typer.Option("--variant", "-v", help="A preset or a TOML file.")] = None,
    leg: Annotated[str | None, typer.Option(help="A leg by itself: {legs}.")] = None,
    chunks: Chunks = None,
    model: Model = None,
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
    from core.errors import SpecError
    from core.explain import explain

    context = runtime.open_request(collection)
    if variant and (leg or chunks or model):
        raise SpecError("A variant says its legs, chunks and model itself. Give --variant or --leg, not both.")
    chosen = _variant(variant, top_k) if variant else _leg(context.view, leg or "vector", chunks, model, top_k)
    account = bridge.run(explain(context, query, chosen, document, costly=costly))
    if as_json:
        output.print_json(account.to_data())
        return
    for each in account.lines():
        output.line(each.text)
        if each.exact:  # for engineers, quieter
            typer.secho(f"    {output.printable(each.exact)}", dim=True)


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
    from core import sql_export
    from core.errors import InputError
    from evals.variants import resolve_variant

    options = {"--query prints the statement": query, "--run runs it": run, "--explain shows its plan": explain}
    chosen = {does: text for does, text in options.items() if text is not None}
    if len(chosen) > 1:
        raise InputError(f"{' and '.join(chosen)}. Give one of the {'two' if len(chosen) == 2 else 'three'}.")
    text = next(iter(chosen.values()), None)
    variant, context = resolve_variant(name), runtime.open_request(collection)
    statement = bridge.run(sql_export.export_sql(context.store, context.view, variant, query=text, strict=strict))
    if text is None:
        output.raw(statement.script)
        return
    if explain is not None:
        plan = bridge.run(sql_export.explained(context, variant, text)).plan
        if as_json:
            output.print_json({"variant": variant.name, "query": text, "plan": plan.split("\n")})
        else:
            output.line(plan)
        return
    vector = bridge.run(sql_export.vector_of(context, statement, text))
    if query is not None:
        output.raw(statement.filled(text, vector))
        return
    rows = bridge.run(sql_export.run(context.store, statement, text, vector))
    if as_json:
        output.print_json(rows)
        return
    cells = [(row["rank"], row["id"], f"{row['score']:.6f}") for row in rows]
    output.table(f"{variant.name} over {statement.collection}, by its statement", ("", "id", "score"), cells)
    for each in (*statement.notes, *(f"Done outside the statement: {each}" for each in statement.outside)):
        output.notice(each)
