"""The runner on the real server: what it computes is what searches give; what is kept is not asked again."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import httpx
import pytest
from sqlalchemy import text

from core import bridge
from core.context import RequestContext, Resources
from core.errors import Cancelled, EmbeddingError, StoreError, UnknownName
from core.filters import filter_from
from core.fusion import fusions
from core.fusion.score_based import LinearFusion
from core.legs import legs
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.legs.fuzzy import FuzzyLeg
from core.legs.trigram import TrigramLeg
from core.legs.vector import VectorLeg
from core.pipeline.retriever import search
from core.rerank import ApiReranker, OverlapReranker
from core.routing import Routing
from core.store import attached, collections
from core.store.attached import mapped
from core.store.engine import Store
from core.types import Item, Query
from core.variant import Rollup, Variant
from evals.runs import run_store, runner
from evals.runs.checkpoints import Batches
from evals.runs.plan import EvalOptions, deepened
from evals.runs.query_runs import QueryRunner
from evals.runs.rankings import Ranking
from evals.types import QuerySplit
from tests.fakes import HashingEmbedder
from tests.store.making import FIXED, documents, fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder(64)
LOUD = [
    Item(f"loud{n}", " ".join(f"The red button shines {at}, word{at}." for at in range(40)), metadata={"kind": "loud"})
    for n in range(2)
]
TEXTS = ("red button", "word3 common", "unique7 word12", "Title 9", "the", "word40 word41 word42", "zebra", "it's 100%")
ALL = (
    VectorLeg(weight=0.5),
    VectorLeg(label="exact", exact=True, min_score=0.2, weight=0.2),
    FulltextLeg(weight=0.3),
    TrigramLeg(weight=0.2),
    FuzzyLeg(weight=0.0),
    Bm25Leg(weight=0.7),
)
THREE = (VectorLeg(weight=0.6), FulltextLeg(weight=0.3), Bm25Leg(weight=0.1))


def variant(name="variant", legs=THREE, **options) -> Variant:
    return Variant(name=name, legs=legs, chunks=options.pop("chunks", "small"), **options)


COMPUTED = [variant(f"{name} of all", ALL, fusion=fusions[name]()) for name in sorted(fusions)] + [
    variant("rolled up", top_k=12, rollup=Rollup()),
    variant("rolled up, too shallow", overfetch=1, top_k=20, rollup=Rollup(method="sum")),
    variant("rolled up, capped", overfetch=1, top_k=20, rollup=Rollup(), fused_depth=25),
    variant("shallow lexical, rolled up", (FulltextLeg(depth=3), TrigramLeg(depth=4)), top_k=20, rollup=Rollup()),
    variant("few fused", fused_depth=4),
    variant("best alone", min_score=0.6, fusion=LinearFusion()),
    variant("filtered", filter=filter_from({"field": "kind", "eq": "odd"})),
    variant("items", chunks="items", fusion=LinearFusion(normalize="zscore")),
    variant("annotated", parents="annotate", top_k=3),
    variant("every word", (FulltextLeg(mode="web"), FulltextLeg(label="pooled", pool=5))),
    Variant.of_leg(Bm25Leg(), chunks="small"),
]


@pytest.fixture(scope="module")
def view(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED}, fields=["kind"])
    ingest(store, name, [*documents(50), *LOUD], [EMBEDDER])
    return fresh(store, name)


@pytest.fixture
def context(store, view):
    return RequestContext(store, view, Resources(embedder=lambda _: EMBEDDER, environment={}))


@pytest.fixture
def split() -> QuerySplit:
    """With a query of its own: what other tests kept is of no use here."""
    own = some_name()
    queries = {f"q{at}": Query(f"q{at}", asked) for at, asked in enumerate([*TEXTS[:-1], own])}
    return QuerySplit("test", queries, digest=own.encode())


def asked_for(deep=0, **options) -> EvalOptions:
    return EvalOptions((), as_shipped=not deep, least_depth=deep, **options)


def run(context, variants, split, **options):
    return bridge.run(runner.run(context, variants, split, options=asked_for(**options)))


def live(context, asked, split, *, lifted=False) -> dict[str, Ranking]:
    async def work():
        return {
            query.id: await search(context, query.text, asked, excluded=split.excluded.get(query.id, frozenset()))
            for query in split.queries.values()
        }

    found = {
        query: (*bundle.hits, *bundle.beyond) if lifted else bundle.hits for query, bundle in bridge.run(work()).items()
    }
    return {
        query: Ranking(tuple(hit.id for hit in hits), tuple(hit.score for hit in hits)) for query, hits in found.items()
    }


# -- what is computed is what a search gives ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variants", "deep", "excluding"),
    [(COMPUTED, 0, False), (COMPUTED[-11:], 0, True), (COMPUTED[-11:], 15, False)],
    ids=["shipped", "excluding", "deep"],
)
def test_computed_rankings_are_those_of_live_searches_ids_and_scores(context, split, variants, deep, excluding):
    if excluding:
        shut = {"q0": frozenset(["loud0", "d00001"]), "q1": frozenset([f"d{at:05}" for at in range(9)])}
        split = replace(split, excluded=shut, digest=split.digest + b"-")
    ready = bridge.run(runner.plan_runs(context, variants, split, options=asked_for(deep)))
    assert not ready.searched
    for each, made in zip(variants, run(context, variants, split, deep=deep), strict=True):
        assert (made.name, made.variant, made.failures) == (each.name, each, {})
        expected = live(context, deepened(each, deep) if deep else each, split, lifted=not deep)
        assert {query: (ranked.ids, ranked.scores) for query, ranked in made.lifted.items()} == {
            query: (ranked.ids, ranked.scores) for query, ranked in expected.items()
        }, each.name
        assert any(ranked.ids for ranked in made.rankings.values()), each.name
        assert deep or max(ranked.length for ranked in made.rankings.values()) <= each.top_k


@pytest.mark.slow
def test_units_keep_their_items_and_places_computed_or_searched(context, split):
    async def hits(asked):
        return (await search(context, TEXTS[0], asked)).hits

    for each in (variant(), variant(rerank=OverlapReranker()), variant(rollup=Rollup())):
        (made,) = run(context, [each], split)
        expected = bridge.run(hits(each))
        ranked = made.rankings["q0"]
        assert ranked.items == tuple(hit.item_id for hit in expected)
        assert ranked.spans == tuple((hit.start, hit.end) for hit in expected)
        assert made.rankings["q6"] is not None
    (whole,) = run(context, [variant(chunks="items")], split)
    assert (whole.rankings["q0"].items, whole.rankings["q0"].spans) == ((), ())
    assert whole.rankings["q0"].item_ids == whole.rankings["q0"].ids


@pytest.mark.slow
def test_variants_with_a_stage_a_query_are_searched(context, split):
    each = [variant("reranked", rerank=OverlapReranker()), variant("routed", route=Routing())]
    for asked, made in zip(each, run(context, each, split), strict=True):
        expected = live(context, asked, split)
        assert {query: ranked.ids for query, ranked in made.rankings.items()} == {
            query: ranked.ids for query, ranked in expected.items()
        }
        assert set(made.stages) >= {"fuse", "cut"}
        assert len(made.milliseconds) == len(TEXTS)


@pytest.mark.slow
def test_excluded_items_are_taken_out_everywhere_alike_and_made_up_for(context, split):
    items = [variant("computed", chunks="items"), variant("searched", chunks="items", route=Routing())]
    before = run(context, items, split)
    shut = frozenset(before[0].rankings["q1"].ids[:3])
    without = replace(split, excluded={"q1": shut}, digest=split.digest + b"-")
    for was, made in zip(before, run(context, items, without), strict=True):
        assert len(made.rankings["q1"].ids) == len(was.rankings["q1"].ids) == 10
        assert not shut & set(made.rankings["q1"].ids)
        assert made.rankings["q0"].ids == was.rankings["q0"].ids
    assert [made.rankings for made in run(context, items[:1], without)] == [
        made.rankings for made in run(context, items[:1], without, again=True)
    ]


# -- each leg once -----------------------------------------------------------------------------------------------------


class CountedLegs:
    """A listener that adds up what each leg was asked."""

    def __init__(self) -> None:
        self.asked = Counter()

    def __call__(self, step) -> None:
        if step.unit == "queries" and step.done == step.total:
            self.asked[step.name] += step.done


def counted(context, variants, split, **options):
    listener = CountedLegs()
    made = runner.run(context, variants, split, progress=listener, options=asked_for(**options))
    return bridge.run(made), listener.asked


@pytest.mark.slow
def test_many_fusions_ask_each_leg_once_and_a_second_suite_asks_nothing(context, split):
    variants = [variant(f"k {k}", fusion=fusions["rrf"](k=k)) for k in (1, 10, 60)]
    first, asked = counted(context, variants, split)
    assert list(asked.values()) == [len(TEXTS)] * 3
    again, asked = counted(context, variants, split)
    assert asked == {}
    assert again == first
    others = [
        variant(f"zscore {weight}", (VectorLeg(weight=weight), *THREE[1:]), fusion=LinearFusion()) for weight in (1, 2)
    ]
    _, asked = counted(context, others, split)
    assert asked == {}, "their legs had been asked"


def test_again_asks_anew_and_comes_to_the_same(context, split):
    first, _ = counted(context, [variant()], split)
    again, asked = counted(context, [variant()], split, again=True)
    assert list(asked.values()) == [len(TEXTS)] * 3
    assert again[0].rankings == first[0].rankings
    assert again[0].made_at > first[0].made_at


def test_a_deep_run_serves_a_shallow_one_where_depth_changes_no_order(context, split):
    counted(context, [variant()], split, deep=40)
    _, asked = counted(context, [variant()], split, deep=35)
    assert list(asked) == ["vector over small, 105 deep"]  # of chunks, three times 35


@pytest.mark.slow
def test_other_queries_and_another_collection_version_make_new_runs(context, split):
    (first,), _ = counted(context, [variant()], split)
    other = replace(split, queries={**split.queries, "q0": Query("q0", "blue")}, digest=b"other" + split.digest)
    (second,), asked = counted(context, [variant()], other)
    assert list(asked.values()) == [len(TEXTS)] * 3
    relabelled = replace(split, grades={"q0": {"loud0": 1}}, digest=b"labels" + split.digest)
    (third,), asked = counted(context, [variant()], relabelled)
    assert asked == {}
    assert len({first.id, second.id, third.id}) == 3


@pytest.mark.slow
def test_a_collection_that_moved_on_is_asked_anew_and_what_was_kept_of_it_goes(store, split):
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, documents(5), [EMBEDDER])
    context = RequestContext(store, fresh(store, name), Resources(embedder=lambda _: EMBEDDER, environment={}))
    (first,), _ = counted(context, [variant()], split)
    ingest(store, name, documents(9), [EMBEDDER])
    with pytest.raises(StoreError, match="was changed while it was being evaluated"):
        counted(context, [variant()], split)
    (second,), asked = counted(replace(context, view=fresh(store, name)), [variant()], split)
    assert len(asked) == 3
    assert second.subject.version > first.subject.version
    assert second.subject.content != first.subject.content
    assert "d00007" in second.rankings["q2"].item_ids
    assert "d00007" not in first.rankings["q2"].item_ids


@pytest.mark.slow
def test_another_pgvector_makes_vectors_stale_and_words_not_another_server_makes_both(context, split):
    words, both = variant("words", (Bm25Leg(),)), variant("both", (Bm25Leg(), VectorLeg()))
    run(context, [words, both], split)

    def left(**changed):
        server = replace(context.store.capabilities, **changed)
        elsewhere = replace(context, store=Store(context.store.engine, None, server))
        ready = bridge.run(runner.plan_runs(elsewhere, [words, both], split, options=EvalOptions()))
        return [each.variant.name for each in ready.runs if each.id not in ready.kept], len(ready.legs)

    assert left() == ([], 0)
    assert left(extensions={**context.store.capabilities.extensions, "vector": "99.0"}) == (["both"], 2)
    assert left(version=context.store.capabilities.version + 1) == ([], 0)
    assert left(version=context.store.capabilities.version + 10_000) == (["words", "both"], 2)


@pytest.mark.slow
def test_a_collection_made_anew_under_its_name_is_another(store, split):
    name, found = some_name(), []
    for first in (0, 100):
        make(store, name, [EMBEDDER], {"small": FIXED})
        ingest(store, name, documents(5, first=first), [EMBEDDER])
        context = RequestContext(store, fresh(store, name), Resources(embedder=lambda _: EMBEDDER, environment={}))
        found += run(context, [variant()], split)
        bridge.run(collections.drop(store, name))
    assert found[0].subject.version == found[1].subject.version
    assert found[0].id != found[1].id
    assert not set(found[0].rankings["q1"].ids) & set(found[1].rankings["q1"].ids)


def test_a_run_says_how_texts_were_cut_and_what_embedded_them(context, split):
    (made,) = run(context, [variant()], split)
    searched = made.environment["searched"]
    assert searched["chunks"]["small"]["kind"] == "fixed"
    assert searched["models"]["small"] == [f"{EMBEDDER.model}, vector index"]


def test_the_size_of_indexes_is_that_of_the_variants_own(context, split):
    made = run(context, [variant("words", (Bm25Leg(),)), variant("meanings", (VectorLeg(),)), variant("both")], split)
    words, meanings, both = (set(each.environment["own indexes"]) for each in made)
    assert words
    assert meanings
    assert not words & meanings
    assert words | meanings < both
    assert made[0].index_bytes == sum(made[0].environment["indexes"][name] for name in words)
    assert replace(made[0], environment={}).index_bytes is None, "as in runs of before"


def test_variants_that_are_the_same_but_for_the_name_are_one_run_under_both(context, split):
    lexical = THREE[1:]
    both, asked = counted(
        context, [variant("a", lexical), variant("b", lexical), variant("c", lexical, top_k=9)], split
    )
    assert [each.name for each in both] == ["a", "b", "c"]
    assert both[0].id == both[1].id != both[2].id
    assert len(asked) == 2


@pytest.mark.slow
def test_the_plan_can_be_seen_before_and_tells_what_is_kept(context, split):
    variants = [variant("a"), variant("b", fusion=LinearFusion()), variant("c", rerank=OverlapReranker())]
    plan = bridge.run(runner.plan_runs(context, variants, split))
    assert plan.describe() == "3 variants -> 3 leg runs, 1 searched query by query"
    run(context, variants[1:], split)
    plan = bridge.run(runner.plan_runs(context, variants, split))
    assert plan.describe() == "3 variants -> 3 leg runs, 2 kept from before"


@pytest.mark.slow
def test_a_leg_that_was_stopped_says_how_much_of_it_is_kept(context, split):
    told = []
    few = replace(split, queries={query: split.queries[query] for query in ("q0", "q1")})
    for part in (few, split):
        batches = Batches(context.store, context.view, "kept so far")
        queries = QueryRunner(context, split, batches, progress=told.append)
        (task, *_) = bridge.run(
            runner.plan_runs(context, [variant()], split, options=EvalOptions((), as_shipped=False, least_depth=7))
        ).legs
        bridge.run(queries.run_leg(task, part.queries))
    names = list(dict.fromkeys(step.name for step in told))
    assert names == [task.title, f"{task.title}, 2 of {len(split.queries)} kept"]
    assert told[-1].done == told[-1].total == len(split.queries) - 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(legs))
def test_a_leg_that_says_so_gives_the_same_first_ones_however_deep_it_is_asked(context, kind):
    for leg in (legs[kind](), legs[kind](exact=True) if kind == "vector" else legs[kind](weight=2)):
        found = [
            live(context, variant(legs=(leg.model_copy(update={"depth": depth}),), top_k=300), deep_split())
            for depth in (5, 20, 100)
        ]
        for query, deepest in found[-1].items():
            for shallow in found:
                most = len(shallow[query].ids)
                assert not leg.deepens or shallow[query].ids == deepest.ids[:most]


def deep_split() -> QuerySplit:
    return QuerySplit("test", {each: Query(each, each) for each in TEXTS[:4]})


def test_somebodys_table_is_asked_anew_when_its_rows_moved(store, split):
    """Nothing tells us: its collection's version stays."""
    name = some_name()

    def sql(*statements):
        async def work():
            async with store.begin() as connection:
                for statement in statements:
                    await connection.execute(text(statement))

        bridge.run(work())

    table = name.replace(" ", "_")
    try:
        sql(
            f"CREATE TABLE public.{table} (id text, body text)",
            f"INSERT INTO public.{table} VALUES ('a', 'red button')",
        )
        view = bridge.run(attached.attach_table(store, name, mapped(table=table, id="id", text="body")))
        context = RequestContext(store, view, Resources(environment={}))
        words = [variant("words", (FulltextLeg(),), chunks="items")]
        first, asked = counted(context, words, split)
        assert len(asked) == 1
        assert counted(context, words, split)[1] == {}
        sql(f"UPDATE public.{table} SET body = 'blue'", f"INSERT INTO public.{table} VALUES ('b', 'a red button')")
        second, asked = counted(context, words, split)
        assert len(asked) == 1
        assert (first[0].rankings["q0"].ids, second[0].rankings["q0"].ids) == (("a",), ("b",))
        assert first[0].subject.version == second[0].subject.version
        assert first[0].subject.content != second[0].subject.content
    finally:
        sql(f"DROP TABLE IF EXISTS public.{table}")
        bridge.run(collections.drop(store, name))


# -- what goes wrong ---------------------------------------------------------------------------------------------------


class Refusing(HashingEmbedder):
    """Will not embed one query."""

    def __init__(self) -> None:
        super().__init__(64)
        self.refuses = True

    async def embed(self, texts, purpose="document"):
        if self.refuses and "red button" in texts:
            raise EmbeddingError("The endpoint is tired.")
        return await super().embed(texts, purpose)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"rerank": OverlapReranker()}], ids=["computed", "searched"])
def test_a_query_that_fails_is_recorded_the_others_go_on_and_it_alone_is_asked_again(context, split, options):
    refusing = Refusing()
    context = replace(context, resources=Resources(embedder=lambda _: refusing, environment={}))
    (made,), _ = counted(context, [variant(**options)], split)
    assert made.failures == {"q0": "The endpoint is tired."}
    assert made.rankings["q0"] == Ranking()
    assert list(made.rankings) == list(split.queries)
    (summary,) = [each for each in bridge.run(run_store.listed(context.store)) if each.id == made.id]
    assert (summary.queries, summary.failed) == (len(TEXTS), 1)
    refusing.refuses = False
    refusing.texts = []
    (mended,), asked = counted(context, [variant(**options)], split)
    assert mended.failures == {}
    assert mended.rankings["q0"].ids
    assert mended.id == made.id
    assert set(asked.values()) == {1}
    assert "red button" in refusing.texts
    assert {query: mended.rankings[query] for query in list(split.queries)[1:]} == {
        query: made.rankings[query] for query in list(split.queries)[1:]
    }


def test_a_statement_that_the_server_refuses_fails_the_query_with_its_reason(context, split):
    odd = replace(split, queries={**split.queries, "q9": Query("q9", "cat &")})
    strict = variant("strict", (FulltextLeg(mode="strict"), Bm25Leg()))
    (made,) = run(context, [strict], odd)
    assert "'cat &' is not in the syntax of to_tsquery" in made.failures["q9"]
    assert "red button" not in made.failures
    (refused,) = run(context, [variant("config", (FulltextLeg(config="klingon"),))], split)
    assert set(refused.failures) == set(split.queries)
    assert "klingon" in refused.failures["q0"]


@pytest.mark.slow
def test_a_leg_that_the_collection_lacks_is_told_and_the_others_are_fused(store, split):
    name = some_name()
    make(store, name, [], {"small": FIXED})
    ingest(store, name, documents(20))
    context = RequestContext(store, fresh(store, name), Resources(embedder=lambda _: EMBEDDER, environment={}))
    (made,) = run(context, [variant()], split)
    assert made.failures == {}
    assert any("vector is not available: " in note for note in made.notes)
    assert {query: ranked.ids for query, ranked in made.rankings.items()} == {
        query: ranked.ids for query, ranked in live(context, variant(), split).items()
    }
    (alone,) = run(context, [variant("alone", (VectorLeg(),))], split)
    assert set(alone.failures) == set(split.queries)
    assert "has no embeddings" in alone.failures["q0"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"rerank": OverlapReranker()}], ids=["computed", "searched"])
def test_a_run_that_had_to_do_without_a_leg_is_used_again_only_while_the_leg_is_missing(context, split, options):
    """An extension is installed, or a right granted: nothing changes in the collection."""
    server = context.store.capabilities
    poorer = Store(context.store.engine, None, replace(server, missing={"pg_trgm": "Trigram search needs pg_trgm."}))
    asked = variant("with trigrams", (TrigramLeg(), Bm25Leg()), **options)
    (less,), _ = counted(replace(context, store=poorer), [asked], split)
    assert less.failures == {}
    assert list(less.without) == ["trigram"]
    assert "needs pg_trgm" in less.without["trigram"]
    assert bridge.run(run_store.get(context.store, less.id)).without == less.without
    (kept,), legs_asked = counted(replace(context, store=poorer), [asked], split)
    assert kept == less
    assert legs_asked == {}
    (whole,), _ = counted(context, [asked], split)
    assert (whole.id, dict(whole.without), whole.notes) == (less.id, {}, ())
    assert {query: ranked.ids for query, ranked in whole.rankings.items()} == {
        query: ranked.ids for query, ranked in live(context, asked, split).items()
    }
    assert whole.rankings != less.rankings
    assert counted(context, [asked], split)[0] == [whole]


@pytest.mark.slow
def test_what_was_searched_without_a_leg_is_searched_anew_after_a_stop(context, split):
    poorer = Store(
        context.store.engine, None, replace(context.store.capabilities, missing={"pg_trgm": "No pg_trgm here."})
    )
    asked = variant("with trigrams", (TrigramLeg(), Bm25Leg()), rerank=OverlapReranker())
    wide = {f"{query}{at}": Query(f"{query}{at}", each.text) for query, each in split.queries.items() for at in "ab"}
    wide_split, stopping = replace(split, queries=dict(sorted(wide.items()))), asyncio.Event()

    def stop(step):
        if step.unit == "queries" and step.done:
            stopping.set()

    with pytest.raises(Cancelled):
        bridge.run(
            runner.run(
                replace(context, store=poorer, cancellation=stopping),
                [asked],
                wide_split,
                options=EvalOptions(),
                progress=stop,
            )
        )
    (whole,) = run(context, [asked], wide_split)
    assert (dict(whole.without), whole.notes) == ({}, ())
    assert whole.rankings["q1a"] == whole.rankings["q1b"]


def test_what_no_query_could_be_asked_is_refused_before_any_is(context, split):
    listener = CountedLegs()
    for wrong in (variant(chunks="smal"), variant(filter=filter_from({"field": "kind", "eq": "a"}), chunks="nowhere")):
        with pytest.raises(UnknownName):
            bridge.run(runner.run(context, [variant(), wrong], split, progress=listener))
    assert listener.asked == {}


@pytest.mark.slow
def test_a_deadline_is_each_querys_own(context, split):
    hasty = replace(context, deadline=1e-9)
    (made,) = run(hasty, [variant()], split)
    assert set(made.failures) == set(split.queries)
    assert "did not end within" in made.failures["q0"]


def test_no_queries_and_no_variants_are_no_trouble(context, split):
    assert run(context, [], split) == []
    (made,) = run(context, [variant()], replace(split, queries={}))
    assert made.rankings == {}
    assert made.latency is None


def test_a_token_that_is_set_ends_it(context, split):
    async def work():
        token = asyncio.Event()
        token.set()
        await runner.run(replace(context, cancellation=token), [variant()], split)

    with pytest.raises(Cancelled):
        bridge.run(work())


# -- times -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_latency_is_of_searches_asked_alone_which_a_kept_run_can_be_given_later(context, split):
    variants = [variant(), variant("reranked", rerank=OverlapReranker())]
    for made in run(context, variants, split):
        assert made.timed == ()
        assert (made.latency, made.stage_latencies) == (None, {})
        assert all(spent > 0 for spent in made.milliseconds.values())
    timed = run(context, variants, split, time_live=3)
    for made in timed:
        assert made.timed == ("q0", "q2", "q5")
        assert made.latency.queries == 3
        assert made.stage_latencies["fuse"].queries == 3
        assert len(made.milliseconds) == len(TEXTS)
    assert run(context, variants, split, time_live=2) == timed


def test_what_a_computed_query_took_is_its_slowest_leg_and_the_fusing(context, split):
    (made,) = run(context, [variant()], split)
    legs = {stage: spent for stage, spent in made.stages.items() if stage.startswith("leg ")}
    assert set(legs) == {"leg vector", "leg fulltext", "leg bm25"}
    for query, spent in made.milliseconds.items():
        assert spent == max(each[query] for each in legs.values()) + made.stages["fuse"][query]


# -- what was passed over ----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stage_that_passed_results_through_is_told_of_the_run_also_after_an_interruption(context, split):
    """Else a reranker that never answered would look like one that changes nothing."""
    broken = httpx.MockTransport(lambda _: httpx.Response(400, text="no"))
    context = replace(context, resources=replace(context.resources, transport=broken))
    asked = variant("reranked", rerank=ApiReranker(base_url="http://127.0.0.1:9", model="m"))
    stopping, stopped = asyncio.Event(), replace(split, digest=split.digest + b"stopped")
    wide = {f"{query}{at}": Query(f"{query}{at}", each.text) for query, each in split.queries.items() for at in "ab"}
    wide_split = replace(stopped, queries=dict(sorted(wide.items())))

    def stop(step):
        if step.unit == "queries" and step.done:
            stopping.set()

    with pytest.raises(Cancelled):
        bridge.run(
            runner.run(
                replace(context, cancellation=stopping), [asked], wide_split, options=EvalOptions(), progress=stop
            )
        )
    (made,) = run(context, [asked], wide_split)
    assert not made.failures
    found = sum(bool(ranked.ids) for ranked in made.rankings.values())
    (note,) = made.notes
    assert note.startswith(f"{found} of {len(wide)} queries: rerank: The rerank endpoint did not rank")
    assert run(context, [asked], wide_split)[0].notes == made.notes
