"""`rankbook queries` and `rankbook data label`: query sets listed, filled by hand or by files, and dropped."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from getpass import getuser

import pytest

from core import bridge
from core.store.engine import Store
from evals.collections import load
from evals.labels import query_sets
from tests.app.corpus import KETTLES
from tests.app.test_command_line import data, mistake, rankbook


@pytest.fixture
def kept(store: Store, name: str) -> Iterator[str]:
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=(), check=False)))
    yield name
    bridge.run(load.drop(store, name))


def sets(name: str) -> dict[str, tuple[int, int]]:
    return {row["name"]: (row["queries"], row["labels"]) for row in data("queries", "list", name)}


def test_query_sets_are_listed_filled_and_dropped(kept):
    assert sets(kept) == {"default": (3, 5)}
    said = rankbook("queries", "add", kept, "-", "--queries", "pilot", typed="where is the lid\n\nE-42 again\n")
    assert "2 queries added; 2 in 'pilot'" in said.stderr
    rankbook("queries", "generate", kept, "--style", "title", "-n", "2", "--split", "dev")
    assert sets(kept) == {"default": (3, 5), "known-items": (2, 2), "pilot": (2, 0)}
    assert [row["split"] for row in data("data", "show", kept, "--queries", "known-items")["Queries by split"]] == [
        "dev"
    ]
    assert rankbook("queries", "drop", kept, "pilot", typed="n\n", code=None).exit_code
    rankbook("queries", "drop", kept, "pilot", "--yes")
    assert list(sets(kept)) == ["default", "known-items"]
    assert "'pilot'" in mistake("queries", "drop", kept, "pilot", "--yes")


def test_generated_queries_are_refused_before_they_are_made_where_written_ones_stand(kept):
    assert "not generated" in mistake("queries", "generate", kept, "--queries", "default")


def test_label_files_go_into_the_set_that_is_named(kept, store, tmp_path):
    (tmp_path / "judged.qrels").write_text("mine 0 e42 2\nmine 0 nowhere 1\n")
    (tmp_path / "queries.csv").write_text("id,text\nmine,where is the lid\n")
    words = ("--asked", str(tmp_path / "queries.csv"), "--queries", "pilot")
    said = rankbook("data", "label", kept, str(tmp_path / "judged.qrels"), *words).output
    assert said.index("pilot: 0 labels -> 1, 0 queries -> 1.") < said.index("1 queries, 1 labels.")
    assert "nowhere" in said
    assert sets(kept) == {"default": (3, 5), "pilot": (1, 1)}
    assert "no labels here" in mistake("data", "label", kept, str(tmp_path / "queries.csv"))
    assert len(bridge.run(query_sets.load(store, kept)).labels) == 5


# -- nothing lost in silence -------------------------------------------------------------------------------------------


def test_a_label_file_that_costs_labels_is_refused_and_what_it_replaced_comes_back(kept, store, tmp_path):
    path = tmp_path / "judged.qrels"
    path.write_text("q1 0 descale 2\nq9 0 e42 1\n")
    before = bridge.run(query_sets.load(store, kept))
    refused = mistake("data", "label", kept, str(path))
    assert "5 labels -> 1 (test 4 -> 1, train 1 -> 0)" in refused
    assert "Unusable rows: 1; the first, " in refused
    assert "'q9'" in refused
    assert "--even-so" in refused
    assert bridge.run(query_sets.load(store, kept)) == before
    said = rankbook("data", "label", kept, str(path), "--even-so").output
    assert said.index("default: 5 labels -> 1") < said.index("3 queries, 1 labels.")
    undone = rankbook("data", "label", kept, "--undo").output
    assert "default: 1 label -> 5 (test 1 -> 4, train 0 -> 1). Undone: labels from judged.qrels, by " in undone
    assert "0 more can be undone (--undo), 1 made again (--redo)." in undone
    assert bridge.run(query_sets.load(store, kept)) == before
    assert data("data", "label", kept, "--redo")["undoable"] == 1
    assert len(bridge.run(query_sets.load(store, kept)).labels) == 1
    data("data", "label", kept, "--undo")
    assert "no change to undo" in mistake("data", "label", kept, "--undo")


def test_loading_again_says_what_became_of_the_labels(name, store, tmp_path):
    (tmp_path / "corpus.jsonl").write_text('{"_id": "d1", "text": "one"}\n{"_id": "d2", "text": "two"}\n')
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "which"}\n')
    (tmp_path / "qrels").mkdir()

    def add(*labels: str) -> str:
        (tmp_path / "qrels" / "test.tsv").write_text("".join(f"q1\t{label}\n" for label in labels))
        return str(rankbook("data", "add", name, str(tmp_path), "--model", "none", "--chunks", "none").output)

    try:
        assert "default:" not in add("d1\t1")
        assert f"default: 1 label -> 2. To take that back: rankbook data label {name} --undo" in add("d1\t1", "d2\t1")
        assert "so what is there stays: 2 labels -> 1. To replace it" in add("d1\t1")
        rankbook("data", "relabel", name, "q1", "d2", "0")
        assert "was changed since it was loaded, last by" in add("d1\t1", "d2\t1")
        assert {each.grade for each in bridge.run(query_sets.load(store, name)).labels} == {0, 1}
    finally:
        bridge.run(load.drop(store, name))


def test_only_one_thing_is_done_to_labels_at_a_time(kept, tmp_path):
    for words in ([], ["--undo", "--redo"], [str(tmp_path / "judged.qrels"), "--undo"]):
        assert "Say one thing" in mistake("data", "label", kept, *words)
    for words in ([], ["2", "--remove"]):
        assert "Say one thing" in mistake("data", "relabel", kept, "q1", "descale", *words)


def test_odd_grades_are_refused_with_the_option_that_takes_them(kept, store, tmp_path):
    path = tmp_path / "judged.qrels"
    path.write_text("q1 0 descale 4\n")
    assert "--all-grades" in mistake("data", "label", kept, str(path), "--even-so")
    rankbook("data", "label", kept, str(path), "--even-so", "--all-grades")
    assert [each.grade for each in bridge.run(query_sets.load(store, kept)).labels] == [4]


def test_a_wrong_label_is_corrected_and_the_list_says_who_did_so(kept, store):
    assert "No change of default is kept" in rankbook("queries", "changes", kept).stderr
    said = rankbook("data", "relabel", kept, "q1", "warranty", "0", "--why", "no scale in it").output
    assert "'q1' and 'warranty' in 'test': 1 -> 0." in said
    made = data("data", "relabel", kept, "q2", "e42", "--remove")
    assert (made["before"], made["after"], made["split"]) == (3, None, "test")
    last, first = data("queries", "changes", kept)
    assert first["author"] == getuser()
    assert first["reason"].endswith("1 -> 0 (no scale in it)")
    assert last["change"]["after"]["labels"] == {"test": 3, "train": 1}
    assert "no scale in it" in rankbook("queries", "changes", kept).output
    assert "--all-grades" in mistake("data", "relabel", kept, "q1", "warranty", "5")
    assert "'default'" in mistake("queries", "changes", kept, "--queries", "defualt")


def test_queries_come_with_the_ids_that_label_files_know_them_by(kept, store, tmp_path):
    (tmp_path / "questions.csv").write_text("query_id,text\nmine,where is the lid\n")
    rankbook("queries", "add", kept, str(tmp_path / "questions.csv"), "--queries", "pilot")
    (tmp_path / "judged.csv").write_text("query_id,item_id,grade\nmine,e42,2\n")
    rankbook("data", "label", kept, str(tmp_path / "judged.csv"), "--queries", "pilot")
    assert sets(kept)["pilot"] == (1, 1)


@pytest.mark.parametrize(("answer", "labels"), [("y", 1), ("n", 5)])
def test_on_a_terminal_the_question_is_asked(kept, store, tmp_path, answer, labels):
    path = tmp_path / "judged.qrels"
    path.write_text("q1 0 descale 5\n")
    ours, theirs = os.openpty()
    program = "from workbench.cli import main; main()"
    words = [sys.executable, "-W", "ignore", "-c", program, "data", "label", kept, str(path)]
    with subprocess.Popen(words, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        os.write(ours, f"{answer}\n{answer}\n".encode())
        said, _ = process.communicate(timeout=120)
    os.close(theirs)
    os.close(ours)
    assert "5 labels -> 1 (test 4 -> 1, train 1 -> 0). Replace them all the same?" in said
    assert ("Take them so?" in said) is (answer == "y")
    assert process.returncode == (0 if answer == "y" else 1)
    assert len(bridge.run(query_sets.load(store, kept)).labels) == labels
