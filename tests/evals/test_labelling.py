"""Label files for documents that are there: which files they are, what they are about, and what does not fit."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import bridge
from core.errors import InputError, RankbookError, UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.types import Row
from evals.collections import load, load_labels
from evals.collections.load import LoadPlan
from evals.labels import corrections, label_files, query_sets
from evals.labels.label_checks import UnusualGrades
from evals.labels.label_files import LabelFiles, labels_at
from evals.labels.revisions import FewerLabels, LabelChange
from evals.types import Exclusion, Span
from tests.app.corpus import KETTLES


@pytest.fixture
def view(store: Store, name: str) -> Iterator[CollectionView]:
    """Four documents with three labelled queries."""
    bridge.run(load.load_collection(store, name, KETTLES, LoadPlan(models=(), check=False)))
    yield bridge.run(collections.get(store, name))
    bridge.run(load.drop(store, name))


def label(
    store: Store, view: CollectionView, path: Path, *, queries: Path | None = None, into: str = "default", **how: Any
) -> load_labels.LoadReport:
    """Whatever labels it costs, unless a test says otherwise."""
    source = labels_at(str(path), queries=queries)
    return bridge.run(load_labels.load_labels(store, view, source, query_set=into, **{"even_so": True, **how}))


def grades_of(store: Store, view: CollectionView, into: str = "default") -> dict[tuple[str, str, str], int]:
    labels = bridge.run(query_sets.load(store, view.name, name=into)).labels
    return {(each.split, each.query_id, each.item_id): each.grade for each in labels}


@pytest.mark.slow
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
    assert grades_of(store, view) == {(split, "q1", "descale"): 2}


@pytest.mark.slow
def test_what_does_not_fit_is_said_row_by_row_and_the_rest_comes_in(store, view, tmp_path):
    path = tmp_path / "judged.qrels"
    path.write_text("q1 0 descale 2\nq9 0 descale 1\nq2 0 nowhere 1\nq2 0 e42 much\nonly two\n")
    added = label(store, view, path)
    assert grades_of(store, view) == {("test", "q1", "descale"): 2}
    lines = {flaw.place.line or 0: flaw.message for flaw in added.flaws if flaw.place.file == str(path)}
    assert sorted(lines) == [2, 3, 4, 5]
    assert ("q9" in lines[2], "nowhere" in lines[3], "much" in lines[4]) == (True, True, True)
    assert len(bridge.run(query_sets.flaws(store, view.name))) == len(added.flaws)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "q9 0 descale 2\nq9 0 e42 2\n",
            r"No label of it can be used for 'default': 5 labels -> 0 .*rows: 2; the first",
        ),
        ("q1 0 descale 2\n", r"'default' would hold less: 5 labels -> 1 \(test 4 -> 1, train 1 -> 0\)"),
        ("".join(f"{q} 0 {d} 1\n" for q in ("q1", "q2") for d in ("e42", "teapot", "descale")), "train 1 -> 0"),
    ],
)
def test_a_file_that_leaves_fewer_labels_is_refused_unless_somebody_insists(store, view, tmp_path, content, said):
    (tmp_path / "judged.qrels").write_text(content)
    before, told = grades_of(store, view), list[str]()
    how: dict[str, Any] = {"announce": lambda change: told.append(change.sentence), "all_grades": True}
    with pytest.raises(FewerLabels, match=said) as refused:
        label(store, view, tmp_path / "judged.qrels", even_so=False, **how)
    assert "--even-so" in str(refused.value)
    assert (grades_of(store, view), told) == (before, [])
    label(store, view, tmp_path / "judged.qrels", **how)
    assert len(told) == 1
    assert told[0] in str(refused.value)
    assert grades_of(store, view) != before
    assert bridge.run(corrections.undo(store, view.name)).revision.reason == "labels from judged.qrels"
    assert grades_of(store, view) == before


def test_what_changes_is_announced_before_anything_is_written(store, view, tmp_path):
    (tmp_path / "judged.qrels").write_text("".join(f"q1 0 {item} 1\n" for item in ("descale", "e42", "teapot")))
    before = grades_of(store, view)

    def stop(change: LabelChange) -> None:
        raise RankbookError(change.sentence)

    with pytest.raises(RankbookError, match="5 labels -> 3"):
        label(store, view, tmp_path / "judged.qrels", announce=stop)
    assert grades_of(store, view) == before


@pytest.mark.parametrize("part", ["spans", "exclusions"])
def test_answer_spans_and_exclusions_are_not_lost_in_silence_either(store, view, tmp_path, part):
    there = bridge.run(query_sets.load(store, view.name))
    rows: dict[str, Any] = {
        "spans": (Span("q1", "descale", 2, 9, "Descale"),),
        "exclusions": (Exclusion("q2", "teapot"),),
    }
    bridge.run(query_sets.keep(store, view.name, replace(there, **{part: rows[part]})))
    as_file = "".join(f"{each.query_id},{each.item_id},{each.grade},{each.split}\n" for each in there.labels)
    (tmp_path / "judged.csv").write_text("query_id,item_id,grade,split\n" + as_file)
    with pytest.raises(FewerLabels, match=r"5 labels -> 5, 1 (answer span|exclusion) -> 0"):
        label(store, view, tmp_path / "judged.csv", even_so=False)


def test_a_file_of_which_no_row_is_usable_is_refused_where_there_is_nothing_to_lose(store, view, tmp_path):
    (tmp_path / "queries.csv").write_text("id,text\nmine,where is the lid\n")
    (tmp_path / "judged.csv").write_text("query_id,item_id,grade\nmine,nowhere,1\n")
    with pytest.raises(FewerLabels, match=r"No label of it can be used for 'pilot': 0 labels -> 0"):
        label(store, view, tmp_path / "judged.csv", queries=tmp_path / "queries.csv", into="pilot", even_so=False)
    assert [each.name for each in bridge.run(query_sets.summaries(store, view.name))] == ["default"]


def test_grades_beyond_the_usual_are_asked_about_and_noted_where_they_are_taken(store, view, tmp_path):
    (tmp_path / "judged.qrels").write_text("q1 0 descale 5\nq1 0 e42 -2\nq2 0 e42 3\nq2 0 teapot 50\n")
    with pytest.raises(UnusualGrades) as refused:
        label(store, view, tmp_path / "judged.qrels")
    told = "beyond 0 to 3: -2 (1 label, counted as 0), 5 (1 label), 50 (1 label, left out)."
    assert told in str(refused.value)
    assert "--all-grades" in str(refused.value)
    assert len(grades_of(store, view)) == 5
    added = label(store, view, tmp_path / "judged.qrels", all_grades=True)
    assert [grades_of(store, view)["test", *pair] for pair in (("q1", "descale"), ("q1", "e42"))] == [5, 0]
    assert any("count as they are: 5 (1 label)" in flaw.message for flaw in added.flaws)


@pytest.mark.slow
def test_labels_go_into_another_set_and_leave_the_usual_one_as_it_is(store, view, tmp_path):
    before = grades_of(store, view)
    (tmp_path / "queries.csv").write_text("id,text\nmine,where is the lid\n")
    (tmp_path / "judged.csv").write_text("query_id,item_id,grade\nmine,e42,1\n")
    label(store, view, tmp_path / "judged.csv", queries=tmp_path / "queries.csv", into="pilot")
    assert (grades_of(store, view), grades_of(store, view, "pilot")) == (before, {("test", "mine", "e42"): 1})
    listed = bridge.run(query_sets.summaries(store, view.name))
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
    assert {split: path.name for split, path in found.labels_paths.items()} == {
        "pilot": "pilot.tsv",
        "train": "train.tsv",
    }
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


@pytest.mark.slow
def test_a_source_without_labels_takes_no_label_away(store, view, tmp_path):
    (tmp_path / "guide.md").write_text("# A guide")
    (tmp_path / "documents").mkdir()
    (tmp_path / "corpus.jsonl").write_text('{"_id": "1", "text": "one"}\n')
    with pytest.raises(InputError, match="no labels in it"):
        label(store, view, tmp_path)
    assert len(grades_of(store, view)) == 5


def test_labels_without_any_queries_ask_for_some(store, view, tmp_path):
    bridge.run(query_sets.drop(store, view.name, "default"))
    (tmp_path / "judged.qrels").write_text("q1 0 descale 2\n")
    with pytest.raises(InputError, match="labels without queries"):
        label(store, view, tmp_path / "judged.qrels")


def test_trec_topics_are_queries_too(tmp_path):
    (tmp_path / "topics.txt").write_text("<top>\n<num> Number: 7\n<title> kettle lid\n</top>\n")
    source = label_files.from_files([tmp_path / "judged.qrels"], tmp_path / "topics.txt", at=tmp_path)
    found = [row.value for row in source.queries() if isinstance(row, Row)]
    assert [(query.id, query.text) for query in found] == [("7", "kettle lid")]


@pytest.mark.slow
def test_a_query_set_is_dropped_alone_and_one_that_is_not_there_is_named_with_the_nearest(store, view, tmp_path):
    (tmp_path / "judged.qrels").write_text("q1 0 descale 2\n")
    label(store, view, tmp_path / "judged.qrels", into="pilot")
    with pytest.raises(UnknownName, match="Did you mean 'pilot'"):
        bridge.run(query_sets.drop(store, view.name, "pilots"))
    bridge.run(query_sets.drop(store, view.name, "pilot"))
    assert [each.name for each in bridge.run(query_sets.summaries(store, view.name))] == ["default"]
    assert not grades_of(store, view, "pilot")
    with pytest.raises(RankbookError, match="control character"):
        label(store, view, tmp_path / "judged.qrels", into="a\x00")
