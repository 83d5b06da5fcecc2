"""What every registered leg promises, whichever it is."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from pydantic import Field, ValidationError
from sqlalchemy import text

from core import bridge
from core.errors import InputError, MissingCapability, RankbookError, UnknownName
from core.explain import LegDiagnosis, OptionChange, explanation
from core.explain.explanation import described_legs
from core.legs import Leg, PreparedQuery, describe, leg_descriptions, legs
from core.legs.base import LONGEST_QUERY
from core.store.resolve_target import search_target
from core.tasks import side_by_side
from core.types import Item
from core.variant import Variant
from evals.presentation import palette
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, documents, fresh, ingest, make, query, some_name
from workbench.components.theme import stylesheet
from workbench.services import variants

KINDS = sorted(legs)
LEVELS = ["items", "family"]
EMBEDDER = HashingEmbedder()


async def embed(model, text):
    assert model == EMBEDDER.model
    return (await EMBEDDER.embed([text], "query"))[0]


def recall(store, view, leg, asked, depth=10, chunks="family"):
    async def work():
        prepared = PreparedQuery(asked, embed)
        async with store.begin(view.namespace, read_only=True) as connection:
            return list(await leg.recall(connection, search_target(store, view, chunks), prepared, depth))

    return bridge.run(work())


@pytest.fixture(scope="module")
def collection(store):
    """Documents that tell apart, and two thousand that do not."""
    name = some_name()
    make(store, name, [EMBEDDER], {"family": FAMILY})
    same = [Item(f"same {number:04d}", "equal texts tie") for number in np.random.default_rng(3).permutation(2000)]
    ingest(store, name, [*documents(40), *same], [EMBEDDER])
    return fresh(store, name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_leg_is_frozen_data_whose_every_field_is_described(kind):
    leg = legs[kind]
    assert issubclass(leg, Leg)
    assert leg.__doc__
    assert all(field.description for field in leg.model_fields.values())
    with pytest.raises(ValidationError):
        leg(no_such_option=1)
    with pytest.raises(ValidationError):
        leg().weight = 2  # type: ignore[misc]
    for bad in ({"weight": -1}, {"depth": 0}, {"depth": 10_001}):
        with pytest.raises(ValidationError):
            leg(**bad)
    assert leg(**leg().model_dump()) == leg()


@pytest.mark.parametrize("kind", KINDS)
def test_a_leg_describes_itself(kind):
    """What a page, an explanation, a chart and a visitor are told of it."""
    own, about = legs[kind].about, describe(kind)
    assert own.finds
    assert own.strength
    assert own.nothing
    assert own.phrase.startswith("by ")
    assert own.unmatched.startswith(("it ", "nothing "))
    assert own.visitor_word
    assert own.visitor_reason
    assert about.label
    options = {*legs[kind].model_fields}
    opening = own.opening
    assert {
        *own.changes,
        *opening.shortcuts,
        *opening.wider,
        *([opening.threshold] if opening.threshold else []),
    } <= options


def test_no_two_legs_are_described_alike():
    every = leg_descriptions().values()
    for field in ("label", "slot", "finds", "phrase", "unmatched"):
        assert len({getattr(about, field) for about in every}) == len(every), field


@pytest.fixture
def made_up(monkeypatch):
    """A leg of which nothing is said but its docstring, registered for the time of one test."""
    monkeypatch.setattr(legs, "_entries", dict(legs._entries))

    @legs.register("sound_alike")
    class SoundAlikeLeg(Leg):
        """Units with a word that sounds like the query's. Good with names that were heard and never read."""

        tones: int = Field(3, description="How many tones.")

        async def recall(self, connection, target, query, depth):
            raise NotImplementedError

    return SoundAlikeLeg


def test_a_leg_of_which_nothing_is_said_is_offered_coloured_and_explained(made_up):
    """By its docstring, its name, and the next colour that no leg has."""
    about = leg_descriptions()["sound_alike"]
    assert about.label == "Sound alike"
    assert about.finds == "Units with a word that sounds like the query's."
    assert about.strength == "Good with names that were heard and never read."
    assert about.slot == len(KINDS)
    assert palette.styles(["sound_alike", *KINDS])["sound_alike"] == about.slot
    light, dark = palette.STYLES[about.slot]
    assert f"--leg-sound_alike: light-dark({light}, {dark});" in stylesheet()
    variant = Variant.of_leg(made_up())
    assert variants.pipeline_steps(variant)[0][0].says.startswith(about.finds)
    assert explanation.step("leg sound_alike") == "found by sound_alike"
    diagnosis = LegDiagnosis("sound_alike", 10, reason=about.unmatched)
    assert diagnosis.plainly(described_legs(variant)["sound_alike"]) == "Not found by sound_alike: it does not match."
    more = OptionChange("sound_alike.depth", 10, 20)
    assert more.plainly(described_legs(variant)) == "the first 20 found by sound_alike"


def test_a_leg_that_is_misspelt_is_refused_with_the_nearest():
    with pytest.raises(UnknownName, match="Did you mean 'vector'"):
        legs["vectro"]


def exhaustive(kind):
    """The leg as it misses nothing: HNSW's graph does not reach all of thousands of equal vectors."""
    return legs[kind](exact=True) if kind == "vector" else legs[kind]()


@pytest.mark.parametrize("chunks", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_depth_is_respected_and_filled_where_there_is_enough(store, collection, kind, chunks):
    for depth in (1, 7, 100, 1500):
        found = recall(store, collection, exhaustive(kind), "equal texts tie", depth, chunks)
        assert len(found) == depth
        assert len({each.id for each in found}) == depth


@pytest.mark.parametrize("chunks", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_equal_scores_are_ordered_by_id_bytewise(store, collection, kind, chunks):
    found = recall(store, collection, exhaustive(kind), "equal texts tie", 150, chunks)
    assert len({each.score for each in found}) == 1
    ids = [each.id for each in found]
    assert ids == sorted(ids, key=str.encode)
    assert ids[0].startswith("same 0000")
    assert ids[-1].startswith("same 0149")


@pytest.mark.parametrize("chunks", LEVELS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_comes_first_and_scores_are_plain_finite_numbers(store, collection, kind, chunks):
    found = recall(store, collection, legs[kind](), "word10 word11 word12 word13", 30, chunks)
    assert found
    assert found == sorted(found, key=lambda each: (-each.score, each.id.encode()))
    assert all(type(each.score) is float and np.isfinite(each.score) for each in found)
    known = {row[0] for row in query(store, collection, "SELECT id FROM {lexemes}", 0 if chunks == "items" else 1)}
    assert {each.id for each in found} <= known


HOSTILE = [
    "",
    " ",
    "\n\t\x0c",
    "the of and",
    "\x00",
    "nul\x00inside equal",
    "half \ud800 pair",
    "'; DROP SCHEMA rankbook CASCADE; --",
    "a' | !! & <-> (((",
    "\\ \\\\ \\'",
    "%s %(name)s :text {items}",
    '"unclosed phrase',
    "-",
    "🦊" * 500,
    "supercalifragilistic" * 500,
    " ".join(f"w{number}" for number in range(800)),
    "漢" * LONGEST_QUERY,
    " ".join("é" for _ in range(LONGEST_QUERY // 2)),
    "-".join(f"{number:x}" for number in range(600)),
    " ".join(f"a{number}.co/b" for number in range(200)),
    "(" * 5000,
    "x" * (LONGEST_QUERY + 1),
]


@pytest.mark.parametrize("asked", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("kind", KINDS)
def test_no_query_does_worse_than_find_nothing_or_be_refused_in_our_own_words(store, collection, kind, asked):
    try:
        found = recall(store, collection, legs[kind](), asked)
    except RankbookError as error:
        assert str(error)  # noqa: PT017
    else:
        assert len(found) <= 10


@pytest.mark.parametrize("mode", ["any", "web", "plain", "phrase", "strict"])
@pytest.mark.parametrize("asked", HOSTILE, ids=range(len(HOSTILE)))
def test_no_mode_of_full_text_search_breaks_on_any_query(store, collection, mode, asked):
    leg = legs["fulltext"](mode=mode)
    try:
        found = recall(store, collection, leg, asked)
    except InputError as error:
        assert str(error)  # noqa: PT017
    else:
        assert len(found) <= 10


@pytest.mark.parametrize("asked", ["", "the of and", " \n"])
@pytest.mark.parametrize("kind", ["fulltext", "trigram"])
def test_a_query_of_stop_words_only_is_an_empty_result(store, collection, kind, asked):
    assert recall(store, collection, legs[kind](), asked) == []


def test_any_finds_what_web_does_not(store, collection):
    asked = "does unique7 resemble something that stands nowhere"
    assert recall(store, collection, legs["fulltext"](mode="web"), asked) == []
    assert [each.id for each in recall(store, collection, legs["fulltext"](mode="any"), asked, chunks="items")] == [
        "d00007"
    ]


def test_phrase_wants_the_words_in_order(store, collection):
    found = recall(store, collection, legs["fulltext"](mode="phrase"), "texts tie", chunks="items")
    assert len(found) == 10
    assert recall(store, collection, legs["fulltext"](mode="phrase"), "tie texts", chunks="items") == []


@pytest.mark.parametrize("malformed", ["cat &", "a b", "(a", "a <-> ", "!", "'a"])
def test_strict_with_malformed_input_is_an_input_error_that_names_the_query(store, collection, malformed):
    with pytest.raises(InputError, match="not in the syntax of to_tsquery") as caught:
        recall(store, collection, legs["fulltext"](mode="strict"), malformed)
    assert repr(malformed) in str(caught.value)
    assert len(recall(store, collection, legs["fulltext"](mode="strict"), "equal & (tie | nothing)")) == 10


def test_a_query_is_embedded_once_however_many_legs_use_it(store, collection):
    asked: list[tuple[str, str]] = []

    async def counting(model, text):
        asked.append((model, text))
        await asyncio.sleep(0)
        return await embed(model, text)

    async def work():
        prepared = PreparedQuery("common word3", counting)

        async def one(leg):
            async with store.begin(collection.namespace, read_only=True) as connection:
                return await leg.recall(connection, search_target(store, collection, "family"), prepared, 5)

        several = [legs["vector"](), legs["vector"](exact=True), legs["vector"](distance="l2"), legs["fulltext"]()]
        return await side_by_side(*(one(leg) for leg in several))

    assert all(bridge.run(work()))
    assert asked == [(EMBEDDER.model, "common word3")]


@pytest.mark.parametrize("distance", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("chunks", LEVELS)
def test_exact_vector_search_equals_brute_force(store, collection, distance, chunks):
    rows = query(store, collection, "SELECT id, embedding::text FROM {vectors}", 0 if chunks == "items" else 1)
    vectors = np.array([[float(part) for part in row[1][1:-1].split(",")] for row in rows])
    asked = bridge.run(embed(EMBEDDER.model, "word3 word10 common")).astype(float)
    scores = {
        "cosine": vectors @ asked / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(asked)),
        "l2": -np.linalg.norm(vectors - asked, axis=1),
        "ip": vectors @ asked,
    }[distance]
    found = recall(store, collection, legs["vector"](distance=distance, exact=True), "word3 word10 common", 60, chunks)
    by_id = dict(zip([row[0] for row in rows], scores, strict=True))
    assert [each.score for each in found] == pytest.approx(sorted(scores, reverse=True)[:60], abs=1e-6)
    assert [each.score for each in found] == pytest.approx([by_id[each.id] for each in found], abs=1e-6)


def test_the_index_finds_nearly_all_that_exact_search_finds_in_the_same_order(store, collection):
    near, exact = (
        [each.id for each in recall(store, collection, legs["vector"](exact=flag), "word3 word10 common", 50)]
        for flag in (False, True)
    )
    assert len(near) == 50
    both = set(near) & set(exact)
    assert len(both) >= 40
    assert [each for each in near if each in both] == [each for each in exact if each in both]


def test_a_misspelt_word_is_found_by_trigrams_above_the_threshold_only(store, collection):
    assert "d00007" in [
        each.id for each in recall(store, collection, legs["trigram"](threshold=0.3), "uniqe7", 2000, "items")
    ]
    assert recall(store, collection, legs["trigram"](threshold=1.0), "uniqe7", 2000, "items") == []


def test_a_leg_without_what_it_searches_says_so_and_what_to_run(store, name):
    make(store, name, [])
    ingest(store, name, documents(3))
    with pytest.raises(MissingCapability, match=r"has no embeddings over 'small'.*rankbook data embed"):
        recall(store, fresh(store, name), legs["vector"](), "common", chunks="small")
    with pytest.raises(UnknownName, match="chunk set"):
        recall(store, fresh(store, name), legs["fulltext"](), "common", chunks="smal")


def test_cancelling_the_task_of_a_slow_statement_frees_its_backend(store):
    marker = f"slow {some_name()}"

    async def slow():
        async with store.begin(read_only=True) as connection:
            await connection.execute(text(f"SELECT pg_sleep(120) /* {marker} */"))

    async def running() -> int:
        async with store.begin() as connection:
            count = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid() AND query LIKE :like"  # noqa: E501
            return await connection.scalar(text(count), {"like": f"%{marker}%"})

    async def until(count: int) -> None:
        while await running() != count:
            pass

    async def work():
        task = asyncio.create_task(slow())
        await until(1)
        task.cancel()
        await asyncio.wait_for(until(0), 60)
        with pytest.raises(asyncio.CancelledError):
            await task

    bridge.run(work())


@pytest.mark.parametrize("kind", KINDS)
def test_a_leg_that_reads_lexemes_or_postings_says_so_as_they_may_be_behind_an_attached_table(store, collection, kind):
    async def without_words():
        whole = search_target(store, collection, "items")
        columns = {name: each for name, each in whole.columns.items() if name != "lexemes"}
        bare = replace(whole, columns=columns, lexicon=None)
        async with store.begin(collection.namespace, read_only=True) as connection:
            await legs[kind]().recall(connection, bare, PreparedQuery("common", embed), 3)

    if not legs[kind].reads_words:
        bridge.run(without_words())
        return
    with pytest.raises(MissingCapability):
        bridge.run(without_words())
