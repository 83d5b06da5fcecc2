"""The pipeline on the real server: roll-up, thresholds, cancelling, deadlines, what is missing, and the variant."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from sqlalchemy import text

from core import bridge
from core.chunking import chunkers
from core.context import RequestContext, Resources
from core.embedding import Vectors
from core.embedding import embedder as embedder_of
from core.errors import (
    Cancelled,
    DeadlineExceeded,
    EmbeddingError,
    InputError,
    MissingCapability,
    SpecError,
    UnknownName,
)
from core.expansion import SynonymExpansion, expansions
from core.filters import filter_from
from core.fusion import fusions
from core.legs import Candidates, Leg, PreparedQuery, legs
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.trigram import TrigramLeg
from core.legs.vector import VectorLeg
from core.pipeline.postprocess import cap_per_item
from core.pipeline.retriever import search
from core.presets import names, preset
from core.rerank import LanguageModelReranker, OverlapReranker, rerankers
from core.types import Hit, Item, Trace
from core.variant import Rollup, Variant
from tests.fakes import HashingEmbedder
from tests.store.making import fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder(256)
SENTENCES = {"default": {"kind": "sentences", "max_tokens": 6}}
LOUD = Item("loud", " ".join(f"The red button shines {n}." for n in range(40)), metadata={"kind": "a"})
QUIET = [Item(f"q{n}", f"A red lamp {n}. Nothing else here.", metadata={"kind": "b"}) for n in range(5)]
EQUAL = [Item(f"e{n:04d}", "equal words", metadata={"kind": "c"}) for n in range(3000)]


@pytest.fixture(scope="module")
def view(store):
    return _made(store, [LOUD, *QUIET])


def _made(store, items, chunks=SENTENCES, embedders=(EMBEDDER,)):
    name = some_name()
    make(store, name, embedders, chunks)
    ingest(store, name, items, embedders)
    return fresh(store, name)


@pytest.fixture
def context(store, view):
    return RequestContext(store, view, Resources(embedder=lambda _: EMBEDDER, environment={}))


@pytest.fixture
def ask(context):
    def work(query="red button", **options):
        options.setdefault("legs", (VectorLeg(), FulltextLeg()))
        return bridge.run(search(context, query, Variant(**options)))

    return work


def ranked(found):
    return [(hit.id, hit.score) for hit in found.hits]


# -- roll-up ---------------------------------------------------------------------------------------------------------


def test_chunks_roll_up_to_items_by_their_best_chunk(ask):
    found = ask(top_k=3, rollup=Rollup())
    fused = found.trace["fuse"].ranking
    assert len({hit.item_id for hit in found.hits}) == len(found.hits) == 3
    assert found.hits[0].item_id == "loud"
    assert ranked(found)[0] == fused[0]


@pytest.mark.usefixtures("trigrams")
def test_too_few_items_are_made_up_for_by_asking_deeper(ask):
    """Forty chunks of one item stand before the others': at the depth first asked for there is that item alone."""
    found = ask(top_k=3, overfetch=1, rollup=Rollup(), legs=(FulltextLeg(mode="plain"), TrigramLeg(weight=0.001)))
    asked = [stage for stage in found.trace.stages if stage.name == "leg trigram"]
    assert [len(stage.ranking) for stage in asked] == [3, 9, 27]
    assert Counter(stage.name for stage in found.trace.stages)["fuse"] == 3
    assert found.trace["leg trigram"] == asked[-1]
    assert found.trace.timing_ms["fuse"] >= found.trace["fuse"].milliseconds


def test_deeper_finds_the_items_that_were_missing(ask):
    shallow = ask("red", top_k=4, overfetch=1, legs=(VectorLeg(depth=4),))
    deep = ask("red", top_k=4, overfetch=1, legs=(VectorLeg(depth=4),), rollup=Rollup())
    assert len(deep.hits) == 4
    assert len(deep.hits) >= len({hit.item_id for hit in shallow.hits})


def test_nothing_is_asked_deeper_where_all_there_is_was_found(ask):
    found = ask("lamp", top_k=10, overfetch=1, rollup=Rollup(), legs=(FulltextLeg(),))
    assert Counter(stage.name for stage in found.trace.stages)["fuse"] == 1
    assert len(found.hits) == 5


def test_nothing_is_asked_deeper_where_the_fused_depth_lets_no_more_through(ask):
    found = ask(top_k=3, overfetch=1, rollup=Rollup(), legs=(TrigramLeg(),), fused_depth=3)
    assert Counter(stage.name for stage in found.trace.stages)["fuse"] == 1
    assert [hit.item_id for hit in found.hits] == ["loud"]
    assert "The 3 chunks that fused_depth lets through are of too few items. Raise it." in found.trace.notes
    roomy = ask(top_k=3, overfetch=1, rollup=Rollup(), legs=(TrigramLeg(),), fused_depth=20)
    assert Counter(stage.name for stage in roomy.trace.stages)["fuse"] == 3


def test_the_sum_of_the_best_chunks_gives_another_score_than_the_best(ask):
    best, added, two = (
        ask(top_k=6, overfetch=20, rollup=each)
        for each in (Rollup(), Rollup(method="sum"), Rollup(method="sum", of_best=2))
    )
    assert best.hits[0].score < two.hits[0].score < added.hits[0].score


def test_a_cap_per_item_drops_what_is_beyond_it_and_says_so(ask):
    plain = ask(top_k=90, legs=(FulltextLeg(),))
    found = ask(top_k=90, legs=(FulltextLeg(),), per_item_cap=2)
    assert Counter(hit.item_id for hit in plain.hits)["loud"] > 2
    expected = cap_per_item(plain.hits, 2, 90).hits
    assert found.hits == expected
    assert {each.id for each in found.trace["per-item cap"].dropped} == {hit.id for hit in plain.hits} - {
        hit.id for hit in expected
    }
    assert all("per_item_cap is 2" in each.reason for each in found.trace["per-item cap"].dropped)
    assert f"per_item_cap left {len(expected)} of the 90 asked for. Raise it, or overfetch." in found.trace.notes


@given(st.lists(st.sampled_from("abc"), max_size=30), st.integers(1, 5))
def test_never_more_of_one_item_than_the_cap_and_in_the_order_they_stood(items, most):
    hits = [Hit(f"{at}", item, 1.0 - at / 100, at + 1, "", "") for at, item in enumerate(items)]
    found = cap_per_item(hits, most, 1)
    kept, gone = found.hits, [hits[int(each.id)] for each in found.dropped]
    assert all(times <= most for times in Counter(hit.item_id for hit in kept).values())
    assert [hit.rank for hit in kept] == list(range(1, len(kept) + 1))
    assert sorted([*(int(hit.id) for hit in kept), *(int(hit.id) for hit in gone)]) == list(range(len(items)))
    assert [int(hit.id) for hit in kept] == sorted(int(hit.id) for hit in kept)
    for hit in gone:
        assert sum(each.item_id == hit.item_id and int(each.id) < int(hit.id) for each in kept) == most


def test_a_roll_up_by_sum_may_score_above_1_and_a_threshold_there_can_be_reached(ask):
    summed = {"top_k": 6, "overfetch": 20, "rollup": Rollup(method="sum")}
    best, *others = ask(**summed).hits
    assert best.score > 1
    least = (best.score + max(1, others[0].score)) / 2
    assert [hit.id for hit in ask(**summed, min_score=least).hits] == [best.id]
    assert "a roll-up's sum" in (Variant.model_fields["min_score"].description or "")


# -- thresholds and cuts ---------------------------------------------------------------------------------------------


def test_min_score_drops_by_relative_scores_and_says_what(ask):
    plain = ask()
    least = plain.hits[2].score
    found = ask(min_score=least)
    assert ranked(found) == [pair for pair in ranked(plain) if pair[1] >= least]
    assert all("below min_score" in gone.reason for gone in found.trace["cut"].dropped)


def test_a_min_score_above_one_is_warned_about(ask):
    found = ask(min_score=1.01)
    assert not found.hits
    assert "min_score is 1.01, and relative scores end at 1: no hit can reach it. Lower it." in found.trace.notes


def test_a_min_score_that_nothing_reached_is_told_with_the_best_there_was(ask):
    found = ask("zebra", min_score=0.99)
    assert any("No hit reaches min_score 0.99: the best of" in note for note in found.trace.notes)


def test_scores_that_are_not_relative_may_reach_a_min_score_above_one(context):
    found = bridge.run(search(context, "red button", Variant.of_leg(Bm25Leg(weight=100), min_score=1.01)))
    none = bridge.run(search(context, "red button", Variant.of_leg(Bm25Leg(weight=100), min_score=10_000)))
    assert any("No hit reaches min_score 10000: the best of" in note for note in none.trace.notes)
    assert found.hits
    assert not found.trace.notes


def test_what_is_beyond_top_k_or_fused_depth_is_told(ask):
    found = ask(top_k=2, fused_depth=3)
    assert len(found.hits) == 2
    assert len(found.trace["fuse"].ranking) == 3
    assert {gone.reason for gone in found.trace["fuse"].dropped} == {"its place is beyond fused_depth 3"}
    assert {gone.reason for gone in found.trace["cut"].dropped} == {"its place is beyond top_k 2"}


def test_ranks_count_from_one_after_every_cut(ask):
    assert [hit.rank for hit in ask(rerank=OverlapReranker()).hits] == list(range(1, 11))


# -- cancelling and deadlines ----------------------------------------------------------------------------------------


class Sleeping(Leg):
    """A statement that takes long, on the server."""

    seconds: float = 120.0
    mark: str

    async def recall(self, connection, target, query, depth):
        await connection.execute(text(f"SELECT pg_sleep({self.seconds:f}), '{self.mark}'"))
        return Candidates()


@pytest.fixture
def running(store):
    """Whether a backend works on the marked statement."""

    async def work(mark):
        async with store.begin() as connection:
            asked = text(
                "SELECT count(*) FROM pg_stat_activity "
                "WHERE state = 'active' AND query LIKE :like AND pid <> pg_backend_pid()"
            )
            return bool(await connection.scalar(asked, {"like": f"%pg_sleep%{mark}%"}))

    return work


async def until(wanted):
    while not await wanted():
        pass


def sleeping():
    mark = some_name().split()[1]
    return Variant(legs=(Sleeping(label="sleeping", mark=mark), VectorLeg())), mark


@pytest.mark.parametrize("how", ["token", "task"])
def test_cancelling_mid_statement_frees_the_servers_backend(store, view, running, how):
    """Long before the statement would have ended."""
    variant, mark = sleeping()

    async def free():
        return not await running(mark)

    async def work():
        token = asyncio.Event()
        context = RequestContext(store, view, Resources(embedder=lambda _: EMBEDDER), cancellation=token)
        task = asyncio.create_task(search(context, "red button", variant))
        await until(lambda: running(mark))
        token.set() if how == "token" else task.cancel()
        await asyncio.wait_for(until(free), Sleeping.model_fields["seconds"].default / 2)
        with pytest.raises(Cancelled if how == "token" else asyncio.CancelledError):
            await task

    bridge.run(work())


@pytest.mark.slow
def test_the_store_answers_as_before_after_a_cancelled_search(ask, store, view, running):
    before = ask()
    test_cancelling_mid_statement_frees_the_servers_backend(store, view, running, "token")
    assert ranked(ask()) == ranked(before)


@pytest.mark.slow
def test_a_deadline_ends_a_search_and_its_statement(store, view, running):
    variant, mark = sleeping()
    context = RequestContext(store, view, Resources(embedder=lambda _: EMBEDDER), deadline=0.3)
    with pytest.raises(DeadlineExceeded, match=r"did not end within 0\.3 s"):
        bridge.run(search(context, "red button", variant))
    assert not bridge.run(running(mark))


def test_a_deadline_that_is_kept_changes_nothing(store, view, ask):
    context = RequestContext(store, view, Resources(embedder=lambda _: EMBEDDER), asyncio.Event(), deadline=60)
    variant = Variant(legs=(VectorLeg(), FulltextLeg()))
    assert ranked(bridge.run(search(context, "red button", variant))) == ranked(ask())


def test_a_token_that_was_set_before_stops_the_search_at_once(store, view):
    variant, _ = sleeping()

    async def work():
        token = asyncio.Event()
        token.set()
        await search(RequestContext(store, view, cancellation=token), "red button", variant)

    with pytest.raises(Cancelled):
        bridge.run(work())


# -- what is missing, and what fails ---------------------------------------------------------------------------------


class Unavailable(Leg):
    async def recall(self, connection, target, query, depth):
        raise MissingCapability("The server has no such thing.")


def test_a_leg_that_is_unavailable_leaves_the_others_alone_and_is_told(ask):
    found = ask(legs=(VectorLeg(), Unavailable(label="broken")))
    assert ranked(found) == ranked(ask(legs=(VectorLeg(),)))
    assert found.hits[0].score == 1  # relative to what there was to be attained without it
    assert "broken is not available: The server has no such thing." in found.trace.notes


def test_where_no_leg_is_available_the_search_fails_with_its_reason(ask):
    with pytest.raises(MissingCapability, match="no such thing"):
        ask(legs=(Unavailable(label="a"), Unavailable(label="b")))


@pytest.mark.slow
def test_without_embeddings_words_alone_are_searched(store):
    bare = _made(store, QUIET, embedders=())
    found = bridge.run(search(RequestContext(store, bare), "lamp", Variant(legs=(VectorLeg(), FulltextLeg()))))
    assert len(found.hits) == 5
    assert any("has no embeddings" in note for note in found.trace.notes)


@pytest.mark.slow
def test_vectors_of_another_server_than_the_address_says_are_not_asked_by_its_model(store, monkeypatch):
    """`openai:m` without a server was made by OpenAI itself; a model of that name elsewhere is another one."""
    monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", "http://127.0.0.1:9/v1")
    embedder_of.cache_clear()
    context = RequestContext(store, _made(store, QUIET, embedders=(HashingEmbedder(8, "openai:m"),)))
    refusal = (
        r"'openai:m-8' is served by api\.openai\.com, and RANKBOOK_EMBEDDING_URL points at 127\.0\.0\.1:9\. Unset it"
    )
    with pytest.raises(EmbeddingError, match=refusal):
        bridge.run(search(context, "lamp", Variant.of_leg(VectorLeg())))
    assert bridge.run(search(context, "lamp", Variant.of_leg(FulltextLeg()))).hits
    embedder_of.cache_clear()


def test_a_model_that_fails_fails_the_search_as_itself(store, view):
    class Broken(HashingEmbedder):
        async def embed(self, texts, purpose="document") -> Vectors:
            raise EmbeddingError("The model is broken.")

    context = RequestContext(store, view, Resources(embedder=lambda _: Broken(256)))
    with pytest.raises(EmbeddingError, match="The model is broken"):
        bridge.run(search(context, "red button", Variant(legs=(VectorLeg(), FulltextLeg()))))


@pytest.mark.parametrize("query", ["", "the of", "\x00", "\ud800", "' OR 1=1 --", "🦊" * 50])
def test_any_query_is_answered(ask, query):
    assert ask(query).hits  # vectors are near to anything


def test_a_model_is_given_the_text_that_the_server_is_asked_with(store, view):
    """Tokenizers refuse half a surrogate pair, which is what a terminal makes of a byte that is not UTF-8."""
    embedder = HashingEmbedder(256)
    context = RequestContext(store, view, Resources(embedder=lambda _: embedder))
    found = bridge.run(search(context, "red\x00 \udcff button", Variant(legs=(VectorLeg(), FulltextLeg()))))
    assert found.query == "red \N{REPLACEMENT CHARACTER} button"
    assert embedder.texts == [found.query]


def test_a_query_by_itself_asks_the_server_that_made_our_vectors_too(monkeypatch):
    monkeypatch.setenv("RANKBOOK_EMBEDDING_URL", "http://127.0.0.1:9/v1")
    embedder_of.cache_clear()
    with pytest.raises(EmbeddingError, match=r"is served by api\.openai\.com"):
        bridge.run(PreparedQuery("lamp").vector("openai:m"))
    embedder_of.cache_clear()


def test_where_no_leg_has_a_weight_the_reader_is_told(ask):
    silent, heard = (VectorLeg(weight=0), FulltextLeg(weight=0)), (VectorLeg(), FulltextLeg(weight=0))
    assert any("Every leg has the weight 0" in note for note in ask(legs=silent).trace.notes)
    assert not any("the weight 0" in note for note in ask(legs=heard).trace.notes)


def test_a_filter_that_leaves_nothing_is_told(ask):
    told = "Nothing that the filter lets through matches the query."
    found = ask(legs=(FulltextLeg(),), filter=filter_from({"field": "kindd", "eq": "a"}))
    assert (found.hits, told in found.trace.notes) == ((), True)
    assert told not in ask(legs=(FulltextLeg(),), filter=filter_from({"field": "kind", "eq": "a"})).trace.notes
    assert told not in ask("zebra", legs=(FulltextLeg(),)).trace.notes


# -- legs run side by side, determinism ------------------------------------------------------------------------------


@pytest.mark.slow
def test_legs_run_side_by_side(context):
    mark = some_name().split()[1]
    both = Variant(legs=tuple(Sleeping(label=label, mark=mark, seconds=0.5) for label in "ab"))
    found = bridge.run(search(context, "red", both))
    assert found.trace.milliseconds < 900


@pytest.mark.slow
def test_thousands_of_equal_scores_keep_the_order_they_came_in_then_id(store):
    equal = _made(store, EQUAL)
    context = RequestContext(store, equal, Resources(embedder=lambda _: EMBEDDER))
    variant = Variant(top_k=1000, overfetch=2, legs=(VectorLeg(), FulltextLeg(), Bm25Leg()), rerank=OverlapReranker())
    answers = [ranked(bridge.run(search(context, "equal words", variant))) for _ in range(3)]
    assert answers[0] == answers[1] == answers[2]
    assert [each for each, _ in answers[0]] == [f"e{n:04d}#0000" for n in range(1000)]


def test_repeated_searches_give_equal_hits(ask):
    assert ask(rollup=Rollup()).hits == ask(rollup=Rollup()).hits


# -- the trace -------------------------------------------------------------------------------------------------------


def test_a_stage_that_was_not_done_is_not_in_the_trace():
    with pytest.raises(KeyError):
        Trace()["rerank"]


# -- variants --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names())
def test_presets_go_to_toml_and_back(name):
    there = preset(name).to_toml()
    back = Variant.from_toml(there)
    assert back == preset(name)
    assert back.id == preset(name).id
    assert back.to_toml() == there


def specs(registry, tag):
    """Every registered class with its defaults, where they will do."""
    found = []
    for name in registry:
        try:
            registry[name]()
        except ValidationError:
            continue  # it needs a path, a model or the like
        found.append({tag: name})
    return st.sampled_from(found)


ALWAYS: dict[str, st.SearchStrategy[Any]] = {
    "name": st.text(min_size=1, max_size=20),
    "description": st.text(max_size=40),
    "top_k": st.integers(1, 100),
    "min_score": st.floats(0, 1),
    "fusion": specs(fusions, "method"),
    "leg": st.lists(specs(legs, "kind"), min_size=1, max_size=3, unique_by=lambda leg: leg["kind"]),
}
SOMETIMES: dict[str, st.SearchStrategy[Any]] = {
    "rerank": specs(rerankers, "method"),
    "expand": specs(expansions, "method"),
    "rollup": st.fixed_dictionaries({}, optional={"method": st.just("sum"), "of_best": st.integers(1, 5)}),
    "parents": st.sampled_from(["none", "replace", "annotate"]),
    "pack": st.fixed_dictionaries({}, optional={"include_parents": st.booleans()}),
    "filter": st.recursive(
        st.fixed_dictionaries(
            {
                "field": st.sampled_from(['a"b', "c.d"]),
                "eq": st.one_of(st.integers(-9, 9), st.booleans(), st.floats(-1, 1)),
            }
        ),
        lambda inner: st.one_of(
            st.fixed_dictionaries({"and": st.lists(inner, max_size=2)}), st.fixed_dictionaries({"not": inner})
        ),
        max_leaves=3,
    ),
}
VARIANTS = st.fixed_dictionaries(ALWAYS, optional=SOMETIMES)


@given(VARIANTS)
def test_any_variant_goes_to_toml_and_back(data):
    made = Variant.from_data(data)
    back = Variant.from_toml(made.to_toml())
    assert back == made
    assert back.id == made.id


def test_what_toml_cannot_say_is_refused_and_not_written_wrongly():
    """The language model's top_k is 15 unless it is given, and none is another thing."""
    made = Variant(legs=(VectorLeg(),), rerank=LanguageModelReranker(top_k=None))
    with pytest.raises(SpecError, match="which TOML cannot say"):
        made.to_toml()


def test_the_id_stands_for_what_a_variant_does_and_not_for_its_name():
    one = preset("local-rag")
    assert one.but(name="other", description="else").id == one.id
    assert one.but(top_k=11).id != one.id
    assert len({preset(name).id for name in names()}) == len(names())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('top_q = 3\n[[leg]]\nkind = "vector"', "'top_q'. Did you mean 'top_k'"),
        ('[[leg]]\nkind = "vektor"', "Did you mean 'vector'"),
        ('[[leg]]\nkind = "vector"\ndistence = "l2"', "Did you mean 'distance'"),
        ('fusion = { method = "rff" }\n[[leg]]\nkind = "vector"', "Did you mean 'rrf'"),
        ('rerank = { method = "overlap", dept = 3 }\n[[leg]]\nkind = "vector"', "Did you mean 'depth'"),
        (
            'late = { chunker = { kind = "sentence" } }\nchunks = "items"\n[[leg]]\nkind = "vector"',
            "Did you mean 'sentences'",
        ),
    ],
)
def test_unknown_keys_and_names_are_refused_with_the_nearest_valid_one(text, message):
    with pytest.raises(UnknownName) as refused:
        Variant.from_toml(text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"late": {}}, "late chunking makes chunks of items"),
        ({"chunks": "items", "parents": "replace"}, "needs chunks"),
        ({"chunks": "items", "rollup": {}}, "needs chunks"),
        (
            {"chunks": "items", "per_item_cap": 2},
            "chunks = 'items' has no chunks to count, so per_item_cap has nothing",
        ),
        ({"rollup": {}, "per_item_cap": 2}, "rollup leaves one chunk of an item, so per_item_cap has nothing to do"),
        ({"per_item_cap": 0}, "per_item_cap"),
        ({"leg": [{"kind": "vector"}, {"kind": "vector"}]}, "several legs called 'vector'"),
        ({"leg": []}, "leg"),
        ({"route": {"weights": {"question": {"vecotr": 1.0}}}}, "Did you mean 'vector'"),
        ({"top_k": 0}, "top_k"),
        ({"top_k": 0}, "The variant 'unnamed'"),
        (
            {"leg": [{"kind": "fuzzy"}], "fusion": {"method": "linear", "normalize": "bounds"}},
            "'fuzzy' has no theoretical greatest",
        ),
        ({"leg": [{"kind": "fuzzy", "weight": float("inf")}]}, "the weight inf"),
        ({"filter": {"field": "kind", "eqq": "a"}}, "did you mean 'eq'?"),
        ({"filter": {"and": [{"not": {"field": "kind", "exist": True}}]}}, "did you mean 'exists'?"),
        (
            {
                "leg": [{"kind": "vector"}, {"kind": "bm25", "weight": 0}],
                "route": {"weights": {"question": {"vector": 0}}},
            },
            "every leg the weight 0",
        ),
        ({"parents": "swap"}, "'none', 'replace' or 'annotate'"),
    ],
)
def test_impossible_combinations_and_values_are_refused_in_a_sentence(options, message):
    with pytest.raises(SpecError) as refused:
        Variant.from_data({"leg": [{"kind": "vector"}], **options})
    assert message in str(refused.value)


def test_a_change_is_checked_like_a_variant_made_anew():
    assert preset("local-rag").but(top_k=3).top_k == 3
    with pytest.raises(SpecError, match="top_k"):
        preset("local-rag").but(top_k=0)
    with pytest.raises(SpecError, match="needs chunks"):
        preset("hybrid-retriever").but(chunks="items")


def test_what_is_not_toml_or_not_there_is_an_error_of_input(tmp_path):
    with pytest.raises(InputError, match="This is not TOML"):
        Variant.from_toml("top_k = ")
    with pytest.raises(InputError, match="cannot be read"):
        Variant.from_file(tmp_path / "none.toml")
    (tmp_path / "latin.toml").write_bytes(b'name = "caf\xe9"')
    with pytest.raises(InputError, match=r"latin\.toml: The variant cannot be read \(it is not UTF-8\)"):
        Variant.from_file(tmp_path / "latin.toml")


def test_an_unknown_preset_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'local-rag'"):
        preset("local_rag")


def test_every_chunker_is_known_to_late_chunking():
    for name in chunkers:
        made = Variant.from_data({"chunks": "items", "late": {"chunker": {"kind": name}}, "leg": [{"kind": "vector"}]})
        assert Variant.from_toml(made.to_toml()) == made


def test_a_leg_that_wants_every_word_is_asked_without_the_added_ones(ask):
    synonyms = SynonymExpansion(lines=("button => switch",))
    every, some = FulltextLeg(mode="web"), FulltextLeg(mode="any")
    for leg in (every, some):
        assert ask("red button", legs=(leg,), expand=synonyms).hits[0].item_id == "loud"


class Cold(HashingEmbedder):
    """Has to be loaded, as a model has that runs here."""

    loaded = 0.0

    async def warm_up(self) -> None:
        await asyncio.sleep(0)
        self.loaded = self.loaded or time.perf_counter()


def test_loading_a_model_is_in_no_stage_s_time(store, view):
    cold = Cold(256)
    context = RequestContext(store, view, Resources(embedder=lambda _: cold))
    bundle = bridge.run(search(context, "red button", Variant.of_leg(VectorLeg(), chunks="default")))
    assert 0 < cold.loaded < bundle.trace.begun
    untouched = Cold(256)
    context = RequestContext(store, view, Resources(embedder=lambda _: untouched))
    bridge.run(search(context, "red button", Variant.of_leg(Bm25Leg(), chunks="default")))
    assert not untouched.loaded, "words need no model"
