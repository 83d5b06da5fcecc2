"""SYSTEMS.md, section 4, line by line."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import pytest

from core import bridge
from core.embedding import DEFAULT_MODEL, embedder
from core.errors import SpecError
from core.explain import explain
from core.legs.query_terms import keywords_of
from core.legs.trigram import TrigramLeg
from core.systems.local_rag import LocalRag, LocalRagConfig
from core.types import Item
from tests.fakes import HashingEmbedder
from tests.store.making import ingest, make, query
from tests.store.recalling import plans
from tests.systems.asking import EMBEDDER, ITEMS, QUERY, collection, context
from tests.unit.tiny_models import tiny_cross_encoder

pytestmark = pytest.mark.usefixtures("trigrams")


@pytest.fixture(scope="module")
def view(store):
    with collection(store) as made:
        yield made


@pytest.fixture
def ask(store, view):
    def work(asked=QUERY, **options):
        return bridge.run(LocalRag(LocalRagConfig(**options)).search(context(store, view), asked))

    return work


def ranked(found):
    return [(hit.id, hit.score) for hit in found.hits]


def legs(found):
    return {name: [each for each, _ in found.trace[f"leg {name}"].ranking] for name in found.variant.leg_names}


# -- model and vectors -----------------------------------------------------------------------------------------------


def test_the_model_is_minilm_with_384_dimensions():
    assert DEFAULT_MODEL == "all-MiniLM-L6-v2"
    assert embedder().dimension == 384


def test_vectors_are_compared_by_cosine_and_score_one_minus_the_distance(store, view, ask):
    statement = """
        SELECT id, 1 - (embedding <=> CAST(:vector AS vector)) AS score FROM {vectors}
        ORDER BY score DESC, id LIMIT 10"""
    vector = str(list(map(float, bridge.run(EMBEDDER.embed([QUERY]))[0])))
    rows = query(store, view, statement, view.chunk_set("default").key, vector=vector)
    ranking = ask().trace["leg vector"].ranking
    assert [each for each, _ in ranking] == [row[0] for row in rows]
    assert [score for _, score in ranking] == pytest.approx([row[1] for row in rows])


@pytest.mark.slow
def test_there_is_an_hnsw_index_that_serves(store, view):
    rows = query(store, view, "SELECT indexdef FROM pg_indexes WHERE schemaname = :schema", schema=view.namespace)
    assert any("USING hnsw" in row[0] and "vector_cosine_ops" in row[0] for row in rows)


@pytest.mark.slow
def test_embeddings_are_keyed_by_chunk_and_model_and_removed_with_their_chunk(store, name):
    two = [EMBEDDER, HashingEmbedder(32)]
    made = make(store, name, two, {"default": {"kind": "sentences", "max_tokens": 20}})
    ingest(store, name, ITEMS[:2], two)
    ours = [each for each in made.embedding_sets if each.chunk_set == made.chunk_set("default").key]
    assert [each.model for each in ours] == [each.model for each in two]

    def of(item):
        counts = []
        for each in ours:
            statement = f'SELECT count(*) FROM "{made.namespace}".vectors_{each.key} WHERE id LIKE :like'
            counts.append(query(store, made, statement, like=f"{item}#%")[0][0])
        return counts

    assert of("hub") == [of("hub")[0]] * 2
    assert of("hub")[0] > 0
    ingest(store, name, ITEMS[1:2], two, prune=True)
    assert of("hub") == [0, 0]
    assert of("lock")[0] > 0


# -- the trigram leg -------------------------------------------------------------------------------------------------


def test_keywords_are_lower_case_without_stop_words(store, view):
    async def work():
        async with store.begin(view.namespace) as connection:
            return await connection.scalar(keywords_of("english", "When was Stargate Atlantis cancelled?"))

    assert bridge.run(work()).split() == ["stargate", "atlantis", "cancelled"]


def test_trigram_similarity_is_that_of_words_by_the_operator_that_an_index_answers(store, view, ask):
    plan = plans(store, view, TrigramLeg(), "stargate atlantis", "enable_seqscan = off", chunks="default")
    assert "<%" in plan
    found = ask("When was Stargate Atlantis cancelled?")
    assert legs(found)["trigram"][0].startswith("show#")
    statement = "SELECT word_similarity('stargate atlantis cancelled', text) FROM {chunks} WHERE id = :id"
    best, score = found.trace["leg trigram"].ranking[0]
    assert query(store, view, statement, view.chunk_set("default").key, id=best)[0][0] == pytest.approx(score)


def test_the_trigram_threshold_is_three_tenths_and_can_be_changed(ask):
    assert all(score >= 0.3 for _, score in ask().trace["leg trigram"].ranking)
    strict = ask(trigram_threshold=0.9)
    assert len(legs(strict)["trigram"]) < len(legs(ask())["trigram"])
    assert ranked(strict) != ranked(ask())


def test_texts_have_a_gin_index_of_trigrams(store, view):
    rows = query(store, view, "SELECT indexdef FROM pg_indexes WHERE schemaname = :schema", schema=view.namespace)
    assert any("USING gin" in row[0] and "gin_trgm_ops" in row[0] for row in rows)


# -- fusion and thresholds -------------------------------------------------------------------------------------------


def test_scores_are_one_by_sixty_plus_rank_for_vectors_and_one_and_a_half_of_it_for_trigrams(ask):
    for hit in ask(similarityThreshold=0).hits:
        weights = {"vector": 1.0, "trigram": 1.5}
        assert hit.raw_score == pytest.approx(sum(weights[leg.leg] / (60 + leg.rank) for leg in hit.legs))
        assert hit.score == pytest.approx(hit.raw_score / (2.5 / 61))


@pytest.mark.parametrize("options", [{"vector_weight": 3.0}, {"trigram_weight": 0.1}, {"RRF_K": 1}])
def test_weights_and_k_change_the_scores(ask, options):
    assert ranked(ask(similarityThreshold=0, **options)) != ranked(ask(similarityThreshold=0))


@pytest.mark.slow
def test_each_leg_brings_up_ten_at_most(store, ask):
    items = [Item(f"d{number:02}", f"The reset button number {number}.") for number in range(30)]
    with collection(store, items) as many:
        found = bridge.run(LocalRag().search(context(store, many), QUERY))
    assert [len(each) for each in legs(found).values()] == [10, 10]
    assert [len(legs(ask(limit=3))["vector"]), len(ask(limit=3).hits)] == [3, 3]


def test_the_similarity_threshold_is_three_tenths_of_the_normalised_hybrid_score(ask):
    everything = ask(similarityThreshold=0)
    assert all(hit.raw_score < 0.3 for hit in everything.hits)  # which a raw score could never reach
    assert ask().hits
    above = [pair for pair in ranked(everything) if pair[1] >= 0.6]
    assert ranked(ask(similarityThreshold=0.6)) == above
    assert 0 < len(above) < len(everything.hits)
    assert LocalRagConfig().variant().min_score == 0.3


def test_at_its_defaults_the_threshold_acts_from_0_349_on_and_why_says_so(store, view, ask):
    def notes(variant):
        found = ask().hits[0].id
        return bridge.run(explain(context(store, view), QUERY, variant, found)).notes

    usual = LocalRagConfig().variant()
    assert usual.least_score == pytest.approx((1 / 70) / (2.5 / 61))
    assert usual.least_score == pytest.approx(0.349, abs=5e-4)
    assert "0.349 is the least there is" in usual.description
    assert notes(usual)[-1].startswith(
        "min_score is 0.3 and drops nothing: no result of these legs scores below 0.349."
    )
    assert not any("drops nothing" in note for note in notes(LocalRagConfig(similarity_threshold=0.35).variant()))


def test_a_threshold_on_the_vectors_own_similarity_is_an_option_beside_it(ask):
    assert legs(ask())["vector"]
    assert legs(ask(vector_threshold=0.99))["vector"] == []


def test_a_threshold_that_no_hit_can_reach_is_refused_or_warned_about(ask):
    with pytest.raises(SpecError, match="similarityThreshold: must be 1 or less"):
        LocalRagConfig.model_validate({"similarityThreshold": 1.1})
    found = ask("zebra", similarityThreshold=0.95)
    assert not found.hits
    assert any("No hit reaches min_score 0.95" in note for note in found.trace.notes)


def test_knobs_go_by_their_published_names():
    assert LocalRagConfig.model_validate({"RRF_K": 10, "similarityThreshold": 0.5}) == LocalRagConfig(
        rrf_k=10, similarity_threshold=0.5
    )
    assert (LocalRagConfig().rrf_k, LocalRagConfig().similarity_threshold, LocalRagConfig().limit) == (60, 0.3, 10)


def test_retrieve_gives_the_hits(store, view, ask):
    assert bridge.run(LocalRag().retrieve(context(store, view), QUERY)) == ask().hits


# -- planned there, real here ----------------------------------------------------------------------------------------


def test_questions_are_expanded_into_answer_patterns(ask):
    question = "When was Stargate Atlantis cancelled?"
    plain, expanded = ask(question), ask(question, expand=True)
    assert plain.expanded.meaning == question
    assert "Stargate Atlantis was cancelled" in expanded.expanded.meaning
    assert plain.trace["leg vector"].ranking != expanded.trace["leg vector"].ranking


@pytest.mark.slow
def test_a_cross_encoder_reorders(ask, tmp_path):
    folder = tiny_cross_encoder(tmp_path)
    plain, found = ask(similarityThreshold=0), ask(similarityThreshold=0, cross_encoder=str(folder))
    assert all(hit.rerank_score is not None for hit in found.hits)
    assert [hit.id for hit in found.hits] != [hit.id for hit in plain.hits]


def test_weights_are_adjustable_by_the_kind_of_a_query(ask):
    weights = {"question": {"trigram": 0.0}}
    question, keywords = "Where is the reset button?", "reset button"
    assert ranked(ask(question, weights=weights)) != ranked(ask(question))
    assert ranked(ask(keywords, weights=weights)) == ranked(ask(keywords))
    assert ask(question, weights=weights).kind == "question"


def test_full_text_search_is_a_further_signal(ask):
    plain, more = ask(), ask(fulltext_weight=1.0)
    assert set(legs(more)) == {"vector", "trigram", "fulltext"}
    assert ranked(more) != ranked(plain)
    assert ranked(more) != ranked(ask(fulltext_weight=9.0))
