"""The Python API on the real server: what a notebook writes, and what it is shown."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import evals.lab
from core import bridge
from core.context import Resources
from core.embedding import Purpose, Vectors
from core.errors import InputError, SpecError, StoreError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.legs.vector import VectorLeg
from core.store.engine import Store
from core.store.passages import read_items
from core.variant import Variant
from evals.collections import load
from evals.display import Table, TableCell, as_html, as_text, step_sentences, watched
from evals.evaluation.context import open_eval
from evals.judging import judgements
from evals.judging.merging import WouldOverwrite
from evals.lab import Entry, Lab
from evals.labels import query_sets
from evals.labels.label_checks import UnusualGrades
from evals.labels.revisions import FewerLabels
from evals.tuning.tuner import TuningProcedure
from evals.types import Label, LabelledQueries
from tests.conftest import TEST_DSN
from tests.evals.boards import board
from tests.fakes import HashingEmbedder
from tests.store.making import some_name

EMBEDDER = HashingEmbedder(64)
RESOURCES = Resources(embedder=lambda _: EMBEDDER, environment={})
SCRIPT = "<script>alert(1)</script>"
HOSTILE = f"<img src=x>\x1b[2J$x^2$ \u202e{SCRIPT}"
LAX = TuningProcedure(folds=2, repeats=2, fewest=2, coarsest=10.0, samples=100)
TOPICS = ("kettle", "teapot", "grinder", "toaster", "blender", "fridge", "oven", "mixer")


def write_source(folder: Path) -> Path:
    """BEIR's layout: two documents a topic; train and test ask of each, and one query is in both."""
    items = [
        {"_id": f"{topic}-{part}", "title": topic.title(), "text": f"{part.title()} the {topic} {more}."}
        for topic in TOPICS
        for part, more in (("clean", "with vinegar and rinse twice"), ("repair", "when the red lamp blinks"))
    ]
    items.append({"_id": "<b>trap</b>", "title": HOSTILE, "text": f"trap {HOSTILE} {SCRIPT}"})
    queries = [
        {"_id": f"{part}-{topic}", "text": f"{part} my {topic}"} for topic in TOPICS for part in ("clean", "repair")
    ]
    queries.append({"_id": f"q{SCRIPT}", "text": f"trap {HOSTILE}"})
    labels = {
        "train": [(f"clean-{topic}", f"{topic}-clean", 2) for topic in TOPICS] + [("repair-oven", "oven-repair", 1)],
        "test": [(f"repair-{topic}", f"{topic}-repair", 1) for topic in TOPICS] + [(f"q{SCRIPT}", "<b>trap</b>", 1)],
    }
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", items), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    for split, judged in labels.items():
        lines = ["query-id\tcorpus-id\tscore", *(f"{query}\t{item}\t{grade}" for query, item, grade in judged)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_source(tmp_path_factory.mktemp("beir") / "kitchen")


@pytest.fixture(scope="module")
def lab(store: Store, source: Path) -> Iterator[Lab]:
    with Lab(some_name(), source, store=store, resources=RESOURCES, progress=False) as opened:
        yield opened


@pytest.fixture
def own(store: Store, source: Path) -> Lab:
    """A collection that a test may change."""
    return Lab(some_name(), source, store=store, resources=RESOURCES, progress=False)


# -- asking ------------------------------------------------------------------------------------------------------------


def test_a_search_gives_hits_in_order_as_rows_and_as_a_frame(lab: Lab) -> None:
    found = lab.search("clean the kettle", "bm25", top_k=3)
    assert found[0].item_id == "kettle-clean"
    assert len(found) == len(found.ids) == 3
    assert list(found.frame()["rank"]) == [1, 2, 3]
    assert "kettle-clean" in repr(found)
    assert "<table" in found._repr_html_()


def test_a_hybrids_hits_tell_the_rank_in_each_leg(lab: Lab) -> None:
    hybrid = {"name": "both", "leg": [{"kind": "bm25"}, {"kind": "vector"}]}
    found = lab.search("clean the kettle", hybrid)
    assert found.frame().loc[0, "rank in bm25"] == 1
    assert found.tables()[0].columns[-2:] == ("bm25", "vector")


def test_several_variants_are_shown_side_by_side(lab: Lab) -> None:
    both = lab.search("repair the oven", ["bm25", VectorLeg(label="mine")])
    assert [each.bundle.variant.name for each in both] == ["bm25", "mine"]
    assert repr(both).index("bm25:") < repr(both).index("mine:")


def test_nothing_found_is_said(lab: Lab) -> None:
    assert "Nothing was found." in repr(lab.search("zzzz", "bm25"))


def test_why_answers_in_sentences(lab: Lab) -> None:
    why = lab.why("repair the oven", {"kind": "bm25", "depth": 1}, "kettle-repair")
    assert re.match("“.+” is not among the", repr(why))
    assert not why.account.there


def test_sql_is_text_with_parameters_or_ready_to_run(lab: Lab) -> None:
    statement = lab.sql("vector")
    assert "$1" in statement
    assert repr(statement) == str(statement)
    assert "EXECUTE" in lab.sql("vector", "it's 100% <b>")
    assert "&lt;b&gt;" in lab.sql("bm25", "<b>")._repr_html_()


# -- scoring -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_variants_of_every_form_are_scored_in_the_order_given(lab: Lab, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(Variant.of_leg(Bm25Leg()).but(name="of a file").to_toml(), encoding="utf-8")
    given: list[Entry] = ["vector", Bm25Leg(label="own leg"), path, {"kind": "fulltext"}, lab.variant("trigram")]
    scored = lab.evaluate(given, metrics="mrr@10", baseline="of a file")
    assert scored.names == ("vector", "own leg", "of a file", "fulltext", "trigram")
    assert (scored.baseline, scored.metrics, scored.split.name) == ("of a file", ("mrr@10",), "test")
    assert scored.cells("mrr@10")["own leg"].mean == scored.cells("mrr@10")["of a file"].mean > 0.8


def test_nothing_to_evaluate_is_said_in_a_sentence(lab: Lab) -> None:
    with pytest.raises(InputError, match="name a variant"):
        lab.evaluate([])


def _ranx_run(scores: dict[str, dict[str, float]]) -> Any:
    import ranx

    return ranx.Run(scores)


@pytest.mark.slow
def test_runs_of_other_engines_join_as_equals_whatever_they_come_in(
    lab: Lab, tmp_path: Path, plain_ranx: Callable[..., Any]
) -> None:
    scores = {f"repair-{topic}": {f"{topic}-repair": 2.0, f"{topic}-clean": 1.0} for topic in TOPICS}
    path = tmp_path / "their.run"
    rows = [(query, item, score) for query, found in scores.items() for item, score in found.items()]
    path.write_text("".join(f"{query} Q0 {item} 1 {score} x\n" for query, item, score in rows), encoding="utf-8")
    frame = pd.DataFrame(rows, columns=["query", "item", "score"])
    given = {"file": path, "text": str(path), "dict": scores, "frame": frame, "ranx": plain_ranx(_ranx_run, scores)}
    runs = [lab.add_run(name, rankings) for name, rankings in given.items()]
    scored = lab.evaluate(["bm25", *runs], metrics=["mrr@10"])
    assert scored.names == ("bm25", *given)
    assert [scored.cells("mrr@10")[name].mean for name in given] == pytest.approx([8 / 9] * 5)
    assert all("It has nothing for 1 of the queries" in repr(run) for run in runs)
    assert len(runs[0].frame()) == len(rows)
    assert lab.run("dict").run.rankings == runs[2].run.rankings
    assert {"file", "dict"} <= set(lab.runs()["name"])


@pytest.mark.parametrize(
    ("rankings", "why"),
    [
        ({"unknown": {"oven-repair": 1.0}}, "None of the 1 queries"),
        ({"repair-oven": {"oven-repair": float("nan")}}, "no finite number"),
        ({"repair-oven": [1, 2]}, "A run is a file"),
        (3, "A run is a file"),
    ],
)
def test_what_cannot_be_a_run_is_refused_in_a_sentence(lab: Lab, rankings: object, why: str) -> None:
    with pytest.raises(InputError, match=why):
        lab.add_run("theirs", rankings)


@pytest.mark.slow
def test_a_run_over_labels_that_changed_is_not_scored_beside_new_ones(own: Lab, store: Store) -> None:
    theirs = own.add_run("theirs", {"repair-oven": {"oven-repair": 1.0}})
    labelled = bridge.run(query_sets.load(store, own.collection))
    more = (*labelled.labels, Label("repair-oven", "oven-clean", 1))
    bridge.run(query_sets.keep(store, own.collection, LabelledQueries(labelled.queries, more)))
    with pytest.raises(SpecError, match="as it was then"):
        own.evaluate(["bm25", theirs])


def test_a_comparison_shows_the_queries_that_decide_in_full(lab: Lab) -> None:
    poor = lab.add_run("poor", {f"repair-{topic}": {f"{topic}-clean": 1.0} for topic in TOPICS})
    found = lab.compare("bm25", poor, "mrr@10")
    assert (found.comparison.system, found.comparison.baseline) == ("bm25", "poor")
    assert found.sentence.startswith("Too few queries to tell bm25 from poor: a verdict takes 20 (difference +1.000")
    assert "repair my oven" in found._repr_html_()
    assert len(found.frame()) == 9


@pytest.mark.slow
def test_a_sweep_gives_the_surface_and_a_variant_to_evaluate(lab: Lab) -> None:
    swept = lab.sweep(["bm25", "vector"], metric="mrr@10", steps=4, procedure=LAX)
    assert "1 queries of 'train' are reported in 'test' too" in repr(swept)
    assert len(swept.frame()) == len(swept.surface.grid) == 5
    made = swept.variant(name="tuned")
    assert made.leg_names == ("bm25", "vector")
    assert lab.evaluate([made, "bm25"], metrics="mrr@10").names == ("tuned", "bm25")
    assert Variant.from_toml(made.to_toml()) == made


def test_too_few_labels_give_no_weights_unless_they_are_asked_for_even_so(lab: Lab) -> None:
    swept = lab.sweep({"leg": [{"kind": "bm25"}, {"kind": "vector"}]}, steps=2, fusions=["rrf"])
    assert "Too few labels to tune" in repr(swept)
    with pytest.raises(SpecError, match="even_so"):
        swept.variant()
    assert swept.variant(even_so=True).name == "unnamed, tuned"


@pytest.mark.slow
def test_a_sweep_at_a_depth_says_what_deeper_legs_would_bring_and_makes_a_variant_of_that_depth(lab: Lab) -> None:
    swept = lab.sweep(["bm25", "vector"], split="test", metric="mrr@10", steps=2, procedure=LAX, depth=1)
    made = swept.variant(even_so=True)
    assert [leg.depth for leg in made.legs] == [1, 1]
    cells = lab.evaluate([made, made.at_depth(100).but(name="deep")], metrics="mrr@10", split="test").cells("mrr@10")
    deeper = swept.tuned.deeper
    assert deeper is not None
    assert (swept.tuned.in_sample, deeper.mean) == pytest.approx((cells[made.name].mean, cells["deep"].mean))
    assert f"Legs are 1 deep. Deeper would bring {deeper.gain:+.3f}" in repr(swept)
    assert lab.sweep(["bm25", "vector"], split="test", steps=2, procedure=LAX, depth=100).tuned.deeper is None


def test_a_metric_that_counts_more_than_ships_is_of_a_deep_run(lab: Lab) -> None:
    board = lab.evaluate("bm25", metrics=["recall@10", "recall@50"], split="test")
    assert [board.cells(metric)["bm25"].badge for metric in board.metrics] == ["", "deep"]


def test_weights_chosen_on_what_is_reported_come_with_a_warning(lab: Lab) -> None:
    swept = lab.sweep(["bm25", "vector"], split="test", steps=2, procedure=LAX)
    assert "says nothing of others" in swept._repr_html_()


def test_what_is_no_legs_to_sweep_is_refused(lab: Lab) -> None:
    with pytest.raises(SpecError, match="One leg"):
        lab.sweep(["bm25"])
    with pytest.raises(SpecError, match="is no leg"):
        lab.sweep(["bm25", "local-rag"])


@pytest.mark.slow
def test_judging_what_is_pooled_makes_labels_of_it(own: Lab) -> None:
    scored = own.evaluate(["bm25", "vector"], metrics="ndcg@10")
    pool = own.pool(scored, order="depth", depth=2)
    assert pool.queue.sentence in repr(pool)
    assert list(pool.frame()["document"]) == [task.item.id for task in pool]
    grades = {(task.query.id, task.item.id): 0 for task in pool}
    assert own.judge("anna", grades) == len(grades) > 0
    judged = own.merge_judgements("judged")
    assert judged.query_set == "judged"
    assert judged.evaluate("bm25", metrics="ndcg@2").cells("ndcg@2")["bm25"].judged == 1.0
    with pytest.raises(UnknownName, match=r"'dept'.*'depth'"):
        own.pool(scored, dept=2)
    with pytest.raises(InputError, match="cannot be judged"):
        own.judge("anna", {("repair-oven", "nowhere"): 1})


@pytest.mark.slow
def test_judgements_are_merged_again_as_before_and_over_labels_by_hand_only_where_that_is_said(own: Lab) -> None:
    view = bridge.run(open_eval(own.store, own.collection)).view
    version = bridge.run(read_items(own.store, view, {"oven-clean"}))["oven-clean"].version
    made = judgements.Judgement("repair-oven", "oven-clean", "llm:m", 1, version, is_model=True)
    bridge.run(judgements.save_judgements(own.store, own.collection, [made]))
    own.judge("anna", {("repair-oven", "oven-repair"): 0})
    theirs, overruled = Label("repair-oven", "oven-clean", 1), Label("repair-oven", "oven-repair", 0)
    own.merge_judgements("judged", models=True, overrule=True)
    judged = own.merge_judgements("judged")
    labelled = bridge.run(query_sets.load(own.store, own.collection, name="judged"))
    assert {theirs, overruled} <= set(labelled.labels)
    by_hand = LabelledQueries(labelled.queries, (*labelled.labels, Label("repair-oven", "mixer-clean", 1)))
    bridge.run(query_sets.keep(own.store, own.collection, by_hand, name="judged"))
    with pytest.raises(WouldOverwrite, match="or say that it may be overwritten"):
        own.merge_judgements("judged")
    assert own.merge_judgements("judged", overwrite=True).query_set == judged.query_set
    assert overruled not in bridge.run(query_sets.load(own.store, own.collection, name="judged")).labels


@pytest.mark.slow
def test_a_label_is_corrected_undone_and_made_again_and_the_scores_follow(own: Lab) -> None:
    def score() -> float | None:
        return own.evaluate("bm25", split="train", metrics="ndcg@5").cells("ndcg@5")["bm25"].mean

    before = score()
    made = own.relabel("clean-oven", "mixer-repair", 2, author="anna", why="another oven")
    assert "'clean-oven' and 'mixer-repair' in 'train': no label -> 2." in repr(made)
    changed = score()
    assert changed != before
    assert "Undone: 'clean-oven'" in repr(own.undo_labels())
    assert score() == before
    own.redo_labels()
    assert score() == changed
    (row,) = own.label_changes().to_dict("records")
    assert (row["who"], row["state"]) == ("anna", "holds")
    assert row["why"].endswith("(another oven)")


@pytest.mark.slow
def test_label_files_are_refused_by_the_lab_too_unless_it_is_said_that_they_are_meant(own: Lab, tmp_path: Path) -> None:
    (tmp_path / "judged.qrels").write_text("repair-oven 0 oven-repair 4\n")
    with pytest.raises(FewerLabels, match="even_so=True"):
        own.label(tmp_path / "judged.qrels")
    with pytest.raises(UnusualGrades, match="all_grades=True"):
        own.label(tmp_path / "judged.qrels", even_so=True)
    assert len(own.queries()) == 17
    made = own.label(tmp_path / "judged.qrels", even_so=True, all_grades=True)
    assert "default: 17 queries, 1 labels." in repr(made)
    assert "count as they are" in repr(made)
    own.undo_labels()
    assert len(own.queries()) == 17


def test_queries_come_as_a_frame(lab: Lab) -> None:
    assert len(lab.queries()) == 17
    assert set(lab.queries("train")["relevant"]) == {1}


# -- what is shown -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_text_of_a_collection_is_text_in_every_rich_table(lab: Lab) -> None:
    theirs = lab.add_run(SCRIPT, {f"q{SCRIPT}": {"<b>trap</b>": 1.0}})
    scored = lab.evaluate([theirs, Bm25Leg(label=HOSTILE[:40])], metrics="mrr@10")
    shown = [
        lab.search(f"trap {SCRIPT}", "bm25"),
        scored,
        theirs,
        lab.compare(theirs, "bm25"),
        lab.pool([lab.run(SCRIPT)]),
        lab.why(f"trap {SCRIPT}", "bm25", "<b>trap</b>"),
        lab,
    ]
    for each in shown:
        html, plain = each._repr_html_(), repr(each)
        assert "<script" not in html
        assert "<img" not in html
        assert "<b>trap" not in html
        assert 'class="tex2jax_ignore mathjax_ignore"' in html
        assert "\x1b" not in html + plain
        assert "\u202e" not in html + plain
    assert "&lt;script&gt;" in shown[0]._repr_html_()


def test_a_board_marks_what_is_better_and_what_is_too_close_to_the_best() -> None:
    made = board("poor", "good")
    plain, html = repr(made), made._repr_html_()
    assert "docs, 40 queries of test" in plain
    assert "good" in plain.split("poor", 1)[1]
    assert "▲ *" in plain
    assert "Against poor" in plain
    assert "good is better than poor by" in html
    assert "<b>" in html


def test_tables_take_the_colours_of_the_page_they_stand_on(lab: Lab) -> None:
    html = lab.evaluate("bm25")._repr_html_()
    styles = ";".join(re.findall(r'style="([^"]*)"', html))
    assert "border-bottom:1px solid rgba(128,128,128,.35)" in styles
    assert set(re.findall(r"(?<!-)\bcolor:[^;]*", styles)) == {"color:inherit"}
    for fixed in ("white", "black", "#", "background"):
        assert fixed not in styles


def test_plain_tables_fold_and_cut_what_is_long_and_hold_no_line_ends_in_cells() -> None:
    text = as_text(
        [
            Table.of(
                "t\nitle",
                ("a", "b"),
                (("x\ny", "w" * 1000), (None, TableCell(text="1", aside="faint", strong=True))),
                ("b",),
            )
        ]
    )
    assert "x y" in text
    assert "w" * 1000 not in text.replace("\n", "")
    assert "1 faint *" in text
    assert max(map(len, text.splitlines())) <= 120
    assert as_html([Table.of("only a title")]).count("<table") == 0


def test_a_lab_tells_what_it_is(lab: Lab) -> None:
    assert "test 9, train 9" in repr(lab)
    assert "17" in lab._repr_html_()


# -- the store, the loop, the progress ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_source_is_brought_in_once_and_only_what_is_new_after_that(own: Lab, store: Store, source: Path) -> None:
    before = own._open().view.row.version
    again = Lab(own.collection, source, store=store, resources=RESOURCES, progress=False)
    assert again._open().view.row.version == before


def test_a_name_that_is_nowhere_is_refused_and_options_alone_make_nothing(lab: Lab, store: Store) -> None:
    with pytest.raises(UnknownName, match="rankbook data add"):
        Lab(some_name(), store=store)
    with pytest.raises(SpecError, match="language say how one is made"):
        Lab(lab.collection, store=store, language="german")


@pytest.mark.slow
def test_a_store_of_its_own_is_given_back_and_one_that_was_given_is_not(lab: Lab, store: Store) -> None:
    with Lab(lab.collection, store=store) as borrowing:
        assert borrowing.store is store
    assert len(lab.search("oven", "bm25")) > 0
    with Lab(lab.collection, dsn=TEST_DSN, resources=RESOURCES) as mine:
        own, pool = mine.store, mine.store.engine.pool
        assert len(mine.search("oven", "bm25")) > 0
    assert own.engine.pool is not pool
    mine.close()
    assert repr(mine) == f"{lab.collection} (closed)"
    with pytest.raises(StoreError, match="is closed"):
        mine.search("oven", "bm25")


@pytest.mark.slow
def test_a_lab_that_is_forgotten_gives_its_store_back(lab: Lab) -> None:
    forgotten = Lab(lab.collection, dsn=TEST_DSN)
    store, pool = forgotten.store, forgotten.store.engine.pool
    del forgotten
    gc.collect()
    assert store.engine.pool is not pool


def test_a_lab_that_cannot_be_opened_leaves_no_store_open() -> None:
    with pytest.raises(UnknownName):
        Lab(some_name(), dsn=TEST_DSN)


def test_it_works_where_a_loop_runs_already_as_in_jupyter(lab: Lab) -> None:
    async def in_jupyter() -> Sequence[str]:
        return lab.search("repair the oven", "bm25").ids

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(asyncio.run, in_jupyter()).result()[0].startswith("oven-repair")


class Waiting(HashingEmbedder):
    """Interrupts whoever waits for it, once, and then takes for ever."""

    def __init__(self) -> None:
        super().__init__(64)
        self.begun, self.stopped = False, threading.Event()

    async def embed(self, texts: Sequence[str], purpose: Purpose = "document") -> Vectors:
        if not self.begun:
            self.begun = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()
        return await super().embed(texts, purpose)


@pytest.mark.slow
def test_an_interrupt_ends_the_work_and_what_was_done_goes_on_later(own: Lab, store: Store) -> None:
    waiting = Waiting()
    stuck = Lab(own.collection, store=store, resources=Resources(embedder=lambda _: waiting, environment={}))
    with pytest.raises(KeyboardInterrupt):
        stuck.evaluate(["bm25", "vector"])
    assert waiting.stopped.wait(10)
    assert own.evaluate(["bm25", "vector"]).names == ("bm25", "vector")


@pytest.mark.slow
def test_progress_is_told_on_stderr_unless_it_is_not_wanted(
    own: Lab, store: Store, capfd: pytest.CaptureFixture[str]
) -> None:
    own.evaluate("bm25")
    assert capfd.readouterr() == ("", "")
    Lab(own.collection, store=store, resources=RESOURCES).evaluate("bm25", again=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "variants" in err


def test_progress_outside_a_terminal_is_a_sentence_now_and_then(capfd: pytest.CaptureFixture[str]) -> None:
    from core.progress import Step

    said: list[str] = []
    listener = step_sentences(said.append)
    for done in range(100):
        listener(Step("[bold]Asking\x1b", done, 1000, "queries"))
    assert said == ["[bold]Asking\N{REPLACEMENT CHARACTER}: 0 of 1,000 queries"]
    with watched() as listen:
        listen(Step("[bold]Asking", 1, None))
    assert capfd.readouterr().err == "[bold]Asking: 1 rows\n"


@pytest.mark.slow
def test_a_bundled_collection_is_loaded_where_it_is_not_there(store: Store) -> None:
    try:
        lab = Lab("handbook", store=store, progress=False, models=(), check=False)
        assert len(lab.search("late fee", "bm25")) == 10
    finally:
        bridge.run(load.drop(store, "handbook"))


@pytest.mark.slow
def test_tables_are_loaded_without_the_lab_that_is_built_on_what_they_show():
    """A board shows itself by them: were the lab loaded too, the two would need each other first."""
    code = "import sys, evals.display, evals.evaluation.board; print('evals.lab.lab' in sys.modules)"
    code += "; from evals.lab import Lab"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "False"
    with pytest.raises(AttributeError, match="no attribute 'Lap'"):
        _ = evals.lab.Lap


@pytest.mark.slow
def test_a_lab_says_of_its_source_what_the_command_says(store, tmp_path):
    (tmp_path / "kettle.md").write_text("# Kettle\n\nIt boils water.")
    (tmp_path / "a.png").write_text("x")
    with Lab(some_name(), tmp_path, store=store, resources=RESOURCES, progress=False, models=()) as lab:
        assert lab.notes == ("Not read: 1 .png. A text format is read where it is named: -o suffixes=.md,.log.",)
        assert "1 .png" in str(lab)
    table = tmp_path / "faq.csv"
    table.write_text("id;text\n1;a\n;b\n")
    with Lab(some_name(), table, store=store, resources=RESOURCES, progress=False, models=()) as lab:
        assert "parted by semicolons" in lab.notes[0]
        assert lab.notes[1].startswith("1 rows or files were left out; the first, ")
