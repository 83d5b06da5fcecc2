"""`rankbook data recall`: what the vector index misses, measured on the collection's own queries."""

from __future__ import annotations

from typing import Annotated

import typer

from workbench.commands import telling


def recall(
    name: Annotated[str, typer.Argument(help="The collection's name.")],
    chunks: Annotated[str | None, typer.Option(help="A chunk set, or 'items'; by default the first chunk set.")] = None,
    model: Annotated[str | None, typer.Option(help="The embedding model, where there are several.")] = None,
    queries: Annotated[int, typer.Option(min=1, help="How many of the collection's queries, in the order of ids.")] = (
        100
    ),
    depth: Annotated[int, typer.Option("--top", "-k", min=1, max=1000, help="How many neighbours are looked at.")] = 10,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Measure the vector index: how many of the true nearest, by comparing with every vector, it brings up.

    \b
    rankbook data recall handbook
    rankbook data recall handbook --chunks items --queries 500 -k 100 --json
    """
    from core import bridge
    from core.retriever import RequestContext
    from core.store import collections
    from core.store.levels import level
    from evals.index_recall import shares_of, texts_of
    from workbench.session import store

    opened = store(telling.say)
    view = bridge.run(collections.get(opened, name))
    where = level(opened, view, chunks or view.finest, model)
    where.column("vectors")  # says in a sentence why there are none
    texts = bridge.run(texts_of(RequestContext(opened, view), queries))
    shares = bridge.run(shares_of(RequestContext(opened, view), where, texts, depth))
    mean, perfect = sum(shares) / len(shares), sum(each == 1 for each in shares)
    if as_json:
        telling.as_json(
            {
                "name": name,
                "chunks": chunks or view.finest,
                "model": where.model,
                "index": where.index,
                "queries": len(shares),
                "k": depth,
                "recall": mean,
                "least": min(shares),
                "perfect": perfect,
            }
        )
        return
    columns = ("chunks", "model", "index", "queries", "recall", "least", "nothing missed")
    row = (chunks or view.finest, where.model, where.index, len(shares), f"{mean:.4f}", f"{min(shares):.4f}", perfect)
    telling.table(f"recall@{depth} of the vector index against exact search", columns, [row], right=columns[3:])
