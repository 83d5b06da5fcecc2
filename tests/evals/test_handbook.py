"""The demo collection: its card's counts, and which leg wins which kind of query."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from core import bridge
from core.legs import legs
from core.retriever import RequestContext, search
from core.store import collections
from core.store.engine import Store
from core.variant import Rollup, Variant
from evals import library, metrics
from evals.sources import guess

FOLDER = Path(__file__).parents[2] / "datasets" / "handbook"
DEPTH = 10
MARGIN = 0.05

# Each leg at the level at which it is better over all queries.
LEVELS = {"vector": "chunks", "fulltext": "items", "trigram": "items", "fuzzy": "chunks", "bm25": "items"}

# The kinds that one leg wins by the margin over the four others. Fulltext and bm25 win none by that much.
WINNERS = {
    "misspelling": "fuzzy",
    "time-bound": "vector",
    "typo-keyword": "trigram",
    "garbled-code": "fuzzy",
    "ticket": "vector",
}

KINDS = {
    "paraphrase": 17,
    "question": 17,
    "keyword": 16,
    "identifier": 17,
    "misspelling": 16,
    "multi-facet": 17,
    "negation": 16,
    "time-bound": 16,
    "typo-keyword": 15,
    "garbled-code": 16,
    "error-paste": 16,
    "word-variants": 15,
    "quoted": 16,
    "ticket": 15,
}
LABELS = {"train": {3: 105, 2: 85, 1: 246, 0: 2261}, "test": {3: 158, 2: 166, 1: 422, 0: 3565}}
WITH_THREE_RELEVANT = 163

Grades = dict[str, dict[str, int]]
Ranked = dict[str, list[str]]


@pytest.fixture(scope="module")
def queries() -> list[dict[str, str]]:
    return [json.loads(line) for line in (FOLDER / "queries.jsonl").read_text(encoding="utf-8").splitlines()]


def of_split(split: str) -> Grades:
    grades: Grades = defaultdict(dict)
    for line in (FOLDER / "qrels" / f"{split}.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, item, grade = line.split("\t")
        assert item not in grades[query], f"{query} has two labels for {item}"
        grades[query][item] = int(grade)
    return dict(grades)


@pytest.fixture(scope="module")
def grades() -> Grades:
    return of_split("train") | of_split("test")


# -- the card ----------------------------------------------------------------------------------------------------------


def test_there_are_as_many_queries_of_each_kind_as_the_card_says(queries):
    assert Counter(query["kind"] for query in queries) == KINDS
    assert len({query["_id"] for query in queries}) == len({query["text"] for query in queries}) == sum(KINDS.values())


def test_of_each_five_queries_of_a_kind_the_second_and_the_fourth_are_train(queries):
    train, test = of_split("train"), of_split("test")
    for kind in KINDS:
        ids = [query["_id"] for query in queries if query["kind"] == kind]
        assert [query in train for query in ids] == [place % 5 in (1, 3) for place in range(len(ids))], kind
        assert all((query in train) != (query in test) for query in ids)


def test_there_are_as_many_labels_of_each_grade_as_the_card_says(grades):
    found = {split: Counter(g for given in of_split(split).values() for g in given.values()) for split in LABELS}
    assert found == LABELS
    documents = {path.stem for path in (FOLDER / "documents").glob("*/*.md")}
    assert len(documents) == 200
    assert {item for given in grades.values() for item in given} <= documents


def test_most_queries_have_three_relevant_documents_and_each_has_one_that_answers(grades):
    relevant = {query: sum(grade > 0 for grade in given.values()) for query, given in grades.items()}
    assert sum(count >= 3 for count in relevant.values()) == WITH_THREE_RELEVANT
    assert all(3 in given.values() for given in grades.values())


# -- the legs ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranked(store, queries) -> dict[str, Ranked]:
    """What each leg finds over chunks (rolled up to their documents) and over whole documents, ten deep."""
    return bridge.run(_ranked(store, {query["_id"]: query["text"] for query in queries}))


async def _ranked(store: Store, asked: dict[str, str]) -> dict[str, Ranked]:
    source, name = guess("handbook"), "the handbook, for its table"
    await library.add(store, name, source, library.plan_for(source))
    context = RequestContext(store, await collections.get(store, name))
    found: dict[str, Ranked] = {}
    for leg in LEVELS:
        over = {
            "items": Variant.of_leg(legs[leg](), chunks="items", top_k=DEPTH),
            # Three chunks a document and more: the ten best documents are all there after the roll-up.
            "chunks": Variant.of_leg(legs[leg](), top_k=100, rollup=Rollup()).model_copy(update={"overfetch": 3}),
        }
        for level, variant in over.items():
            hits = {query: (await search(context, text, variant)).hits for query, text in asked.items()}
            found[f"{leg}, {level}"] = {
                query: list(dict.fromkeys(hit.item_id for hit in of_one))[:DEPTH] for query, of_one in hits.items()
            }
    await collections.drop(store, name)
    return found


@pytest.mark.slow
def test_nearly_all_that_a_leg_finds_has_been_judged(ranked, grades):
    for leg, found in ranked.items():
        pairs = [(query, item) for query, items in found.items() for item in items]
        judged = sum(item in grades[query] for query, item in pairs) / len(pairs)
        assert judged > 0.95, f"{leg}: {judged:.3f}"


@pytest.mark.slow
def test_which_leg_wins_which_kind(ranked, grades, queries):
    scored = {leg: metrics.scores(grades, found) for leg, found in ranked.items()}
    overall = {leg: metrics.mean(of_leg) for leg, of_leg in scored.items()}
    for leg, level in LEVELS.items():
        assert overall[f"{leg}, {level}"] == max(overall[f"{leg}, items"], overall[f"{leg}, chunks"]), leg

    table = {}
    for kind in KINDS:
        ids = [query["_id"] for query in queries if query["kind"] == kind]
        table[kind] = {
            leg: metrics.mean({query: scored[f"{leg}, {level}"][query] for query in ids})
            for leg, level in LEVELS.items()
        }
    _print(table | {"all": {leg: overall[f"{leg}, {level}"] for leg, level in LEVELS.items()}})
    won = {kind: winner(row) for kind, row in table.items()}
    assert {kind: leg for kind, leg in won.items() if leg} == WINNERS


def winner(row: dict[str, float]) -> str | None:
    first, second = sorted(row, key=lambda leg: row[leg], reverse=True)[:2]
    return first if row[first] - row[second] >= MARGIN else None


def _print(table: dict[str, dict[str, float]]) -> None:
    head = "".join(f"{leg + ', ' + level:>18}" for leg, level in LEVELS.items())
    print(f"\n{'nDCG@10':14}{head}  wins by {MARGIN}")
    for kind, row in table.items():
        print(f"{kind:14}" + "".join(f"{score:18.3f}" for score in row.values()) + f"  {winner(row) or ''}")
