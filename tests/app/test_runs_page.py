"""The runs page as Streamlit would draw it, and the parts of `rankbook runs` that came with it."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import io
import re
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.store.engine import Store
from evals.evaluation import evaluate
from evals.evaluation.context import EvalOptions, open_eval
from evals.labels import query_sets
from evals.runs import candidates, run_store
from evals.runs.types import Run
from evals.schema import schema_chain
from evals.variants import resolve_variant
from tests.app.test_command_line import data, rankbook
from tests.app.test_search_page import handed, visit, written
from tests.conftest import make_home
from workbench.screens.runs import new as runs_new
from workbench.screens.runs import run as runs_open
from workbench.services import runs as runs_asked
from workbench.services import runs as runs_shown

HOSTILE = "<img src=x onerror=alert(1)> **bold**"
TREC = "q1 Q0 descale 1 3.0 ours\nq1 Q0 teapot 2 2.0 ours\nq2 Q0 e42 1 1.5 ours\nq9 Q0 e42 1 1.5 ours\nodd line\n"


@pytest.fixture(autouse=True)
def emptied(store: Store) -> Iterator[None]:
    """No run before, whatever other tests kept, and none afterwards."""
    _empty(store)
    yield
    _empty(store)


def _empty(store: Store) -> None:
    for name in bridge.run(run_store.pinned(store)):
        bridge.run(run_store.unpin(store, name))
    for run in bridge.run(run_store.listed(store)):
        bridge.run(run_store.remove(store, run.id))


@pytest.fixture
def runs(store: Store, emptied: None) -> dict[str, Run]:
    """Two runs over the kettles."""
    ground = bridge.run(open_eval(store, "kettles"))
    split = ground.split("test")
    made = [resolve_variant(name, chunks=ground.view.default_chunk_set) for name in ("bm25", "trigram")]
    board, _ = bridge.run(evaluate.evaluate(ground, made, split, EvalOptions(again=True)))
    return {run.name: run for run in board.runs}


def draw() -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.runs import page as runs_page

    with feedback.draw_errors():
        runs_page.render(session.store())


@pytest.fixture
def page(store: Store) -> AppTest:
    return AppTest.from_function(draw, default_timeout=60)


def settled(page: AppTest, **address: str) -> AppTest:
    """The page once its work in the background is done."""
    visit(page, **address)
    until = time.monotonic() + 60
    while any(button.label == "Stop" for button in page.button) and time.monotonic() < until:
        page.run()
    assert not page.exception
    return page


def history(page: AppTest) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = handed(page, "runs.history")["rows"]
    return rows


def press(page: AppTest, key: str) -> None:
    page.button(key=key).click().run()
    assert not page.exception


def test_without_a_run_the_page_says_how_to_make_one(page):
    visit(page)
    assert "There is no run yet" in written(page)
    assert "rankbook eval" in page.code[0].value


def test_the_history_has_a_row_a_run_with_score_and_interval(page, runs):
    visit(page)
    assert {row["cells"][0] for row in history(page)} == {"bm25", "trigram"}
    row = next(row for row in history(page) if row["id"] == runs["bm25"].id)
    assert row["cells"][1:3] == ["BM25 > top 10", "kettles, test"]
    assert row["cells"][3] == "0.898 [0.27, 0.99]"
    assert row["cells"][5] == "0 of 2"


@pytest.mark.parametrize(
    ("address", "names"),
    [
        ({"find": "bm25"}, {"bm25"}),
        ({"find": "TRIG test"}, {"trigram"}),
        ({"split": "train"}, set()),
        ({"collection": "kettles", "split": "test", "page": "99"}, {"bm25", "trigram"}),
        ({"find": "<b>"}, set()),
    ],
)
def test_filters_come_from_the_address(page, runs, address, names):
    visit(page, **address)
    assert {row["cells"][0] for row in history(page)} == names


def test_an_opened_run_is_scored_by_kind_with_its_worst_queries(page, runs):
    settled(page, run=runs["trigram"].id)
    said = written(page)
    assert "ndcg@10 by kind of query" in said
    assert "identifier" in said
    assert "remove scale from the kettle" in said
    assert "The queries it does worst on" in said


def test_how_it_was_made_has_all_that_it_takes_to_repeat_it(page, runs):
    visit(page, run="bm25", view="made")
    said = written(page)
    assert runs["bm25"].id in said
    assert runs["bm25"].subject.digest.hex() in said
    toml, command = (code.value for code in page.code)
    assert 'kind = "bm25"' in toml
    assert "rankbook eval kettles variant.toml --split test --again" in command


def test_a_link_holds_two_runs_against_each_other(page, runs):
    settled(page, run=runs["bm25"].id, beside=runs["trigram"].id)
    said = written(page)
    assert "bm25 won" in said
    assert "The queries that decide" in said
    assert "variant.leg.bm25.k1" in said
    assert len(page.get("plotly_chart")) == 2


def test_runs_over_other_data_are_held_together_and_not_scored(page, store, runs):
    ground = bridge.run(open_eval(store, "kettles"))
    train, _ = bridge.run(
        evaluate.evaluate(
            ground,
            [resolve_variant("fulltext", chunks=ground.view.default_chunk_set)],
            ground.split("train"),
            EvalOptions(),
        )
    )
    settled(page, run=runs["bm25"].id, beside=train.runs[0].id)
    said = written(page)
    assert "Not scored against each other" in said
    assert "How alike their rankings are" in said


def test_pinning_moves_a_baseline_and_a_pinned_run_cannot_be_deleted(page, store, runs):
    one, other = runs["bm25"].id, runs["trigram"].id
    visit(page, run=one, view="made")
    assert page.text_input(key=f"runs.pin.{one}").value == "main"
    press(page, f"runs.pin.{one}.do")
    assert bridge.run(run_store.pinned(store)) == {"main": one}
    assert "Unpin it first" in written(page)
    assert next(row for row in history(page) if row["id"] == one)["cells"][7] == "main"
    visit(page, run=other, view="made")
    page.text_input(key=f"runs.pin.{other}").input("main").run()
    press(page, f"runs.pin.{other}.do")
    assert bridge.run(run_store.pinned(store)) == {"main": other}
    press(page, f"runs.pin.{other}.un.0")
    assert bridge.run(run_store.pinned(store)) == {}


def test_a_set_up_is_set_aside_and_made_a_candidate_again(page, store, runs):
    one = runs["trigram"]
    visit(page, run=one.id, view="made")
    press(page, f"runs.aside.{one.id}")
    assert bridge.run(candidates.is_aside(store, one))
    assert page.button(key=f"runs.aside.{one.id}").label == "Make it a candidate"
    press(page, f"runs.aside.{one.id}")
    assert not bridge.run(candidates.is_aside(store, one))


def test_a_score_that_is_not_of_what_ships_bears_its_badge_in_the_list(page, store, runs):
    bridge.run(run_store.keep_scores(store, runs["bm25"].id, {"recall@100": 0.9, "recall@100 interval": [0.8, 0.95]}))
    deep = bridge.run(run_store.save(store, replace(runs["trigram"], id="", name="asked deep", depth=100, beyond={})))
    bridge.run(run_store.keep_scores(store, deep.id, {"recall@100": 0.7}))
    visit(page, metric="recall@100")
    assert {row["cells"][0]: row["cells"][3] for row in history(page)} == {
        "bm25": "0.900 [0.80, 0.95] beyond",
        "asked deep (deep)": "0.700 deep",
        "trigram": "",
    }
    told = rankbook("runs", "list").stdout
    assert "recall@100 0.900 beyond" in " ".join(told.split())


def test_a_baseline_without_a_name_is_refused_in_a_sentence(page, runs):
    one = runs["bm25"].id
    visit(page, run=one, view="made")
    page.text_input(key=f"runs.pin.{one}").input("  ").run()
    press(page, f"runs.pin.{one}.do")
    assert "A baseline needs a name" in written(page)


def test_a_deleted_run_is_gone_from_the_history_and_the_address(page, runs):
    one = runs["bm25"].id
    visit(page, run=one, view="made")
    press(page, f"runs.delete.{one}")
    assert "run" not in page.query_params
    assert {row["cells"][0] for row in history(page)} == {"trigram"}


@pytest.mark.parametrize(
    ("ending", "first"), [(".trec", b"q1\tQ0\t"), (".csv", b"query,item,rank,score"), (".jsonl", b'{"query"')]
)
def test_rankings_are_taken_along_in_several_formats(store, runs, ending, first):
    assert runs_open.rankings(store, runs["bm25"].id, ending).startswith(first)


def test_a_report_opens_offline_with_one_run_or_two(store, runs, tmp_path):
    whole = bridge.run(runs_shown.page_of(store, runs["bm25"].id, ["ndcg@10"], runs["trigram"].id))
    assert whole.lower().startswith("<!doctype html>")
    assert "trigram" in whole
    rankbook("runs", "report", "bm25", str(tmp_path / "one.html"))
    assert "bm25" in (tmp_path / "one.html").read_text(encoding="utf-8")


def test_the_command_shows_kinds_and_worst_queries_too(runs):
    shown = data("runs", "show", "trigram", "--worst", "1")
    assert {each["kind"] for each in shown["by kind"]} == {"question", "identifier"}
    assert len(shown["worst"]) == 1


def test_variants_are_evaluated_in_the_background_and_a_link_finds_the_table(page, runs):
    visit(page, new="evaluate", collection="kettles", split="test")
    page.multiselect(key="runs.new.variants").select("fulltext").run()
    press(page, "runs.new.go")
    assert page.query_params["variants"] == "fulltext"
    settled(page, new="evaluate", collection="kettles", split="test", variants="fulltext")
    assert "fulltext" in {row["cells"][0] for row in history(page)}
    assert "kettles, 2 queries of test" in written(page)


def test_another_engines_run_comes_in_from_a_file_with_what_is_wrong_with_it(page, store, runs):
    given = io.BytesIO(TREC.encode())
    given.name = f"../{uuid.uuid4().hex}.trec"
    ground = bridge.run(open_eval(store, "kettles"))
    found = bridge.run(runs_new.taken(ground, "test", given))
    assert (found.unasked, found.missing, len(found.flaws)) == (("q9",), (), 1)
    settled(page, run=found.run.id)
    assert runs_asked.FOREIGN in next(row for row in history(page) if row["id"] == found.run.id)["cells"]
    assert "first relevant at" in written(page)


def test_old_runs_are_cleared_away_but_for_the_newest(page, store, runs):
    visit(page, new="clear")
    page.number_input(key="runs.clear.keep").set_value(0).run()
    press(page, "runs.clear.do")
    assert "2 runs deleted." in written(page)
    assert bridge.run(run_store.listed(store)) == []
    press(page, "deleted.runs.undo")
    assert {each.name for each in bridge.run(run_store.listed(store))} == set(runs)


def test_labels_that_changed_since_are_told_and_the_run_stays(page, store, runs):
    labelled = bridge.run(query_sets.load(store, "kettles"))
    run = bridge.run(run_store.load(store, "bm25"))
    old = replace(run, id="", name="old", subject=replace(run.subject, digest=b"other"), variant=None)
    kept = bridge.run(run_store.save(store, old))
    assert labelled.digest() != b"other"
    settled(page, run=kept.id)
    assert "other queries or labels" in written(page)


def test_hostile_names_are_text(page, store, runs):
    run = bridge.run(run_store.load(store, "bm25"))
    kept = bridge.run(run_store.save(store, replace(run, id="", name=HOSTILE, variant=None)))
    bridge.run(run_store.pin(store, kept.id, HOSTILE))
    for view in ("scores", "made", "compare"):
        settled(page, run=kept.id, view=view, beside=runs["trigram"].id)
        assert "<img" not in re.sub(r'"[^"]*"', "", written(page))  # within quotes it is a tooltip's text
        assert "&lt;img src=x" in written(page)
    assert not [text for text in page.markdown if "onerror" in text.value]


def test_a_run_that_is_not_there_is_told_and_the_history_stays(page, runs):
    visit(page, run="bm52")
    assert "Did you mean &#x27;bm25&#x27;?" in written(page)
    assert len(history(page)) == 2
    visit(page, run="bm25", beside="nobody", view="compare")
    assert "No run is called &#x27;nobody&#x27;" in written(page)


stores: dict[str, Store] = {}


def draw_empty() -> None:
    from tests.app.test_runs_page import stores
    from workbench.screens.runs import page as runs_page

    runs_page.render(stores["empty"])


def test_without_a_collection_the_page_opens_and_says_so():
    stores["empty"] = bridge.run(Store.open(home=make_home(), chains=[schema_chain]))
    try:
        page = AppTest.from_function(draw_empty, default_timeout=60)
        visit(page, new="evaluate")
        assert "There is no collection yet" in written(page)
        assert "There is no run yet" in written(page)
    finally:
        bridge.run(stores.pop("empty").close())
