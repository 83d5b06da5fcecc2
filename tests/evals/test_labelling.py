"""Label files for documents that are there: which files they are, what they are about, and what does not fit."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from core import bridge
from core.errors import InputError, RankbookError, UnknownName
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.types import Row
from evals import labelling, library, query_sets
from evals.labelling import LabelFiles, labels_at
from evals.library import Plan
from tests.app.corpus import KETTLES


@pytest.fixture
def view(store: Store, name: str) -> Iterator[View]:
    """Four documents with three labelled queries."""
    bridge.run(library.add(store, name, KETTLES, Plan(models=(), check=False)))
    yield bridge.run(collections.get(store, name))
    bridge.run(library.drop(store, name))


def label(store: Store, view: View, path: Path, *, queries: Path | None = None, into: str = "default") -> library.Added:
    return bridge.run(library.label(store, view, labels_at(str(path), queries=queries), query_set=into))


def graded(store: Store, view: View, into: str = "default") -> dict[tuple[str, str, str], int]:
    labels = bridge.run(query_sets.load(store, view.name, name=into)).labels
    return {(each.split, each.query_id, each.item_id): each.grade for each in labels}


@pytest.mark.parametrize(
    ("file", "content", "split"),
    [
        ("judged.qrels", "q1 0 descale 2\n", "test"),
        ("train.tsv", "q1\tdescale\t2\n", "train"),
        ("dev.tsv", "query-id\tcorpus-id\tscore\nq1\tdescale\t2\n", "dev"),
        ("mine.tsv", "item_id\tgrade\tquery_id\ndescale\t2\tq1\n", "test"),
        ("mine.csv", "query_id,item_id,grade,split\nq1,descale,2,pilot\n", "pilot"),
        ("mine.jsonl", '{"query_id": "q1", "item_id": "descale", "grade": 2}\n', "test"),
    ],
)
def test_labels_alone_are_about_the_queries_that_are_there(store, view, tmp_path, file, content, split):
    (tmp_path / file).write_text(content)
    added = label(store, view, tmp_path / file)
    assert (added.queries, added.labels) == (3, 1)
    assert ["have no judgement" in flaw.message for flaw in added.flaws] == [True]
    assert graded(store, view) == {(split, "q1", "descale"): 2}


def test_what_does_not_fit_is_said_row_by_row_and_the_rest_comes_in(store, view, tmp_path):
    path = tmp_path / "judged.qrels"
    path.write_text("q1 0 descale 2\nq9 0 descale 1\nq2 0 nowhere 1\nq2 0 e42 much\nonly two\n")
    added = label(store, view, path)
    assert graded(store, view) == {("test", "q1", "descale"): 2}
    lines = {flaw.place.line or 0: flaw.message for flaw in added.flaws if flaw.place.file == str(path)}
    assert sorted(lines) == [2, 3, 4, 5]
    assert ("q9" in lines[2], "nowhere" in lines[3], "much" in lines[4]) == (True, True, True)
    assert len(bridge.run(query_sets.flaws(store, view.name))) == len(added.flaws)


def test_labels_go_into_another_set_and_leave_the_usual_one_as_it_is(store, view, tmp_path):
    before = graded(store, view)
    (tmp_path / "queries.csv").write_text("id,text\nmine,where is the lid\n")
    (tmp_path / "judged.csv").write_text("query_id,item_id,grade\nmine,e42,1\n")
    label(store, view, tmp_path / "judged.csv", queries=tmp_path / "queries.csv", into="pilot")
    assert (graded(store, view), graded(store, view, "pilot")) == (before, {("test", "mine", "e42"): 1})
    listed = bridge.run(query_sets.listed(store, view.name))
    assert [(each.name, each.queries, each.labelled, each.labels) for each in listed] == [
        ("default", 3, 3, 5),
        ("pilot", 1, 1, 1),
    ]


def test_a_folder_is_told_apart_by_its_files_names(tmp_path):
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "pilot.tsv").write_text("q1\tdescale\t1\n")
    (tmp_path / "train.tsv").write_text("q1\tdescale\t1\n")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "scale"}))
    (tmp_path / "README.md").write_text("what it is")
    found = labels_at(str(tmp_path))
    assert isinstance(found, LabelFiles)
    assert {split: path.name for split, path in found.judged.items()} == {"pilot": "pilot.tsv", "train": "train.tsv"}
    assert [row.value.id for row in found.queries() if isinstance(row, Row)] == ["q1"]


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (["queries.tsv"], "There are no labels here"),
        (["notes.md"], "There are no labels here"),
        (["a.qrels", "b.qrels"], "both of the split 'test'"),
        (["queries.tsv", "topics.tsv", "test.tsv"], "several files of queries"),
    ],
)
def test_a_folder_that_does_not_say_what_is_what_is_refused(tmp_path, files, said):
    for file in files:
        (tmp_path / file).touch()
    with pytest.raises(InputError, match=said):
        labels_at(str(tmp_path))


def test_a_source_without_labels_takes_no_label_away(store, view, tmp_path):
    (tmp_path / "guide.md").write_text("# A guide")
    (tmp_path / "documents").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "text": "one"}\n')
    with pytest.raises(InputError, match="no labels in it"):
        label(store, view, tmp_path)
    assert len(graded(store, view)) == 5


def test_labels_without_any_queries_ask_for_some(store, view, tmp_path):
    bridge.run(query_sets.drop(store, view.name, "default"))
    (tmp_path / "judged.qrels").write_text("q1 0 descale 2\n")
    with pytest.raises(InputError, match="labels without queries"):
        label(store, view, tmp_path / "judged.qrels")


def test_trec_topics_are_queries_too(tmp_path):
    (tmp_path / "topics.txt").write_text("<top>\n<num> Number: 7\n<title> kettle lid\n</top>\n")
    source = labelling.together([tmp_path / "judged.qrels"], tmp_path / "topics.txt", at=tmp_path)
    found = [row.value for row in source.queries() if isinstance(row, Row)]
    assert [(query.id, query.text) for query in found] == [("7", "kettle lid")]


def test_a_query_set_is_dropped_alone_and_one_that_is_not_there_is_named_with_the_nearest(store, view, tmp_path):
    (tmp_path / "judged.qrels").write_text("q1 0 descale 2\n")
    label(store, view, tmp_path / "judged.qrels", into="pilot")
    with pytest.raises(UnknownName, match="Did you mean 'pilot'"):
        bridge.run(query_sets.drop(store, view.name, "pilots"))
    bridge.run(query_sets.drop(store, view.name, "pilot"))
    assert [each.name for each in bridge.run(query_sets.listed(store, view.name))] == ["default"]
    assert not graded(store, view, "pilot")
    with pytest.raises(RankbookError, match="control character"):
        label(store, view, tmp_path / "judged.qrels", into="a\x00")
