"""The one workflow of evaluating: what it reads, in which order its rows come, and what it refuses before the work."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, arg-type, var-annotated"

from __future__ import annotations

from dataclasses import replace

import pytest

from core import bridge
from core.context import Resources
from core.errors import SpecError, StoreError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.legs.fulltext import FulltextLeg
from core.types import Query
from core.variant import Variant
from evals.evaluation.context import open_eval
from evals.evaluation.cost_notice import external_calls
from evals.evaluation.evaluate import evaluate
from evals.lab import Lab
from evals.labels import query_sets
from evals.runs.plan import EvalOptions
from evals.types import Label, LabelledQueries
from tests.fakes import HashingEmbedder
from tests.statements import reading
from tests.store.making import FIXED, documents, ingest, make, some_name

EMBEDDER = HashingEmbedder(16)
ITEMS = documents(12)
OPTIONS = EvalOptions(("ndcg@5",))


def leg(name: str, kind=Bm25Leg, **options) -> Variant:
    return Variant.of_leg(kind(**options), chunks="small").but(name=name)


@pytest.fixture(scope="module")
def loaded(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, ITEMS, [EMBEDDER])
    queries = [Query(f"q{at:02}", f"unique{at} word{at}") for at in range(len(ITEMS))]
    labels = [Label(query.id, item.id, 1) for query, item in zip(queries, ITEMS, strict=True)]
    bridge.run(query_sets.keep(store, name, LabelledQueries(tuple(queries), tuple(labels))))
    return name


@pytest.fixture
def ctx(store, loaded):
    resources = Resources(embedder=lambda _: EMBEDDER, environment={})
    return bridge.run(open_eval(store, loaded, resources=resources))


@pytest.mark.slow
def test_the_collection_is_read_once_and_the_plan_is_made_once_for_notice_and_runs(store, loaded):
    resources = Resources(embedder=lambda _: EMBEDDER, environment={})
    variants = [leg("words", k1=1.23), leg("phrases", FulltextLeg, mode="plain")]  # of no other test here
    with reading(store) as read:
        ctx = bridge.run(open_eval(store, loaded, resources=resources))
        split = ctx.split("test")
        plan = bridge.run(ctx.plan(variants, split, OPTIONS))
        assert bridge.run(external_calls(ctx, plan)) == []
        result = bridge.run(evaluate(ctx, variants, split, OPTIONS, plan=plan))
    assert result.board.names == ("words", "phrases")
    assert read == {"collection": 1, "chunk sets": 1, "queries": 1, "kept runs": len(variants)}
    assert result.plan is not None
    assert result.plan.describe() == "2 variants -> 2 leg runs"


@pytest.mark.slow
def test_the_lab_reads_its_collection_once_however_many_variants_it_evaluates(store, loaded):
    resources = Resources(embedder=lambda _: EMBEDDER, environment={})
    with Lab(loaded, store=store, resources=resources, progress=False) as lab, reading(store) as read:
        board = lab.evaluate(["bm25", "fulltext", leg("words")], metrics="ndcg@5")
    assert board.names == ("bm25", "fulltext", "words")
    assert (read["collection"], read["queries"], read["kept runs"]) == (1, 1, 3)


@pytest.mark.slow
def test_rows_stand_in_the_order_of_variants_and_runs_then_files_then_what_is_kept(ctx, tmp_path):
    split = ctx.split("test")
    file = tmp_path / "other.trec"
    file.write_text("".join(f"{query} Q0 {ITEMS[0].id} 1 1.0 other\n" for query in split.queries))
    (words, shallow) = bridge.run(evaluate(ctx, [leg("words"), leg("3").but(top_k=3)], split, OPTIONS)).board.runs
    again = [leg("phrases", FulltextLeg), words, leg("all", FulltextLeg).but(top_k=20)]
    options = replace(OPTIONS, baseline="words")
    result = bridge.run(evaluate(ctx, again, split, options, files=[file], kept=[shallow, words]))
    assert result.board.names == ("phrases", "words", "all", "other", "3")
    assert result.board.baseline == "words"
    assert [each.run.name for each in result.foreign] == ["other"]


def test_a_run_over_other_data_and_an_unknown_baseline_are_refused_before_the_work(ctx):
    split, steps = ctx.split("test"), []
    (run,) = bridge.run(evaluate(ctx, [leg("words")], split, OPTIONS)).board.runs
    older = replace(run, subject=replace(run.subject, version=run.subject.version + 1))
    with pytest.raises(SpecError, match="as it was then"):
        bridge.run(evaluate(ctx, [leg("new").but(top_k=4), older], split, OPTIONS, progress=steps.append))
    wanted = replace(OPTIONS, baseline="nobody")
    with pytest.raises(UnknownName, match="nobody"):
        bridge.run(evaluate(ctx, [leg("new").but(top_k=4)], split, wanted, progress=steps.append))
    assert steps == []


@pytest.mark.slow
def test_what_was_opened_before_the_collection_changed_is_refused_and_scored_when_opened_anew(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, ITEMS, [EMBEDDER])
    labels = (Label("q", ITEMS[0].id, 1),)
    bridge.run(query_sets.keep(store, name, LabelledQueries((Query("q", "unique0"),), labels)))
    resources = Resources(embedder=lambda _: EMBEDDER, environment={})
    ctx = bridge.run(open_eval(store, name, resources=resources))
    ingest(store, name, documents(14), [EMBEDDER])
    with pytest.raises(StoreError, match="was changed while it was being evaluated"):
        bridge.run(evaluate(ctx, [leg("words")], ctx.split("test"), OPTIONS))
    ctx = bridge.run(open_eval(store, name, resources=resources))
    assert bridge.run(evaluate(ctx, [leg("words")], ctx.split("test"), OPTIONS)).board.names == ("words",)
