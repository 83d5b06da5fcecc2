"""Nothing is embedded twice: the cache by content, and sets added later that end as if they had been there at first."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import numpy as np
import pytest

from core import bridge
from core.store import collections
from core.store.change_detection import ITEMS_A_BATCH
from core.store.chunk_and_embed import TEXTS_A_STEP, EmbeddingCache, forget
from core.store.ingest import UNITS_A_BACKFILL
from core.tasks import side_by_side
from core.types import Item
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, complete, contents, documents, fresh, ingest, make, some_name, wrong


@pytest.fixture
def model(name) -> HashingEmbedder:
    """A model that has embedded nothing in any other test."""
    return HashingEmbedder(name=name)


@pytest.mark.slow
def test_ingesting_again_embeds_nothing(store, name, model):
    make(store, name, [model])
    first = ingest(store, name, documents(10), [model])
    assert first.embedded == len(model.texts) > 10
    model.texts.clear()
    assert ingest(store, name, documents(10), [model]).embedded == 0
    assert model.texts == []


@pytest.mark.slow
def test_dropping_a_collection_and_adding_it_again_embeds_nothing(store, name, model):
    make(store, name, [model])
    ingest(store, name, documents(10), [model])
    before = contents(store, name)
    bridge.run(collections.drop(store, name))
    model.texts.clear()
    make(store, name, [model])
    assert ingest(store, name, documents(10), [model]).embedded == 0
    assert model.texts == []
    assert contents(store, name) == before


@pytest.mark.slow
def test_a_changed_document_embeds_only_its_changed_chunks(store, name, model):
    make(store, name, [model])
    words = [f"word{number}" for number in range(40)]
    ingest(store, name, [Item("a", " ".join(words))], [model])
    model.texts.clear()
    words[20] = "other"
    changed = " ".join(words)
    ingest(store, name, [Item("a", changed)], [model])
    assert len(model.texts) == 2
    assert changed in model.texts
    assert "other" in next(text for text in model.texts if text != changed).split()
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_equal_texts_in_one_batch_are_embedded_once(store, name, model):
    make(store, name, [model])
    ingest(store, name, [Item(f"i{number}", "the same words") for number in range(50)], [model])
    assert model.texts == ["the same words"]
    assert wrong(store, name) == {}


@pytest.mark.slow
def test_another_model_has_a_cache_of_its_own_and_forgetting_empties_one_alone(store, name, model):
    other = HashingEmbedder(8, name=name)
    make(store, name, [model, other])
    ingest(store, name, documents(5), [model, other])
    assert len(model.texts) == len(other.texts) > 0
    assert bridge.run(forget(store, model.model)) == len(model.texts)
    assert bridge.run(forget(store, model.model)) == 0
    assert bridge.run(EmbeddingCache(store, other).embed([other.texts[0]])).shape == (1, 8)
    assert len(other.texts) == len(set(other.texts))


def test_the_cache_gives_back_the_very_vectors_in_the_order_asked_for(store, model):
    texts = [f"text {number}" for number in range(2 * TEXTS_A_STEP + 10)]

    async def twice():
        first = await EmbeddingCache(store, model).embed(texts)
        cache = EmbeddingCache(store, model)
        again = await cache.embed([*reversed(texts), texts[0], texts[0]])
        return first, again, cache.computed, await cache.embed([])

    first, again, computed, none = bridge.run(twice())
    assert computed == 0
    assert again.dtype == np.float32
    assert np.array_equal(again[: len(texts)], first[::-1])
    assert np.array_equal(again[-1], first[0])
    assert none.shape == (0, model.dimension)


@pytest.mark.slow
def test_two_that_embed_the_same_texts_in_opposite_order_do_not_lock_each_other_out(store, name):
    async def both():
        for attempt in range(10):
            texts = [f"{attempt} {number}" for number in range(TEXTS_A_STEP)]
            caches = [EmbeddingCache(store, HashingEmbedder(name=name)) for _ in range(4)]
            await side_by_side(*(cache.embed(texts[:: 1 if at % 2 else -1]) for at, cache in enumerate(caches)))

    bridge.run(both())


@pytest.mark.slow
def test_a_second_chunk_set_added_later_equals_one_made_at_first(store, name, model):
    items = documents(ITEMS_A_BATCH + 40)
    make(store, name, [model], {"small": FIXED})
    ingest(store, name, items, [model])

    async def add():
        view = await collections.add_chunk_set(store, await collections.get(store, name), "family", FAMILY)
        await collections.add_embedding_set(store, view, view.chunk_set("family"), model.model, model.dimension)

    bridge.run(add())
    more = [*items[:-5], *documents(20, first=900)]  # which come in while the new set is still to be filled
    ingest(store, name, more, [model], prune=True)
    assert wrong(store, name) == {}
    at_first = some_name()
    make(store, at_first, [model], {"small": FIXED, "family": FAMILY})
    ingest(store, at_first, more, [model])
    assert contents(store, name) == contents(store, at_first)


@pytest.mark.slow
def test_a_second_model_added_later_equals_one_there_at_first(store, name, model):
    items = documents(UNITS_A_BACKFILL // 2 + 30)
    other = HashingEmbedder(8, name=name)
    make(store, name, [model], {"family": FAMILY})
    ingest(store, name, [*items, Item("blank", " "), Item("empty", "")], [model])

    async def add():
        view = await collections.get(store, name)
        for chunk_set in view.chunk_sets:
            view = await collections.add_embedding_set(store, view, chunk_set, other.model, other.dimension)

    bridge.run(add())
    report = complete(store, name, [model, other])
    assert report.embedded == len(set(other.texts))
    assert report.chunks == 0
    assert wrong(store, name) == {}
    at_first = some_name()
    make(store, at_first, [model, other], {"family": FAMILY})
    ingest(store, at_first, [*items, Item("blank", " "), Item("empty", "")], [model, other])
    assert contents(store, name) == contents(store, at_first)
    assert len(fresh(store, name).embedding_sets) == 4
