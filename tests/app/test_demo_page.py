"""The demo's page, as Streamlit would draw it: what visitors see, what they do not, and how they vote."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from streamlit.testing.v1 import AppTest
from typer.testing import CliRunner

from core import bridge
from core.errors import DeadlineExceeded, InputError, MissingCapability, RankbookError
from core.progress import nobody
from core.store import collections
from core.store.engine import Store
from evals.judging import votes
from evals.judging.votes import Vote
from tests.app.corpus import HOSTILE, MARKUP, SCRIPT
from workbench.commands import demo as command
from workbench.demo import show
from workbench.demo.show import Demo, DemoOptions, clean_query

DEMO_APP = Path(__file__).parents[2] / "workbench" / "demo_app.py"
QUERY = "remove scale from the kettle"
TWO = ("bm25", "vector")
Begin = Callable[..., Demo]


@pytest.fixture
def begin(store: Store) -> Iterator[Begin]:
    """Puts a demo on, as the command does, and takes it off."""
    begun: list[Demo] = []

    def make(collection: str = "kettles", **wanted: Any) -> Demo:
        view = bridge.run(collections.get(store, collection))
        made = bridge.run(show.open_demo(store, view, DemoOptions(**{"variants": TWO, **wanted})))
        begun.append(made)
        show.set_current(made)
        return made

    yield make
    show.clear_current()
    for each in begun:
        bridge.run(each.store.close())


@pytest.fixture
def page() -> AppTest:
    return AppTest.from_file(str(DEMO_APP), default_timeout=60)


def visit(page: AppTest, query: str = "") -> AppTest:
    page.query_params.clear()
    if query:
        page.query_params["query"] = query
    page.run()
    assert not page.exception
    return page


def handed(page: AppTest, key: str) -> dict[str, Any]:
    """What a component was given to show."""
    (found,) = [each for each in page.get("bidi_component") if each.key == key]
    values: dict[str, Any] = json.loads(found.proto.json)
    return values


def columns(page: AppTest) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = handed(page, "demo.answers")["columns"]
    return found


def titles(column: dict[str, Any]) -> list[str]:
    return ["".join(piece for piece, _ in result["title"]) for result in column["results"]]


def written(page: AppTest) -> str:
    return "\n".join(element.proto.body for element in page.get("html"))


def ballot(page: AppTest) -> Any:
    (found,) = page.get("button_group")
    return found


# -- searching -------------------------------------------------------------------------------------------------------


def test_before_a_query_the_page_says_what_will_happen(begin, page):
    begin(names=("Today", "Tomorrow"), title="Ask the kettle")
    visit(page)
    assert "<h1>Ask the kettle</h1>" in written(page)
    assert "see what “Today” and “Tomorrow” find" in written(page)
    assert not page.get("button_group")


def test_a_query_is_answered_side_by_side_under_friendly_names(begin, page):
    begin(names=("Today", "Tomorrow"))
    visit(page)
    page.text_input(key="demo.query").input(f"  {QUERY} ").run()
    assert page.query_params["query"] == QUERY
    today, tomorrow = columns(page)
    assert (today["name"], tomorrow["name"]) == ("Today", "Tomorrow")
    assert "Descale the kettle" in titles(today)
    assert "Descale the kettle" in titles(tomorrow)


def test_matched_words_are_marked_and_the_reason_is_plain(begin, page):
    begin()
    first = columns(visit(page, "vinegar for the kettle"))[0]["results"][0]
    assert ["vinegar", True] in first["snippet"]
    assert ["kettle", True] in first["title"]
    assert first["why"] == "Found because it holds the words “vinegar”, “kettle”."


def test_a_hybrid_says_both_reasons_with_their_places(begin, page, tmp_path):
    file = tmp_path / "both.toml"
    file.write_text('name = "both"\nchunks = "default"\n[[leg]]\nkind = "vector"\n[[leg]]\nkind = "bm25"\n')
    begin(variants=(str(file),))
    (column,) = columns(visit(page, "vinegar"))
    assert column["name"] == "By words and meaning"
    assert "means something similar (1st) and holds the word “vinegar” (1st)." in column["results"][0]["why"]


def test_visitors_see_no_ids_no_variants_and_no_settings(begin, page):
    made = begin(names=("Today", "Tomorrow"), blind=True)
    visit(page, QUERY)
    seen = json.dumps([handed(page, each.key) for each in page.get("bidi_component")]) + written(page)
    assert "descale#" not in seen
    assert not any(column.variant.id in seen or column.variant.name in seen for column in made.columns)
    assert not any(name in seen for name in ("Today", "Tomorrow", "SELECT ", "bm25"))
    assert not page.selectbox
    assert not page.button


def test_a_document_without_a_title_is_called_by_its_first_words(begin, page):
    begin("hostile", variants=("fulltext",))
    (column,) = columns(visit(page, "trap two"))
    assert "</style>" not in titles(column)
    assert any(title.startswith("trap two") for title in titles(column))


def test_what_a_corpus_or_a_query_says_is_handed_over_as_text_and_written_nowhere(begin, page):
    begin("hostile", variants=("fulltext", "bm25"), names=(f"A {SCRIPT}", "B"), title=SCRIPT)
    visit(page, HOSTILE.asked[0].text)
    assert titles(columns(page)[0])[0].startswith(f"Trap {SCRIPT} {MARKUP}"[:80])
    assert "<script" not in written(page)
    assert "onerror='" not in written(page)
    assert not page.markdown


def test_a_long_query_is_cut_and_a_torn_one_mended(begin, page):
    begin()
    assert len(clean_query("kettle " * 400)) <= votes.LONGEST_QUERY
    assert clean_query(" a\n\tb\x00\ud800 ") == "a b\N{REPLACEMENT CHARACTER}"
    visit(page, "kettle " * 400)
    assert titles(columns(page)[0])


def test_words_that_nobody_wrote_find_nothing_and_say_so(begin, page):
    begin(variants=("bm25",))
    assert columns(visit(page, "xylophone"))[0]["nothing"] == "Nothing found this way."


# -- examples --------------------------------------------------------------------------------------------------------


def test_examples_come_from_labelled_queries_or_as_given(begin, page):
    assert begin().examples == (QUERY, "E-42", "ketle warrenty")
    assert begin(examples=1).examples == (QUERY,)
    begin(queries=("E-42", " E-42", "vinegar"))
    visit(page)
    assert [chip["text"] for chip in handed(page, "demo.chips")["chips"]] == ["E-42", "vinegar"]


def test_a_prepared_example_is_there_without_asking(begin):
    made = begin()
    told: list[int] = []
    done = made.answers.prepare(made.examples, lambda step: told.append(step.done), asyncio.Event())
    assert bridge.run(done) == 3
    assert told == [0, 1, 2, 3]
    first = made.answers.ask(QUERY)
    assert first.done()
    assert first.result() is made.answers.ask(QUERY).result()


def test_the_same_query_is_asked_once_by_however_many(begin):
    made = begin()
    assert made.answers.ask("receipt") is made.answers.ask("receipt")
    assert made.answers.ask("receipt").result(30).whole


# -- what goes wrong -------------------------------------------------------------------------------------------------


def test_a_search_that_takes_too_long_is_ended_and_said_kindly(begin, page):
    made = begin()
    made.answers.patience = 0.0
    with pytest.raises(DeadlineExceeded):
        made.answers.ask(QUERY).result(30)
    visit(page, QUERY)
    assert "That took too long" in written(page)
    made.answers.patience = 15.0
    assert titles(columns(visit(page, QUERY))[0])


def test_a_column_that_fails_leaves_the_other_alone_and_tells_no_visitor_why(begin, page):
    begin("no vectors")
    words, meaning = columns(visit(page, "receipt"))
    assert titles(words) == ["Warranty"]
    assert meaning["nothing"] == "This one cannot answer at the moment."
    assert "rankbook" not in written(page).split("</style>")[-1]


def test_whoever_starts_the_demo_is_told_before_any_visitor_is(begin):
    with pytest.raises(MissingCapability, match=r"'By meaning' finds nothing here.*rankbook data embed"):
        bridge.run(show.try_columns(begin("no vectors")))


def test_without_a_demo_the_page_says_no_more_than_that_it_does_not_work(page):
    show.clear_current()
    visit(page)
    assert "That did not work" in written(page)
    assert "rankbook demo" not in written(page)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ({"names": ("One",)}, "2 variants and 1 names"),
        ({"names": ("One", " One ")}, "a name of its own"),
        ({"variants": ("bm25",), "blind": True}, "needs two variants"),
        ({"variants": ("bm25", "vector", "fuzzy", "trigram")}, "one to 3 variants"),
        ({"variants": ("bm25", "bm25"), "names": ("One", "Two")}, "the very same"),
        ({"variants": ("bm25", "fulltext")}, "a name of its own"),
    ],
)
def test_a_demo_that_cannot_be_is_refused_in_a_sentence(begin, wanted, sentence):
    with pytest.raises(InputError, match=sentence):
        begin(**wanted)


def test_without_variants_there_are_two_that_anybody_understands(begin, store):
    def names(collection: str) -> list[str]:
        return [each.name for each in begin(collection, variants=()).columns]

    assert names("kettles") == ["By words", "By words and meaning"]
    assert names("no vectors") == ["By words", "By spelling"]


# -- voting ----------------------------------------------------------------------------------------------------------


def test_a_blind_demo_shows_letters_and_reasons_only_after_a_vote(begin, page):
    begin(blind=True)
    visit(page, QUERY)
    assert [column["name"] for column in columns(page)] == ["A", "B"]
    assert {result["why"] for column in columns(page) for result in column["results"]} == {""}
    ballot(page).set_value("A").run()
    assert "Found because" in columns(page)[0]["results"][0]["why"]


@pytest.mark.parametrize(("said", "meant"), [("Both good", "both"), ("Neither", "neither")])
def test_a_vote_is_kept_counted_changed_and_taken_back(begin, page, said, meant):
    made = begin(blind=True, seed=hash(said))
    before = bridge.run(votes.count(made.store, made.contest))
    visit(page, QUERY)
    mine = page.session_state["ballot.visitor"]
    first = made.columns[made.order(mine, QUERY)[0]].variant.id
    for value, kept in (("A", first), (said, meant), (None, None)):
        ballot(page).set_value(value).run()
        assert not page.exception
        assert bridge.run(votes.choice_of(made.store, made.contest, mine, QUERY)) == kept
        assert bridge.run(votes.count(made.store, made.contest)) == before + (kept is not None)
    assert "Vote, and see why" in written(page)


def test_a_vote_of_one_query_is_none_of_another(begin, page):
    begin(blind=True)
    visit(page, QUERY)
    ballot(page).set_value("B").run()
    assert "Thank you" in written(page)
    visit(page, "E-42")
    assert ballot(page).value is None
    visit(page, QUERY)
    assert ballot(page).value == "B"


def test_the_order_is_shuffled_by_visitor_and_query_and_never_by_a_rerun(begin):
    def orders(**wanted: Any) -> list[tuple[int, ...]]:
        made = begin(**wanted)
        return [made.order(f"visitor {number}", QUERY) for number in range(200)]

    first = orders(blind=True)
    assert 60 < first.count((0, 1)) < 140
    assert first == orders(blind=True)
    assert first != orders(blind=True, seed=7)
    assert len({show.current().order("ada", f"query {number}") for number in range(20)}) == 2
    assert set(orders()) == {(0, 1)}


def test_a_vote_that_cannot_be_kept_is_said_and_does_not_look_kept(begin, page):
    made = begin(blind=True)
    unknown = dataclasses.replace(made.contest, collection="nowhere")  # which nobody announced
    show.set_current(dataclasses.replace(made, contest=unknown))
    visit(page, QUERY)
    ballot(page).set_value("A").run()
    assert "could not be kept" in written(page)
    assert ballot(page).value is None


def test_the_examples_are_answered_in_the_background(begin):
    made = begin()
    job = show.begin_answering(made)
    assert job.wait(30)
    assert job.result() == len(made.examples)
    assert show.find_answering() is job
    assert job.progress == (1.0, "Answered ahead: 3 of 3 examples")
    assert bridge.run(made.answers.prepare((), nobody, asyncio.Event())) == 3


# -- the command -----------------------------------------------------------------------------------------------------


def rankbook(*words: str, code: int = 0) -> Any:
    app = typer.Typer()
    app.command()(command.demo)
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def test_the_tally_tells_shares_intervals_and_queries(begin):
    made = begin(names=("Old words", "New meaning"), blind=True)
    for visitor, choice in (("ada", made.columns[0]), ("bob", made.columns[0]), ("eve", made.columns[1])):
        bridge.run(votes.cast(made.store, made.contest, Vote(visitor, "tally this", choice.variant.id)))
    said = " ".join(rankbook("kettles", "--tally").output.split())
    assert "Old words" in said
    assert "tally this" in said
    told = json.loads(rankbook("kettles", "--tally", "--json").stdout)
    (mine,) = [each for each in told if each["tally"]["contest"] == made.contest.key]
    of_query = {each["query"]: each["votes"] for each in mine["tally"]["queries"]}
    assert of_query["tally this"] == {"Old words": 2, "New meaning": 1}
    assert "interval" in mine["says"][0]


def test_without_a_contest_the_tally_says_how_to_begin_one(store):
    result = rankbook("no vectors", "--tally")
    assert "rankbook demo 'no vectors' --blind" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("kettels",), "Did you mean 'kettles'"),
        (("kettles", "-v", "bm52"), "Did you mean 'bm25'"),
        (("kettles", "-v", "bm25", "--blind"), "needs two variants"),
        (("kettles", "--port", "99999"), "no port 99999"),
        (("no vectors", "-v", "vector"), "finds nothing here"),
    ],
)
def test_a_demo_that_cannot_begin_says_why_before_anything_is_served(store, words, sentence):
    with pytest.raises(RankbookError, match=sentence):
        rankbook(*words)
