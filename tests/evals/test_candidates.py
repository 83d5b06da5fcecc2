"""What a verdict is made with in view: all candidates of the place, whatever a table shows of them."""

# mypy: disable-error-code="no-untyped-call, no-any-return, arg-type, union-attr, operator"

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sqlalchemy import text

from core import bridge
from core.legs.bm25 import Bm25Leg
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.compare_runs import RunScope, compare_runs, compared
from evals.evaluation.context import open_eval
from evals.evaluation.evaluate import evaluate as evaluated
from evals.labels import query_sets
from evals.reports import report
from evals.runs import candidates, run_store
from evals.runs.plan import EvalOptions
from evals.runs.rankings import cut_off
from evals.runs.types import CandidateRun, CandidateSet, Run
from evals.schema import schema_chain
from evals.statistics import crossfit
from evals.statistics.verdicts import Verdict
from evals.suites.run_suite import run_suite
from evals.types import Label, LabelledQueries
from tests.evals.boards import ORDERS, QUERIES, SPLIT, run
from tests.evals.test_suite_run import BM25, EMBEDDER, HYBRID, ITEMS, RESOURCES, labelled, suite
from tests.store.making import FIXED, ingest, make, some_name
from tests.store.test_schema import on, schema  # noqa: F401 - a fixture

METRIC = "mrr@10"
VARIANT = Variant(name="words", legs=(Bm25Leg(),))


# -- boards ----------------------------------------------------------------------------------------------------------


def candidate(name: str, variant: Variant | None = None) -> CandidateRun:
    """Of a made run, as the store has its scores."""
    board = Board(SPLIT, [run(name)], [METRIC])
    return CandidateRun(f"other {name}", variant, {METRIC: board.of(name, METRIC)})


def uneven(name: str, misses: int) -> Run:
    """Right at all queries but the first so many."""
    right, wrong = run("good"), run("poor", ORDERS["poor"])
    rankings = {query: (wrong if at < misses else right).rankings[query] for at, query in enumerate(QUERIES)}
    return replace(right, name=name, id=f"id of {name}", rankings=rankings)


def test_a_table_of_some_has_the_intervals_verdicts_and_stars_of_the_table_of_all():
    every = [uneven("a", 0), uneven("b", 9), uneven("c", 20), uneven("d", 31)]
    whole = Board(SPLIT, every, [METRIC])
    others = tuple(CandidateRun(each.name, None, {METRIC: whole.of(each.name, METRIC)}) for each in every[2:])
    part = Board(SPLIT, every[:2], [METRIC], place=CandidateSet(others))
    alone = Board(SPLIT, every[:2], [METRIC])
    assert part.finding(METRIC, "b") == whole.finding(METRIC, "b")
    assert part.finding(METRIC, "b").difference.among == 3
    assert alone.finding(METRIC, "b").difference.high < part.finding(METRIC, "b").difference.high
    assert part.best(METRIC) == tuple(name for name in whole.best(METRIC) if name in part.names)
    assert part.compare("b", "a", METRIC).finding == whole.finding(METRIC, "b")
    (said,) = (each.message for each in part.warnings if "Verdicts hold together" in each.message)
    assert said == "Verdicts hold together with 2 more set-ups that were scored over the same queries: c, d."
    assert said in repr(part)
    assert said in [each.message for each in report([part]).sections[0].warnings]


def test_a_candidate_that_was_not_scored_by_the_metric_or_ships_less_than_it_counts_is_not_looked_at():
    short = Variant(name="short", legs=(Bm25Leg(),), top_k=3)
    others = (candidate("poor", short), CandidateRun("unscored", None, {METRIC: None}))
    made = Board(SPLIT, [run("good"), run("bare")], [METRIC], place=CandidateSet(others))
    assert made.finding(METRIC, "bare").difference.among == 1


def test_cells_of_a_grid_make_no_candidate_s_verdict_more_careful_and_theirs_have_all_in_view():
    runs = [uneven("a", 0), uneven("b", 9)]
    cells = [replace(uneven(f"cell {at}", at), variant=VARIANT.but(overfetch=at + 1)) for at in range(1, 4)]
    place = CandidateSet(cells=frozenset(each.variant.id for each in cells))
    made, without = Board(SPLIT, [*runs, *cells], [METRIC], place=place), Board(SPLIT, runs, [METRIC])
    assert made.finding(METRIC, "b") == without.finding(METRIC, "b")
    assert made.finding(METRIC, "cell 1").difference.among == 4


def test_beside_a_baseline_of_another_engine_deep_runs_are_not_compared_with_what_ships():
    ships, deep = (replace(run("good"), name=name, id=name, variant=VARIANT) for name in ("ships", "deep"))
    made = Board(SPLIT, [run("bare"), ships, replace(deep, depth=100)], [METRIC])
    assert made.compared(METRIC) == ("bare", "ships")
    assert made.finding(METRIC, "deep") is None
    only = Board(SPLIT, [run("bare"), replace(deep, depth=100)], [METRIC])
    assert only.compared(METRIC) == ("bare", "deep")


def test_two_runs_compared_by_what_neither_ships_get_no_verdict_and_another_engine_s_run_no_star():
    every = run("good")
    rankings, behind = cut_off(every.rankings, 1)
    short = replace(every, rankings=rankings, beyond=behind, variant=VARIANT.but(top_k=1))
    made = Board(SPLIT, [run("poor"), short], ["recall@3"])
    found = made.compare("good", "poor", "recall@3")
    assert {found.finding.verdict, *(each.finding.verdict for each in found.groups)} == {Verdict.NONE}
    assert found.finding.sentence == (
        "recall@3 counts 3 hits, more than ship of good: the difference decides nothing (good +0.000 against poor)."
    )
    assert made.best("recall@3") == ()
    assert report([made]).sections[0].board.headline.startswith("recall@3 counts more hits than ship")


def test_the_best_of_many_says_how_much_of_it_is_luck():
    """Set-ups that truly do not differ: whichever is the best is so by chance alone."""
    rankings = {name: run(name).rankings for name in ("good", "poor")}
    found = [
        replace(
            run("good"),
            name=f"v{at}",
            id=f"v{at}",
            rankings={
                query: rankings["good" if hash_of(at, place) % 2 else "poor"][query]
                for place, query in enumerate(QUERIES)
            },
        )
        for at in range(12)
    ]
    made = Board(SPLIT, found, [METRIC])
    (said,) = (each.message for each in made.warnings if "is luck" in each.message)
    best = max(cell.mean for cell in made.cells(METRIC).values())
    assert f"is the best of 12 by {METRIC}, {best:.3f} over the queries that chose it" in said
    assert made.chosen_unseen(METRIC) < best - 0.03
    assert Board(SPLIT, found[:2], [METRIC]).chosen_unseen(METRIC) is None


def hash_of(at: int, place: int) -> int:
    """A coin for a system and a query, the same in every process."""
    return int(crossfit.folds([""] * len(QUERIES), 2, 1, at)[0, place])


# -- the store -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def loaded(store):
    name = some_name()
    make(store, name, [EMBEDDER], {"small": FIXED})
    ingest(store, name, ITEMS, [EMBEDDER])
    return name


@pytest.fixture
def evaluate(store, loaded):
    """Over a query set of its own, with every query in `test`, so that twenty can decide."""
    name, given = some_name(), labelled()
    labels = tuple(Label(f"{name} {each.query_id}", each.item_id, each.grade, "test") for each in given.labels)
    queries = tuple(replace(each, id=f"{name} {each.id}") for each in given.queries)
    bridge.run(query_sets.keep(store, loaded, LabelledQueries(queries, labels), name=name))

    def work(*variants: Variant, metrics: tuple[str, ...] = (METRIC,)) -> Board:
        ground = bridge.run(open_eval(store, loaded, name, resources=RESOURCES))
        return bridge.run(evaluated(ground, list(variants), ground.split("test"), EvalOptions(metrics))).board

    work.query_set = name  # type: ignore[attr-defined]
    return work


def words(name: str, **options: object) -> Variant:
    return Variant.from_data({"name": name, "chunks": "small", "leg": [{"kind": "bm25", **options}]})


def among(board: Board, name: str) -> int:
    return board.finding(METRIC, name).difference.among


@pytest.mark.slow
def test_verdicts_are_made_with_all_set_ups_in_view_that_were_scored_before_each_by_its_newest_run(evaluate):
    a, b, c = words("a"), words("b", k1=2.0), words("c", b=0.1)
    assert among(evaluate(a, b), "b") == 1
    whole = evaluate(a, b, c)
    assert among(whole, "b") == 2
    part = evaluate(a, b)
    assert part.finding(METRIC, "b") == whole.finding(METRIC, "b")
    assert among(evaluate(a, b.but(name="another name")), "another name") == 2
    assert any("1 more set-up that was" in each.message or ": c." in each.message for each in part.warnings)


def test_two_kept_runs_are_compared_with_all_candidates_in_view(store, loaded, evaluate):
    a, b, c = words("a"), words("b", k1=2.0), words("c", b=0.1)
    whole = evaluate(a, b, c)
    ids = tuple(whole.run(name).id for name in ("b", "a"))
    found = bridge.run(compare_runs(store, ids, RunScope(loaded), EvalOptions((METRIC,))))
    assert compared(found.board, METRIC, "kind").finding.difference == whole.finding(METRIC, "b").difference


@pytest.mark.slow
def test_a_set_up_can_be_set_aside_and_it_is_said_how_many_were_after_their_scores_were_seen(store, evaluate):
    a, b, c = words("a"), words("b", k1=2.0), words("c", b=0.1)
    third = evaluate(a, b, c).run("c")
    bridge.run(candidates.set_aside(store, third))
    assert bridge.run(candidates.is_aside(store, third))
    made = evaluate(a, b)
    assert among(made, "b") == 1
    assert [each.message for each in made.warnings if "Set aside" in each.message] == [
        "Set aside: 1, all of them after their scores were seen."
    ]
    assert among(evaluate(a, b, c), "b") == 2, "what is in the table is looked at"
    bridge.run(candidates.set_aside(store, third, back=True))
    assert among(evaluate(a, b), "b") == 2


@pytest.mark.slow
def test_a_set_up_whose_runs_were_deleted_is_counted_among_those_set_aside(store, evaluate):
    a, b, c = words("a"), words("b", k1=2.0), words("c", b=0.1)
    bridge.run(run_store.remove(store, evaluate(a, b, c).run("c").id))
    made = evaluate(a, b)
    assert among(made, "b") == 1
    assert [each.message for each in made.warnings if "Set aside" in each.message] == [
        "Set aside: 1, 1 by deleting their runs, all of them after their scores were seen."
    ]
    evaluate(c)
    assert among(evaluate(a, b), "b") == 2
    assert not any("Set aside" in each.message for each in evaluate(a, b).warnings), "it was evaluated again"


@pytest.mark.slow
def test_cells_of_a_suite_s_grid_are_candidates_once_they_are_evaluated_by_themselves(store, loaded, evaluate):
    text_ = BM25 + '[[grid]]\nbase = "words"\nvary = { "leg.bm25.k1" = [0.5, 0.9, 1.7] }\n'
    given = suite(loaded, evaluate.query_set, HYBRID + text_)
    (result,) = bridge.run(
        run_suite(store, given.model_copy(update={"metrics": (METRIC,)}), resources=RESOURCES)
    ).results
    names = result.board.names
    assert len(names) == 5
    assert among(result.board, "words") == 1
    assert {among(result.board, name) for name in names[2:]} == {4}
    a, b = (result.board.run(name).variant for name in names[:2])
    assert among(evaluate(a, b), b.name) == 1
    cell = result.board.run(names[2]).variant
    evaluate(cell)
    assert among(evaluate(a, b), b.name) == 2
    bridge.run(run_suite(store, given, resources=RESOURCES))
    assert among(evaluate(a, b), b.name) == 2, "what was chosen stays so"


def test_a_run_that_was_kept_the_old_way_is_told_apart_and_never_compared(store, evaluate):
    """It was asked as deep as a hundred, which is what its row says."""
    now = evaluate(words("a"), words("b", k1=2.0))
    old = replace(now.run("a"), name="old", id="", depth=100, environment={"code": "before"}, beyond={}, made_at=None)
    kept = bridge.run(run_store.save(store, old))
    bridge.run(run_store.keep_scores(store, kept.id, {METRIC: 1.0, f"{METRIC} by query": now.of("a", METRIC)}))
    assert among(evaluate(words("a"), words("b", k1=2.0)), "b") == 1
    board = Board(now.split, [*now.runs, bridge.run(run_store.load(store, kept.id))], [METRIC])
    assert (board.cells(METRIC)["old"].badge, board.finding(METRIC, "old")) == ("deep", None)
    assert board.best(METRIC) == now.best(METRIC)
    assert any(each.message.startswith("Deep runs, asked for more than ships: old.") for each in board.warnings)


def test_runs_whose_excluded_documents_were_taken_out_after_the_search_are_marked_by_the_migration(store, schema):  # noqa: F811
    def work(connection):
        schema_chain.upgrade(connection, schema, target="e0008")
        at = f'"{schema}"'
        connection.execute(
            text(
                f"INSERT INTO {at}.query_sets (key, collection, name, digest, flaws) OVERRIDING SYSTEM VALUE"
                " VALUES (1, 'docs', 'own', '', '[]'), (2, 'docs', 'plain', '', '[]')"
            )
        )
        connection.execute(text(f"INSERT INTO {at}.exclusions (set_key, query_id, item_id) VALUES (1, 'q', 'd')"))
        statement = text(
            f"INSERT INTO {at}.runs (id, name, collection, collection_version, content, query_set, query_set_digest,"
            " split, depth, variant, environment, scores, queries, failed, latency, rankings)"
            " VALUES (:id, :id, 'docs', 1, '', :query_set, '', 'test', :depth, CAST(:variant AS jsonb),"
            " CAST(:environment AS jsonb), '{}', 1, 0, '{}', '')"
        )
        for identity, query_set, depth, variant, environment in (
            ("shipped", "own", 0, {"top_k": 7}, {}),
            ("usual", "own", 0, {}, {}),
            ("deep", "own", 100, {}, {}),
            ("plain", "plain", 0, {}, {}),
            ("foreign", "own", 0, None, {}),
            ("new", "own", 0, {}, {"own indexes": []}),
        ):
            connection.execute(
                statement,
                {
                    "id": identity,
                    "query_set": query_set,
                    "depth": depth,
                    "variant": None if variant is None else json.dumps(variant),
                    "environment": json.dumps(environment),
                },
            )
        schema_chain.upgrade(connection, schema)
        return {row.id: row.depth for row in connection.execute(text(f"SELECT id, depth FROM {at}.runs"))}

    assert on(store, work) == {"shipped": 7, "usual": 10, "deep": 100, "plain": 0, "foreign": 0, "new": 0}
