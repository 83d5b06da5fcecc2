"""`rankbook judge` and `rankbook queries`: the queue, a sitting in the terminal, files, a model, agreement, exports."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from core import bridge
from core.errors import InputError, RankbookError, SpecError
from core.llm import Session, using
from core.store import collections
from core.store.passages import read_items
from core.types import Item, Query
from evals import types
from evals.collections import load
from evals.judging import judgements as judging
from evals.labels import query_sets
from evals.runs import run_store
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.types import Label, LabelledQueries
from tests.app.corpus import Listed
from tests.unit.misbehaving import Reply, completion, serving
from workbench.commands import judge, queries
from workbench.commands.output import FORMAT

TAKEOVER = "\x1b]0;owned\x07\x1b[2J"
ITEMS = tuple(
    Item(name, f"All about the {name}, {TAKEOVER}at length.", name.title())
    for name in ("kettle", "teapot", "toaster", "bill")
)
SOURCE = Listed(
    documents=ITEMS,
    asked=(Query("q1", "boil water"), Query("q2", "brown bread")),
    judged=(Label("q1", "kettle", 2), Label("q2", "bill", 0)),
)
app = typer.Typer()
app.add_typer(judge.app, name="judge")
app.add_typer(queries.app, name="queries")


def rankbook(*words: str, typed: str | None = None, code: int = 0, **environment: str) -> Any:
    result = CliRunner().invoke(app, list(words), input=typed, env=environment)
    if result.exception is not None and not isinstance(result.exception, SystemExit | RankbookError):
        raise result.exception
    assert result.exit_code == code, result.output + str(result.exception)
    return result


@pytest.fixture
def name(store):
    """A collection with two runs, bm25 and vector, which only their collection's name makes this test's own."""
    made = f"judged {uuid.uuid4().hex[:8]}"
    bridge.run(load.load_collection(store, made, SOURCE, load.LoadPlan(models=())))
    over = RunSubject(made, 1, "default", b"", "test")
    for run, first, second in (("bm25", ["teapot", "kettle"], ["toaster"]), ("vector", ["bill"], ["kettle", "bill"])):
        ranked = {
            q: Ranking(tuple(ids), tuple(1.0 / n for n, _ in enumerate(ids, 1)))
            for q, ids in (("q1", first), ("q2", second))
        }
        bridge.run(run_store.save(store, Run(run, over, ranked)))
    yield made
    bridge.run(load.drop(store, made))


def kept(store, name):
    return [
        (each.query_id, each.item_id, each.judge, each.grade, each.note)
        for each in bridge.run(judging.load(store, name))
    ]


def test_the_queue_says_what_to_judge_and_shows_neither_run_nor_rank(name):
    told = json.loads(rankbook("judge", "queue", name, "bm25", "vector", "-n", "9", "--json").stdout)
    assert next(iter(told.items())) == ("format", FORMAT)
    assert {(pair["query_id"], pair["item_id"]) for pair in told["pairs"]} == {
        ("q1", "teapot"),
        ("q1", "bill"),
        ("q2", "toaster"),
        ("q2", "kettle"),
    }
    assert set(told["pairs"][0]) == {"query_id", "query", "item_id", "title"}
    assert told["outlook"]["metric"] == "ndcg@10"
    assert "bm25" in told["sentence"]
    shown = rankbook("judge", "queue", name, "bm25", "vector", "-n", "9")
    assert "boil water" in shown.stdout
    assert told["sentence"] in shown.stderr.replace("\n", "")


@pytest.mark.parametrize("command", ["queue", "grade", "model"])
def test_a_name_with_runs_over_several_splits_is_told_apart_by_the_split(store, name, command):
    over = RunSubject(name, 1, "default", b"", "all")
    ranked = {"q1": Ranking(("bill",), (1.0,)), "q2": Ranking(("bill",), (1.0,))}
    bridge.run(run_store.save(store, Run("bm25", over, ranked)))
    words, serves = (
        ("judge", command, name, "bm25", "--order", "depth"),
        {"RANKBOOK_LLM_URL": "http://127.0.0.1:9/v1", "RANKBOOK_LLM_MODEL": "small"},
    )
    said = str(rankbook(*words, typed="n\nq\n", code=1, **serves).exception)
    assert "'bm25' stands for 2 runs" in said
    result = rankbook(*words, "--split", "all", typed="n\nq\n", **serves)
    assert "1 unjudged pairs in the top 10 of 1 runs" in result.stderr or "1 pairs for " in result.stderr


def test_a_sitting_keeps_grades_with_notes_skips_undoes_and_ends(store, name):
    result = rankbook(
        "judge",
        "grade",
        name,
        "bm25",
        "vector",
        "--order",
        "depth",
        "--judge",
        "ada",
        typed="3 just so\nu\n1\nnine\ns\nm\n0\nq\n",
    )
    first, last = sorted(grade for *_, grade, _ in kept(store, name))
    assert (first, last) == (0, 1)
    assert "Taken back: 3" in result.stderr
    assert "'nine' is no grade" in result.stderr
    assert "2 graded by ada; 1 left" in result.stderr
    assert "Query: " in result.stdout
    assert "\x1b" not in result.stdout


def test_a_note_is_kept_and_the_end_of_input_ends_the_sitting(store, name):
    result = rankbook(
        "judge", "grade", name, "bm25", "vector", "--order", "depth", "--judge", "ada", typed="2 only in part\n"
    )
    assert [(grade, note) for *_, grade, note in kept(store, name)] == [(2, "only in part")]
    assert "1 graded by ada; 3 left" in result.stderr


def test_undo_at_the_start_takes_back_what_the_last_sitting_ended_with(store, name):
    rankbook("judge", "grade", name, "bm25", "--judge", "ada", typed="2\nq\n")
    result = rankbook("judge", "grade", name, "bm25", "--judge", "ada", typed="u\nu\nq\n")
    assert "Taken back: 2" in result.stderr
    assert "nothing to take back" in result.stderr
    assert kept(store, name) == []


def test_grades_come_from_a_file_with_what_is_wrong_in_it(store, name, tmp_path):
    file = tmp_path / "grades.tsv"
    file.write_text("q1\tteapot\t3\nq2\tlost\t1\n")
    result = rankbook("judge", "grade", name, "--file", str(file), "--judge", "ada")
    assert kept(store, name) == [("q1", "teapot", "ada", 3, "")]
    assert "is not in the collection" in result.stdout
    assert "1 judgements of ada kept" in result.stderr


def test_a_file_without_any_grade_that_can_be_kept_ends_with_1(name, tmp_path):
    file = tmp_path / "grades.tsv"
    file.write_text("q1\tteapot\n")
    result = rankbook("judge", "grade", name, "--file", str(file), "--judge", "ada", code=1)
    assert "0 judgements of ada kept" in result.stderr


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        (("grade", "{}"), InputError, "Name the runs"),
        (("queue", "{}", "bm26"), RankbookError, "Did you mean 'bm25'"),
        (("queue", "{}", "bm25", "vector", "--metric", "mrr"), SpecError, "does not add up"),
        (("queue", "{}", "bm25", "--order", "soon"), SpecError, "must be one of"),
        (("grade", "{}", "bm25", "--judge", "llm:me"), InputError, "does not fit"),
        (("export", "{}", "--format", "xml"), SpecError, "beir, trec"),
    ],
)
def test_a_mistake_is_a_sentence_with_the_way_out(name, words, error, message):
    result = rankbook("judge", *(word.format(name) for word in words), code=1)
    assert isinstance(result.exception, error)
    assert message in str(result.exception)


def test_agreement_merging_and_exports(store, name, tmp_path):
    for who, grade in (("ada", 3), ("bob", 1)):
        file = tmp_path / f"{who}.tsv"
        file.write_text(f"q1\tteapot\t{grade}\nq2\ttoaster\t3\n")
        rankbook("judge", "grade", name, "--file", str(file), "--judge", who)
    told = json.loads(rankbook("judge", "agreement", name, "--json").stdout)
    assert next(iter(told.items())) == ("format", FORMAT)
    assert told["people"]["two"][0]["shared"] == 2
    assert "Krippendorff's alpha" in rankbook("judge", "agreement", name).stderr
    assert rankbook("judge", "export", name).stdout == "q1 0 teapot 1\nq2 0 toaster 3\n"
    out = tmp_path / "judged.tsv"
    rankbook("judge", "export", name, "--format", "beir", "-o", str(out))
    assert out.read_text() == "query-id\tcorpus-id\tscore\nq1\tteapot\t1\nq2\ttoaster\t3\n"
    merged = json.loads(rankbook("judge", "merge", name, "--into", "judged", "--json").stdout)
    ways = {"test": {"models": False, "overrule": False}}
    assert merged.pop("ways") == ways
    assert merged == {"query_set": "judged", "origins": {"labels": 2, "human": 2}, "left_out": 0, "changed": True}
    assert Label("q1", "teapot", 1) in bridge.run(query_sets.load(store, name, name="judged")).labels
    bridge.run(query_sets.keep(store, name, types.LabelledQueries(labels=(Label("q1", "toaster", 3),)), name="judged"))
    refused = rankbook("judge", "merge", name, "--into", "judged", code=1).exception
    assert "1 of its 1 labels would be lost" in str(refused)
    assert str(refused).endswith("(`--overwrite`).")
    rankbook("judge", "merge", name, "--into", "judged", "--overwrite")
    assert Label("q1", "teapot", 1) in bridge.run(query_sets.load(store, name, name="judged")).labels


def test_a_merge_goes_on_as_before_says_so_and_is_told_otherwise(store, name):
    view = bridge.run(collections.get(store, name))
    item = bridge.run(read_items(store, view, ["teapot"]))["teapot"]
    bridge.run(
        judging.save_judgements(
            store, name, [judging.Judgement("q1", item.id, "llm:m", 3, item.version, is_model=True)]
        )
    )
    merge = ("judge", "merge", name, "--into", "judged")

    def told(*words):
        return " ".join(rankbook(*merge, *words).stderr.split())

    assert "Labels of 'train' (models' grades too) in 'judged': 1 from model." in told("--split", "train", "--models")
    assert "'test' in 'judged': 2 from labels. Made anew as before: 'train' (models' grades too)." in told()
    of_a_model = "'train' (models' grades too) in 'judged': 1 from model. Made anew as before: 'test'."
    assert of_a_model in told("--split", "train")
    assert "'train' in 'judged': none. Made anew as before: 'test'." in told("--split", "train", "--no-models")


def grading(grade):
    def answer(body):
        given = json.loads(body["messages"][1]["content"])["candidates"]
        return completion({"results": [{"chunk_id": each["id"], "relevance_score": grade} for each in given]})

    return answer


def test_a_model_is_asked_after_its_cost_is_said_and_its_grades_stay_apart(store, name):
    with serving(grading(2)) as endpoint, using(Session()):
        named = {"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small"}
        refused = rankbook("judge", "model", name, "bm25", "--again", typed="n\n", **named)
        assert "up to" in refused.stderr
        assert "Nothing was sent" in refused.stderr
        assert endpoint.asked == []
        assert "marked as a model's" in rankbook("judge", "model", name, "bm25", "--again", "--yes", **named).stderr
    assert {each[2] for each in kept(store, name)} == {"llm:small"}
    assert rankbook("judge", "export", name).stdout == ""
    assert "q1 0 teapot 2" in rankbook("judge", "export", name, "--models").stdout
    (calibrated,) = json.loads(rankbook("judge", "agreement", name, "--json").stdout)["models"]
    assert calibrated["shared"] == 1
    assert "llm:small gives the same grade" in calibrated["sentence"]


def test_a_model_that_fails_is_said_with_exit_code_1(name):
    with serving(Reply(status=400)) as endpoint, using(Session()):
        named = {"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small"}
        result = rankbook("judge", "model", name, "bm25", "--yes", code=1, **named)
    assert "did not answer as asked" in result.stderr.replace("\n", " ")


def test_queries_are_added_and_generated(store, name, tmp_path):
    file = tmp_path / "mine.tsv"
    file.write_text("text\tkind\nhow long does it boil\tquestion\n")
    assert "1 queries added; 3 in 'default'" in rankbook("queries", "add", name, str(file)).stderr
    made = json.loads(rankbook("queries", "generate", name, "--style", "title", "-n", "3", "--json").stdout)
    assert len(made["queries"]) == 3
    assert "favour legs that compare words" in made["note"]
    assert len(bridge.run(query_sets.load(store, name, name="known-items")).labels) == 3
    assert "Bill" in rankbook("queries", "generate", name, "--style", "title").stdout


def test_a_collection_without_any_query_can_be_given_some_and_judged(store):
    bare = f"bare {uuid.uuid4().hex[:8]}"
    bridge.run(load.load_collection(store, bare, Listed(documents=ITEMS), load.LoadPlan(models=())))
    bridge.run(query_sets.keep(store, bare, LabelledQueries((Query("q", "what boils"),))))
    over = RunSubject(bare, bridge.run(collections.get(store, bare)).row.version, "default", b"", "all")
    bridge.run(run_store.save(store, Run("only", over, {"q": Ranking(("kettle",), (1.0,))})))
    rankbook("judge", "grade", bare, "only", "--judge", "ada", typed="3\n")
    assert rankbook("judge", "export", bare).stdout == "q 0 kettle 3\n"
    bridge.run(load.drop(store, bare))


@pytest.mark.parametrize(
    "words",
    [("judge", each) for each in ("queue", "grade", "model", "agreement", "merge", "export")]
    + [("queries", "add"), ("queries", "generate")],
)
def test_help_teaches_by_example(words):
    shown = rankbook(*words, "--help").stdout
    assert f"rankbook {' '.join(words)} " in shown
