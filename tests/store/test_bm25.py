"""BM25 over postings: the formula to the last bit, its options, statistics that keep up, what is said of engines."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bridge
from core.context import RequestContext
from core.errors import MissingCapability
from core.legs.bm25 import Bm25Leg
from core.pipeline.retriever import search
from core.store import attached
from core.types import Item
from core.variant import Variant
from tests.effort import examples
from tests.store.making import FIXED, fresh, ingest, make, query, some_name
from tests.store.recalling import asked, ids, plans, said

WORDS = [f"w{letter}" for letter in "abcdefghijklmnopqrst"]
STEP = 2.0**-30


def corpus(count: int = 120, seed: int = 7) -> list[Item]:
    """Documents of the twenty words, some much more frequent than others."""
    draw = random.Random(seed)
    shares = [1 / (rank + 1) for rank in range(len(WORDS))]
    return [
        Item(f"d{number:03d}", " ".join(draw.choices(WORDS, shares, k=draw.randint(1, 40)))) for number in range(count)
    ]


def collection_of(store, items, **options):
    name = some_name()
    make(store, name, language="simple", **options)
    ingest(store, name, items)
    return fresh(store, name)


@pytest.fixture(scope="module")
def collection(store):
    return collection_of(store, corpus())


def in_python(documents: dict[str, list[str]], text: str, k1: float = 1.2, b: float = 0.75) -> list[tuple[str, float]]:
    """Lucene's BM25 as its papers give it, each contribution rounded to the step that the leg adds in."""
    counts = {name: Counter(words) for name, words in documents.items()}
    average = sum(map(len, documents.values())) / len(documents)
    scores: Counter[str] = Counter()
    for word, repeats in Counter(text.split()).items():
        holding = [name for name, held in counts.items() if word in held]
        weight = repeats * math.log(1 + (len(documents) - len(holding) + 0.5) / (len(holding) + 0.5))
        for name in holding:
            frequency = counts[name][word]
            length = k1 * (1 - b) + k1 * b / average * len(documents[name])
            scores[name] += round(weight / STEP * frequency / (frequency + length)) * STEP  # type: ignore[assignment]
    return sorted(scores.items(), key=lambda found: (-found[1], found[0]))


DOCUMENTS = {item.id: item.text.split() for item in corpus()}


@pytest.mark.slow
@examples(60)
@given(
    words=st.lists(st.sampled_from([*WORDS, "unknown"]), min_size=1, max_size=8),
    k1=st.sampled_from([0.0, 0.9, 1.2, 5.0]),
    b=st.sampled_from([0.0, 0.4, 0.75, 1.0]),
)
def test_it_is_the_formula_to_the_last_bit(store, collection, words, k1, b):
    text = " ".join(words)
    found = asked(store, collection, Bm25Leg(k1=k1, b=b), text, 1000)
    assert [(each.id, each.score) for each in found] == in_python(DOCUMENTS, text, k1, b)


@pytest.mark.parametrize("option", [{"k1": 0.1}, {"k1": 20}, {"b": 0}, {"b": 1}])
def test_every_option_changes_the_ranking(store, collection, option):
    text = "wb wc wf"
    assert ids(asked(store, collection, Bm25Leg(**option), text, 50)) != ids(
        asked(store, collection, Bm25Leg(), text, 50)
    )


def test_a_word_that_is_said_twice_counts_twice(store, collection):
    once, twice = (asked(store, collection, Bm25Leg(), text, 1) for text in ("wt", "wt wt"))
    assert twice[0].score == pytest.approx(2 * once[0].score)


@pytest.mark.parametrize(
    "changed", ["enable_hashagg = off", "enable_indexscan = off", "enable_nestloop = off", "enable_hashjoin = off"]
)
def test_no_plan_adds_up_to_another_score(store, collection, changed):
    text = " ".join(WORDS)
    assert asked(store, collection, Bm25Leg(), text, 1000, settings=(changed,)) == asked(
        store, collection, Bm25Leg(), text, 1000
    )


@pytest.mark.slow
def test_equal_units_tie_exactly_and_stand_by_id_at_every_cut(store):
    items = [Item(name, "same words here") for name in ("b", "a", "Z", "é", "c", "10", "9")]
    view = collection_of(store, [*items, Item("better", "same same words")])
    for depth in range(1, 9):
        expected = ["better", "10", "9", "Z", "a", "b", "c", "é"][:depth]
        assert ids(asked(store, view, Bm25Leg(), "same", depth)) == expected


@pytest.mark.slow
def test_statistics_are_right_after_insert_update_and_delete(store):
    items = corpus(40)
    view = collection_of(store, items)
    changed = [
        *(replace(item, text=f"{item.text} wnew") for item in items[:5]),
        *items[10:],
        Item("late", "wb wnew wq"),
    ]
    bridge.run(_pruned(store, view.name, changed))
    documents = {item.id: item.text.split() for item in changed}
    for text in ("wnew wb", "wa wc wq"):
        found = asked(store, fresh(store, view.name), Bm25Leg(), text, 100)
        assert [(each.id, each.score) for each in found] == in_python(documents, text)


async def _pruned(store, name, items):
    from core.store import collections
    from core.store.ingest import Ingest
    from tests.fakes import HashingEmbedder, rows

    await Ingest(store, await collections.get(store, name), {}, HashingEmbedder()).run(rows(items), prune=True)


@pytest.mark.slow
def test_chunks_are_ranked_as_units_of_their_own(store):
    view = collection_of(store, [Item("long", " ".join(["wz"] * 8 + ["wa"] * 8))], chunks={"small": FIXED})
    found = asked(store, view, Bm25Leg(), "wz", chunks="small")
    assert len(found) == 1
    assert found[0].id.startswith("long#")


def test_titles_are_searched_too(store):
    view = collection_of(store, [Item("a", "text", title="wtitle"), Item("b", "other")])
    assert ids(asked(store, view, Bm25Leg(), "wtitle")) == ["a"]


@pytest.mark.slow
def test_units_that_are_not_posted_yet_are_told_of(store):
    view = collection_of(store, corpus(20))
    assert said(asked(store, view, Bm25Leg(), "wa")) == ""
    query(store, view, "UPDATE {chunk_sets} SET posted_to = posted_to - 3 WHERE key = 0")
    assert "3 units are not in the postings yet" in said(asked(store, view, Bm25Leg(), "wa"))


def test_the_term_index_is_used(store, collection):
    plan = plans(store, collection, Bm25Leg(), "wa wb", "enable_seqscan = off", "enable_bitmapscan = off")
    assert "postings_0_term_key" in plan
    assert "Seq Scan on items" not in plan


def test_an_engine_of_the_server_that_is_not_driven_is_told_of(store, collection):
    found = asked(
        store,
        collection,
        Bm25Leg(),
        "wa",
        change=lambda where: replace(where, extensions={"pg_search", "vector"}),
    )
    assert "The server has ParadeDB's pg_search, which Rankbook does not drive" in said(found)
    assert ids(found)


@pytest.fixture
def theirs(store):
    """Somebody's table of the corpus, dropped after the test."""
    table = f"bm25_{some_name()[5:]}"

    async def run(statement, rows=()):
        async with store.begin() as connection:
            await connection.exec_driver_sql(statement)
            for row in rows:
                await connection.exec_driver_sql(f"INSERT INTO public.{table} VALUES (%s, %s)", row)

    made = f"CREATE TABLE public.{table} (id text PRIMARY KEY, body text)"
    bridge.run(run(made, [(item.id, item.text) for item in corpus(30)]))
    yield table
    bridge.run(run(f"DROP TABLE public.{table} CASCADE"))


def test_an_attached_table_has_bm25_once_its_lexicon_is_built_aside(store, theirs):
    mapping = attached.mapped(table=theirs, id="id", text="body", language="simple")
    view = bridge.run(attached.attach_table(store, some_name(), mapping))
    with pytest.raises(MissingCapability, match="aside"):
        asked(store, view, Bm25Leg(), "wa")
    built = bridge.run(attached.build_side_tables(store, view))
    documents = {item.id: item.text.split() for item in corpus(30)}
    found = asked(store, built, Bm25Leg(), "wc wd", 100)
    assert [(each.id, each.score) for each in found] == in_python(documents, "wc wd")


def test_its_least_score_is_known_so_that_theoretical_min_max_takes_it(collection, store):
    """Bruch et al. 2023 fuse exactly BM25 and vectors by it: each score divided by the greatest."""
    theoretical = {"method": "linear", "normalize": "theoretical-minmax"}
    variant = Variant.from_data({"chunks": "items", "leg": [{"kind": "bm25"}], "fusion": theoretical})
    found = bridge.run(search(RequestContext(store, collection), "wa wb wt", variant)).hits
    raw = [hit.legs[0].raw for hit in found]
    assert len(set(raw)) > 2
    assert [hit.score for hit in found] == pytest.approx([each / raw[0] for each in raw])
    assert Bm25Leg().bounds == (0.0, math.inf)
