"""Judgements in the store: kept, stale, taken back, settled, merged into labels and written out."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc, operator"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from core import bridge
from core.errors import InputError, SpecError
from core.store.passages import ItemText
from core.types import Flaw, Item, Query
from evals.judging import judgements as judging
from evals.judging.judgements import Judgement
from evals.judging.merging import (
    SettledGrade,
    WouldOverwrite,
    judge_agreement,
    merge_judgements,
    merge_labels,
    qrels_text,
    remerged_splits,
    settle_grades,
    with_judgements,
)
from evals.judging.queue import QueueSpec, build_queue, read_judgements
from evals.labels import query_sets
from evals.runs.rankings import Ranking
from evals.runs.types import Run, RunSubject
from evals.sources.rows import read_qrels
from evals.types import Exclusion, Label, LabelledQueries
from tests.store.making import ingest, make

LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
ITEMS = [Item(name, f"The text of {name}.", name.title()) for name in ("kettle", "teapot", "toaster", "bill")]
QUERIES = (Query("q1", "boil water"), Query("q2", "brown bread"))
LABELLED = LabelledQueries(QUERIES, (Label("q1", "kettle", 2), Label("q2", "bill", 0), Label("q1", "bill", 1, "train")))


def version(item):
    return ItemText(item.id, item.title, item.text).version


def judgement(query="q1", item="teapot", grade=2, judge="ada", **more):
    source = next((each for each in ITEMS if each.id == item), ITEMS[0])
    return Judgement(query, item, judge, grade, version(source), **more)


@pytest.fixture
def view(store, name):
    made = make(store, name, chunks={})
    ingest(store, name, ITEMS)
    bridge.run(query_sets.keep(store, made.name, LABELLED))
    return made


def save_all(store, view, *judgements):
    return bridge.run(judging.save_judgements(store, view.name, judgements))


def stored_judgements(store, view):
    return {
        (each.query_id, each.item_id, each.judge): each.grade for each in bridge.run(judging.load(store, view.name))
    }


def test_a_judgement_is_kept_with_who_when_on_which_text_and_why(store, view):
    given = judgement(note="only\x00 for tea", judged_at=LONG_AGO)
    assert save_all(store, view, given) == []
    (read,) = bridge.run(judging.load(store, view.name))
    assert read == Judgement("q1", "teapot", "ada", 2, version(ITEMS[1]), False, "only for tea", LONG_AGO)


def test_the_time_of_a_judgement_is_that_of_the_store_where_none_is_given(store, view):
    save_all(store, view, judgement(), judgement(item="bill"))
    first, second = bridge.run(judging.load(store, view.name))
    assert abs(first.judged_at - datetime.now(UTC)) < timedelta(hours=1)
    assert first.judged_at != second.judged_at


def test_judging_again_replaces_ones_own_judgement_alone_and_tells_what_it_was(store, view):
    save_all(store, view, judgement(grade=1), judgement(grade=3, judge="bob"))
    before = save_all(store, view, judgement(grade=0))
    assert [(each.judge, each.grade) for each in before] == [("ada", 1)]
    assert stored_judgements(store, view) == {("q1", "teapot", "ada"): 0, ("q1", "teapot", "bob"): 3}


def test_undo_takes_back_the_last_of_that_judge_one_by_one(store, view):
    save_all(store, view, judgement(item="bill", judged_at=LONG_AGO))
    save_all(store, view, judgement(item="teapot"))
    save_all(store, view, judgement(item="toaster", judge="bob"))
    undone = [bridge.run(judging.undo(store, view.name, "ada")) for _ in range(3)]
    assert [each.item_id if each else None for each in undone] == ["teapot", "bill", None]
    assert stored_judgements(store, view) == {("q1", "toaster", "bob"): 2}


def test_undo_brings_an_earlier_grade_back(store, view):
    save_all(store, view, judgement(grade=1, judged_at=LONG_AGO, note="at first"))
    before = save_all(store, view, judgement(grade=3))
    bridge.run(judging.undo(store, view.name, "ada", before=before))
    (read,) = bridge.run(judging.load(store, view.name))
    assert (read.grade, read.note, read.judged_at) == (1, "at first", LONG_AGO)


def test_a_judgement_is_stale_once_title_or_text_changes_or_the_document_goes_and_not_for_metadata(store, view):
    save_all(store, view, *(judgement(item=item.id) for item in ITEMS))
    assert "all on the texts as they are" in bridge.run(judging.judgement_status(store, view)).sentence()
    changed = [
        Item("kettle", "Another text.", "Kettle"),
        Item("teapot", ITEMS[1].text, "Another title"),
        Item("toaster", ITEMS[2].text, ITEMS[2].title, {"colour": "red"}),
    ]
    ingest(store, view.name, changed, prune=True)
    stood = bridge.run(judging.judgement_status(store, view))
    assert [each.item_id for each in stood.current] == ["toaster"]
    assert [each.item_id for each in stood.stale] == ["bill", "kettle", "teapot"]
    assert "3 of 4 judgements are stale" in stood.sentence()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (judgement(grade=11), InputError, "0 .not relevant. to 10"),
        (judgement(grade=-1), InputError, "The grade -1"),
        (judgement(judge=" "), SpecError, "judge's name"),
        (judgement(judge="llm:small"), InputError, "does not fit"),
        (judgement(judge="small", is_model=True), InputError, "does not fit"),
        (judgement(query="q\x00"), InputError, "cannot be stored"),
    ],
)
def test_what_is_no_judgement_is_refused_and_nothing_of_its_company_kept(store, view, wrong, error, message):
    with pytest.raises(error, match=message):
        save_all(store, view, judgement(), wrong)
    assert stored_judgements(store, view) == {}


# -- several judges, and models ------------------------------------------------------------------------------------


def model(grade, query="q1", item="teapot"):
    return judgement(query, item, grade, "llm:small", is_model=True)


def test_people_settle_on_the_median_and_a_model_has_no_say_beside_them():
    given = [judgement(grade=3), judgement(grade=1, judge="bob"), model(0)]
    for models in (False, True):
        assert settle_grades(given, models=models) == {("q1", "teapot"): SettledGrade(1, "human", ("ada", "bob"))}


def test_a_model_counts_only_where_that_is_asked_for_and_is_told_apart():
    given = [model(2), judgement(item="bill")]
    assert set(settle_grades(given)) == {("q1", "bill")}
    assert settle_grades(given, models=True)["q1", "teapot"] == SettledGrade(2, "model", ("llm:small",))


def test_judgements_come_before_labels_where_both_are_scored_together():
    settled = settle_grades([judgement(item="kettle", grade=0), judgement("q2", "toaster", 3)])
    assert with_judgements({"q1": {"kettle": 2, "bill": 1}}, settled) == {
        "q1": {"kettle": 0, "bill": 1},
        "q2": {"toaster": 3},
    }


def test_merging_adds_labels_with_their_origin_and_overrules_only_when_asked():
    settled = settle_grades(
        [judgement(item="kettle", grade=0), judgement(grade=3), judgement("lost", "bill"), model(1, "q2", "teapot")],
        models=True,
    )
    made = merge_labels(LABELLED, settled)
    assert made.left_out == 1
    assert made.origins == {
        ("q1", "kettle"): "labels",
        ("q1", "teapot"): "human",
        ("q2", "bill"): "labels",
        ("q2", "teapot"): "model",
    }
    assert Label("q1", "kettle", 2) in made.labelled.labels
    assert Label("q1", "bill", 1, "train") in made.labelled.labels
    assert made.labelled.digest() != LABELLED.digest()
    overruled = merge_labels(LABELLED, settled, overrule=True)
    assert Label("q1", "kettle", 0) in overruled.labelled.labels
    assert overruled.origins["q1", "kettle"] == "human"


def test_merging_into_a_set_of_its_own_leaves_the_other_as_it_came_and_is_read_back_equal(store, view):
    save_all(store, view, judgement(), model(3, "q2", "toaster"))
    made, changed = bridge.run(merge_judgements(store, view, "judged"))
    assert changed
    assert bridge.run(query_sets.load(store, view.name)) == LABELLED
    assert bridge.run(query_sets.load(store, view.name, name="judged")) == made.labelled
    assert [label.item_id for label in made.labelled.labels if label.query_id == "q2"] == ["bill"]
    assert not bridge.run(merge_judgements(store, view, "judged"))[1]
    with pytest.raises(InputError, match="no query set 'nowhere'"):
        bridge.run(merge_judgements(store, view, "judged", name="nowhere"))


@pytest.mark.parametrize(
    "own",
    [
        LabelledQueries(QUERIES, (Label("q1", "toaster", 3), Label("q2", "toaster", 1))),  # labels by hand
        LabelledQueries(QUERIES, (*LABELLED.labels, Label("q1", "teapot", 1, "train"))),  # judged, in another split
        LabelledQueries(QUERIES, (*LABELLED.labels, Label("q1", "teapot", 0))),  # judged, and graded otherwise by hand
        LabelledQueries(QUERIES[:1], (Label("q1", "kettle", 2),)),  # a choice of queries
        LabelledQueries(QUERIES, LABELLED.labels, exclusions=(Exclusion("q1", "bill"),)),
    ],
)
def test_a_set_that_no_merge_made_is_replaced_only_where_that_is_said(store, view, own):
    bridge.run(query_sets.keep(store, view.name, own, name="gold"))
    before = bridge.run(query_sets.load(store, view.name, name="gold"))
    save_all(store, view, judgement(grade=2))
    with pytest.raises(WouldOverwrite, match=r"'gold' is there already.*would be lost.*another name.*overwritten"):
        bridge.run(merge_judgements(store, view, "gold"))
    assert bridge.run(query_sets.load(store, view.name, name="gold")) == before
    made, changed = bridge.run(merge_judgements(store, view, "gold", overwrite=True))
    assert changed
    assert bridge.run(query_sets.load(store, view.name, name="gold")) == made.labelled


def test_what_is_lost_of_a_set_is_counted(store, view):
    own = LabelledQueries(QUERIES, (LABELLED.labels[0], Label("q1", "toaster", 3), Label("q2", "toaster", 1)))
    bridge.run(query_sets.keep(store, view.name, own, name="gold"))
    with pytest.raises(WouldOverwrite, match=": 2 of its 3 labels would be lost"):
        bridge.run(merge_judgements(store, view, "gold"))


def test_what_a_merge_made_and_somebody_changed_since_is_theirs(store, view):
    save_all(store, view, judgement(grade=1))
    made, _ = bridge.run(merge_judgements(store, view, "judged"))
    by_hand = replace(made.labelled, labels=(*made.labelled.labels, Label("q1", "toaster", 3)))
    bridge.run(query_sets.keep(store, view.name, by_hand, name="judged"))
    with pytest.raises(WouldOverwrite, match="1 of its 5 labels"):
        bridge.run(merge_judgements(store, view, "judged"))


def test_a_set_of_which_nothing_would_be_lost_is_merged_into(store, view):
    bridge.run(query_sets.keep(store, view.name, LabelledQueries(QUERIES, LABELLED.labels[:1]), name="gold"))
    save_all(store, view, judgement())
    assert bridge.run(merge_judgements(store, view, "gold"))[1]


@pytest.mark.parametrize(
    "base",
    [
        LabelledQueries((*QUERIES, Query("q3", "another")), LABELLED.labels),
        LabelledQueries(QUERIES, (*LABELLED.labels, Label("q2", "toaster", 2))),
        LabelledQueries(QUERIES, tuple(replace(label, grade=0) for label in LABELLED.labels)),
        LabelledQueries(QUERIES[:1], LABELLED.labels[:1]),
    ],
)
def test_merging_again_follows_the_set_that_judgements_are_added_to(store, view, base):
    save_all(store, view, judgement(grade=1), model(3, "q2", "toaster"))
    bridge.run(merge_judgements(store, view, "judged", models=True))
    bridge.run(query_sets.keep(store, view.name, base))
    save_all(store, view, judgement(grade=3))
    made, _ = bridge.run(merge_judgements(store, view, "judged", split="train"))
    assert bridge.run(query_sets.load(store, view.name, name="judged")) == made.labelled


@pytest.mark.slow
def test_merging_another_split_keeps_what_was_judged_in_the_first(store, view):
    save_all(store, view, judgement(grade=1))
    bridge.run(merge_judgements(store, view, "judged"))
    save_all(store, view, judgement("q2", "toaster", 2))
    bridge.run(merge_judgements(store, view, "judged", split="train"))
    bridge.run(merge_judgements(store, view, "judged"))
    labels = bridge.run(query_sets.load(store, view.name, name="judged")).labels
    for split in ("test", "train"):
        assert {Label("q1", "teapot", 1, split), Label("q2", "toaster", 2, split)} <= set(labels)


def test_each_split_is_merged_anew_as_it_was(store, view):
    save_all(store, view, judgement("q1", "bill", 0), model(3, "q2", "toaster"))
    bridge.run(merge_judgements(store, view, "judged", split="train", models=True, overrule=True))
    bridge.run(merge_judgements(store, view, "judged"))
    labels = bridge.run(query_sets.load(store, view.name, name="judged")).labels
    assert {Label("q2", "toaster", 3, "train"), Label("q1", "bill", 0, "train")} <= set(labels)
    assert Label("q2", "toaster", 3) not in labels


@pytest.mark.slow
def test_the_same_split_is_merged_again_as_it_was_unless_otherwise_is_said(store, view):
    save_all(store, view, judgement("q1", "bill", 0), judgement("q1", "kettle", 0), model(3, "q2", "toaster"))
    bridge.run(merge_judgements(store, view, "judged", models=True, overrule=True))
    own = {Label("q2", "toaster", 3), Label("q1", "kettle", 0)}
    made, changed = bridge.run(merge_judgements(store, view, "judged"))
    assert not changed
    assert own <= set(made.labelled.labels)
    made, _ = bridge.run(merge_judgements(store, view, "judged", models=False))
    assert own & set(made.labelled.labels) == {Label("q1", "kettle", 0)}
    made, _ = bridge.run(merge_judgements(store, view, "judged", overrule=False))
    assert not own & set(made.labelled.labels)
    made, _ = bridge.run(merge_judgements(store, view, "judged"))  # what was said last holds
    assert not own & set(made.labelled.labels)


def test_the_other_splits_that_were_made_anew_are_named_with_their_way(store, view):
    save_all(store, view, judgement(grade=1))
    made, _ = bridge.run(merge_judgements(store, view, "judged", split="train", models=True, overrule=True))
    assert remerged_splits(made, "train") == ""
    bridge.run(merge_judgements(store, view, "judged", split="dev"))
    made, _ = bridge.run(merge_judgements(store, view, "judged"))
    assert (
        remerged_splits(made, "test") == "Made anew as before: 'dev', 'train' (models' grades too, overruling labels)."
    )


def test_a_set_that_was_merged_from_another_set_is_asked_about(store, view):
    save_all(store, view, judgement(grade=1))
    bridge.run(query_sets.keep(store, view.name, LabelledQueries(QUERIES[:1]), name="few"))
    bridge.run(merge_judgements(store, view, "judged"))
    before = bridge.run(query_sets.load(store, view.name, name="judged"))
    with pytest.raises(WouldOverwrite, match="not as a merge from 'few' left it: its choice of 2 queries"):
        bridge.run(merge_judgements(store, view, "judged", name="few"))
    assert bridge.run(query_sets.load(store, view.name, name="judged")) == before


@pytest.mark.slow
def test_merging_again_after_more_judgements_asks_nothing(store, view):
    save_all(store, view, judgement(grade=1))
    bridge.run(merge_judgements(store, view, "judged"))
    save_all(store, view, judgement(grade=3), judgement("q2", "toaster", 2))  # another word on the first, and a new one
    made, changed = bridge.run(merge_judgements(store, view, "judged"))
    assert changed
    assert {Label("q1", "teapot", 3), Label("q2", "toaster", 2)} <= set(made.labelled.labels)
    ingest(store, view.name, [Item("teapot", "Changed.", "Teapot")])
    made, changed = bridge.run(merge_judgements(store, view, "judged"))
    assert changed
    assert Label("q1", "teapot", 3) not in made.labelled.labels
    assert bridge.run(merge_judgements(store, view, "default"))[1]  # into itself nothing is lost


def test_stale_judgements_are_merged_nowhere(store, view):
    save_all(store, view, judgement())
    ingest(store, view.name, [Item("teapot", "Changed.", "Teapot")])
    made, _ = bridge.run(merge_judgements(store, view, "judged"))
    assert made.labelled.labels == LABELLED.labels


@pytest.mark.parametrize("form", ["trec", "beir"])
def test_an_exported_file_reads_back_as_the_same_grades(form):
    grades = {("q1", "teapot"): 3, ("q1", "bill"): 0, ("q2", "kettle"): 1}
    read = list(read_qrels(io.BytesIO(qrels_text(grades, form).encode()), "judged", "test"))
    assert not any(isinstance(row, Flaw) for row in read)
    assert {(row.value.query_id, row.value.item_id): row.value.grade for row in read} == grades


def test_an_id_with_a_blank_fits_beirs_file_and_is_refused_in_trecs():
    grades = {("q 1", "a"): 1}
    assert qrels_text(grades, "beir") == "query-id\tcorpus-id\tscore\nq 1\ta\t1\n"
    with pytest.raises(InputError, match="holds a blank"):
        qrels_text(grades, "trec")


# -- the queue -----------------------------------------------------------------------------------------------------


def run(view, name, query_set="default", **rankings):
    over = RunSubject(view.name, 1, query_set, b"", "test")
    return Run(
        name,
        over,
        {q: Ranking(tuple(ids), tuple(map(float, range(len(ids), 0, -1)))) for q, ids in rankings.items()},
        id=name * 8,
    )


def queue_of(store, view, runs, judge="ada", **options):
    return bridge.run(build_queue(store, view, runs, QueueSpec(**options), judge))


def pairs(found):
    return {(task.query.id, task.item.id) for task in found.tasks}


def test_the_queue_holds_what_nobody_has_judged_with_its_text_and_neither_rank_nor_run(store, view):
    runs = [run(view, each, q1=["kettle", "teapot"], q2=["toaster", "bill"]) for each in "abc"]
    found = queue_of(store, view, runs)
    assert pairs(found) == {("q1", "teapot"), ("q2", "toaster")}
    assert {task.item.text for task in found.tasks} == {"The text of teapot.", "The text of toaster."}
    assert set(found.tasks[0].__dataclass_fields__) == {"query", "item"}
    save_all(store, view, judgement())
    assert pairs(queue_of(store, view, runs)) == {("q2", "toaster")}
    assert pairs(queue_of(store, view, runs, judge="bob")) == {("q2", "toaster")}


def test_what_only_a_model_judged_still_wants_a_person_and_what_is_stale_is_asked_anew(store, view):
    runs = [run(view, "a", q1=["teapot"], q2=["toaster"])]
    save_all(store, view, model(3), judgement("q2", "toaster"))
    ingest(store, view.name, [Item("toaster", "A new toaster.", "Toaster")])
    found = queue_of(store, view, runs)
    assert (pairs(found), found.stale) == ({("q1", "teapot"), ("q2", "toaster")}, 1)


def test_for_agreement_the_queue_holds_all_that_this_judge_has_not_graded(store, view):
    runs = [run(view, "a", q1=["kettle", "teapot"])]
    save_all(store, view, judgement(), judgement(item="kettle", judge="bob"))
    assert pairs(queue_of(store, view, runs, again=True)) == {("q1", "kettle")}
    assert pairs(queue_of(store, view, runs, judge="bob", again=True)) == {("q1", "teapot")}


def test_two_runs_are_settled_and_a_document_that_has_gone_is_counted(store, view):
    one, other = run(view, "one", q1=["teapot", "toaster"]), run(view, "two", q1=["gone", "bill", "toaster"])
    found = queue_of(store, view, [one, other], limit=9)
    assert found.outlook is not None
    assert "one" in found.sentence
    assert found.gone == 1
    assert ("q1", "gone") not in pairs(found)
    assert queue_of(store, view, [one, other], limit=1).outlook == found.outlook
    assert len(queue_of(store, view, [one, other], limit=1).tasks) <= 1


@pytest.mark.slow
def test_runs_that_cannot_make_one_queue_are_refused_with_the_reason(store, view):
    one, other = run(view, "a", q1=["kettle"]), run(view, "b", "elsewhere", q1=["kettle"])
    with pytest.raises(InputError, match="different queries"):
        queue_of(store, view, [one, other])
    with pytest.raises(InputError, match="Two runs can be settled, and 1"):
        queue_of(store, view, [one], order="settle")
    with pytest.raises(InputError, match="Name one or more"):
        queue_of(store, view, [])


def test_grades_of_a_file_become_judgements_on_the_texts_as_they_are(store, view, tmp_path):
    file = tmp_path / "grades.tsv"
    file.write_text("query-id\tcorpus-id\tscore\nq1\tteapot\t3\nq2\tlost\t1\nq9\tbill\t1\nq1\tbill\tx\n")
    read = bridge.run(read_judgements(store, view, file, "ada"))
    assert [(each.pair, each.grade, each.version) for each in read.judgements] == [
        (("q1", "teapot"), 3, version(ITEMS[1]))
    ]
    assert [flaw.place.line for flaw in read.flaws if flaw.outcome == "quarantined"] == [3, 4, 5]


def test_agreement_is_told_of_people_and_each_model_is_held_against_people_and_labels(store, view):
    save_all(store, view, judgement(grade=3), judgement(grade=3, judge="bob"), model(2), model(2, "q1", "kettle"))
    found = bridge.run(judge_agreement(store, view))
    assert found.counts == (("ada", 1), ("bob", 1), ("llm:small", 2))
    assert [(two.one, two.other) for two in found.people.two] == [("ada", "bob")]
    (calibration,) = found.models
    assert calibration.compared.shared == 2


def test_exclusions_take_no_rank_in_the_queue(store, view):
    bridge.run(
        query_sets.keep(store, view.name, LabelledQueries(QUERIES, LABELLED.labels, (), (Exclusion("q1", "toaster"),)))
    )
    found = queue_of(store, view, [run(view, "a", q1=["toaster", "teapot"])], depth=1)
    assert pairs(found) == {("q1", "teapot")}


def test_names_that_look_like_sql_are_kept_as_they_are(store, view):
    save_all(store, view, judgement(judge="a'); DROP TABLE judgements; --"))
    assert [judge for _, _, judge in stored_judgements(store, view)] == ["a'); DROP TABLE judgements; --"]

    async def there():
        async with store.begin() as connection:
            return await connection.scalar(text("SELECT count(*) FROM rankbook.judgements"))

    assert bridge.run(there()) >= 1
