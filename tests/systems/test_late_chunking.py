"""SYSTEMS.md, section 5, line by line."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from core import bridge
from core.context import Resources
from core.errors import Cancelled, SpecError, UnknownName
from core.presets import preset
from core.snippets import Snippets
from core.systems.late_chunking import (
    CachePrefs,
    ChunkingPrefs,
    FtsPrefs,
    RetrievalBundle,
    RetrievalPrefs,
    Retriever,
    ScoringPrefs,
    VectorPrefs,
)
from core.types import Item
from tests.fakes import HashingEmbedder
from tests.store.making import fresh, ingest, make, query
from tests.systems.asking import CHUNKS, EMBEDDER, ITEMS, QUERY, collection, context

LONG = Item(
    "long",
    "# Care\n\n"
    + " ".join(f"Press the reset button number {n} softly." for n in range(12))
    + "\n\n# Rest\n\nSleep well.",
    title="Long",
)
TABLE = Item("table", "| part | size |\n|---|---|\n" + "".join(f"| reset{at} | {at} |\n" for at in range(1, 40)))
PAGED = Item("paged", "Hold the reset button.\fThe second page says reset.", title="Paged")
MORE = [*ITEMS, LONG, TABLE, PAGED]


@pytest.fixture(scope="module")
def view(store):
    with collection(store, MORE) as made:
        yield made


@pytest.fixture
def clean(store, view):
    """Without kept chunks."""
    query(store, view, f'DELETE FROM "{view.namespace}".chunk_cache')
    return view


@pytest.fixture
def ask(store, clean):
    def work(text=QUERY, *, base=None, **prefs):
        wanted = RetrievalPrefs(query_text=text, **prefs)
        return bridge.run(Retriever(base).search(context(store, clean), wanted))

    return work


def items(found):
    return [(each.item_id, each.score) for each in found.candidates]


def evidence(found):
    return [(each.chunk_id, each.score) for each in found.evidence]


def kept(store, view, what="count(*)"):
    return query(store, view, f'SELECT {what} FROM "{view.namespace}".chunk_cache')


class Counting(HashingEmbedder):
    """Keeps what it was asked for, by purpose."""

    def __init__(self):
        super().__init__(256)
        self.documents, self.queries = [], []

    async def embed(self, texts, purpose="document"):
        (self.queries if purpose == "query" else self.documents).extend(texts)
        return await super().embed(texts, purpose)


def counted(store, view, **prefs):
    embedder = Counting()
    ctx = context(store, view, resources=Resources(embedder=lambda _: embedder, environment={}))
    return bridge.run(Retriever().search(ctx, RetrievalPrefs(query_text=QUERY, **prefs))), embedder


# -- the contract ----------------------------------------------------------------------------------------------------


def test_the_defaults_of_all_preferences():
    assert RetrievalPrefs(query_text="q").model_dump() == {
        "query_text": "q",
        "filters": {},
        "top_k_items": 20,
        "top_k_chunks": 12,
        "per_item_chunk_cap": 3,
        "fts": {"mode": "web", "config": None, "rank_func": "ts_rank_cd", "min_rank": None},
        "vector": {"embed_query": True, "distance": "cosine", "min_score": None},
        "scoring": {"blend": "rrf", "w_text": 0.35, "w_vec": 0.65, "normalize": "sigmoid"},
        "chunking": {
            "strategy": "late",
            "chunker_id": None,
            "include_headers": True,
            "max_chunk_tokens": None,
            "overlap_tokens": None,
        },
        "cache": {"use_chunk_cache": True, "write_chunk_cache": True, "ttl_seconds": None},
        "snippet": {"max_chars": 360, "prefer_chunk_snippet": True},
        "debug": False,
    }


def test_default_preferences_are_the_preset():
    assert RetrievalPrefs(query_text="q").variant().id == preset("late-chunking").id


def test_search_gives_candidates_evidence_and_stats(ask):
    found = ask()
    assert isinstance(found, RetrievalBundle)
    assert found.candidates
    assert found.evidence


def test_a_set_token_cancels(store, view):
    class Waiting(HashingEmbedder):
        async def embed(self, texts, purpose="document"):
            token.set()
            await asyncio.sleep(60)
            return await super().embed(texts, purpose)

    token = asyncio.Event()
    ctx = context(store, view, resources=Resources(embedder=lambda _: Waiting(256)), cancellation=token)
    with pytest.raises(Cancelled):
        bridge.run(Retriever().search(ctx, RetrievalPrefs(query_text=QUERY)))


def test_a_query_of_what_no_text_can_hold_is_asked_without_it(ask):
    assert items(ask(f"{QUERY}\x00")) == items(ask(QUERY))


def test_the_same_request_gives_the_same_answer(ask):
    assert ask() == ask()


# -- recall ----------------------------------------------------------------------------------------------------------


def test_items_are_recalled_whole_by_text_and_vectors_and_fused_unweighted(ask):
    found = ask()
    assert all(each.item_id in {item.id for item in MORE} for each in found.candidates)
    for each in found.candidates:
        ranks = [rank for rank in (each.rank_text, each.rank_vec) if rank is not None]
        assert each.score == pytest.approx(sum(1 / (60 + rank) for rank in ranks) * 61 / 2)
    assert any(each.rank_text is None for each in found.candidates)
    other = ask(scoring=ScoringPrefs(w_text=5, w_vec=0.1))
    assert items(other) == items(found)


@pytest.mark.parametrize(
    ("mode", "text", "found"),
    [
        ("web", "cancelled OR museum", {"show", "news"}),
        ("plain", "cancelled or seasons", {"show"}),
        ("phrase", "reset button", {"hub", "news", "long", "paged"}),
        ("phrase", "button reset", set()),
        ("strict", "cancelled | museum", {"show", "news"}),
    ],
)
def test_full_text_modes_read_the_query_as_their_functions_do(ask, mode, text, found):
    by_text = {each.item_id for each in ask(text, fts=FtsPrefs(mode=mode)).candidates if each.rank_text}
    assert by_text == found


@pytest.mark.parametrize(
    "fts", [{"config": "simple"}, {"rank_func": "ts_rank"}, {"min_rank": 0.05}, {"mode": "phrase"}]
)
def test_full_text_options_change_what_it_finds(ask, fts):
    text = "holding reset buttons"
    plain, other = ask(text), ask(text, fts=FtsPrefs(**fts))
    assert [each.score_text for each in plain.candidates] != [each.score_text for each in other.candidates]


@pytest.mark.slow
@pytest.mark.parametrize("vector", [{"distance": "l2"}, {"distance": "ip"}, {"min_score": 0.4}])
def test_vector_options_change_what_it_finds(store, name, vector):
    """Vectors of several lengths, else all distances would order alike."""

    class Raw(HashingEmbedder):
        def _vector(self, text):
            return super()._vector(text) * np.float32(1 + len(text) % 7)

    embedder = Raw(256)
    make(store, name, [embedder], CHUNKS)
    ingest(store, name, MORE, [embedder])
    ctx = context(store, fresh(store, name), resources=Resources(embedder=lambda _: embedder, environment={}))
    cases: list[dict[str, Any]] = [{}, vector]
    plain, other = (
        bridge.run(Retriever().search(ctx, RetrievalPrefs(query_text=QUERY, vector=VectorPrefs(**each))))
        for each in cases
    )
    assert [each.score_vec for each in plain.candidates] != [each.score_vec for each in other.candidates]


def test_without_embedding_the_query_words_alone_recall_and_score(store, clean):
    found, embedder = counted(store, clean, vector=VectorPrefs(embed_query=False))
    assert not embedder.queries
    assert not embedder.documents
    assert all(each.rank_vec is None and each.rank_text is not None for each in found.candidates)
    assert found.evidence[0].score == found.evidence[0].score_text > 0


@pytest.mark.parametrize("normalize", ["minmax", "zscore", "sigmoid", "none"])
def test_a_linear_blend_is_the_weighted_sum_after_the_normalisation(ask, normalize):
    found = ask(scoring=ScoringPrefs(blend="linear", normalize=normalize))
    assert [each.score for each in found.candidates] != [each.score for each in ask().candidates]
    if normalize in {"none", "sigmoid"}:
        of = (lambda x: 1 / (1 + np.exp(-x))) if normalize == "sigmoid" else (lambda x: x)
        for each in found.candidates:
            text = 0 if each.score_text is None else of(each.score_text)
            vector = 0 if each.score_vec is None else of(each.score_vec)
            assert each.score == pytest.approx(0.35 * text + 0.65 * vector)


@pytest.mark.parametrize("weights", [{"w_text": 0.9}, {"w_vec": 0.1}, {"normalize": "minmax"}])
def test_weights_and_normalisation_change_the_linear_blend(ask, weights):
    assert items(ask(scoring=ScoringPrefs(blend="linear", **weights))) != items(
        ask(scoring=ScoringPrefs(blend="linear"))
    )


def test_what_has_no_effect_under_rrf_is_noted(ask):
    note = "w_text, normalize: without effect, as the blend is rrf. Set blend to linear to weigh scores."
    assert note in ask(scoring={"w_text": 0.9, "normalize": "minmax"}).notes
    assert note not in ask().notes
    assert not any("without effect" in each for each in ask(scoring={"blend": "linear", "w_text": 0.9}).notes)


def test_raw_scores_stand_beside_normalised_ones(ask):
    best = ask(scoring={"blend": "linear", "normalize": "minmax"}).candidates[0]
    assert best.score_vec is not None
    assert best.normalized_vec == 1.0 > best.score_vec
    assert best.raw_score is not None
    assert ask().candidates[0].normalized_vec is None


@pytest.mark.slow
def test_an_answer_is_json(ask):
    found = ask(debug=True)
    read = json.loads(found.to_json())
    assert [each["item_id"] for each in read["candidates"]] == [each.item_id for each in found.candidates]
    assert read["stats"]["counts"] == dict(found.stats.counts)


def test_a_filter_may_be_fields_with_their_values(ask):
    assert ask(filters={"type": "news"}).candidates == ask(filters={"field": "type", "eq": "news"}).candidates
    one = ask().candidates[1].item_id
    assert [each.item_id for each in ask(filters={"item_id": one}).candidates] == [one]


def test_filters_leave_items_out_of_candidates_and_evidence(ask):
    found = ask(filters={"field": "type", "eq": "news"})
    assert {each.item_id for each in found.candidates} == {"news", "show"}
    assert {each.item_id for each in found.evidence} <= {"news", "show"}


def test_top_k_items_is_the_depth_of_each_search_and_the_length_of_the_list(ask):
    found = ask(top_k_items=2, debug=True)
    assert len(found.candidates) == found.stats.counts["leg vector"] == 2
    assert {each.item_id for each in found.evidence} <= {each.item_id for each in found.candidates}
    assert len(ask().candidates) == len(MORE)


@pytest.mark.slow
def test_at_most_twenty_items_come_out_and_evidence_is_of_those(store):
    many = [Item(f"d{n:02}", f"reset the button {n} " + "word " * (n % 9), title=f"T{n}") for n in range(50)]
    with collection(store, many) as view:
        wanted = RetrievalPrefs(query_text="button 7", top_k_chunks=100)
        found = bridge.run(Retriever().search(context(store, view), wanted))
    assert len(found.candidates) == 20
    assert {each.item_id for each in found.evidence} == {each.item_id for each in found.candidates}


# -- evidence --------------------------------------------------------------------------------------------------------


def test_evidence_is_ranked_over_all_items_and_cut_to_top_k_chunks(ask):
    scores = [each.score for each in ask().evidence]
    assert scores == sorted(scores, reverse=True)
    assert len({each.item_id for each in ask().evidence}) > 1
    assert len(ask(top_k_chunks=2).evidence) == 2


@pytest.mark.slow
def test_no_item_gives_more_evidence_than_its_cap(ask):
    def most(found):
        ids = [each.item_id for each in found.evidence]
        return max(map(ids.count, ids))

    small = ChunkingPrefs(max_chunk_tokens=10)
    assert most(ask(chunking=small)) == 3
    assert most(ask(chunking=small, per_item_chunk_cap=1)) == 1


def test_vector_similarity_is_dominant_in_the_score(ask):
    for each in ask().evidence:
        assert each.score == pytest.approx(0.8 * each.score_vec + 0.2 * each.score_text)
        assert 0 <= each.score_text <= 1


def test_an_evidence_chunk_says_what_it_is(ask):
    texts = {item.id: item.text for item in MORE}
    found = ask(
        "reset",
        per_item_chunk_cap=50,
        top_k_chunks=100,
        chunking=ChunkingPrefs(chunker_id="headings", max_chunk_tokens=12),
    )
    for each in found.evidence:
        assert texts[each.item_id][each.start_idx : each.end_idx] == each.text
        assert each.token_count == len(EMBEDDER.tokenize(each.text))
    assert {each.heading_path for each in found.evidence if each.item_id == "long"} == {("Care",), ("Rest",)}
    assert any("rows" in each.anchors for each in found.evidence if each.item_id == "table")
    assert any(each.anchors.get("page_last") == 2 for each in found.evidence if each.item_id == "paged")


# -- chunking --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "chunking",
    [{"chunker_id": "fixed"}, {"max_chunk_tokens": 8}, {"include_headers": False}, {"strategy": "precomputed"}],
)
def test_chunking_options_change_the_evidence(ask, chunking):
    assert evidence(ask(chunking=ChunkingPrefs(**chunking))) != evidence(ask())


def test_overlap_is_what_chunks_share(ask):
    def spans(overlap):
        chunking = ChunkingPrefs(chunker_id="fixed", max_chunk_tokens=10, overlap_tokens=overlap)
        found = ask(chunking=chunking, per_item_chunk_cap=100, top_k_chunks=1000)
        return sorted((each.start_idx, each.end_idx) for each in found.evidence if each.item_id == "long")

    apart, shared = spans(0), spans(5)
    assert all(end <= start for (_, end), (start, _) in pairwise(apart))
    assert any(end > start for (_, end), (start, _) in pairwise(shared))


def test_an_option_that_a_chunker_has_not_got_is_refused_with_those_that_have_it(ask):
    with pytest.raises(SpecError, match=r"'sentences' has no overlap_tokens.* one that has: fixed"):
        ask(chunking=ChunkingPrefs(overlap_tokens=5))
    with pytest.raises(SpecError, match="leaves no room"):
        ask(chunking=ChunkingPrefs(chunker_id="fixed", max_chunk_tokens=5, overlap_tokens=5))
    with pytest.raises(UnknownName, match="Did you mean 'sentences'"):
        ask(chunking=ChunkingPrefs(chunker_id="sentence"))


def test_precomputed_uses_stored_chunks_and_makes_none(store, clean):
    found, embedder = counted(store, clean, chunking=ChunkingPrefs(strategy="precomputed"))
    assert not embedder.documents
    assert found.evidence
    stored = {row[0] for row in query(store, clean, "SELECT id FROM {chunks}", clean.chunk_set("default").key)}
    assert {each.chunk_id for each in found.evidence} <= stored


def test_the_base_says_which_stored_chunks(ask):
    base = preset("late-chunking")
    assert base.late
    other = base.but(late=base.late.model_copy(update={"stored": "parents"}))
    stored = ChunkingPrefs(strategy="precomputed")
    assert evidence(ask(chunking=stored, base=other)) != evidence(ask(chunking=stored))


@pytest.mark.slow
def test_mixed_uses_stored_chunks_where_they_exist_and_makes_the_others(store, clean):
    """An item whose stored chunks are gone: precomputed leaves it out and says so, mixed makes them."""
    key = clean.chunk_set("default").key
    with collection(store, MORE) as other:
        query(store, other, "DELETE FROM {chunks} WHERE id LIKE 'hub#%'", key)
        precomputed, _ = counted(store, other, chunking=ChunkingPrefs(strategy="precomputed"))
        mixed, embedder = counted(store, other, chunking=ChunkingPrefs(strategy="mixed"))
    assert "hub" not in {each.item_id for each in precomputed.evidence}
    assert any("1 of 9 items have no stored chunks in 'default'" in note for note in precomputed.notes)
    assert "hub" in {each.item_id for each in mixed.evidence}
    assert embedder.documents
    assert all("Hub" in text for text in embedder.documents)


class InContext(HashingEmbedder):
    """Gives each word a vector that leans towards the whole text's."""

    async def embed_tokens(self, texts):
        return [
            np.stack([self._vector(text[start:end]) + self._vector(text) for start, end in self.tokenize(text)])
            for text in texts
        ]


def test_a_whole_texts_token_vectors_can_be_pooled_per_chunk(store, clean):
    pooled = preset("late-chunking").late.model_copy(update={"pooling": "tokens"})  # type: ignore[union-attr]
    ctx = context(store, clean, resources=Resources(embedder=lambda _: InContext(256), environment={}))
    wanted = RetrievalPrefs(query_text="number 7", chunking=ChunkingPrefs(max_chunk_tokens=9))
    plain = bridge.run(Retriever().search(ctx, wanted))
    cold, warm = (bridge.run(Retriever(preset("late-chunking").but(late=pooled)).search(ctx, wanted)) for _ in range(2))
    assert evidence(cold) != evidence(plain)
    assert cold == warm


def test_pooling_needs_a_model_that_gives_token_vectors(ask):
    pooled = preset("late-chunking").late.model_copy(update={"pooling": "tokens"})  # type: ignore[union-attr]
    with pytest.raises(SpecError, match="gives no token vectors"):
        ask(base=preset("late-chunking").but(late=pooled))


# -- the cache -------------------------------------------------------------------------------------------------------


def test_cold_and_warm_cache_give_identical_answers(store, clean):
    cold, first = counted(store, clean)
    warm, second = counted(store, clean)
    assert first.documents
    assert not second.documents
    assert warm == cold


def test_the_cache_is_optional_and_never_authoritative(store, clean):
    without = CachePrefs(use_chunk_cache=False, write_chunk_cache=False)
    plain, _ = counted(store, clean, cache=without)
    assert kept(store, clean) == [(0,)]
    written, _ = counted(store, clean)
    assert kept(store, clean) == [(len(MORE),)]
    again, embedder = counted(store, clean, cache=without)
    assert embedder.documents
    assert plain == written == again


def test_chunks_are_not_kept_where_writing_is_off_and_not_used_where_using_is_off(store, clean):
    counted(store, clean, cache=CachePrefs(write_chunk_cache=False))
    assert kept(store, clean) == [(0,)]
    counted(store, clean)
    _, embedder = counted(store, clean, cache=CachePrefs(use_chunk_cache=False))
    assert embedder.documents


def test_the_key_has_chunker_options_and_model(store, clean):
    counted(store, clean)
    for chunking in ({"max_chunk_tokens": 9}, {"chunker_id": "fixed"}, {"include_headers": False}):
        before = kept(store, clean)[0][0]
        _, embedder = counted(store, clean, chunking=ChunkingPrefs(**chunking))
        assert embedder.documents
        assert kept(store, clean)[0][0] == before + len(MORE)
    assert kept(store, clean, "DISTINCT model") == [(EMBEDDER.model,)]


@pytest.mark.slow
def test_kept_chunks_are_stale_when_the_content_changed(store):
    with collection(store, ITEMS) as view:
        before, _ = counted(store, view)
        changed = [replace(ITEMS[0], text="Hold the reset button no more."), *ITEMS[1:]]
        ingest(store, view.name, changed, [EMBEDDER])
        after, embedder = counted(store, fresh(store, view.name))
        cold, _ = counted(store, fresh(store, view.name), cache=CachePrefs(use_chunk_cache=False))
    assert embedder.documents == ["Hub\nHold the reset button no more."]
    assert evidence(after) != evidence(before)
    assert after == cold


def test_a_row_of_another_content_is_not_believed(store, clean):
    counted(store, clean)
    query(store, clean, f"UPDATE \"{clean.namespace}\".chunk_cache SET digest = 'x', chunks = '[]'")
    found, embedder = counted(store, clean)
    assert embedder.documents
    assert found.evidence


def test_kept_chunks_are_believed_for_their_time_to_live(store, clean):
    hour = CachePrefs(ttl_seconds=3600)
    counted(store, clean)
    assert not counted(store, clean, cache=hour)[1].documents
    query(store, clean, f"UPDATE \"{clean.namespace}\".chunk_cache SET created_at = now() - interval '2 hours'")
    assert not counted(store, clean)[1].documents
    assert counted(store, clean, cache=hour)[1].documents
    assert not counted(store, clean, cache=hour)[1].documents  # kept anew, and fresh again


@pytest.mark.slow
def test_chunks_that_cannot_be_kept_are_no_failure_and_are_told(store):
    with collection(store, ITEMS) as view:
        query(store, view, f'ALTER TABLE "{view.namespace}".chunk_cache ADD CHECK (item_key < 0)')
        found, _ = counted(store, view)
    assert found.evidence
    assert any(note.startswith("Chunks could not be kept for next time: ") for note in found.notes)


@pytest.mark.slow
def test_searches_at_once_keep_the_same_chunks_without_getting_in_each_others_way(store, clean):
    async def work():
        asked = [RetrievalPrefs(query_text=text) for text in (QUERY, "bread tram", "seasons museum", "sleep well")] * 3
        return await asyncio.gather(*(Retriever().search(context(store, clean), each) for each in asked))

    found = bridge.run(work())
    assert [items(each) for each in found[:4]] == [items(each) for each in found[4:8]]
    assert kept(store, clean) == [(len(MORE),)]


# -- what a screen gets ----------------------------------------------------------------------------------------------


def test_a_candidate_says_what_it_is(ask):
    hub = next(each for each in ask().candidates if each.item_id == "hub")
    assert (hub.kind, hub.source, hub.source_ref, hub.title) == ("guide", "manual.pdf", "p. 3", "Hub")
    assert hub.summary == "How to reset a hub."
    assert hub.metadata == ITEMS[0].metadata
    assert hub.rank_text is not None
    assert hub.score_text is not None
    assert hub.rank_vec is not None
    assert hub.score_vec is not None


def test_what_metadata_does_not_say_is_empty(ask):
    bread = next(each for each in ask().candidates if each.item_id == "bread")
    assert (bread.kind, bread.source, bread.source_ref, bread.summary) == ("", "", None, "")


def test_snippets_come_from_the_best_chunk_or_from_the_document(ask):
    chunks, docs = ask(), ask(snippet=Snippets(prefer_chunk_snippet=False))
    best = {each.item_id: each for each in reversed(chunks.evidence)}
    for each in chunks.candidates:
        assert each.snippet_from == ("chunk" if each.item_id in best else "doc")
        if each.item_id in best:
            assert each.snippet in best[each.item_id].text
    assert {each.snippet_from for each in docs.candidates} == {"doc"}


@pytest.mark.slow
def test_the_snippet_of_an_item_without_text_is_of_unknown_source(store):
    with collection(store, [Item("bare", "", title="Reset button"), *ITEMS]) as view:
        found = bridge.run(Retriever().search(context(store, view), RetrievalPrefs(query_text=QUERY)))
    bare = next(each for each in found.candidates if each.item_id == "bare")
    assert (bare.snippet, bare.snippet_from) == ("", "unknown")


def test_snippets_are_at_most_so_long_and_around_the_querys_words(ask):
    short = ask("lamp blinks", snippet=Snippets(max_chars=30))
    assert max(len(each.snippet) for each in short.candidates) <= 30
    assert "lamp blinks" in next(each.snippet for each in short.candidates if each.item_id == "hub")
    assert max(len(each.snippet) for each in ask().candidates) > 30


def test_stats_are_filled_when_debug_is_on(ask):
    assert ask().stats == type(ask().stats)()
    stats = ask(debug=True).stats
    assert {"leg fulltext", "leg vector", "fuse", "late chunks", "total"} <= set(stats.timing_ms)
    assert stats.counts["candidates"] == len(MORE)
    assert stats.counts["evidence"] == len(ask().evidence)
    assert stats.params["query_text"] == QUERY
