"""Whether what the first build stored is usable: looked at from outside, in a store of the present version."""

from __future__ import annotations

from core import bridge
from core.context import RequestContext
from core.pipeline.retriever import search
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.verify import verify
from core.variant import Variant
from evals.evaluation.context import open_eval
from evals.evaluation.evaluate import evaluate
from evals.judging import judgements, votes
from evals.judging.votes import Contest
from evals.labels import query_sets
from evals.runs import run_store
from evals.runs.plan import EvalOptions
from evals.runs.types import not_comparable
from tests.app import corpus  # under whose model the texts were embedded
from tests.evals.first_build.contents import BOTH, WORDS

FOUND = {"remove scale from the kettle": ["warranty", "descale"], "E-42": ["e42"]}  # by words, best first


def documents(store: Store, name: str) -> None:
    """Texts, chunks and vectors are there, and found by words and by meaning."""
    view = bridge.run(collections.get(store, name))
    assert {each.name for each in view.chunk_sets} == {"items", "small"}
    assert {each.model for each in view.embedding_sets} == {corpus.MODEL}
    assert view.row.fields == ["type"]
    assert {each.check: each.wrong for each in bridge.run(verify(store, view)) if each.wrong} == {}
    for query, items in FOUND.items():
        assert _items(store, view, query, WORDS)[: len(items)] == items
    assert _items(store, view, "E-42", BOTH)[0] == "e42"


def _items(store: Store, view: CollectionView, query: str, variant: Variant) -> list[str]:
    hits = bridge.run(search(RequestContext(store, view), query, variant)).hits
    return list(dict.fromkeys(hit.item_id for hit in hits))


def labels(store: Store, name: str) -> None:
    labelled = bridge.run(query_sets.load(store, name))
    assert {query.id: query.text for query in labelled.queries} == {each.id: each.text for each in corpus.KETTLES.asked}
    assert set(labelled.labels) == set(corpus.KETTLES.judged)


def grades(store: Store, name: str) -> None:
    """By two judges, none of them stale."""
    given = bridge.run(judgements.load(store, name))
    assert {(each.query_id, each.judge, each.grade, each.note) for each in given} == {
        ("q1", "ada", 3, "all of it"),
        ("q1", "ben", 2, ""),
        ("q2", "ben", 3, ""),
    }
    standing = bridge.run(judgements.judgement_status(store, bridge.run(collections.get(store, name))))
    assert (len(standing.current), len(standing.stale)) == (3, 0)
    assert bridge.run(votes.count(store, Contest.of(name, {"Today": WORDS, "Tomorrow": BOTH}))) == 1


def runs(store: Store, name: str) -> None:
    """All three, found by name and pin; the deep ones are told from what ships, and never compared with it."""
    kept = {each.name: each for each in bridge.run(run_store.listed(store, collection=name))}
    assert {each.name: each.depth for each in kept.values()} == {"words": 100, "both": 100, "both as shipped": 0}
    assert bridge.run(run_store.find(store, "main", collection=name)).id == kept["words"].id
    deep, ships = (bridge.run(run_store.load(store, kept[each].id)) for each in ("both", "both as shipped"))
    assert max(ranked.length for ranked in deep.rankings.values()) > BOTH.top_k, "asked deeper than it ships"
    assert max(ranked.length for ranked in ships.rankings.values()) == BOTH.top_k
    assert "'both' is a deep run, asked for 100 results" in not_comparable(deep, ships)


def evaluation(store: Store, name: str) -> None:
    """What is evaluated now is of what ships, and no kept run of before stands in for it."""
    before = {each.id for each in bridge.run(run_store.listed(store, collection=name))}
    ground = bridge.run(open_eval(store, name))
    board = bridge.run(evaluate(ground, [WORDS, BOTH], ground.split("test"), EvalOptions(("mrr@2",)))).board
    assert board.cells("mrr@2")["words"].mean > 0
    assert {run.id for run in board.runs}.isdisjoint(before)
    assert {run.depth for run in board.runs} == {0}
    assert bridge.run(run_store.find(store, "words", collection=name)).depth == 0, "the name means the newest"
