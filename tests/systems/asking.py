"""One small collection that every system is asked about, and the resources they are asked with."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from core import bridge
from core.context import RequestContext, Resources
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Item
from tests.fakes import HashingEmbedder
from tests.store.making import fresh, ingest, make
from tests.unit.misbehaving import Answer, Endpoint, Reply, completion, language_model

EMBEDDER = HashingEmbedder(256)
CHUNKS = {
    "default": {"kind": "sentences", "max_tokens": 20},
    "parents": {"kind": "parent_child", "parents": "sections", "parent_tokens": 100, "child_tokens": 12},
}


def guide(identifier: str, topic: str, *sections: str, **metadata: Any) -> Item:
    """A document of sections, each under a heading."""
    text = "\n\n".join(f"# {topic} {number}\n\n{section}" for number, section in enumerate(sections, start=1))
    return Item(identifier, text, title=topic, metadata=metadata)


ITEMS = [
    guide(
        "hub",
        "Hub",
        "Hold the reset button for ten seconds until the lamp blinks. Release the reset button when it turns green.",
        "Replace the battery once a year. Two small cells fit into the drawer.",
        source="manual.pdf",
        kind="guide",
        type="documentation",
        date="2024-05-01",
        source_ref="p. 3",
        summary="How to reset a hub.",
    ),
    guide(
        "lock", "Lock", "Hold the reset pin with a needle. The lock opens by itself.", type="documentation", date="2023"
    ),
    guide(
        "news", "News", "A reset button was seen in the museum. Visitors hold it dear.", type="news", date="2024-06-01"
    ),
    guide("bread", "Bread", "Knead the dough for ten minutes. Bake it until it is brown.", type="recipe"),
    guide("show", "Stargate", "Stargate Atlantis was cancelled in 2009. It ran for five seasons.", type="news"),
    guide(
        "tram",
        "Tram",
        "The tram leaves every ten minutes. Hold on to the rail.",
        type="documentation",
        date="2024-07-01",
    ),
]
QUERY = "hold the reset button"


@contextmanager
def collection(
    store: Store, items: Sequence[Item] = ITEMS, chunks: Mapping[str, Any] = CHUNKS
) -> Iterator[CollectionView]:
    name = f"test {uuid.uuid4().hex[:12]}"
    make(store, name, [EMBEDDER], chunks)
    ingest(store, name, items, [EMBEDDER])
    yield fresh(store, name)
    bridge.run(collections.drop(store, name))


def resources(endpoint: Endpoint | None = None, **environment: str) -> Resources:
    if endpoint is None:
        return Resources(embedder=lambda _: EMBEDDER, environment=environment)
    return replace(language_model(endpoint, environment=environment), embedder=lambda _: EMBEDDER)


def context(store: Store, view: CollectionView, endpoint: Endpoint | None = None, **options: Any) -> RequestContext:
    return RequestContext(store, view, **{"resources": resources(endpoint), **options})


def candidates(body: Mapping[str, Any]) -> list[dict[str, str]]:
    """What a language model was given."""
    given: list[dict[str, str]] = json.loads(body["messages"][1]["content"])["candidates"]
    return given


def marking(wanted: Mapping[str, float], otherwise: float = 0, *, grounds: bool = False) -> Answer:
    """A model that gives these marks to texts that hold these words."""

    def answer(body: dict[str, Any]) -> Reply:
        rows = []
        for each in candidates(body):
            mark = next((mark for word, mark in wanted.items() if word in each["text"]), otherwise)
            row: dict[str, Any] = {"chunk_id": each["id"], "relevance_score": mark}
            rows.append(row | ({"answerability": "yes", "key_evidence": "so"} if grounds else {}))
        return completion({"results": rows})

    return answer
