"""`rankbook why`: the account of one document under one query, in plain sentences, the exact ones beneath."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.store.collections import View
    from core.variant import Variant


def why(  # noqa: PLR0913, PLR0917 - a flag each
    document: Annotated[str, typer.Argument(help="The id of a document, or of a chunk.")],
    query: Annotated[str, typer.Argument(help="What was looked for.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where.")] = "handbook",
    variant: Annotated[str | None, typer.Option("--variant", "-v", help="A preset or a TOML file.")] = None,
    leg: Annotated[str | None, typer.Option(help="A leg by itself: vector, bm25, fulltext, fuzzy, trigram.")] = None,
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
    as_json: telling.AsJson = False,
) -> None:
    """Say why a document is among the results or not, and what would bring it in. Every remedy named was tried.

    \b
    rankbook why acc-sla "how long may the service be unavailable" --leg bm25
    rankbook why acc-sla#0003 "late fee" --variant local-rag --collection handbook
    rankbook why acc-sla "late fee" --variant mine.toml --json
    """
    from core import bridge
    from core.explain import explain
    from core.retriever import RequestContext
    from core.store import collections
    from workbench.session import store

    opened = store(telling.say)
    view = bridge.run(collections.get(opened, collection))
    chosen = _chosen(view, variant, leg, chunks, model, top_k)
    account = bridge.run(explain(RequestContext(opened, view), query, chosen, document, costly=costly))
    if as_json:
        telling.as_json(account.to_data())
        return
    for each in account.told():
        typer.echo(telling.printable(each.text))
        if each.exact:  # for engineers, quieter
            typer.secho(f"    {telling.printable(each.exact)}", dim=True)


def _chosen(
    view: View, variant: str | None, leg: str | None, chunks: str | None, model: str | None, top_k: int | None
) -> Variant:
    from core.errors import SpecError
    from core.legs import legs
    from core.variant import Variant
    from evals.references import variant_of

    if variant and (leg or chunks or model):
        raise SpecError("A variant says its legs, chunks and model itself. Give --variant or --leg, not both.")
    if variant:
        chosen = variant_of(variant)
        return chosen.model_copy(update={"top_k": top_k}) if top_k else chosen
    return Variant.of_leg(legs[leg or "vector"](), chunks=chunks or view.finest, model=model, top_k=top_k or 10)
