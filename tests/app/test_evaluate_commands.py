"""`rankbook eval`, `sweep`, `compare`, `runs`, `suite` and `gate`, typed as somebody would."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import asyncio
import json
import re
import signal
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from sqlalchemy import text
from typer.testing import CliRunner

from core import bridge
from core.errors import Cancelled, RankbookError
from core.store.engine import Store
from core.store.schema import CATALOG
from core.types import Item, Query
from evals.collections import load
from evals.runs import run_store
from evals.types import Label
from tests.app.corpus import MODEL, Listed
from tests.unit.misbehaving import Reply, serving
from workbench.cli import app
from workbench.commands.runtime import STOPPED, run_stoppable

TAKEOVER = "\x1b]0;owned\x07\x1b[2J"
THINGS = ("kettle", "toaster", "teapot", "fridge", "lamp", "fan", "oven", "mixer")
ITEMS = tuple(Item(name, f"# {name}\n\nAll about the {name} and nothing else, at length.", name) for name in THINGS)
ASKED = tuple(
    Query(f"q{at}", f"{name} {TAKEOVER} manual", "odd" if at % 2 else "even") for at, name in enumerate(THINGS)
)
JUDGED = tuple(Label(f"q{at}", name, 1, "test" if at % 2 else "train") for at, name in enumerate(THINGS))
SOURCE = Listed(documents=ITEMS, asked=ASKED, judged=JUDGED)
SUITE = """
name = "small"
metrics = ["mrr@5"]
time_live = 2
rules = { samples = 200 }
[[collection]]
name = "NAME"
[[variant]]
kind = "bm25"
[[variant]]
name = "both"
[[variant.leg]]
kind = "bm25"
[[variant.leg]]
kind = "vector"
[gate]
variants = ["both"]
minimum = { "mrr@5" = LEAST }
"""


def rankbook(*words: str, code: int | None = 0, typed: str | None = None) -> Any:
    result = CliRunner().invoke(app, list(words), input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit | RankbookError):
        raise result.exception
    if code is not None:
        assert result.exit_code == code, result.output + str(result.exception)
    return result


def mistake(*words: str) -> str:
    found = rankbook(*words, code=1)
    assert isinstance(found.exception, RankbookError), found.output
    return str(found.exception)


def data(*words: str, code: int = 0) -> Any:
    return json.loads(rankbook(*words, "--json", code=code).stdout)


@contextmanager
def loaded(store: Store) -> Iterator[str]:
    made = f"scored {uuid.uuid4().hex[:8]}"
    bridge.run(load.load_collection(store, made, SOURCE, load.LoadPlan(models=(MODEL,), check=False)))
    yield made
    bridge.run(load.drop(store, made))


@pytest.fixture(scope="module")
def name(store):
    with loaded(store) as made:
        yield made


@pytest.fixture
def own_name(store):
    """A collection of one test, for what changes which runs count."""
    with loaded(store) as made:
        yield made


@pytest.fixture
def suite(name, tmp_path):
    def write(least: float = 0.1, more: str = "") -> str:
        path = tmp_path / "suite.toml"
        path.write_text(SUITE.replace("NAME", name).replace("LEAST", str(least)) + more)
        return str(path)

    return write


# -- eval --------------------------------------------------------------------------------------------------------------


def test_eval_shows_the_plan_the_scores_with_marks_and_what_they_mean(name):
    shown = rankbook("eval", name, "bm25", "vector", "fulltext", "-m", "mrr@5", "--split", "all", "--again")
    assert "3 variants -> 3 leg runs" in shown.stderr
    assert "8 queries of all" in shown.stdout
    assert "against bm25" in shown.stdout
    assert "* the best, or too close to the best to tell. Against bm25" in shown.stderr
    assert "was not taken" not in shown.stderr
    assert "\x1b" not in shown.stdout


def test_eval_times_queries_by_themselves_unless_told_not_to(name, store):
    live = data("eval", name, "bm25", "--split", "all", "-m", "mrr@5", "--again")["runs"][0]
    assert live["latency"]["queries"] == 8
    told = rankbook("eval", name, "bm25", "--split", "all", "-m", "mrr@5", "--again", "--time-live", "0")
    assert "A time that is missing was not taken" in told.stderr
    assert "~" not in told.stdout


def test_eval_says_which_variants_are_one(name):
    shown = rankbook("eval", name, "bm25", "bm25", "-m", "mrr@5")
    assert "bm25 and bm25 are one variant" in shown.stderr
    assert "2 variants (1 alike) -> " in shown.stderr
    assert "one variant" not in rankbook("eval", name, "bm25", "vector", "-m", "mrr@5").stderr


RANKED_ELSEWHERE = """
name = "elsewhere"
leg = [{ kind = "bm25" }]
rerank = { method = "api", base_url = "https://ranks.invalid/v1", model = "r", depth = 7 }
"""
SENDS = "The reranking sends the query and up to 7 texts to ranks.invalid, for the model r"


def test_what_is_sent_to_other_machines_is_said_before_it_is(name, suite, tmp_path):
    checked = rankbook("suite", "check", suite(more=f"\n[[variant]]{RANKED_ELSEWHERE}")).stderr
    assert f"elsewhere, for each of 7 searches, as for the first: {SENDS}" in checked, "3 of them for times"
    file = tmp_path / "elsewhere.toml"
    file.write_text(RANKED_ELSEWHERE)
    said = rankbook("eval", name, "bm25", str(file), "--time-live", "0", code=None).stderr
    announced, failed = (
        said.index(f"elsewhere, for each of 4 searches, as for the first: {SENDS}"),
        said.index("failed"),
    )
    assert announced < failed
    assert "for each of" not in rankbook("suite", "check", suite()).stderr


def ranked(body: dict[str, Any]) -> Reply:
    return Reply({"results": [{"index": at, "relevance_score": 1.0} for at in range(len(body["documents"]))]})


def test_what_is_kept_is_not_said_to_be_sent_again(name, suite, tmp_path):
    with serving(ranked) as endpoint:
        url = endpoint.url.replace("127.0.0.1", "0.0.0.0")  # which it answers at too, and counts as elsewhere
        variant, file = RANKED_ELSEWHERE.replace("https://ranks.invalid/v1", url), tmp_path / "elsewhere.toml"
        file.write_text(variant)
        own = suite(more=f"\n[[variant]]{variant}")

        def said(*words: str) -> list[int]:
            """How many searches of the reranking are announced, and how often it is asked."""
            before = len(endpoint.asked)
            told = re.findall(r"for each of (\d+) searches", rankbook(*words).stderr)
            return [*map(int, told), len(endpoint.asked) - before]

        asked = ("eval", name, str(file), "--time-live")
        assert said(*asked, "0") == [4, 4]
        assert said(*asked, "0") == [0]
        assert said(*asked, "0", "--again") == [4, 4]
        assert said(*asked, "2") == [3, 3], "only times are missing"
        assert said("suite", "check", own) == [0]
        assert said("suite", "run", own, "--again")[0] == 7


def test_the_table_has_times_in_one_column_and_failures_only_where_there_are_some(name):
    shown = rankbook("eval", name, "bm25", "-m", "mrr@5").stdout
    assert "p50 / p95 ms" in shown
    assert "failed" not in shown


def test_eval_as_json_is_json_alone_and_names_every_run(name):
    found = data("eval", name, "bm25", "vector", "-m", "mrr@5", "-m", "recall@3", "--baseline", "vector")
    assert [run["name"] for run in found["runs"]] == ["bm25", "vector"]
    assert found["runs"][0]["metrics"].keys() == {"mrr@5", "recall@3"}
    assert found["runs"][0]["findings"]["mrr@5"]["difference"]["baseline"] == "vector"
    assert found["runs"][1]["findings"]["mrr@5"] is None
    assert rankbook("eval", name, "bm25", "--json").stderr == ""


def test_eval_takes_variants_from_files_and_runs_of_other_engines(name, tmp_path):
    variant, run = tmp_path / "mine.toml", tmp_path / "lucene.trec"
    variant.write_text('name = "mine"\n[[leg]]\nkind = "fulltext"\nmode = "any"\n')
    run.write_text("q1 Q0 toaster 1 2.5 tag\nq3 Q0 lost 1 1.5 tag\nq99 Q0 lost 1 1 tag\n")
    shown = rankbook("eval", name, str(variant), str(run), "-m", "mrr@5", "--time-live", "2")
    assert "lucene" in shown.stdout
    assert "nothing for 2 of the queries" in shown.stderr
    assert "1 queries that are not asked here" in shown.stderr
    assert "~" not in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("handbok", "bm25"), "No collection is called 'handbok'"),
        (("{}", "bm52"), "Did you mean 'bm25'?"),
        (("{}", "gone.toml"), "cannot be read"),
        (("{}", "bm25", "--metric", "ndgc"), "Did you mean 'ndcg'?"),
        (("{}", "bm25", "--split", "tets"), "Did you mean 'test'?"),
        (("{}", "bm25", "--baseline", "no such run"), "no kept run"),
        (("{}", "bm25", "--queries", "none"), "has no query"),
        (("{}", "bm25", "bm25", "--chunks", "tiny"), "tiny=headings`."),
    ],
)
def test_a_slip_in_eval_is_a_sentence(name, words, said):
    assert said in mistake("eval", *(word.format(name) for word in words))


# -- sweep -------------------------------------------------------------------------------------------------------------


def test_sweep_shows_the_curve_and_says_what_each_figure_is_worth(name, tmp_path):
    out = tmp_path / "tuned.toml"
    words = ("sweep", name, "bm25", "vector", "--steps", "4", "--report-split", "test", "--save", str(out), "--even-so")
    shown = rankbook(*words)
    assert "The curve" in shown.stdout
    for sentence in (
        "In-sample best",
        "To be expected of new queries",
        "Too few labels",
        "Tied with the best",
        "Oracle",
    ):
        assert sentence in shown.stderr
    assert "bm25 + vector, tuned" in shown.stdout
    assert "bm25 + vector, all alike" in shown.stdout
    assert "valid" not in rankbook("variant", "check", str(out)).stderr
    assert "bm25 + vector, tuned" in rankbook("variant", "check", str(out)).stderr


def test_sweep_as_json_has_every_point(name):
    found = data("sweep", name, "bm25", "vector", "fulltext", "--steps", "3", "--fusion", "rrf,k=5")
    assert len(found["points"]) == 10
    assert found["surfaces"][0]["fusion"]["k"] == 5
    assert len(found["surfaces"][0]["means"]) == 10
    assert found["too_few"]


def test_sweep_keeps_the_depth_that_it_is_given_and_says_what_deeper_would_bring(name, tmp_path):
    out = tmp_path / "tuned.toml"
    words = ("sweep", name, "bm25", "vector", "--steps", "2", "--depth", "2", "--save", str(out), "--even-so")
    assert "Legs are 2 deep. Deeper would bring" in rankbook(*words).stderr
    assert out.read_text().count("depth = 2") == 2
    deeper = data("sweep", name, "bm25", "vector", "--steps", "2", "--fusion", "rrf")["deeper"]
    assert (deeper["depths"], deeper["depth"]) == ({"bm25": 30, "vector": 30}, 100)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bm25",), "has one leg"),
        (("bm25", "local-rag"), "No leg is called 'local-rag'"),
        (("bm25", "vector", "--fusion", "rff"), "Did you mean 'rrf'?"),
        (("bm25", "vector", "--fusion", "rrf,k"), "has no value"),
        (("bm25", "vector", "--fusion", "condorcet"), "There is a weight surface for"),
        (("bm25", "vector", "--metric", "bpref"), "metric of a weight surface"),
        (("bm25", "vector", "--report-split", "train"), "split of other queries"),
        (("bm25", "vector", "--save", "x.toml"), "Too few labels to tune"),
        (("bm25", "vector", "--split", "dev"), "No split is called 'dev'"),
    ],
)
def test_a_slip_in_sweep_is_a_sentence(name, words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in mistake("sweep", name, *words)


# -- runs and compare --------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(store, name):
    """The ids of two runs."""
    return two_runs(name)


def two_runs(name: str) -> list[str]:
    return [each["id"] for each in data("eval", name, "bm25", "vector", "-m", "mrr@5")["runs"]]


def test_a_set_up_is_set_aside_and_taken_back_and_tables_say_so(own_name):
    def told() -> list[str]:
        return [each["message"] for each in data("eval", own_name, "bm25", "-m", "mrr@5", "-m", "ndcg@10")["warnings"]]

    kept = two_runs(own_name)
    assert data("runs", "aside", kept[1])["set_aside"] is True
    assert any("Set aside: 1, all of them after their scores were seen." in each for each in told())
    assert "is a candidate again" in rankbook("runs", "aside", kept[1], "--back").stderr
    assert not any("Set aside" in each for each in told())


def test_compare_by_what_neither_ships_has_no_verdict(name, kept):
    shown = rankbook("compare", *kept, "--metric", "recall@50")
    assert "recall@50: recall@50 counts 50 hits, more than ship of" in shown.stderr
    assert "the difference decides nothing" in shown.stderr


def test_compare_says_the_verdict_first_and_which_queries_decide(name, kept):
    shown = rankbook("compare", *kept, "--metric", "mrr@5")
    (verdict,) = (line for line in shown.stderr.splitlines() if line.startswith("mrr@5: "))
    assert "bm25" in verdict
    assert "By kind of query" in shown.stdout
    assert "toaster" in shown.stdout
    assert "\x1b" not in shown.stdout + shown.stderr
    found = data("compare", *kept, "-m", "mrr@5", "--by", "tag")
    assert found["metrics"]["mrr@5"]["verdict"] in {"better", "worse", "tied", "too few"}
    assert found["metrics"]["mrr@5"]["groups"] == []


def test_compare_tells_how_alike_runs_are_without_labels(kept):
    assert "Which of the two is better, only labels tell" in rankbook("compare", *kept, "--overlap").stderr
    assert 0 <= data("compare", *kept, "--overlap")["overlap"]["rbo"] <= 1


def test_compare_holds_files_against_kept_runs(name, kept, tmp_path):
    out = tmp_path / "bm25.trec"
    rankbook("runs", "export", kept[0], str(out))
    assert out.read_text().startswith("q1\tQ0\t")
    found = data("compare", str(out), kept[0], "-m", "mrr@5")
    assert found["metrics"]["mrr@5"]["difference"]["mean"] == 0
    assert [run["name"] for run in found["runs"]] == [str(out), kept[0]]
    assert "--collection" in mistake("compare", str(out), str(out))


def test_runs_are_listed_shown_told_apart_and_handed_over(name, kept, tmp_path):
    listed = data("runs", "list", "-c", name)
    assert set(kept) <= {each["id"] for each in listed}
    assert "mrr@5" in next(each for each in listed if each["id"] == kept[0])["scores"]
    assert kept[0][:12] in rankbook("runs", "list", "-c", name).stdout
    shown = rankbook("runs", "show", kept[0], "--query", "q1")
    assert 'kind = "bm25"' in shown.stdout
    assert "Found for q1" in shown.stdout
    assert data("runs", "show", kept[0], "--query", "q1")["found"][0]["rank"] == 1
    assert "Did you mean 'q1'?" in mistake("runs", "show", kept[0], "--query", "q11")
    assert "variant.leg.bm25.kind" in rankbook("runs", "diff", *kept).stdout
    assert data("runs", "diff", *kept)["differences"]
    assert data("runs", "export", kept[1], str(tmp_path / "out.csv"))["queries"] == 4
    assert (tmp_path / "out.csv").read_text().startswith("query,item,rank,score")
    assert "The ending is none" in mistake("runs", "export", kept[1], str(tmp_path / "x.xyz"))
    assert not (tmp_path / "x.xyz").exists()


def test_a_pinned_run_stays_until_it_is_unpinned(store, own_name):
    kept = two_runs(own_name)
    pin = f"main {uuid.uuid4().hex[:6]}"
    rankbook("runs", "pin", kept[0], pin)
    assert "is the baseline" in mistake("runs", "delete", kept[0], "--yes")
    rankbook("runs", "prune", "--keep", "0", "-c", own_name, "--yes")
    assert [each.id for each in bridge.run(run_store.listed(store, collection=own_name))] == [kept[0]]
    assert pin in rankbook("runs", "list", "-c", own_name).stdout
    rankbook("runs", "unpin", pin)
    assert "Delete" in rankbook("runs", "delete", kept[0], typed="n\n", code=1).stderr
    rankbook("runs", "delete", kept[0], typed="y\n")
    assert data("runs", "list", "-c", own_name) == []
    assert "There is no run yet" in rankbook("runs", "list", "-c", own_name).stderr
    assert "is called" in mistake("runs", "show", kept[0])


# -- suite and gate ----------------------------------------------------------------------------------------------------


def test_a_suite_is_checked_shown_and_run(suite, name):
    path = suite()
    assert "2 variants -> " in rankbook("suite", "check", path).stderr
    assert "both" in rankbook("suite", "show", path).stdout
    assert [each["name"] for each in data("suite", "show", path)["variants"]] == ["bm25", "both"]
    shown = rankbook("suite", "run", path)
    assert f"{name}, 4 queries of test" in shown.stdout
    assert "The gate holds" in shown.stderr
    assert "kept from before" in rankbook("suite", "run", path).stderr
    found = data("suite", "run", path)
    assert found["passed"]
    assert found["results"][0]["checks"][0]["variant"] == "both"


def test_a_gate_that_holds_ends_with_0_and_one_that_does_not_with_1_and_says_why(suite, tmp_path):
    xml = tmp_path / "build" / "gate.xml"
    assert "The gate holds" in rankbook("gate", suite(0.0), "--junit", str(xml)).stderr
    assert ElementTree.parse(xml).getroot().get("failures") == "0"
    shown = rankbook("gate", suite(1.5), "--junit", str(xml), code=1)
    assert "FAILED" in shown.stdout
    assert "The gate fails: 1 of 2 checks." in shown.stderr
    (failure,) = ElementTree.parse(xml).getroot().iter("failure")
    assert "wanted 1.5" in str(failure.get("message"))
    assert not data("gate", suite(1.5), code=1)["passed"]
    assert not data("suite", "run", suite(1.5), code=1)["passed"]


def test_a_suite_that_cannot_be_run_leaves_its_reason_for_the_build_server(suite, tmp_path):
    xml = tmp_path / "gate.xml"
    said = mistake("gate", suite(more='[[collection]]\nname = "scifact"\n'), "--junit", str(xml))
    assert "rankbook data add scifact" in said
    (error,) = ElementTree.parse(xml).getroot().iter("error")
    assert "scifact" in (error.text or "")


def test_a_suite_without_a_gate_is_no_gate(name, tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(f'[[collection]]\nname = "{name}"\n[[variant]]\nkind = "bm25"\n')
    assert "has no gate" in mistake("gate", str(path))


def test_a_suite_with_a_slip_ends_its_check_with_1_and_the_nearest_key(suite):
    path = suite(more="minimun = { mrr = 1 }\n")
    assert "did you mean 'minimum'?" in rankbook("suite", "check", path, code=1).stderr
    assert "minimun" in data("suite", "check", path, code=1)[0]["problem"]
    assert "cannot be read" in mistake("suite", "run", "/nowhere/suite.toml")


# -- what all of them say ----------------------------------------------------------------------------------------------


def test_documents_say_the_version_of_their_form_first(suite, name, kept):
    documents = [
        data("eval", name, "bm25", "-m", "mrr@5", "--time-live", "0"),
        data("sweep", name, "bm25", "vector", "--steps", "2", "--fusion", "rrf"),
        data("compare", *kept, "-m", "mrr@5"),
        data("suite", "run", suite(0.0)),
        data("gate", suite(0.0)),
        data("suite", "show", suite()),
        data("runs", "show", kept[0]),
        data("runs", "diff", *kept),
    ]
    assert [next(iter(each.items())) for each in documents] == [("format", 1)] * len(documents)
    assert isinstance(data("runs", "list", "-c", name), list)


WAITED = text("""
    SELECT EXISTS (SELECT FROM pg_stat_activity
                   WHERE wait_event_type = 'Lock' AND clock_timestamp() - query_start > INTERVAL '1.5 seconds')""")


@pytest.fixture
def held_up(store):
    """The collections and runs, locked until somebody has waited for longer than anybody waits without a word."""

    async def hold(taken: threading.Event, over: threading.Event) -> None:
        async with store.begin() as connection:
            await connection.execute(text(f"LOCK TABLE {CATALOG}.collections, {CATALOG}.runs"))
            taken.set()
            while not over.is_set() and not await waited():  # noqa: ASYNC110 - it looks at another process
                await asyncio.sleep(0.05)

    async def waited() -> bool:
        async with store.begin() as connection:
            return bool(await connection.scalar(WAITED))

    taken, over = threading.Event(), threading.Event()
    holding = threading.Thread(target=lambda: bridge.run(hold(taken, over)))
    holding.start()
    assert taken.wait(60)
    yield
    over.set()
    holding.join()


@pytest.mark.parametrize("command", ["compare", "sweep", "suite"])
def test_whoever_has_to_wait_for_the_store_is_told_what_for(kept, suite, name, command, held_up):
    words = {
        "compare": (*kept, "-m", "mrr@5"),
        "sweep": (name, "bm25", "vector", "--steps", "2", "--fusion", "rrf"),
        "suite": ("run", suite(0.0)),
    }
    told = {"compare": kept[0], "sweep": name, "suite": "the collections of small"}
    assert rankbook(command, *words[command]).stderr.startswith(f"Opening {told[command]}")


# -- stopping ----------------------------------------------------------------------------------------------------------


def interrupt() -> None:
    """What Ctrl-C does."""
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGINT)


def test_ctrl_c_lets_the_work_put_things_away_and_says_that_it_goes_on(capsys):
    put_away = []

    async def work(token: asyncio.Event) -> None:
        interrupt()
        await token.wait()
        put_away.append("kept")
        raise Cancelled("stopped")

    with pytest.raises(typer.Exit) as ended:
        run_stoppable(work)
    assert (ended.value.exit_code, put_away) == (STOPPED, ["kept"])
    assert "What was done is kept" in capsys.readouterr().err


def test_work_that_ends_in_spite_of_ctrl_c_gives_its_result():
    async def work(token: asyncio.Event) -> str:
        interrupt()
        await token.wait()
        return "done"

    assert run_stoppable(work) == "done"


def test_an_error_of_the_work_is_the_error_that_is_met():
    async def work(_: asyncio.Event) -> None:
        raise Cancelled("by somebody else")

    with pytest.raises(Cancelled, match="somebody else"):
        run_stoppable(work)


# -- reports -----------------------------------------------------------------------------------------------------------


def test_reports_are_written_by_eval_suites_and_sweeps(suite, name, tmp_path):
    page, table, paper = (tmp_path / f"report{ending}" for ending in (".html", ".md", ".tex"))
    rankbook("suite", "run", suite(), "--html", str(page), "--markdown", str(table), "--latex", str(paper))
    assert page.read_text().lstrip().lower().startswith("<!doctype html>")
    assert "both" in table.read_text()
    assert "tabular" in paper.read_text()
    assert "Written:" in rankbook("eval", name, "bm25", "-m", "mrr@5", "--markdown", str(table)).stderr
    rankbook(
        "sweep", name, "bm25", "vector", "--steps", "2", "--report-split", "test", "--even-so", "--html", str(page)
    )


def test_a_report_that_could_not_be_written_is_refused_before_the_work(name, tmp_path):
    assert "should end in .html" in mistake("eval", name, "bm25", "--html", str(tmp_path / "report.pdf"))
    assert "--report-split" in mistake("sweep", name, "bm25", "vector", "--html", str(tmp_path / "report.html"))
    nowhere = str(tmp_path / "nowhere" / "report.html")
    assert "is not there" in mistake("eval", name, "bm25", "--html", nowhere)
    assert "is not there" in mistake("sweep", name, "bm25", "vector", "--save", nowhere)


def test_a_report_of_too_few_labels_is_not_written_which_is_said_and_ends_with_1(name, tmp_path):
    page, out = tmp_path / "report.html", tmp_path / "tuned.toml"
    words = ("sweep", name, "bm25", "vector", "--steps", "2", "--report-split", "test", "--html", str(page))
    found = rankbook(*words, "--save", str(out), code=1)
    assert "The curve" in found.stdout
    assert f"Not written: {page} and {out}. Too few labels" in str(found.exception)
    assert "--even-so" in str(found.exception)
    assert not page.exists()
    assert not out.exists()
    assert json.loads(rankbook(*words, "--json", code=1).stdout)["reported"] is None


def test_a_baseline_that_is_not_there_is_refused_before_anything_is_asked(name, tmp_path):
    before = data("runs", "list", "-c", name)
    variant = tmp_path / "mine.toml"
    variant.write_text('name = "mine"\n[[leg]]\nkind = "bm25"\nk1 = 0.123\n')
    assert "no kept run" in mistake("eval", name, str(variant), "--baseline", "no such run")
    assert data("runs", "list", "-c", name) == before


def test_a_suite_that_is_not_text_is_told_in_a_sentence(tmp_path):
    path = tmp_path / "suite.toml"
    path.write_bytes(b"name = \xff")
    assert str(mistake("suite", "run", str(path))).endswith("The suite cannot be read (it is not UTF-8).")


def test_a_name_means_the_newest_run_and_the_split_tells_runs_apart(name):
    for split in ("test", "train"):
        rankbook("eval", name, "bm25", "vector", "-m", "mrr@5", "--split", split)
        rankbook("eval", name, "bm25", "vector", "-m", "mrr@5", "--split", split, "--again")
    assert "stands for" in mistake("compare", "bm25", "vector", "-c", name)
    told = data("compare", "bm25", "vector", "-c", name, "--split", "train")
    assert [each["name"] for each in told["runs"]] == ["bm25", "vector"]
