"""What a variant would ask of language models and send to other machines, told before any of it happens."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import pytest

from core import bridge
from core.context import RequestContext, Resources
from core.pipeline.cost_estimate import asks, estimate_calls, is_here, more, sends_documents
from core.types import Item
from core.variant import Variant
from tests.fakes import HashingEmbedder
from tests.store.making import FIXED, ingest, make

ITEMS = [Item("a", "A kettle boils water."), Item("b", "A pot holds tea.")]
VECTOR, WORDS = [{"kind": "vector"}], [{"kind": "bm25"}]
LLM = {"RANKBOOK_LLM_URL": "https://chat.example/v1", "RANKBOOK_LLM_MODEL": "small"}


class Paid(HashingEmbedder):
    """Made by a server, as its name says; it keeps what it is asked."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.model = model


def told(store, name, model, environment=None, **options):
    """What is announced of a variant over a collection that is embedded by that model, and what the model was sent."""
    paid = Paid(model)
    view = make(store, name, [paid], {"small": FIXED})
    ingest(store, name, ITEMS, [paid])
    paid.texts.clear()
    context = RequestContext(store, view, Resources(embedder=lambda _: paid, environment=environment or {}))
    variant = Variant.from_data({"name": "v", "chunks": "small"} | options)
    found = bridge.run(estimate_calls(context, "a query", variant))
    assert asks(context, variant) == bool(found)
    assert paid.texts == []
    return [str(each) for each in found]


def test_a_query_that_is_embedded_elsewhere_is_announced_with_the_host(store, name):
    (said,) = told(store, name, "openai:m[embed.example:8080]", leg=VECTOR)
    assert said == (
        "The embedding sends the query to embed.example:8080, for the model m: 1 call, more where it has to be asked "
        "again."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "leg"),
    [("openai:m[embed.example]", WORDS), ("openai:m[localhost:8080]", VECTOR), ("hashing-16", VECTOR)],
    ids=["words alone", "a server on this machine", "a model on this machine"],
)
def test_what_stays_on_this_machine_is_not_announced(store, name, model, leg):
    assert told(store, name, model, leg=leg) == []


@pytest.mark.slow
def test_openai_s_own_models_are_announced_with_its_host(store, name):
    (said,) = told(store, name, "openai:text-embedding-3-small", leg=VECTOR)
    assert "to api.openai.com, for the model text-embedding-3-small" in said


@pytest.mark.slow
def test_late_chunks_that_are_embedded_elsewhere_are_announced(store, name):
    late = {"strategy": "late"}
    said = told(store, name, "openai:m[embed.example]", leg=WORDS, late=late, top_k=4, chunks="items")
    assert "The late chunking sends the query and the chunks of up to 4 documents to embed.example" in said[0]
    assert "up to 5 calls" in said[0]


@pytest.mark.slow
def test_a_language_model_s_share_is_not_tried_out_where_that_would_send_the_query_away(store, name):
    embedded, ranked = told(
        store, name, "openai:m[embed.example]", LLM, leg=VECTOR, rerank={"method": "llm", "depth": 7}
    )
    assert embedded.startswith("The embedding sends the query to embed.example")
    assert ranked.startswith("The reranking sends the query and up to 7 texts to chat.example, for the model small")


def test_a_rerank_endpoint_is_announced_by_the_environment_s_address_too(store, name):
    environment = {"RANKBOOK_RERANK_URL": "https://ranks.example/v1", "RANKBOOK_RERANK_MODEL": "r"}
    (said,) = told(store, name, "hashing-16", environment, leg=WORDS, rerank={"method": "api", "depth": 5})
    assert "up to 5 texts to ranks.example, for the model r" in said


RERANKED = {"method": "api", "model": "r", "base_url": "https://ranks.example/v1"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"late": {"strategy": "precomputed"}}, False),
        ({"late": {"strategy": "late"}}, True),
        ({"rerank": RERANKED}, True),
        ({"rerank": RERANKED | {"base_url": "http://localhost:80/v1"}}, False),
        ({"rerank": {"method": "llm", "url": "http://localhost:80/v1", "model": "small"}}, True),
    ],
    ids=["query", "query for stored chunks", "chunks", "texts", "texts on this machine", "a model on this machine"],
)
def test_more_than_the_query_is_told_from_the_query_alone(store, name, options, expected):
    view = make(store, name, [Paid("openai:m[embed.example]")], {"small": FIXED})
    context = RequestContext(store, view, Resources(environment={}))
    variant = Variant.from_data({"name": "v", "chunks": "items", "leg": VECTOR} | options)
    assert sends_documents(context, variant) == expected
    assert bool(more(bridge.run(estimate_calls(context, "a query", variant)))) == expected


@pytest.mark.parametrize(
    ("host", "here"),
    [
        ("localhost", True),
        ("127.0.0.1:80", True),
        ("[::1]:80", True),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("", False),
        ("[", False),
    ],
)
def test_which_machine_is_this_one(host, here):
    assert is_here(host) == here


@pytest.mark.parametrize("rerank", ["api", "llm"])
def test_a_stage_that_is_not_set_up_sends_nothing_and_hides_no_other(store, name, rerank):
    paid = Paid("openai:m[embed.example]")
    view = make(store, name, [paid], {"small": FIXED})
    context = RequestContext(store, view, Resources(embedder=lambda _: paid, environment={}))
    url = {"url": LLM["RANKBOOK_LLM_URL"], "model": "small"}
    steps = {"expand": {"method": "llm", **url}, "rerank": {"method": rerank}}
    variant = Variant.from_data({"name": "v", "chunks": "small", "leg": VECTOR, **steps})
    found = bridge.run(estimate_calls(context, "a query", variant))
    assert [each.stage for each in found] == ["The expansion", "The embedding"]
    missing = Variant.from_data({"name": "v", "chunks": "no such", "leg": VECTOR, **steps})
    assert [each.stage for each in bridge.run(estimate_calls(context, "a query", missing))] == ["The expansion"]
