"""Feedback on a real collection: which words it learns, how heavy they are, and from which units."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import uuid

import pytest

from core import bridge
from core.context import RequestContext
from core.errors import MissingCapability
from core.expansion import FeedbackExpansion
from core.expansion.feedback import FeedbackUnit, feedback_units, relevance_model, surface_forms
from core.filters import filter_from
from core.legs.base import PreparedQuery
from core.legs.bm25 import Bm25Leg
from core.store import attached, collections
from core.store.attached import AttachedTable
from core.store.resolve_target import search_target
from core.types import Item
from tests.store.making import FIXED, fresh, ingest, make, query, some_name

FREEZERS = [
    Item("f1", "The freezer warms itself: a defrost cycle melts the ice.", metadata={"site": "Ghent"}),
    Item("f2", "A freezer needs a defrost cycle. Without defrosting, ice grows.", metadata={"site": "Ghent"}),
    Item("f3", "Freezer doors: excursions are opened, excursions are closed.", metadata={"site": "Cork"}),
    Item("far", "During a defrost cycle nobody is called.", metadata={"site": "Cork"}),
]
OTHERS = [
    Item(f"o{n}", f"Invoice {n} for the people of place{n}, which is a common filler text.", metadata={"site": "Ghent"})
    for n in range(40)
]


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, [], {"small": FIXED})
    ingest(store, name, [*FREEZERS, *OTHERS])
    return fresh(store, name)


def expanded(store, view, text="freezer", chunks="items", narrowed=None, **options):
    target = search_target(store, view, chunks).filtered(narrowed)
    return bridge.run(FeedbackExpansion(**options).expand(RequestContext(store, view), target, text))


def test_words_that_the_best_units_share_are_added(store, collection):
    found = expanded(store, collection)
    assert {"defrost", "cycle", "ice"} <= set(found.added)
    assert found.words.startswith("freezer ")
    assert found.meaning == found.original == "freezer"
    assert "filler" not in found.words


def test_a_unit_without_the_querys_words_is_found_by_them(store, collection):
    async def ids(text):
        where = search_target(store, collection, "items")
        async with store.begin(where.namespace, read_only=True) as connection:
            return [each.id for each in await Bm25Leg().recall(connection, where, PreparedQuery(text), 10)]

    assert "far" not in bridge.run(ids("freezer"))
    assert bridge.run(ids(expanded(store, collection).words)).index("far") == 3


def test_words_are_added_as_they_are_written_and_not_as_the_dictionary_cuts_them(store, collection):
    found = expanded(store, collection, terms=30)
    assert "excursions" in found.added
    assert "excurs" not in found.added


def test_heavy_words_are_said_more_often(store, collection):
    words = expanded(store, collection, original_weight=0.2).words.split()
    assert words.count("freezer") > words.count("defrost") > words.count("doors") >= 0


def test_the_originals_own_weight_decides_how_many_and_how_heavy_the_others_are(store, collection):
    little, much = (expanded(store, collection, original_weight=weight) for weight in (0.05, 0.8))
    assert len(little.added) > len(much.added)
    assert expanded(store, collection, original_weight=1).words == "freezer"


def test_how_many_terms_are_kept(store, collection):
    assert len(expanded(store, collection, terms=3).added) == 2  # the query's word is the third
    assert len(expanded(store, collection, terms=8).added) == 7


def test_how_many_units_are_learned_from(store, collection):
    assert "excursions" not in expanded(store, collection, documents=1, terms=50).added
    assert "excursions" in expanded(store, collection, documents=3, terms=50).added


def test_words_that_too_many_units_have_are_left_out_but_for_the_querys_own(store, collection):
    assert "filler" not in expanded(store, collection, "invoice place7", terms=50).words
    assert "filler" in expanded(store, collection, "invoice place7", terms=50, common=1).words
    assert "cycle" not in expanded(store, collection, common=0.03).added


def test_added_words_are_embedded_only_where_that_is_asked_for(store, collection):
    found = expanded(store, collection, embed=True)
    assert found.meaning == " ".join(["freezer", *found.added])


def test_a_filter_keeps_what_is_learned_to_what_it_lets_through(store, collection):
    cork = filter_from({"field": "site", "eq": "Cork"})
    found = expanded(store, collection, narrowed=cork, terms=50)
    assert "excursions" in found.added
    assert "defrost" not in found.added


@pytest.mark.parametrize("chunks", ["items", "small"])
def test_it_works_over_items_and_chunks(store, collection, chunks):
    assert "defrost" in expanded(store, collection, chunks=chunks, terms=20).added


@pytest.mark.parametrize("text", ["the of and", "what is it", "-"])
def test_stop_words_alone_stay_as_they_are(store, collection, text):
    found = expanded(store, collection, text)
    assert (found.words, found.meaning, found.added) == (text, text, ())


def test_a_query_whose_words_stand_nowhere_stays_as_it_is_and_says_why(store, collection):
    found = expanded(store, collection, "zeppelin")
    assert (found.words, found.added) == ("zeppelin", ())
    assert "no units to learn words from" in found.notes[-1]


def test_an_empty_collection_teaches_nothing(store):
    name = some_name()
    make(store, name, [], {})
    assert expanded(store, fresh(store, name)).words == "freezer"


def test_ties_are_learned_from_in_the_order_of_ids(store):
    name = some_name()
    make(store, name, [], {})
    ingest(store, name, [Item(f"t{n:03}", f"equal filler{n:03}") for n in reversed(range(200))])
    found = expanded(store, fresh(store, name), "equal", documents=3)
    assert set(found.added) == {"filler000", "filler001", "filler002"}


def test_the_weights_are_those_of_the_published_formula(store, collection):
    """P(w|R) = sum of P(d) tf / |d|, counted here in Python from the lexemes themselves."""
    rows = query(store, collection, "SELECT id, item_key, key, length FROM {lexemes} WHERE id IN ('f1', 'f2')")
    entries = "SELECT id, entry.lexeme, cardinality(entry.positions) FROM {lexemes}, unnest(tsv) AS entry"
    counts = query(store, collection, f"{entries} WHERE id IN ('f1', 'f2')")
    shares, lengths = {"f1": 0.75, "f2": 0.25}, {row[0]: row[3] for row in rows}
    expected: dict[str, float] = {}
    for unit, lexeme, times in counts:
        expected[lexeme] = expected.get(lexeme, 0.0) + shares[unit] * times / lengths[unit]
    fed = [FeedbackUnit(unit, item_key, key, shares[unit]) for unit, item_key, key, _ in rows]

    async def work():
        where = search_target(store, collection, "items")
        async with store.begin(where.namespace, read_only=True) as connection:
            return await relevance_model(connection, where.postings, fed, ["freezer"], 44, 100)

    assert bridge.run(work()) == pytest.approx(expected, abs=1e-8)


def test_the_mixture_is_rm3s():
    """The weights are a: 0.3 + 0.3, b: 0.3, c: 0.1; the heaviest is to stand there ten times."""
    repeats = FeedbackExpansion(original_weight=0.6).repeats({"a": 1, "b": 1}, {"a": 0.3, "c": 0.1})
    assert repeats == {"a": 9, "b": 4, "c": 2}


def test_the_best_units_share_their_scores(store, collection):
    async def work():
        where = search_target(store, collection, "items")
        async with store.begin(where.namespace, read_only=True) as connection:
            terms, known = await Bm25Leg().terms(connection, where, "freezer defrost")
            fed = await feedback_units(connection, where.postings, terms, known, 3)
            best = await Bm25Leg().recall(connection, where, PreparedQuery("freezer defrost"), 3)
            forms = await surface_forms(connection, where, [each.id for each in fed], ["excurs", "nowher"])
            return fed, best, forms

    fed, best, forms = bridge.run(work())
    assert [each.id for each in fed] == [each.id for each in best]
    whole = sum(each.score for each in best)
    assert [each.share for each in fed] == pytest.approx([each.score / whole for each in best])
    assert set(forms) <= {"excurs"}  # it stands in the third unit only


# -- attached tables ---------------------------------------------------------------------------------------------------


@pytest.fixture
def theirs(store):
    """A table of somebody's with the same texts, attached; both are gone after the test."""
    table, name = f"their_{uuid.uuid4().hex[:12]}", some_name()

    async def run(statement, rows=None):
        async with store.begin() as connection:
            await connection.exec_driver_sql(statement, rows)
            await connection.exec_driver_sql(
                "SELECT pg_stat_force_next_flush()"
            )  # else it counts what is written later

    bridge.run(run(f"CREATE TABLE public.{table} (id text PRIMARY KEY, body text, words tsvector)"))
    rows = [(each.id, each.text, each.text) for each in [*FREEZERS, *OTHERS]]
    bridge.run(run(f"INSERT INTO public.{table} VALUES (%s, %s, to_tsvector('english', %s))", rows))
    yield bridge.run(attached.attach_table(store, name, AttachedTable(table=table, id="id", text="body", tsv="words")))
    bridge.run(collections.drop(store, name))
    bridge.run(run(f"DROP TABLE public.{table}"))


def test_an_attached_table_without_a_vocabulary_is_refused_with_what_to_run(store, theirs):
    with pytest.raises(MissingCapability, match=r"has no postings of Rankbook's own yet.*rankbook data aside"):
        expanded(store, theirs)


@pytest.mark.slow
def test_an_attached_table_with_one_built_aside_teaches_like_any_other(store, theirs, collection):
    view = bridge.run(attached.build_side_tables(store, theirs))
    assert expanded(store, view) == expanded(store, collection)
