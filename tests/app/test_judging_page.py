"""The judging page as Streamlit would draw it: sittings, grades that are kept at once, judges beside each other."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import html
import json
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import streamlit as st
from hypothesis import given, strategies
from streamlit.testing.v1 import AppTest

from core import bridge
from core.context import Resources
from core.errors import InputError, LanguageModelError
from core.llm import Session, using
from core.store import collections
from core.store.engine import Store
from core.store.passages import read_items
from core.types import Query
from evals.collections import load
from evals.evaluation.context import open_eval
from evals.judging import judgements as judging
from evals.judging.judgements import Judgement
from evals.judging.llm_judge import ModelJudge
from evals.judging.merging import merge_judgements
from evals.labels import query_sets
from evals.runs import run_store
from evals.types import Label, LabelledQueries
from evals.variants import every_name
from tests.app.corpus import HOSTILE, KETTLES, SCRIPT, Listed
from tests.app.test_search_page import handed, visit, written
from tests.unit.misbehaving import Reply, completion, serving
from workbench.components import sign_in
from workbench.screens.judge import desk
from workbench.server import access
from workbench.server.sign_in import SETTING
from workbench.services import jobs
from workbench.services import judging as judging_shown
from workbench.services import judging_session as judging_sitting
from workbench.services.judging_session import JudgingAction, JudgingSession, Pool
from workbench.services.pool_request import JudgeState

SOURCE = Listed(
    documents=KETTLES.documents,
    asked=(Query("q1", "kettle warranty or scale", "question"), Query("q2", "kettle lid", "words")),
    judged=(Label("q1", "descale", 3), Label("q2", "e42", 2)),
)
UNJUDGED = 4  # pairs that bm25 finds and no label knows
Row = tuple[str, str, str, int, str]


def draw() -> None:
    import streamlit as st

    from tests.app.test_judging_page import pressed
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.judge import page

    with feedback.draw_errors():
        page.render(session.store())
    st.button("press", key="press", on_click=pressed)


def pressed() -> None:
    """What the component would tell."""
    said = JudgeState.of({name: str(value) for name, value in st.query_params.items()})
    found = Sittings.of(said)
    desk.take(desk.Desk("judging.desk", found, said.lists, lambda _: {}), st.session_state["acts"])


class Sittings:
    """The sittings under way, found as the page finds them: by their jobs."""

    @staticmethod
    def of(said: JudgeState) -> JudgingSession:
        for key, job in reversed(jobs.begun()):
            if key[0] == "sitting" and said.collection in key and said.judge in key:
                sitting: JudgingSession = job.result()
                return sitting
        raise AssertionError(f"no sitting of {said}")


@pytest.fixture
def name(store: Store) -> Iterator[str]:
    """A collection of this test's own, with holes in its labels."""
    made = f"judging {uuid.uuid4().hex[:8]}"
    bridge.run(load.load_collection(store, made, SOURCE, load.LoadPlan(models=())))
    yield made
    bridge.run(load.drop(store, made))


@pytest.fixture
def page(store: Store) -> AppTest:
    return AppTest.from_function(draw, default_timeout=60)


def begin(page: AppTest, collection: str, judge: str = "ada", **more: str) -> AppTest:
    """A sitting on the page, once its runs are there."""
    usual = {"variants": "bm25\nfulltext", "split": "test", "begun": "1"}
    return ready(visit(page, collection=collection, judge=judge, **(usual | more)))


def ready(page: AppTest) -> AppTest:
    """The page once the runs that it waits for are there."""
    until = time.monotonic() + 60
    while any(button.label == "Stop" for button in page.button) and time.monotonic() < until:
        page.run()
    assert not page.exception
    return page


def shown(page: AppTest) -> dict[str, Any]:
    return handed(page, "judging.desk")


def pair(page: AppTest) -> list[str]:
    found: list[str] = shown(page)["tasks"][0]["pair"]
    return found


def tell(page: AppTest, *acts: dict[str, Any], token: str = "window") -> AppTest:
    page.session_state["acts"] = {"token": token, "acts": list(acts)}
    page.button(key="press").click().run()
    assert not page.exception
    return page


def grade(page: AppTest, n: int, value: int, note: str = "") -> list[str]:
    """The one that is shown."""
    at = pair(page)
    tell(page, {"n": n, "do": "grade", "pair": at, "grade": value, "note": note})
    return at


def undo(page: AppTest, n: int) -> AppTest:
    return tell(page, {"n": n, "do": "undo", "pair": ["", ""]})


def kept(store: Store, collection: str) -> list[Row]:
    return [
        (each.query_id, each.item_id, each.judge, each.grade, each.note)
        for each in bridge.run(judging.load(store, collection))
    ]


# -- before a sitting --------------------------------------------------------------------------------------------------


def test_without_a_judge_the_page_teaches_and_does_not_begin(page, name):
    visit(page, collection=name, variants="bm25")
    assert "hidden, so that nobody is favoured" in written(page)
    assert "Say who judges." in written(page)
    assert page.button(key="judging.begin").disabled
    page.text_input(key="judging.judge").set_value("ada").run()
    assert "".join(page.query_params["judge"]) == "ada"
    page.button(key="judging.begin").click().run()
    assert "".join(page.query_params["begun"]) == "1"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ({"judge": "ada"}, "Choose the variants"),
        ({"judge": "ada", "what": "settle", "variants": "bm25"}, "Choose the two"),
        ({"judge": "llm:me", "variants": "bm25", "begun": "1"}, "language models sign as"),
    ],
)
def test_what_is_missing_or_refused_is_said_where_it_is_chosen(page, name, address, said):
    visit(page, collection=name, **address)
    assert said in written(page)


@pytest.mark.parametrize("variants", ["/etc/passwd", "bm26", "nobody's run"])
def test_a_link_names_variants_and_kept_runs_alone_and_never_a_file(page, name, variants):
    begin(page, name, variants=variants)
    assert "No variant, preset, leg or kept run is called" in written(page)


def test_variants_are_offered_first_and_then_kept_runs_the_newest_first_with_their_dates(store, page, name):
    begin(page, name)
    begin(page, name, variants="trigram")
    kept = {run.name: run for run in bridge.run(run_store.listed(store, collection=name))}
    visit(page, collection=name, judge="ada", split="test", variants=f"vector\n{kept['fulltext'].id[:9]}")
    chooser = page.multiselect(key="judging.variants")
    names = every_name()
    assert chooser.options[: len(names)] == names
    made = kept["trigram"].made_at.astimezone()
    assert chooser.options[len(names)] == f"Run of {made:%Y-%m-%d %H:%M}: trigram ({kept['trigram'].id[:12]})"
    assert len(chooser.options) == len(names) + 3
    assert chooser.value == ["vector", kept["fulltext"].id]
    assert not chooser.proto.select_all  # typing a name and Enter takes the one, not all that match


def test_another_pool_is_another_sitting_and_wants_to_be_begun(page, name):
    begin(page, name)
    page.selectbox(key="judging.depth").set_value("5").run()
    assert "begun" not in page.query_params
    assert "".join(page.query_params["depth"]) == "5"


# -- judging -----------------------------------------------------------------------------------------------------------


def test_a_judge_sees_query_and_text_and_neither_rank_nor_variant(page, name):
    begin(page, name)
    found = shown(page)
    assert found["progress"]["all"] == UNJUDGED
    task = found["tasks"][0]
    query = next(each for each in SOURCE.asked if each.id == task["pair"][0])
    item = next(each for each in KETTLES.documents if each.id == task["pair"][1])
    assert (task["query"], task["about"], task["title"]) == (query.text, [query.kind], item.title)
    assert "".join(piece for piece, *_ in task["pieces"]) == item.text
    assert not {"rank", "ranks", "run", "variant", "influence", "score"} & task.keys()
    assert not any(leg in json.dumps(found["tasks"]) for leg in ("bm25", "fulltext"))


def test_every_grade_is_kept_at_once_with_its_note_and_the_next_comes(store, page, name):
    begin(page, name)
    first = grade(page, 1, 2, "only  in part")
    assert kept(store, name) == [(*first, "ada", 2, "only in part")]
    assert pair(page) != first
    assert (shown(page)["progress"]["done"], shown(page)["heard"]) == (1, {"token": "window", "n": 1})
    assert shown(page)["said"].startswith("Kept: 2 for")


def test_what_is_said_again_is_not_done_again(store, page, name):
    begin(page, name)
    first = pair(page)
    act = {"n": 1, "do": "grade", "pair": first, "grade": 1}
    second = shown(page)["tasks"][1]["pair"]
    tell(page, act)
    undo(page, 2)
    tell(page, act, {"n": 2, "do": "undo", "pair": ["", ""]}, {"n": 3, "do": "grade", "pair": second, "grade": 3})
    assert kept(store, name) == [(*second, "ada", 3, "")]


def test_undo_takes_back_grades_and_skips_one_by_one(store, page, name):
    begin(page, name)
    first = grade(page, 1, 3)
    skipped = pair(page)
    tell(page, {"n": 2, "do": "skip", "pair": skipped})
    third = grade(page, 3, 0)
    assert len({*map(tuple, (first, skipped, third))}) == 3
    assert pair(undo(page, 4)) == third
    assert kept(store, name) == [(*first, "ada", 3, "")]
    assert pair(undo(page, 5)) == skipped
    assert pair(undo(page, 6)) == first
    assert kept(store, name) == []
    assert shown(undo(page, 7))["said"] == "There is nothing to take back."


def test_undo_at_the_beginning_takes_back_what_the_sitting_before_ended_with(store, page, name):
    begin(page, name)
    last = grade(page, 1, 2)
    for key, _ in jobs.begun():
        if key[0] == "sitting" and name in key:
            jobs.forget(key)
    begin(page, name)
    assert last not in [task["pair"] for task in shown(page)["tasks"]]
    assert pair(undo(page, 2)) == last
    assert kept(store, name) == []


def test_a_grade_given_twice_is_the_later_one_and_undo_brings_the_earlier_back(store, page, name):
    begin(page, name, layout="list")
    first = grade(page, 1, 1)
    tell(page, {"n": 2, "do": "grade", "pair": first, "grade": 3})
    assert [row[3] for row in kept(store, name)] == [3]
    undo(page, 3)
    assert [row[3] for row in kept(store, name)] == [1]


def test_a_reload_finds_the_sitting_where_it_was(store, page, name):
    begin(page, name)
    first = grade(page, 1, 0)
    following = pair(page)
    again = begin(AppTest.from_function(draw, default_timeout=60), name)
    assert pair(again) == following != first
    assert shown(again)["progress"]["done"] == 1


def test_at_the_end_the_skipped_come_back_and_then_what_is_next(page, name):
    begin(page, name)
    skipped = pair(page)
    tell(page, {"n": 1, "do": "skip", "pair": skipped})
    for n in range(2, UNJUDGED + 1):
        grade(page, n, 0)
    assert shown(page)["tasks"] == []
    page.button(key="judging.skipped").click().run()
    assert pair(page) == skipped
    grade(page, UNJUDGED + 1, 1)
    ready(page.button(key="judging.next").click().run())
    assert "Nothing to judge. 0 unjudged pairs" in shown(page)["nothing"]


def test_what_is_not_in_the_sitting_is_refused_in_words_and_not_kept(store, page, name):
    begin(page, name)
    tell(page, {"n": 1, "do": "grade", "pair": ["q1", SCRIPT], "grade": 3})
    assert "is not in this sitting any more" in written(page)
    assert SCRIPT not in written(page)
    tell(page, {"n": 2, "do": "grade", "pair": pair(page), "grade": 9})
    assert "There is no grade 9" in written(page)
    tell(page, {"n": 3, "do": "drop", "pair": pair(page)})
    assert "is nothing that can be done" in written(page)
    assert kept(store, name) == []


def test_a_list_holds_the_documents_of_one_query_graded_ones_too(page, name):
    begin(page, name, layout="list")
    before = shown(page)["tasks"]
    assert len({task["queryId"] for task in before}) == 1
    if len(before) > 1:
        grade(page, 1, 2)
        after = shown(page)["tasks"]
        assert [task["pair"] for task in after] == [task["pair"] for task in before]
        assert [task["grade"] for task in after].count(2) == 1


# -- several judges ----------------------------------------------------------------------------------------------------


def test_two_judges_at_once_keep_their_own_and_are_not_asked_twice_for_the_same(store, page, name):
    other = AppTest.from_function(draw, default_timeout=60)
    begin(page, name, "ada")
    begin(other, name, "bob")
    mine = grade(page, 1, 3)
    asked = []
    n = 0
    while shown(other)["tasks"]:
        n += 1
        asked.append(grade(other, n, 1))
    assert len(asked) == UNJUDGED - 1 or asked[0] == mine  # who looks at it already may still grade it
    assert (*mine, "ada", 3, "") in kept(store, name)
    tell(page, {"n": 2, "do": "undo", "pair": ["", ""]})
    assert {row[2] for row in kept(store, name)} == {"bob"}


def test_for_agreement_a_judge_is_asked_for_what_others_judged(store, page, name):
    other = AppTest.from_function(draw, default_timeout=60)
    begin(page, name, "ada")
    mine = grade(page, 1, 3)
    begin(other, name, "bob", again="1")
    every = Sittings.of(JudgeState(collection=name, judge="bob")).tasks
    assert tuple(mine) in every
    assert ("q1", "descale") in every  # which the labels know
    tell(other, {"n": 1, "do": "grade", "pair": mine, "grade": 3})
    found = state(store, name)
    assert found.agreed.people.shared == 1


# -- signed in ---------------------------------------------------------------------------------------------------------

SECRETS = """
[auth]
redirect_uri = "https://rankbook.example.org/oauth2callback"
client_id = "rankbook"
client_secret = "planted"
server_metadata_url = "https://accounts.example.org/.well-known/openid-configuration"
cookie_secret = "planted-planted-planted-planted-planted"
"""
GRACE = {"is_logged_in": True, "sub": "7", "email": "Grace@example.org", "email_verified": True, "name": "Ada"}


@pytest.fixture
def signed_in(page: AppTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppTest]:
    """The page where people sign in, as Grace has it."""
    file = tmp_path / "secrets.toml"
    file.touch(0o600)
    file.write_text(SECRETS)
    monkeypatch.setenv(SETTING, str(file))
    access.forget()
    page.user = GRACE
    yield page
    access.forget()


def test_who_is_signed_in_grades_and_takes_back_under_that_name_whatever_the_address_says(store, signed_in, name):
    ada = Judgement("q2", "teapot", "ada", 3, a_task(store, name).item.version)
    bridge.run(judging.save_judgements(store, name, [ada]))
    visit(signed_in, collection=name, judge="ada", variants="bm25\nfulltext", split="test", begun="1")
    assert settled(signed_in, "grace@example.org judges")
    (shown_as,) = [each for each in signed_in.text_input if each.label == "You grade as"]
    assert (shown_as.value, shown_as.disabled) == ("grace@example.org", True)
    assert "Your name" not in [each.label for each in signed_in.text_input]
    found = Sittings.of(JudgeState(collection=name, judge="grace@example.org"))
    (query, item), *_ = found.tasks
    bridge.run(found.take(JudgingAction("grade", (query, item), 2, "hers")))
    assert (query, item, "grace@example.org", 2, "hers") in kept(store, name)
    for _ in range(3):
        bridge.run(found.take(JudgingAction("undo")))
    assert kept(store, name) == [("q2", "teapot", "ada", 3, "")]


def cell(text: str) -> None:
    from tests.app.test_judge_cell import play

    play(text)


def test_a_cell_leads_whoever_is_signed_in_to_a_sitting_of_their_own(signed_in, name):
    for more, label in (("", f"Judge the {UNJUDGED} that are left"), ("again = true\n", "Open the Judge page")):
        options = f'collection = "{name}"\nvariants = ["bm25", "fulltext"]\njudge = "ada"\n{more}'
        page = AppTest.from_function(cell, args=(f"```judge it\n{options}```\n",), default_timeout=60)
        page.user = GRACE
        (link,) = visit(page).get("link_button")
        said = JudgeState.of({key: values[0] for key, values in parse_qs(urlsplit(link.proto.url).query).items()})
        assert (said.judge, link.proto.label) == ("grace@example.org", label)


@pytest.mark.parametrize(
    ("told", "signs"),
    [
        ({"sub": "7", "email": " Grace@Example.org", "email_verified": True}, "grace@example.org"),
        ({"sub": "7", "email": "ada@example.org", "email_verified": False}, "sub:7"),
        ({"sub": "7", "email": "ada@example.org"}, "sub:7"),
        ({"sub": "ada@example.org", "name": "ada", "preferred_username": "ada"}, "sub:ada@example.org"),
    ],
)
def test_grades_are_signed_with_what_the_provider_vouches_for(told, signs):
    assert sign_in.grader(told) == signs


LONG = "7" * 197  # with "sub:" one byte more than there is room for


@pytest.mark.parametrize("told", [{"sub": LONG}, {"email": f"{LONG}@example.org", "email_verified": True}])
def test_what_is_too_long_to_sign_with_signs_by_a_digest_of_its_own(told):
    other = {claim: value.replace("7", "8") if isinstance(value, str) else value for claim, value in told.items()}
    names = [sign_in.grader(each) for each in (told, other, told)]
    assert names[0] == names[2] != names[1]
    for name in names:
        assert judging.judge_name(name).startswith("sha256:")
    assert sign_in.grader({"sub": names[0]}) == f"sub:{names[0]}"  # which nobody can choose as a mark


def test_whom_the_provider_does_not_name_grades_nothing():
    with pytest.raises(InputError, match="cannot be signed"):
        sign_in.grader({"name": "ada", "email": "ada@example.org"})
    with pytest.raises(InputError, match="language models sign as"):
        sign_in.grader({"sub": "7", "email": "llm:me", "email_verified": True})


# -- what it comes to --------------------------------------------------------------------------------------------------


def state(store: Store, collection: str, **more: str) -> judging_shown.State:
    asked = JudgeState(collection, split="test", judge="ada", variants="bm25\nfulltext", **more)
    ground = bridge.run(open_eval(store, collection))

    async def found() -> judging_shown.State:
        split = ground.any_split("test")
        entries = [await judging_shown.entry(ground, "test", each) for each in asked.entries]
        runs = await judging_shown.runs_of(ground, entries, split)
        return await judging_shown.state(ground, runs, split, asked.spec())

    return bridge.run(found())


def test_a_run_over_older_labels_is_scored_beside_one_over_these(store, name):
    ground = bridge.run(open_eval(store, name))
    split = ground.any_split("test")
    asked = JudgeState(name, split="test", judge="ada", variants="bm25\nfulltext")

    async def found() -> judging_shown.State:
        entries = [await judging_shown.entry(ground, "test", each) for each in asked.entries]
        newer, older = await judging_shown.runs_of(ground, entries, split)
        older = replace(older, subject=replace(older.subject, digest=b"older"))
        return await judging_shown.state(ground, [newer, older], split, asked.spec())

    assert bridge.run(found()).figures.scores() == state(store, name).figures.scores()


def test_scores_follow_the_labels_on_the_page(page, name):
    begin(page, name)
    assert settled(page, "pairs in the top 10 are judged")
    grade(page, 1, 3)
    assert settled(page, f"{UNJUDGED - 1} are left.")
    assert "labels alone" in written(page)
    assert "No pair has two judges yet" in written(page)


def settled(page: AppTest, words: str) -> bool:
    until = time.monotonic() + 20
    while words not in written(page) and time.monotonic() < until:
        page.run()
    return words in written(page)


def test_judgements_count_beside_the_labels_and_models_do_not(store, page, name):
    before = state(store, name).figures
    begin(page, name)
    query, item = grade(page, 1, 3)
    model = Judgement("q2", "teapot", "llm:small", 3, b"", is_model=True)
    bridge.run(judging.save_judgements(store, name, [model]))
    after = state(store, name)
    assert after.figures.whole.judged == before.whole.judged + 1
    assert after.figures.labels_alone == before.labels_alone
    assert [cell.mean for cell in after.figures.scores() if cell] != [cell.mean for cell in before.scores() if cell]
    assert judging_shown.exported(after, "trec") == f"{query} 0 {item} 3\n"
    assert judging_shown.exported(after, "beir").splitlines()[1:] == [f"{query}\t{item}\t3"]


def test_judgements_become_labels_of_a_query_set(store, page, name):
    begin(page, name)
    query, item = grade(page, 1, 3)
    assert settled(page, f"{UNJUDGED - 1} are left.")
    page.text_input(key="judging.into").set_value("mine").run()
    page.button(key="judging.merge").click().run()
    labels = bridge.run(query_sets.load(store, name, name="mine")).labels
    assert (query, item, 3) in [(each.query_id, each.item_id, each.grade) for each in labels]


def test_a_press_merges_as_was_merged_before(store, page, name):
    task = a_task(store, name)
    model = Judgement(task.query.id, task.item.id, "llm:small", 3, task.item.version, is_model=True)
    bridge.run(judging.save_judgements(store, name, [model]))
    view = bridge.run(collections.get(store, name))
    for split in ("train", "test"):
        bridge.run(merge_judgements(store, view, "gold", split=split, models=True))
    into_gold(page, name, "test").button(key="judging.merge").click().run()
    assert "Made anew as before: 'train' (models' grades too)." in html.unescape(written(page))
    labels = bridge.run(query_sets.load(store, name, name="gold")).labels
    assert {Label(*model.pair, 3, split) for split in ("train", "test")} <= set(labels)


def test_a_query_set_of_that_name_is_replaced_only_after_a_question(store, page, name):
    gold = LabelledQueries(SOURCE.asked, (Label("q1", "warranty", 3), Label("q2", "descale", 1)))
    bridge.run(query_sets.keep(store, name, gold, name="gold"))
    begin(page, name)
    query, item = grade(page, 1, 3)
    assert settled(page, f"{UNJUDGED - 1} are left.")
    page.text_input(key="judging.into").set_value("gold").run()
    page.button(key="judging.merge").click().run()
    assert "labels would be lost" in written(page)
    assert bridge.run(query_sets.load(store, name, name="gold")).labels == gold.labels
    page.button(key="judging.overwrite").click().run()
    assert "has 1 judgements among its labels of 'test' now" in html.unescape(written(page))
    assert Label(query, item, 3) in bridge.run(query_sets.load(store, name, name="gold")).labels


def test_what_was_said_of_a_merge_is_said_of_no_other_split_and_of_no_set_that_was_changed_since(store, page, name):
    lost = "labels would be lost"
    in_both = (*SOURCE.judged, Label("q1", "warranty", 3, "train"))
    bridge.run(query_sets.keep(store, name, LabelledQueries(SOURCE.asked, in_both)))
    gold = (Label("q1", "teapot", 3), Label("q2", "teapot", 1))
    bridge.run(query_sets.keep(store, name, LabelledQueries(SOURCE.asked, gold), name="gold"))
    into_gold(page, name, "test").button(key="judging.merge").click().run()
    assert lost in written(page)
    assert lost not in written(into_gold(page, name, "train"))
    assert lost in written(into_gold(page, name, "test"))
    bridge.run(query_sets.keep(store, name, LabelledQueries(SOURCE.asked, gold[:1]), name="gold"))
    assert lost not in written(page.run())


def into_gold(page: AppTest, collection: str, split: str) -> AppTest:
    """The labels of a sitting over that split about to be taken along."""
    begin(page, collection, split=split)
    assert settled(page, "of all judges")
    return page.text_input(key="judging.into").set_value("gold").run()


def test_two_are_settled_by_what_tells_them_apart(page, name):
    begin(page, name, what="settle", metric="ndcg@10")
    assert settled(page, "expected to be ahead") or settled(page, "is judged: the difference")


# -- a language model --------------------------------------------------------------------------------------------------


def answer(body: dict[str, Any]) -> Reply:
    given = json.loads(body["messages"][1]["content"])["candidates"]
    return completion({"results": [{"chunk_id": each["id"], "relevance_score": 2} for each in given]})


def a_task(store: Store, name: str) -> judging.Task:
    view = bridge.run(collections.get(store, name))
    item = bridge.run(read_items(store, view, ["teapot"]))["teapot"]
    return judging.Task(SOURCE.asked[1], item)


def test_a_models_suggestion_is_asked_once_kept_as_a_models_and_counts_for_nothing(store, name):
    task = a_task(store, name)
    with serving(answer) as endpoint, using(Session()):
        resources = Resources(environment={"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small"})
        for _ in range(2):
            found = bridge.run(judging_shown.suggested(store, name, ModelJudge(), resources, task))
        assert len(endpoint.asked) == 1
    assert (found.judge, found.grade, found.is_model) == ("llm:small", 2, True)
    assert state(store, name).settled == {}


def test_a_model_that_fails_says_so(store, name):
    task = a_task(store, name)
    with serving(Reply(status=400)) as endpoint, using(Session()):
        resources = Resources(environment={"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small"})
        with pytest.raises(LanguageModelError):
            bridge.run(judging_shown.suggested(store, name, ModelJudge(), resources, task))
    assert kept(store, name) == []


def test_without_a_model_the_page_says_how_to_come_by_one(page, name, monkeypatch):
    monkeypatch.delenv("RANKBOOK_LLM_URL", raising=False)
    begin(page, name)
    assert shown(page)["suggests"] == ""
    assert "No language model is configured" in written(page)


# -- hostile -----------------------------------------------------------------------------------------------------------


def test_hostile_texts_ids_and_names_reach_no_markup(store, page):
    made = f"<script>hostile {uuid.uuid4().hex[:8]}"
    bridge.run(load.load_collection(store, made, HOSTILE, load.LoadPlan(models=())))
    try:
        begin(page, made, f"ada {SCRIPT}", variants="bm25")
        assert shown(page)["tasks"], written(page)
        grade(page, 1, 2, f"note {SCRIPT}")
        settled(page, "Judgements that hold")
        assert SCRIPT not in written(page)
        assert "&lt;script&gt;" in written(page)
        assert SCRIPT not in "".join(each.value for each in page.markdown)
    finally:
        bridge.run(load.drop(store, made))


@given(
    text=strategies.text(max_size=60),
    words=strategies.lists(strategies.sampled_from(["kettle", "a", "0"])),
    starts=strategies.lists(strategies.integers(0, 60), max_size=6),
)
def test_pieces_are_the_text_whatever_is_cut_and_begin_where_passages_do(text, words, starts):
    begins = sorted({start for start in starts if start < len(text)})
    found = desk.pieces(text, words, [(start, start + 5) for start in begins])
    assert "".join(piece for piece, *_ in found) == text
    places, at = {}, 0
    for piece, _, number in found:
        if number:
            places[number] = at
        at += len(piece)
    assert places == dict(enumerate(begins, start=1))


# -- the sitting by itself ---------------------------------------------------------------------------------------------


def test_a_sitting_is_no_longer_than_was_asked_and_keeps_queries_whole_in_lists(store, name):
    async def opened(most: int, *, lists: bool) -> JudgingSession:
        ground = await open_eval(store, name)
        split = ground.any_split("test")
        runs = await judging_shown.runs_of(ground, [await judging_shown.entry(ground, "test", "bm25")], split)
        asked = JudgeState(judge="ada", variants="bm25", many=str(most), layout="list" if lists else "")
        pool = Pool(tuple(runs), split, asked.spec(), most, lists)
        return await judging_sitting.opened(store, ground.view, "ada", pool)

    assert len(bridge.run(opened(1, lists=False)).tasks) == 1
    listed = bridge.run(opened(1, lists=True))
    assert len({query for query, _ in listed.tasks}) == 1
    with pytest.raises(InputError, match="not in this sitting"):
        bridge.run(listed.take(JudgingAction("skip", ("q9", "none"))))
