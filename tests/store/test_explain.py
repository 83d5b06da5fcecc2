"""Why a document is not among the results, reason by reason; and every remedy that is stated brings it in."""

# mypy: disable-error-code="no-untyped-call, no-any-return, attr-defined, union-attr"

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some
from sqlalchemy import text as sql

from core import bridge
from core.context import RequestContext, Resources
from core.errors import Cancelled, InputError
from core.explain import explain
from core.packing import Packing
from core.pipeline.retriever import search
from core.store import attached, collections
from core.store.attached import AttachedTable
from core.types import Item
from core.variant import Variant
from tests.effort import examples
from tests.fakes import HashingEmbedder
from tests.store.making import FAMILY, FIXED, fresh, ingest, make, query, some_name

MODEL = HashingEmbedder()
COUNT = 40
WORDS = ["lamp", "cable", "switch", "socket", "fuse", "meter", "plug", "valve"]


def _document(number: int) -> Item:
    """Each holds "lamp" once, among ever more other words: the higher its number, the worse its place."""
    filler = " ".join(f"{WORDS[1 + (number + at) % 7]}{at}" for at in range(number))
    kind = "guide" if number % 2 else "note"
    return Item(f"doc{number:02d}", f"lamp {filler}", metadata={"kind": kind, "number": number})


ITEMS = [
    *map(_document, range(COUNT)),
    Item("stranger", "zebra giraffe", metadata={"kind": "guide", "number": 99}),
    Item("misspelt", "the lampe is broken", metadata={"number": 100}),
    Item("both", "switchboard manual of the lamp", metadata={"kind": "guide", "number": 101}),
]
LONG = Item("long", " ".join(f"lamp word{at} here." for at in range(30)))


@pytest.fixture(scope="module")
def view(store):
    name = some_name()
    make(store, name, [MODEL], {"small": FIXED, "family": FAMILY})
    ingest(store, name, [*ITEMS, LONG], [MODEL])
    return fresh(store, name)


@pytest.fixture(scope="module")
def context(store, view):
    return RequestContext(store, view, Resources(embedder=lambda _: MODEL))


@pytest.fixture
def told(context):
    """The account of one document. Whatever remedy it states is applied, and brings the document in."""

    def work(document: str, options: dict[str, Any], asked: str = "lamp", where=context, **more: Any):
        variant = Variant.from_data({"chunks": "items", **options})
        account = bridge.run(explain(where, asked, variant, document, **more))
        assert_plain(account)
        for remedy in account.remedies:
            again = bridge.run(explain(where, asked, remedy.variant, document, **more))
            assert (again.there, again.rank) == (True, remedy.rank), str(remedy)
        assert json.loads(json.dumps(account.to_data()))["there"] == account.there
        return account

    return work


def leg(kind: str, **options: Any) -> dict[str, Any]:
    return {"kind": kind, **options}


def changes(account) -> list[list[tuple[str, Any]]]:
    return [[(change.option, change.value) for change in remedy.changes] for remedy in account.remedies]


def options_changed(account) -> set[str]:
    return {change.option for remedy in account.remedies for change in remedy.changes}


def value_of(account, option: str) -> Any:
    return next(
        change.value
        for remedy in account.remedies
        for change in remedy.changes
        if len(remedy.changes) == 1 and change.option == option
    )


JARGON = re.compile(r"\w+_\w+|\b(bm25|fulltext|vector|trigram|fuzzy|fuse|rerank|rollup|recall|legs?)\b")


def assert_plain(account) -> None:
    """What a reader meets first has no name of an option, a leg or a stage in it."""
    for each in account.lines():
        if each.exact:
            assert JARGON.search(each.text) is None, each


# -- it is there -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("trigrams")
def test_a_document_that_is_there_is_told_with_its_rank_and_what_each_leg_makes_of_it(told):
    account = told("doc00", {"leg": [leg("bm25"), leg("trigram")]}, asked="lamp")
    assert (account.there, account.rank, account.loss, account.remedies) == (True, 1, None, ())
    assert [(each.leg, each.rank, each.fetched) for each in account.standings] == [("bm25", 2, 2), ("trigram", 2, 2)]
    assert account.sentences() == (
        "doc00 is there, at rank 1 of 10.",
        "Found by its rare words, at rank 2.",
        "Found by its spelling, at rank 2.",
        "All ways of searching put together at rank 1, in the end at rank 1.",
    )
    assert [each.exact.split(",")[0] for each in account.lines()] == [
        "doc00 is there: 1st of 10", "bm25: 2nd", "trigram: 2nd", "fuse: 1st",
    ]  # fmt: skip
    assert [place.stage for place in account.places] == ["fuse", "cut"]


def test_a_leg_that_wants_every_word_is_asked_without_the_added_ones_here_too(told):
    synonyms = {"method": "synonyms", "lines": ["lamp => lantern"]}
    account = told("doc00", {"leg": [leg("fulltext", mode="web")], "expand": synonyms})
    (standing,) = account.standings
    assert standing.rank == standing.fetched == 1


@pytest.mark.slow
def test_pack_and_evidence_do_not_change_what_is_told(told):
    plain, packed = ({"leg": [leg("bm25")], "top_k": 3}, {"leg": [leg("bm25")], "top_k": 3, "pack": Packing()})
    assert changes(told("doc05", plain)) == changes(told("doc05", packed))
    assert all(remedy.variant.pack is not None for remedy in told("doc05", packed).remedies)


# -- legs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("bm25", "shares no word"),
        ("fulltext", "does not hold the words"),
        ("fuzzy", "no word that is one of the query's"),
        ("trigram", "nothing in it is spelled like"),
    ],
)
def test_a_leg_that_does_not_match_it_at_all_says_so(told, kind, reason):
    account = told("stranger", {"leg": [leg(kind)]}, asked="lamp")
    assert not account.there
    assert not account.standings[0].matches
    assert reason in account.standings[0].reason
    assert account.loss.stage == "recall"
    assert account.remedies == ()
    assert "No change that was tried brings it in." in account.sentences()


def test_a_document_below_the_depth_is_told_its_rank_and_comes_in_at_that_depth(told):
    account = told("doc20", {"leg": [leg("bm25", depth=5)], "top_k": 100})
    standing = account.standings[0]
    assert (standing.rank > 5, standing.fetched, standing.depth) == (True, None, 5)
    assert standing.reason == "Only the first 5 are taken"
    assert value_of(account, "bm25.depth") == standing.rank


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["vector", "bm25", "fulltext", "trigram", "fuzzy"])
def test_the_rank_however_deep_is_that_of_the_whole_ranking(told, context, kind):
    shallow = told("doc30", {"leg": [leg(kind, depth=1)], "top_k": 1}).standings[0]
    deep = Variant.from_data({"chunks": "items", "top_k": 100, "leg": [leg(kind, depth=100)]})
    found = [hit.id for hit in bridge.run(search(context, "lamp", deep)).hits]
    assert shallow.rank == found.index("doc30") + 1


def test_a_document_below_the_trigram_threshold_comes_in_with_a_lower_one(told):
    account = told("misspelt", {"leg": [leg("trigram", threshold=0.9)], "top_k": 100})
    assert account.standings[0].score < 0.9
    assert "below its threshold of 0.9" in account.standings[0].reason
    assert 0 < value_of(account, "trigram.threshold") <= account.standings[0].score


def test_a_document_below_the_least_vector_score_comes_in_with_a_lower_one(told):
    account = told("doc30", {"leg": [leg("vector", min_score=0.99)], "top_k": 100})
    assert "below its min_score of 0.99" in account.standings[0].reason
    assert value_of(account, "vector.min_score") <= account.standings[0].score


def test_a_document_below_the_least_text_rank_comes_in_with_a_lower_one(told):
    account = told("doc30", {"leg": [leg("fulltext", min_rank=0.9)], "top_k": 100})
    assert "below its min_rank of 0.9" in account.standings[0].reason
    assert "fulltext.min_rank" in options_changed(account)


def test_a_fuzzy_threshold_that_is_too_strict_is_told(told):
    account = told("misspelt", {"leg": [leg("fuzzy", threshold=1.0)], "top_k": 100}, asked="brokken")
    assert not account.there
    assert value_of(account, "fuzzy.threshold") < 1


def test_a_query_of_which_every_word_must_be_there_is_told_to_ask_for_any(told):
    account = told("both", {"leg": [leg("fulltext", mode="plain")], "top_k": 100}, asked="lamp zebra")
    assert ("fulltext.mode", "any") in [each[0] for each in changes(account)]


def test_a_shortcut_that_missed_it_is_named_and_so_is_doing_without(told):
    account = told("both", {"leg": [leg("fulltext", pool=1, depth=1)], "top_k": 1}, asked="switchboard lamp")
    there = told("doc39", {"leg": [leg("fulltext", pool=1, depth=3)], "top_k": 100}, asked="lamp")
    assert account.there
    assert "fulltext.depth" in options_changed(there)


def test_a_document_without_a_vector_is_told_so(store, told):
    name = some_name()
    make(store, name, [MODEL], {})
    ingest(store, name, ITEMS[:5], [MODEL])
    made = fresh(store, name)
    query(store, made, "DELETE FROM {vectors} WHERE id = :gone", gone="doc03")
    where = RequestContext(store, made, Resources(embedder=lambda _: MODEL))
    account = told("doc03", {"leg": [leg("vector")]}, where=where)
    assert "has no vector" in account.standings[0].reason


def test_a_leg_that_is_not_available_is_told_with_why(told, store):
    name = some_name()
    make(store, name, [], {})
    ingest(store, name, ITEMS[:5])
    account = told("doc01", {"leg": [leg("vector"), leg("bm25")]}, where=RequestContext(store, fresh(store, name)))
    assert account.there
    assert "not available" in account.standings[0].reason


# -- the filter --------------------------------------------------------------------------------------------------------


def test_the_condition_that_leaves_it_out_is_named_and_the_others_are_not(told):
    where = {"and": [{"field": "kind", "eq": "note"}, {"field": "number", "gte": 0, "lt": 50}]}
    account = told("doc01", {"leg": [leg("bm25")], "filter": where})
    assert account.filtered == ("it must have kind eq 'note', and has 'guide'",)
    ((option, value),) = changes(account)[0]
    assert (option, value) == ("filter", "(number gte 0 and number lt 50)")
    assert account.standings[0].rank  # what it would have without the filter
    rest = account.remedies[0].variant.filter
    assert "number" in rest.model_dump_json()
    assert "kind" not in rest.model_dump_json()


def test_each_operator_of_a_condition_is_judged_by_itself(told):
    account = told("doc03", {"leg": [leg("bm25")], "filter": {"field": "number", "gte": 1, "lt": 3}})
    assert account.filtered == ("it must have number lt 3, and has 3",)


def test_a_missing_field_and_composed_filters_are_told(told):
    where = {"and": [{"field": "color", "exists": True}, {"not": {"field": "kind", "eq": "guide"}}, {"or": []}]}
    assert told("doc03", {"leg": [leg("bm25")], "filter": where}).filtered == (
        "it must have color exists True, and has no such field",
        "not kind eq 'guide' does not hold",
        "() does not hold",
    )


def test_a_filter_that_holds_is_not_blamed(told):
    account = told("doc21", {"leg": [leg("bm25")], "top_k": 3, "filter": {"field": "kind", "eq": "guide"}})
    assert account.filtered == ()
    assert account.standings[0].rank == 12
    assert "top_k" in options_changed(account)


def test_a_filter_and_a_depth_are_changed_together_where_neither_suffices(told):
    where = {"field": "kind", "eq": "note"}
    account = told("doc33", {"leg": [leg("bm25", depth=3)], "top_k": 50, "filter": where})
    assert [option for option, _ in changes(account)[0]] == ["filter", "bm25.depth"]


# -- after the legs ----------------------------------------------------------------------------------------------------


def test_beyond_top_k_it_comes_in_with_the_least_top_k_that_suffices(told):
    account = told("doc07", {"leg": [leg("bm25", depth=50)], "top_k": 3})
    assert account.loss.stage == "cut"
    assert account.loss.reason == "its place is beyond top_k 3"
    assert value_of(account, "top_k") == account.standings[0].rank


def test_top_k_also_deepens_the_legs_that_have_no_depth_of_their_own(told):
    account = told("doc20", {"leg": [leg("bm25")], "top_k": 3, "overfetch": 1})
    assert account.loss.stage == "recall"
    assert value_of(account, "top_k") == account.standings[0].rank


def test_below_the_least_score_it_comes_in_with_a_lower_one(told):
    fusion = {"method": "rrf", "k": 1}
    account = told("doc05", {"leg": [leg("bm25")], "top_k": 50, "min_score": 0.5, "fusion": fusion})
    assert account.loss.reason == "its score is below min_score 0.5"
    assert value_of(account, "min_score") <= account.places[-1].score
    assert value_of(account, "min_score") > account.places[-1].score - 0.02


def test_beyond_the_fused_depth_it_comes_in_with_the_least_that_suffices(told):
    account = told("doc09", {"leg": [leg("bm25")], "top_k": 30, "fused_depth": 4})
    assert account.loss.stage == "fuse"
    assert account.loss.reason == "its place is beyond fused_depth 4"
    assert value_of(account, "fused_depth") == account.standings[0].fetched


def test_a_fusion_that_keeps_only_what_every_leg_found_is_told(told):
    fusion = {"method": "linear", "absent": "drop"}
    legs = [leg("bm25"), leg("fulltext", mode="plain")]
    account = told("doc03", {"leg": legs, "top_k": 60, "fusion": fusion}, asked="lamp manual")
    assert account.loss.stage == "fuse"
    assert ("fusion.absent", "zero") in [each[0] for each in changes(account)]


def test_a_rerank_that_cuts_it_off_is_told_with_its_own_reason(told):
    account = told("doc09", {"leg": [leg("bm25")], "top_k": 30, "rerank": {"method": "overlap", "top_k": 4}})
    assert account.loss.stage == "rerank"
    assert "beyond top_k 4" in account.loss.reason
    assert value_of(account, "rerank.top_k") == 12  # where the rerank puts it
    assert value_of(account, "rerank") is None


@pytest.mark.slow
def test_a_rerank_that_drops_low_scores_is_told_with_its_own_reason(told):
    rerank = {"method": "score", "min_score": 0.99}
    account = told("doc09", {"leg": [leg("bm25")], "top_k": 30, "rerank": rerank})
    assert "is below the minimum 0.99" in account.loss.reason
    assert value_of(account, "rerank.min_score") < 0.99


def test_a_rerank_that_did_not_look_far_enough_is_told(told):
    rerank = {"method": "overlap", "depth": 1}
    account = told("both", {"leg": [leg("bm25", depth=50)], "top_k": 1, "rerank": rerank}, asked="of the lamp")
    assert account.loss.stage == "cut"
    assert value_of(account, "rerank.depth") == account.standings[0].rank


def test_remedies_are_in_the_order_of_their_size(told):
    account = told("doc09", {"leg": [leg("bm25")], "top_k": 30, "rerank": {"method": "overlap", "top_k": 4}})
    assert [each[0][0] for each in changes(account)] == ["rerank.top_k", "rerank"]


# -- chunks ------------------------------------------------------------------------------------------------------------


def test_an_item_stands_by_its_best_chunk(told):
    account = told("long", {"chunks": "small", "leg": [leg("bm25")], "top_k": 100})
    assert account.there
    assert account.kind == "item"
    assert account.shown_as.startswith("long#")
    unit = account.standings[0].unit
    assert unit.startswith("long#")
    assert any(f" by {unit}." in each.exact for each in account.lines())


def test_a_chunk_for_which_another_stands_comes_in_without_the_roll_up(told):
    account = told("long#0005", {"chunks": "small", "leg": [leg("bm25", depth=200)], "top_k": 200, "rollup": {}})
    assert account.loss.stage == "roll up"
    assert account.loss.reason.endswith("stands for its item")
    assert changes(account) == [[("rollup", None)]]


def test_a_chunk_over_its_items_cap_comes_in_with_the_least_cap_that_suffices(told, context):
    options = {"chunks": "small", "leg": [leg("bm25", depth=200)], "top_k": 200}
    found = bridge.run(search(context, "lamp", Variant.from_data(options))).hits
    fifth = [hit.id for hit in found if hit.item_id == "long"][4]
    account = told(fifth, {**options, "per_item_cap": 2})
    assert account.loss.stage == "per-item cap"
    assert "per_item_cap is 2" in account.loss.reason
    assert value_of(account, "per_item_cap") == 5


def _family(context, parent: bool) -> list[str]:
    level = "=" if parent else "<>"
    key = context.view.chunk_set("family").key
    statement = f"SELECT id FROM {{chunks}} WHERE level {level} 'parent' AND id LIKE 'long#%' ORDER BY ordinal"
    return [row[0] for row in query(context.store, context.view, statement, key)]


@pytest.mark.slow
def test_a_child_whose_parent_took_its_place_is_there_as_its_parent(told, context):
    options = {"chunks": "family", "leg": [leg("bm25", depth=500)], "top_k": 500, "parents": "replace"}
    accounts = [told(child, options) for child in _family(context, parent=False)[:4]]
    shown = [account.shown_as for account in accounts if account.there]
    assert shown
    assert set(shown) <= set(_family(context, parent=True))


def test_a_child_that_was_merged_into_its_parent_comes_in_where_parents_annotate(told, context):
    options = {"chunks": "family", "leg": [leg("bm25", depth=500)], "top_k": 500, "parents": "replace"}
    lost = [told(child, options) for child in _family(context, parent=False)[:4]]
    merged = [account for account in lost if account.loss and account.loss.stage == "parents"]
    assert merged
    for account in merged:
        assert account.loss.reason.startswith("merged into its parent")
        assert changes(account) == [[("parents", "annotate")]]


def test_a_parent_is_reached_by_its_children_and_shown_only_where_parents_replace(told, context):
    parent = _family(context, parent=True)[0]
    options = {"chunks": "family", "leg": [leg("bm25", depth=500)], "top_k": 500}
    account = told(parent, options)
    assert (account.kind, account.loss.stage) == ("parent", "parents")
    assert changes(account) == [[("parents", "replace")]]
    assert told(parent, {**options, "parents": "replace"}).there


def test_a_roll_up_that_asked_deeper_is_told_at_the_depth_it_came_to(told):
    account = told("doc35", {"chunks": "small", "leg": [leg("bm25", depth=2)], "top_k": 5, "rollup": {}})
    assert account.standings[0].depth > 2


# -- late chunks -------------------------------------------------------------------------------------------------------

LATE = {"late": {"chunker": {"kind": "fixed", "max_tokens": 12, "overlap": 0}, "per_item_cap": 1, "top_k_chunks": 3}}


def _evidence(context, asked: str, **late: Any) -> list[str]:
    options = {**LATE["late"], **late}
    variant = Variant.from_data({"chunks": "items", "top_k": 60, "leg": [leg("bm25")], "late": options})
    return [chunk.chunk_id for chunk in bridge.run(search(context, asked, variant)).evidence]


def test_a_late_chunk_over_its_items_cap_comes_in_with_a_higher_cap(told, context):
    every = _evidence(context, "word7 word8", per_item_cap=99, top_k_chunks=99)
    assert every[0].startswith("long#")
    account = told(every[1], {**LATE, "leg": [leg("bm25")]}, asked="word7 word8")
    assert (account.kind, account.loss.stage) == ("late chunk", "late chunks")
    assert "per_item_cap is 1" in account.loss.reason
    assert value_of(account, "late.per_item_cap") == 2


@pytest.mark.slow
def test_a_late_chunk_beyond_the_number_of_chunks_comes_in_with_more(told, context):
    every = _evidence(context, "lamp", top_k_chunks=99)
    account = told(every[6], {**LATE, "top_k": 60, "leg": [leg("bm25")]})
    assert account.loss.reason == "other chunks score higher"
    assert value_of(account, "late.top_k_chunks") == 7


@pytest.mark.slow
def test_a_late_chunk_whose_item_was_not_found_is_followed_to_its_item(told):
    account = told("doc30#0000", {**LATE, "leg": [leg("bm25", depth=2)], "top_k": 60})
    assert account.loss.stage == "recall"
    assert account.standings[0].rank > 2


# -- attached tables ---------------------------------------------------------------------------------------------------


@pytest.fixture
def theirs(store):
    """Somebody's table, attached, with its postings aside."""
    table, name = some_name().replace(" ", "_"), some_name()

    async def work():
        async with store.begin() as connection:
            await connection.execute(sql(f"CREATE TABLE public.{table} (nr bigint PRIMARY KEY, body text, kind text)"))
            for number, item in enumerate(ITEMS[:30], start=1):
                row = {"nr": number, "body": item.text, "kind": item.metadata["kind"]}
                await connection.execute(sql(f"INSERT INTO public.{table} VALUES (:nr, :body, :kind)"), row)
        mapping = AttachedTable(table=table, id="nr", text="body", metadata=("kind",))
        await attached.build_side_tables(store, await attached.attach_table(store, name, mapping))
        return await collections.get(store, name)

    async def clean():
        await collections.drop(store, name)
        async with store.begin() as connection:
            await connection.execute(sql(f"DROP TABLE public.{table}"))

    yield RequestContext(store, bridge.run(work()))
    bridge.run(clean())


@pytest.mark.slow
@pytest.mark.usefixtures("trigrams")
def test_a_row_of_an_attached_table_is_explained_like_any_document(told, theirs):
    legs = [leg("bm25", depth=3), leg("fulltext", depth=3), leg("trigram", depth=3)]
    account = told("20", {"leg": legs, "top_k": 3}, where=theirs)
    assert [each.rank > 3 for each in account.standings] == [True, True, True]
    assert account.remedies
    where = {"field": "kind", "eq": "guide"}
    assert told("1", {"leg": [leg("bm25")], "filter": where}, where=theirs).filtered == (
        "it must have kind eq 'guide', and has 'note'",
    )
    with pytest.raises(InputError, match="no document '21x'"):
        told("21x", {"leg": [leg("bm25")]}, where=theirs)


# -- what cannot be explained ------------------------------------------------------------------------------------------


def test_an_unknown_document_is_refused_with_the_nearest_ids(told):
    with pytest.raises(InputError, match=r"no document 'doc3'.*'doc3\d'"):
        told("doc3", {"leg": [leg("bm25")]})
    with pytest.raises(InputError, match="no document"):
        told("nul\x00", {"leg": [leg("bm25")]})


def test_an_unknown_chunk_is_refused_with_the_chunks_of_its_item(told):
    with pytest.raises(InputError, match=r"'doc01' has no chunk 'doc01#9999'.*doc01#0000"):
        told("doc01#9999", {"chunks": "small", "leg": [leg("bm25")]})
    with pytest.raises(InputError, match="Ask for its item: 'doc01'"):
        told("doc01#0000", {"leg": [leg("bm25")]})


@pytest.mark.slow
def test_an_item_without_chunks_has_nothing_to_be_found_by(told, store):
    name = some_name()
    make(store, name, [MODEL], {"small": FIXED})
    ingest(store, name, [*ITEMS[:3], Item("empty", "")], [MODEL])
    where = RequestContext(store, fresh(store, name), Resources(embedder=lambda _: MODEL))
    account = told("empty", {"chunks": "small", "leg": [leg("bm25")]}, where=where)
    assert account.loss.reason == "it has no unit here that could be searched"


def test_a_threshold_and_a_depth_are_changed_together_where_neither_suffices(told):
    account = told("doc33", {"leg": [leg("vector", min_score=0.99, depth=2)], "top_k": 50})
    assert [option for option, _ in changes(account)[0]] == ["vector.min_score", "vector.depth"]


def test_a_score_and_top_k_are_changed_together_where_neither_suffices(told):
    options = {"leg": [leg("bm25", depth=50)], "top_k": 2, "min_score": 0.9, "fusion": {"method": "rrf", "k": 1}}
    assert [option for option, _ in changes(told("doc09", options))[0]] == ["min_score", "top_k"]


def test_a_depth_and_what_comes_after_it_are_changed_together_where_none_suffices(told):
    options = {"leg": [leg("bm25", depth=2)], "top_k": 2, "fused_depth": 2}
    account = told("doc09", options)
    rank = account.standings[0].rank
    assert changes(account) == [[("bm25.depth", rank), ("fused_depth", rank), ("top_k", rank)]]


class Network:
    """A rerank endpoint that counts its calls, and scores by place."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        documents = json.loads(request.content)["documents"]
        scores = [{"index": at, "relevance_score": 1 / (at + 1)} for at in range(len(documents))]
        return httpx.Response(200, json={"results": scores})


@pytest.mark.parametrize(("costly", "calls"), [(False, 1), (True, 2)])
def test_an_endpoint_that_costs_money_is_asked_for_remedies_only_where_that_is_allowed(store, view, costly, calls):
    network = Network()
    resources = Resources(embedder=lambda _: MODEL, transport=httpx.MockTransport(network))
    rerank = {"method": "api", "base_url": "https://rerank.example/v1", "model": "some"}
    variant = Variant.from_data({"chunks": "items", "leg": [leg("bm25")], "top_k": 3, "rerank": rerank})
    account = bridge.run(explain(RequestContext(store, view, resources), "lamp", variant, "doc08", costly=costly))
    assert bool(account.remedies) == costly
    assert ("Remedies were not tried" in account.sentences()[-1]) == (not costly)
    assert (network.calls >= calls) if costly else (network.calls == calls)


class Served(HashingEmbedder):
    """Made by a server on the host, as its name says."""

    def __init__(self, host: str) -> None:
        super().__init__()
        self.model = f"openai:m[{host}]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("host", "document", "costly", "tried"),
    [
        ("embed.example", "long#0029", False, False),
        ("embed.example", "long#0029", True, True),
        ("localhost:8080", "long#0029", False, True),
        ("embed.example", "doc08", False, True),
    ],
    ids=["sent elsewhere", "sent elsewhere and allowed", "to this machine", "an item, for which no chunks are made"],
)
def test_late_chunks_are_sent_elsewhere_for_remedies_only_where_that_is_allowed(store, host, document, costly, tried):
    served, name = Served(host), some_name()
    make(store, name, [served], {"small": FIXED})
    ingest(store, name, [*ITEMS, LONG], [served])
    options = {**LATE["late"], "use_cache": False, "write_cache": False, "per_item_cap": 3}
    variant = Variant.from_data({"chunks": "items", "top_k": 3, "leg": [leg("bm25")], "late": options})
    context = RequestContext(store, fresh(store, name), Resources(embedder=lambda _: served))
    served.texts.clear()
    bridge.run(search(context, "lamp", variant))
    once = len(served.texts)
    served.texts.clear()
    account = bridge.run(explain(context, "lamp", variant, document, costly=costly))
    assert ("Remedies were not tried" in account.sentences()[-1]) == (not tried)
    assert (len(served.texts) > once) == (tried and account.kind == "late chunk")


def test_the_work_stops_with_the_requests_token(store, view):
    token = asyncio.Event()
    token.set()
    context = RequestContext(store, view, Resources(embedder=lambda _: MODEL), cancellation=token)
    variant = Variant.from_data({"chunks": "items", "leg": [leg("bm25")]})
    with pytest.raises(Cancelled):
        bridge.run(explain(context, "lamp", variant, "doc01"))


# -- whatever the variant ----------------------------------------------------------------------------------------------

a_depth = some.none() | some.integers(1, 30)
a_leg = some.one_of(
    some.fixed_dictionaries({"kind": some.just("bm25"), "depth": a_depth}),
    some.fixed_dictionaries(
        {"kind": some.just("vector"), "depth": a_depth, "min_score": some.none() | some.sampled_from([0.2, 0.6, 0.95])}
    ),
    some.fixed_dictionaries(
        {"kind": some.just("trigram"), "depth": a_depth, "threshold": some.sampled_from([0.1, 0.5, 0.95])}
    ),
    some.fixed_dictionaries(
        {"kind": some.just("fulltext"), "depth": a_depth, "mode": some.sampled_from(["any", "web", "plain"])}
    ),
    some.fixed_dictionaries({"kind": some.just("fuzzy"), "depth": a_depth, "threshold": some.sampled_from([0.3, 0.9])}),
)
a_filter = some.sampled_from(
    [
        None,
        {"field": "kind", "eq": "guide"},
        {"and": [{"field": "number", "lt": 20}, {"field": "kind", "exists": True}]},
    ]
)
a_rerank = some.sampled_from(
    [None, {"method": "overlap", "top_k": 5}, {"method": "overlap", "depth": 4}, {"method": "score", "min_score": 0.8}]
)
a_fusion = some.sampled_from(
    [{"method": "rrf"}, {"method": "linear"}, {"method": "linear", "absent": "drop"}, {"method": "borda"}]
)
a_variant = some.fixed_dictionaries(
    {
        "leg": some.lists(a_leg, min_size=1, max_size=3, unique_by=lambda each: each["kind"]),
        "top_k": some.integers(1, 12),
        "overfetch": some.integers(1, 3),
        "filter": a_filter,
        "rerank": a_rerank,
        "fusion": a_fusion,
        "min_score": some.sampled_from([0.0, 0.0, 0.3, 0.7]),
        "fused_depth": some.none() | some.integers(1, 20),
        "chunks": some.sampled_from(["items", "items", "small"]),
        "rollup": some.none() | some.just({}),
    }
)


@pytest.mark.slow
@examples(6)
@given(
    options=a_variant,
    document=some.sampled_from([item.id for item in ITEMS] + ["long"]),
    asked=some.sampled_from(["lamp", "lamp manual", "switch1 lamp", "zebra", "lampe broken"]),
)
def test_whenever_a_remedy_is_stated_applying_it_brings_the_document_in(context, options, document, asked):
    if options["chunks"] == "items":
        options = {**options, "rollup": None}
    variant = Variant.from_data(options)
    account = bridge.run(explain(context, asked, variant, document))
    found = {hit.item_id for hit in bridge.run(search(context, asked, variant)).hits}
    assert account.there == (document in found)
    assert account.there != bool(account.loss)
    assert all(account.sentences())
    for remedy in account.remedies:
        hits = bridge.run(search(context, asked, remedy.variant)).hits
        assert hits[remedy.rank - 1].item_id == document, str(remedy)
