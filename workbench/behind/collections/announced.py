"""What is sent to an endpoint before it is: whose it is, how much, and that it may cost money. Sends nothing."""

from __future__ import annotations

from collections.abc import Iterable

from core.store.collections import CollectionView


def told(model: str, what: str) -> str:
    """The sentence for a model that an endpoint serves, empty for one that runs here. `what` is what is sent."""
    from core.embedding import endpoint_of
    from core.pipeline.cost_estimate import is_here

    endpoint = endpoint_of(model)
    if endpoint is None or is_here(endpoint.host):
        return ""
    return (
        f"{what} to `{endpoint.host}`, which may cost money: its prices are not known here. What is cached already is "
        "not sent again."
    )


def texts_of(view: CollectionView, over: Iterable[str]) -> str:
    """How much the sets are that are to be embedded."""
    sets = [each for each in view.chunk_sets if each.name in set(over)]
    texts, words = sum(each.units for each in sets), sum(each.length for each in sets)
    return f"{texts:,} texts of {words:,} words in all, stop words not counted, go"
