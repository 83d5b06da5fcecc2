"""The demo collection: its card's counts."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "datasets" / "handbook"

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
    "page-name": 15,
    "excerpt": 15,
    "part-or-lot": 15,
    "clause": 15,
    "menu-path": 15,
    "release": 15,
}
LABELS = {"train": {3: 144, 2: 114, 1: 313, 0: 3381}, "test": {3: 220, 2: 193, 1: 536, 0: 5304}}
DOCUMENTS = 215
WITH_THREE_RELEVANT = 216

Grades = dict[str, dict[str, int]]


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
    assert len(documents) == DOCUMENTS
    assert {item for given in grades.values() for item in given} <= documents


def test_most_queries_have_three_relevant_documents_and_each_has_one_that_answers(grades):
    relevant = {query: sum(grade > 0 for grade in given.values()) for query, given in grades.items()}
    assert sum(count >= 3 for count in relevant.values()) == WITH_THREE_RELEVANT
    assert all(3 in given.values() for given in grades.values())
