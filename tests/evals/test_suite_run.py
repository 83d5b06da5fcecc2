"""Suites on the real server: planned, tuned apart from what is reported, run once, scored, guarded, gone on with."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from core import bridge
from core.context import Resources
from core.errors import Cancelled, InputError, SpecError, UnknownName
from core.types import Item, Query
from core.variant import Variant
from evals.evaluation.compare_runs import RunScope, compare_runs, compared, differences
from evals.evaluation.context import open_eval
from evals.evaluation.evaluate import evaluate
from evals.labels import query_sets
from evals.presentation.weight_surface import weight_surface
from evals.runs import exchange, run_store
from evals.runs.plan import EvalOptions
from evals.runs.rankings import Ranking
from evals.suites.gate import passed
from evals.suites.run_suite import plan_suite, run_suite
from evals.suites.suite import Suite
from evals.tuning.tuner import TuningProcedure
from evals.tuning.workflow import TuningRequest, tune_weights
from evals.types import Exclusion, Label, LabelledQueries
from tests.fakes import HashingEmbedder
from tests.statements import reading
from tests.store.making import FIXED, documents, fresh, ingest, make, some_name

EMBEDDER = HashingEmbedder(16)
RESOURCES = Resources(embedder=lambda _: EMBEDDER, environment={})
ITEMS = documents(24)
HYBRID = """
[[variant]]
name = "hybrid"
chunks = "small"
[[variant.leg]]
kind = "bm25"
[[variant.leg]]
kind = "vector"
"""
BM25 = '[[variant]]\nname = "words"\nchunks = "small"\n[[variant.leg]]\nkind = "bm25"\n'
TUNE = '[[tune]]\nbase = "hybrid"\nsteps = 4\neven_so = true\nprocedure = { repeats = 2, samples = 200 }\n'
HEAD = 'metrics = ["ndcg@5", "recall@5"]\ntime_live = 0\n'
RULES = "[rules]\nsamples = 200\n"


def labelled(test_grade: int = 2, *, shared: bool = False) -> LabelledQueries:
    """Queries that name a document by the one word that only it has; every third asks for common words too."""
    queries, labels = [], []
    for number, item in enumerate(ITEMS):
        text = f"unique{number}" + (f" word{(number * 7 + 3) % 97} common" if number % 3 else " common words")
        queries.append(Query(f"q{number:02}", text, "long" if number % 3 else "short", ("tagged",)))
        split = "test" if number % 2 else "train"
        labels.append(Label(f"q{number:02}", item.id, test_grade if split == "test" else 2, split))
    if shared:
        labels.append(Label("q01", ITEMS[1].id, 2, "train"))
    return LabelledQueries(tuple(queries), tuple(sorted(labels, key=lambda each: (each.split, each.query_id))))


@pytest.fixture(scope="module")
def loaded(store):
    """One collection for all: what a test changes of its labels goes into a query set of its own."""
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, ITEMS, [EMBEDDER])
    return name


@pytest.fixture
def asked(store, loaded):
    """A query set that no other test has runs over."""
    name = some_name()

    def keep(queries: LabelledQueries, under: str = name) -> str:
        # The ids of a set of its own: legs that other tests asked are of no use here.
        mark = f"{name} "
        queries = LabelledQueries(
            tuple(replace(query, id=f"{mark}{query.id}") for query in queries.queries),
            tuple(replace(label, query_id=f"{mark}{label.query_id}") for label in queries.labels),
        )
        bridge.run(query_sets.keep(store, loaded, queries, name=under))
        return under

    return keep


def suite(collection: str, query_set: str, text: str = HYBRID + BM25, split: str = "test") -> Suite:
    target = f'[[collection]]\nname = "{collection}"\nquery_set = "{query_set}"\nsplit = "{split}"\n'
    return Suite.from_toml(HEAD + target + RULES + text)


def run(store, given: Suite, **options):
    steps = []
    result = bridge.run(run_suite(store, given, resources=RESOURCES, progress=steps.append, **options))
    return result, [step for step in steps if step.unit == "queries" and step.done == step.total]


# -- planned and run ---------------------------------------------------------------------------------------------------


def test_the_plan_is_told_before_anything_is_asked(store, loaded, asked):
    given = suite(
        loaded, asked(labelled()), HYBRID + BM25 + '[[grid]]\nbase = "hybrid"\nvary = { "fusion.k" = [1, 9] }\n'
    )
    (told,) = bridge.run(plan_suite(store, given))
    assert told.line == "4 variants -> 2 leg runs"
    assert told.sentences() == [f"{loaded}, 12 queries of 'test': 4 variants -> 2 leg runs"]


@pytest.mark.slow
def test_a_suite_is_carried_out_by_the_plan_that_was_shown_and_reads_nothing_again(store, loaded, asked):
    given = suite(loaded, asked(labelled()))
    (shown,) = planned = bridge.run(plan_suite(store, given))
    with reading(store) as read:
        result, _ = run(store, given, planned=planned)
    assert result.results[0].plan == shown.line == "2 variants -> 2 leg runs"
    assert read["collection"] == read["queries"] == read["kept runs"] == 0


@pytest.mark.slow
def test_a_suite_that_is_run_again_asks_no_leg_again_and_scores_the_same(store, loaded, asked):
    given = suite(loaded, asked(labelled()), HYBRID + BM25 + TUNE)
    first, made = run(store, given)
    before = len(EMBEDDER.texts)
    again, nothing = run(store, given)
    assert made
    assert (nothing, len(EMBEDDER.texts)) == ([], before)
    (one,), (other,) = first.results, again.results
    assert [each.id for each in one.board.runs] == [each.id for each in other.board.runs]
    assert one.board.cells("ndcg@5") == other.board.cells("ndcg@5")
    line = bridge.run(plan_suite(store, given))[0].line
    assert line == "2 variants -> 2 kept from before, and 1 to be tuned from these legs"
    assert one.plan == "3 variants -> 2 leg runs"
    assert other.plan == "3 variants -> 3 kept from before"


@pytest.mark.slow
def test_a_point_of_a_grid_that_is_its_base_is_told_and_leaves_the_base_its_name(store, loaded, asked):
    given = suite(loaded, asked(labelled()), HYBRID + '[[grid]]\nbase = "hybrid"\nvary = { "fusion.k" = [60, 9] }\n')
    assert bridge.run(plan_suite(store, given))[0].line == "3 variants (1 alike) -> 2 leg runs"
    (result,) = run(store, given)[0].results
    base, point, _ = result.board.runs
    assert base.id == point.id
    assert base.name != point.name
    assert bridge.run(run_store.find(store, base.id)).name == "hybrid"
    assert bridge.run(plan_suite(store, given))[0].line == "3 variants (1 alike) -> 2 kept from before"
    run(store, given)
    assert bridge.run(run_store.find(store, base.id)).name == "hybrid", "also where it was kept"


@pytest.mark.slow
def test_a_suite_leaves_somebodys_own_run_its_name(store, loaded, asked):
    """Be it kept from before, asked again, or a deep one that a metric takes."""
    name = asked(labelled())
    ground = bridge.run(open_eval(store, loaded, name, resources=RESOURCES))
    mine = suite(loaded, name).all_variants()[0].but(name="mine")
    for wanted in (EvalOptions(("ndcg@5",)), EvalOptions(("recall@90",)).deep):
        bridge.run(evaluate(ground, [mine], ground.split("test"), replace(wanted, rename=True)))
    own = {each.id for each in bridge.run(run_store.listed(store, collection=loaded)) if each.name == "mine"}
    assert len(own) == 2
    given = suite(loaded, name).model_copy(update={"metrics": ("ndcg@5", "recall@90")})
    for again in (False, True):
        bridge.run(run_suite(store, given, resources=RESOURCES, again=again))
        found = {each.id: each for each in bridge.run(run_store.listed(store, collection=loaded)) if each.id in own}
        assert {each.name for each in found.values()} == {"mine"}
        assert all("hybrid" in each.other_names for each in found.values())


def test_scores_are_kept_beside_the_runs_with_intervals_and_by_query(store, loaded, asked):
    name = asked(labelled())
    result, _ = run(store, suite(loaded, name))
    board = result.results[0].board
    kept = bridge.run(run_store.find(store, board.run("words").id)).scores
    assert kept["ndcg@5"] == board.cells("ndcg@5")["words"].mean
    assert kept["ndcg@5 by query"] == board.of("words", "ndcg@5")
    assert len(kept["recall@5 interval"]) == 2


@pytest.mark.slow
def test_a_metric_s_value_does_not_hang_on_what_else_is_measured(store, loaded, asked):
    """Chunks are of fewer documents than there are chunks: asked no deeper than the metric, some would be missing."""
    name = asked(labelled())
    ground = bridge.run(open_eval(store, loaded, name, resources=RESOURCES))
    variants, split = suite(loaded, name).all_variants(), ground.split("test")
    few, many = (
        bridge.run(evaluate(ground, variants, split, EvalOptions(each))).board
        for each in (("recall@2",), ("recall@2", "recall@90"))
    )
    assert [run.id for run in few.runs] == [run.id for run in many.runs]
    assert few.cells("recall@2") == many.cells("recall@2")


def test_a_suite_that_was_stopped_goes_on_from_there(store, loaded, asked):
    given, token = suite(loaded, asked(labelled())), asyncio.Event()
    done = []

    def stop_after_the_first_leg(step):
        if step.unit == "queries" and step.done == step.total:
            done.append(step.name)
            token.set()

    with pytest.raises(Cancelled):
        bridge.run(run_suite(store, given, resources=RESOURCES, progress=stop_after_the_first_leg, cancellation=token))
    _, steps = run(store, given)
    assert len(done) == 1
    assert done[0] not in {step.name for step in steps}
    assert steps


def test_steps_of_several_collections_are_told_apart(store, loaded, asked):
    first, second = asked(labelled()), asked(labelled(1), some_name())
    text = "".join(f'[[collection]]\nname = "{loaded}"\nquery_set = "{each}"\n' for each in (first, second))
    result, steps = run(store, Suite.from_toml(HEAD + text + RULES + BM25))
    assert len(result.results) == 2
    assert all(step.name.startswith(f"{loaded}: ") for step in steps)
    assert result.passed


# -- tuned -------------------------------------------------------------------------------------------------------------


def chosen(result):
    return result.results[0].tuned[0].variant.id


@pytest.mark.slow
def test_labels_of_the_reported_split_have_no_say_in_the_weights(store, loaded, asked):
    """Neither other grades there, nor other relevant documents."""
    name = asked(labelled())
    first, _ = run(store, suite(loaded, name, HYBRID + TUNE))
    turned = labelled(test_grade=1)
    wrong = tuple(
        replace(each, item_id=ITEMS[(at * 5) % 24].id) if each.split == "test" else each
        for at, each in enumerate(turned.labels)
    )
    second, _ = run(store, suite(loaded, asked(replace(turned, labels=wrong), some_name()), HYBRID + TUNE))
    assert chosen(first) == chosen(second)
    tuned = [each.results[0].board.of("tuned", "ndcg@5") for each in (first, second)]
    assert list(tuned[0].values()) != list(tuned[1].values())


@pytest.mark.slow
def test_a_query_of_both_splits_has_no_say_either_and_that_is_said(store, loaded, asked):
    result, _ = run(store, suite(loaded, asked(labelled(shared=True)), HYBRID + TUNE))
    (made,) = result.results[0].tuned
    assert len(made.tuned.surfaces[0].queries) == 12
    assert any("1 queries of 'train' are reported in 'test' too" in note for note in result.results[0].notes)


@pytest.mark.slow
def test_a_reported_query_s_double_under_another_id_has_no_say_either(store, loaded, asked):
    given = labelled()
    doubled = replace(given.queries[0], text=f" {given.queries[1].text.upper()}")
    result, _ = run(
        store, suite(loaded, asked(replace(given, queries=(doubled, *given.queries[1:])), some_name()), HYBRID + TUNE)
    )
    (made,) = result.results[0].tuned
    assert [query[-3:] for query in made.tuned.surfaces[0].queries] == [f"q{at:02}" for at in range(2, 24, 2)]


@pytest.mark.slow
def test_a_tuned_variant_scores_what_its_surface_said(store, loaded, asked):
    """The legs' rankings that are swept are those that a search has."""
    result, _ = run(store, suite(loaded, asked(labelled()), HYBRID + TUNE))
    made = result.results[0].tuned[0]
    ground = bridge.run(open_eval(store, loaded, result.suite.targets[0].query_set, resources=RESOURCES))
    wanted = EvalOptions(("ndcg@10",), rules=result.suite.judged_by)
    board = bridge.run(evaluate(ground, [made.variant], ground.split("train"), wanted)).board
    assert board.cells("ndcg@10")["tuned"].mean == pytest.approx(made.tuned.in_sample, abs=1e-12)


@pytest.fixture(scope="module")
def loud(store):
    """A collection in which the chunks of one document stand before all others."""
    loud = Item("loud", " ".join(f"The red button shines {n}." for n in range(12)))
    others = [Item(f"q{n}", f"A red lamp {n}. Nothing else here.") for n in range(5)]
    name = some_name()
    make(store, name, [EMBEDDER], {"small": {"kind": "sentences", "max_tokens": 6}})
    ingest(store, name, [loud, *others], [EMBEDDER])
    queries = tuple(Query(f"red {at}", f"red button {at}") for at in range(4))
    labels = tuple(Label(query.id, item.id, 2, "test") for query in queries for item in others)
    bridge.run(query_sets.keep(store, name, LabelledQueries(queries, labels)))
    return bridge.run(open_eval(store, name, resources=RESOURCES))


def test_chunks_are_scored_by_the_documents_among_the_first_and_only_a_roll_up_fetches_until_there_are_enough(loud):
    options = {"chunks": "small", "top_k": 3, "overfetch": 1, "leg": [{"kind": "bm25"}]}
    plain = Variant.from_data({"name": "plain", **options})
    rolled = Variant.from_data({"name": "rolled", **options, "rollup": {}})
    split = loud.split("test")
    board = bridge.run(evaluate(loud, [plain, rolled], split, EvalOptions(("recall@3", "recall@10")))).board
    found = {run.name: [ranked.item_ids for ranked in run.rankings.values()] for run in board.runs}
    assert {ranked.length for ranked in board.run("plain").rankings.values()} == {3}
    assert max(len(items) for items in found["plain"]) < 3
    assert {len(items) for items in found["rolled"]} == {3}
    means = {name: cell.mean for name, cell in board.cells("recall@3").items()}
    assert means["plain"] < means["rolled"]
    assert board.cells("recall@10")["plain"].badge == "deep"


@pytest.mark.slow
@pytest.mark.parametrize("fused_depth", [None, 5, 30])
def test_a_surface_asks_deeper_where_a_roll_up_does(loud, fused_depth):
    ground = loud
    legs = [{"kind": "bm25"}, {"kind": "fulltext", "mode": "any"}]
    base = Variant.from_data(
        {"name": "rolled", "chunks": "small", "top_k": 3, "overfetch": 1, "rollup": {}, "leg": legs}
    ).but(fused_depth=fused_depth)
    split = ground.split("test")
    looked = TuningRequest(base, split, "recall@3", 4, (base.fusion,), False, TuningProcedure())
    surface = bridge.run(tune_weights(ground, looked)).result.surfaces[0]
    mixes = [base.weighted(surface.leg_weights(at), name=f"at {at}") for at in range(1, 4)]
    board = bridge.run(evaluate(ground, mixes, split, EvalOptions(("recall@3",)))).board
    told = [board.cells("recall@3")[each.name].mean for each in mixes]
    assert told == pytest.approx(surface.means[1:4].tolist(), abs=1e-12)
    assert max(told) > 0


def test_too_few_labels_leave_the_tuned_variant_out_and_a_gate_on_it_in_error(store, loaded, asked):
    text = (
        HYBRID + TUNE.replace("even_so = true\n", "") + '[gate]\nvariants = ["tuned"]\nminimum = { "ndcg@5" = 0.0 }\n'
    )
    result, _ = run(store, suite(loaded, asked(labelled()), text))
    (target,) = result.results
    assert target.board.names == ("hybrid",)
    assert any("Too few labels to tune" in note for note in target.notes)
    assert [(check.variant, check.outcome) for check in target.checks] == [("tuned", "error")]
    assert not result.passed


@pytest.mark.slow
def test_what_a_sweep_comes_to_is_told_in_sentences(store, loaded, asked):
    result, _ = run(store, suite(loaded, asked(labelled()), HYBRID + TUNE))
    tuned = result.results[0].tuned[0].tuned
    told = weight_surface("hybrid", tuned)
    points = list(told.points)
    assert len(points) == 5
    assert sum(point.best for point in points) == 1
    assert {each.name for each in told.fusions} == {"rrf", "linear, minmax"}
    assert [next(word for word in sentence.split(":")) for sentence in told.sentences[:2]] == [
        "In-sample best",
        "To be expected of new queries",
    ]
    assert told.document()["optimism"] == tuned.optimism


# -- guarded -----------------------------------------------------------------------------------------------------------


def gated(loaded, name, gate, text=HYBRID + BM25):
    return suite(loaded, name, f"{text}[gate]\n{gate}")


@pytest.mark.slow
def test_a_gate_that_nothing_passes_fails_with_what_was_found(store, loaded, asked):
    name = asked(labelled())
    result, _ = run(store, gated(loaded, name, 'minimum = { "ndcg@5" = 1.1 }\n'))
    assert not result.passed
    assert {check.outcome for check in result.checks if "ndcg@5" in check.what} == {"failed"}
    assert run(store, gated(loaded, name, 'minimum = { "ndcg@5" = 0.0 }\n'))[0].passed


@pytest.mark.slow
def test_a_gate_s_own_metrics_are_run_deep_enough(store, loaded, asked):
    result, _ = run(store, gated(loaded, asked(labelled()), 'minimum = { "recall@150" = 0.0 }\n'))
    board = result.results[0].board
    assert "recall@150" in board.metrics
    assert board.runs[0].depth == 0
    assert board.scored_run(board.runs[0], "recall@150").depth == 150
    assert board.cells("recall@150")[board.names[0]].badge == "deep"


def pinned(store, run, pin):
    bridge.run(run_store.pin(store, run.id, pin))
    return pin


@pytest.mark.slow
def test_a_pinned_run_over_the_same_data_joins_the_table(store, loaded, asked):
    name, pin = asked(labelled()), some_name()
    first, _ = run(store, suite(loaded, name))
    pinned(store, first.results[0].board.run("words"), pin)
    gate = f'against = "{pin}"\nlargest_drop = {{ "ndcg@5" = 0.0 }}\n'
    result, _ = run(store, gated(loaded, name, gate, HYBRID))
    (target,) = result.results
    assert target.board.names == ("hybrid", f"{pin} (pinned)")
    assert (f"ndcg@5 against {pin} (pinned)", "hybrid") in [(check.what, check.variant) for check in target.checks]
    assert all(check.outcome != "error" for check in target.checks)
    bridge.run(run_store.unpin(store, pin))


@pytest.mark.slow
def test_a_pinned_run_over_other_labels_is_never_compared_even_under_a_variant_s_name(store, loaded, asked):
    name, pin = asked(labelled()), some_name()
    first, _ = run(store, suite(loaded, name))
    pinned(store, first.results[0].board.run("hybrid"), pin)
    asked(labelled(test_grade=1), name)
    gate = f'against = "{pin}"\nlargest_drop = {{ "ndcg@5" = 0.5 }}\n'
    result, _ = run(store, gated(loaded, name, gate))
    drops = [check for check in result.checks if "against" in check.what]
    assert result.results[0].board.names == ("hybrid", "words")
    assert {check.variant for check in drops} == {"hybrid", "words"}
    assert {check.outcome for check in drops} == {"error"}
    assert "queries or labels changed" in drops[0].says
    bridge.run(run_store.unpin(store, pin))


@pytest.mark.slow
def test_each_collection_has_a_pin_of_its_own_before_the_common_one(store, loaded, asked):
    name, pin = asked(labelled()), some_name()
    board = run(store, suite(loaded, name))[0].results[0].board
    pinned(store, board.run("hybrid"), pin)
    pinned(store, board.run("words"), f"{pin}@{loaded}")
    gate = f'against = "{pin}"\nlargest_drop = {{ "ndcg@5" = 1 }}\n'
    result, _ = run(store, gated(loaded, name, gate, BM25 + HYBRID))
    assert {check.variant for check in result.checks if check.says == "It is the very run that is pinned."} == {"words"}
    assert passed(result.checks)
    for each in (pin, f"{pin}@{loaded}"):
        bridge.run(run_store.unpin(store, each))


def test_a_gate_that_compares_with_nothing_is_refused_before_any_work(store, loaded, asked):
    name = asked(labelled())
    given = gated(loaded, name, 'against = "mian"\nlargest_drop = { "ndcg@5" = 0.1 }\n')
    steps = []
    for work in (plan_suite(store, given), run_suite(store, given, resources=RESOURCES, progress=steps.append)):
        with pytest.raises(UnknownName, match=r"No pinned run, nor variant of this suite.* 'mian'.*runs pin RUN mian"):
            bridge.run(work)
    assert steps == []
    for there in ("words", "hybrid"):
        bridge.run(plan_suite(store, gated(loaded, name, f'against = "{there}"\nlargest_drop = {{ "ndcg@5" = 1 }}\n')))


# -- runs of other engines, and two runs -------------------------------------------------------------------------------


def test_a_foreign_run_joins_as_an_equal(store, loaded, asked, tmp_path):
    name = asked(labelled())
    board = run(store, suite(loaded, name))[0].results[0].board
    exchange.write_run(board.run("words"), tmp_path / "lucene.trec")
    text = f'{HYBRID}[[run]]\nfile = "{tmp_path}/lucene.trec"\ncollection = "{loaded}"\n'
    (target,) = run(store, suite(loaded, name, text))[0].results
    assert target.board.names == ("hybrid", "lucene")
    assert target.board.of("lucene", "ndcg@5") == board.of("words", "ndcg@5")
    assert target.board.run("lucene").id


def held(store, one, other, where=None, wanted=None):
    return bridge.run(compare_runs(store, (one, other), where or RunScope(), wanted))


@pytest.mark.slow
def test_two_kept_runs_are_scored_and_broken_down_in_one_way(store, loaded, asked):
    board = run(store, suite(loaded, asked(labelled())))[0].results[0].board
    found = held(store, board.run("hybrid").id, board.run("words").id, wanted=EvalOptions(("ndcg@5",)))
    made = compared(found.board, "ndcg@5", "kind")
    assert (made.system, made.baseline) == ("hybrid", "words")
    difference = board.cells("ndcg@5")["hybrid"].mean - board.cells("ndcg@5")["words"].mean
    assert made.finding.difference.mean == pytest.approx(difference)
    assert {(each.by, each.group) for each in made.groups} == {("kind", "long"), ("kind", "short")}
    with pytest.raises(UnknownName, match="Did you mean 'kind'"):
        compared(found.board, "ndcg@5", "kinds")


@pytest.mark.slow
def test_runs_made_before_labels_changed_are_refused_and_their_overlap_is_not(store, loaded, asked):
    name = asked(labelled())
    board = run(store, suite(loaded, name))[0].results[0].board
    asked(labelled(test_grade=1), name)
    ids = board.run("hybrid").id, board.run("words").id
    with pytest.raises(SpecError, match="Evaluate both anew"):
        held(store, *ids, wanted=EvalOptions(("ndcg@5",)))
    with pytest.raises(SpecError, match=r"The queries or labels of 'test' of .* have changed since 'hybrid'"):
        held(store, *ids, wanted=EvalOptions(("ndcg@5",)))
    measures = held(store, *ids).overlap()
    assert set(measures) == {"rbo", "jaccard@10"}
    assert all(0 <= each <= 1 for values in measures.values() for each in values.values())


@pytest.mark.slow
def test_runs_that_cannot_be_compared_are_refused_with_what_sets_them_apart(store, loaded, asked):
    name, pilot = asked(labelled()), asked(labelled(1), some_name())
    ground, other = (bridge.run(open_eval(store, loaded, each, resources=RESOURCES)) for each in (name, pilot))
    words = suite(loaded, name).all_variants()[1]
    wanted = EvalOptions(("ndcg@5",))

    def made(ground, split="test", wanted=wanted) -> str:
        board = bridge.run(evaluate(ground, [words], ground.split(split), wanted)).board
        return board.runs[0].id

    first, train, piloted, deep = made(ground), made(ground, "train"), made(other), made(ground, wanted=wanted.deep)
    for reference, said in (
        (train, "split test and train. Take two runs over one split"),
        (piloted, f"query set {name} and {pilot}.*Take two runs over one query set"),
        (deep, "is a deep run, asked for 100 results, and .* is of what ships.*Evaluate both anew"),
    ):
        with pytest.raises(SpecError, match=said):
            held(store, first, reference, wanted=wanted)
        assert held(store, first, reference).overlap()["rbo"], "which asks for no common data"
    changed = replace(labelled(), queries=(*labelled().queries[:-1], Query("q23", "other words", "long")))
    asked(changed, name)
    again = made(bridge.run(open_eval(store, loaded, name, resources=RESOURCES)))
    with pytest.raises(SpecError, match=r"the queries or labels changed \(.*\)\. Evaluate both anew"):
        held(store, first, again, wanted=wanted)


def test_a_name_without_a_run_is_told_with_the_command_that_makes_one(store, loaded):
    with pytest.raises(UnknownName, match=f"It is a variant, .*: rankbook eval {loaded} vector --split test"):
        held(store, "vector", "bm25", where=RunScope(loaded, split="test"))


@pytest.mark.slow
def test_files_need_a_collection_and_one_run_is_not_held_against_itself(store, loaded, asked, tmp_path):
    name = asked(labelled())
    board = run(store, suite(loaded, name))[0].results[0].board
    for each in ("hybrid", "words"):
        exchange.write_run(board.run(each), tmp_path / f"{each}.trec")
    files = [str(tmp_path / f"{each}.trec") for each in ("hybrid", "words")]
    with pytest.raises(SpecError, match="--collection"):
        held(store, *files, wanted=EvalOptions(("ndcg@5",)))
    found = held(store, *files, RunScope(loaded, name, "test"), EvalOptions(("ndcg@5",)))
    assert found.board.names == ("words", "hybrid")
    with pytest.raises(InputError, match="one and the same run"):
        held(store, board.run("words").id, board.run("words").id)


@pytest.mark.slow
def test_what_differs_between_runs_is_told_option_by_option(store, loaded, asked):
    board = run(store, suite(loaded, asked(labelled())))[0].results[0].board
    one = board.run("hybrid")
    assert differences(one, one).rows == ()
    other = replace(
        one,
        variant=one.variant.but(top_k=5),
        rankings={**one.rankings, next(iter(one.rankings)): Ranking()},
    )
    found = differences(one, other)
    assert [(row.where, row.one, row.other) for row in found.rows] == [("variant.top_k", "10", "5")]
    assert (found.changed, found.queries) == ((next(iter(one.rankings)),), 12)


# -- what is not there -------------------------------------------------------------------------------------------------


def test_a_collection_that_is_not_there_is_told_with_the_way_to_it_before_anything_runs(store, loaded, asked):
    text = f'[[collection]]\nname = "{loaded}"\nquery_set = "{asked(labelled())}"\n'
    with pytest.raises(UnknownName, match="rankbook data add scifact"):
        bridge.run(run_suite(store, Suite.from_toml(HEAD + text + '[[collection]]\nname = "scifact"\n' + BM25)))
    assert bridge.run(run_store.listed(store, collection=loaded, split="nowhere")) == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ('[gate]\nminimum = { mrr = 0.1 }\nvariants = ["wrods"]\n', "Did you mean 'words'"),
        ('baseline = "no such run"\n', "no kept run, is called 'no such run'"),
    ],
)
def test_a_slip_in_a_name_is_told_before_anything_is_asked(store, loaded, asked, more, said):
    name, steps = asked(labelled()), []
    target = f'[[collection]]\nname = "{loaded}"\nquery_set = "{name}"\n'
    given = Suite.from_toml(
        (more + HEAD if "baseline" in more else HEAD) + target + BM25 + (more if "gate" in more else "")
    )
    for work in (plan_suite(store, given), run_suite(store, given, resources=RESOURCES, progress=steps.append)):
        with pytest.raises(UnknownName, match=said):
            bridge.run(work)
    assert steps == []


@pytest.mark.parametrize(
    ("queries", "split", "error", "said"),
    [
        (LabelledQueries(), "all", InputError, "has no query"),
        (LabelledQueries((Query("a", "x"),)), "all", InputError, "nothing can be scored"),
        (labelled(), "tset", UnknownName, "Did you mean 'test'"),
    ],
)
def test_queries_that_cannot_be_scored_are_refused_with_the_way_out(store, loaded, asked, queries, split, error, said):
    with pytest.raises(error, match=said):
        bridge.run(run_suite(store, suite(loaded, asked(queries), BM25, split), resources=RESOURCES))


@pytest.mark.slow
def test_exclusions_hold_in_sweeps_too(store, loaded):
    """A query's own document does not come out, tuned or not."""
    name = some_name()
    given = labelled()
    shut = tuple(Exclusion(query.id, ITEMS[0].id) for query in given.queries)
    bridge.run(query_sets.keep(store, loaded, replace(given, exclusions=shut), name=name))
    result, _ = run(store, suite(loaded, name, HYBRID + TUNE))
    assert "q00" not in result.results[0].tuned[0].tuned.surfaces[0].queries
    assert all(ITEMS[0].id not in ranked.item_ids for ranked in result.results[0].board.run("tuned").rankings.values())


def test_the_collection_s_version_is_that_of_the_runs(store, loaded, asked):
    result, _ = run(store, suite(loaded, asked(labelled()), BM25))
    assert result.results[0].board.runs[0].subject.version == fresh(store, loaded).row.version
