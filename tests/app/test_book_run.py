"""Cells on the real server: what each shows, what is kept of it and when that is stale, and what fails alone."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import asyncio
import json
import re
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import bridge
from core.errors import Cancelled
from core.store.engine import Store
from core.types import Item, Query
from evals.collections import load
from evals.display import Table
from evals.presentation.types import Chart, Code, Output, SearchResults, Text
from evals.runs import run_store
from evals.types import Label
from tests.app.corpus import KETTLES, MODEL, SCRIPT, Listed
from tests.app.test_command_line import mistake, rankbook
from tests.evals.test_contents import countings
from workbench.notebooks import export_html, export_jupyter
from workbench.notebooks.cell_state import CellState
from workbench.notebooks.cells import kinds
from workbench.notebooks.document import Notebook
from workbench.notebooks.output_cache import CacheKey, cache_key
from workbench.notebooks.parsing import parse_cells
from workbench.notebooks.runner import Runner

HEADER = '```notebook\ncollection = "kettles"\nsplit = "test"\n```\n\n'
SEARCH = '```search\nquery = "descale with vinegar"\nvariants = ["bm25", "vector"]\n```\n'
PAIR = '{ name = "both", leg = [{ kind = "bm25" }, { kind = "vector" }] }'


def made(store: Store, text: str, **options: Any) -> list[CellState]:
    """Every cell, run under a key that no other test uses."""
    options.setdefault("key", uuid.uuid4().hex)
    again = options.pop("again", False)
    return bridge.run(Runner(store, Notebook.parse(text), **options).run(again=again))


def output(store: Store, text: str, **options: Any) -> Output:
    """Of the only cell, which must not fail."""
    (result,) = made(store, HEADER + text, **options)
    assert not result.problem, result.problem
    assert result.output is not None
    return result.output


def problem(store: Store, text: str) -> str:
    (result,) = made(store, HEADER + text)
    assert result.output is None
    return result.problem


def blocks(found: Output, kind: type[Any]) -> list[Any]:
    return [block for block in found.blocks if isinstance(block, kind)]


# -- the cells ---------------------------------------------------------------------------------------------------------


def test_a_search_shows_columns_marks_words_and_tells_how_documents_moved(store):
    (hits,) = blocks(output(store, SEARCH), SearchResults)
    assert [column.name for column in hits.columns] == ["bm25", "vector"]
    first = hits.columns[0].hits[0]
    assert first.item_id == "descale"
    assert ("vinegar", True) in first.snippet
    moved = next(hit for hit in hits.columns[1].hits if hit.item_id == "descale")
    assert moved.previous_rank == 1


def test_a_labelled_query_brings_its_grades(store):
    by_id = output(store, '```search\nquery_id = "q1"\nvariants = ["bm25"]\n```\n')
    (hits,) = blocks(by_id, SearchResults)
    assert (hits.query, hits.query_id) == ("remove scale from the kettle", "q1")
    assert {hit.item_id: hit.grade for hit in hits.columns[0].hits}["descale"] == 3
    typed = output(store, '```search\nquery = "remove scale from the kettle"\nvariants = ["bm25"]\n```\n')
    assert blocks(typed, SearchResults)[0].query_id == "q1"


def test_the_worst_query_is_picked_by_the_labels_and_said_to_be(store):
    picked = output(store, '```search\npick = "worst"\nvariants = ["vector", "bm25"]\n```\n')
    assert "vector does worst on" in picked.blocks[0].text  # type: ignore[union-attr]


def test_why_and_sql_stand_below_the_columns(store):
    text = '```search\nquery = "E-42"\nvariants = ["fulltext"]\nwhy = ["teapot"]\nsql = true\n```\n'
    found = output(store, text)
    assert any("“The teapot” is not among the" in said.text for said in blocks(found, Text))
    assert "WITH" in blocks(found, Code)[0].text


def test_an_evaluation_is_a_headline_a_table_and_charts_with_words(store):
    found = output(store, '```evaluate\nvariants = ["bm25", "vector"]\nmetrics = ["ndcg@10", "mrr@10"]\n```\n')
    assert "ndcg@10" in found.headline
    (table,) = blocks(found, Table)
    assert table.columns[:3] == ("variant", "ndcg@10", "mrr@10")
    assert [row[0].text for row in table.rows] == ["bm25", "vector"]
    assert all(figure.description for figure in blocks(found, Chart))
    assert set(found.values["scores"]["ndcg@10"]["bm25"]) == {"q1", "q2"}


def test_a_comparison_says_who_won_which_queries(store):
    found = output(store, f'```compare\none = {PAIR}\nother = "bm25"\n```\n')
    assert found.headline.startswith("ndcg@10: ")
    assert "both" in found.headline
    assert set(found.values["by query"]) == {"q1", "q2"}


def test_kept_runs_and_files_of_other_engines_are_compared_too(store, tmp_path):
    output(store, '```evaluate\nvariants = ["bm25"]\n```\n')
    kept = bridge.run(run_store.listed(store, collection="kettles"))
    (tmp_path / "theirs.trec").write_text("q1 Q0 descale 1 2.0 theirs\nq2 Q0 teapot 1 1.0 theirs\n")
    run = next(each for each in kept if each.name == "bm25" and each.subject.split == "test")
    text = f'```compare\none = "theirs.trec"\nother = "{run.id[:16]}"\n```\n'
    found = output(store, text, path=tmp_path / "book.md")
    assert "theirs" in found.headline


def test_a_name_that_was_run_over_several_splits_means_the_run_over_the_cells_own(store):
    named = PAIR.replace("both", "over-two")
    for split in ("train", "test"):
        output(store, f'```evaluate\nvariants = [{named}, "bm25"]\nsplit = "{split}"\n```\n')
    of_its_own = output(store, f'```evaluate\nvariants = ["bm25", {named}]\nbaseline = "over-two"\n```\n')
    kept = output(store, '```evaluate\nvariants = ["bm25"]\nbaseline = "over-two"\n```\n')
    assert of_its_own.values["baseline"] == kept.values["baseline"] == "over-two"
    compared = output(store, '```compare\none = "over-two"\nother = "bm25"\n```\n')
    assert set(compared.values["by query"]) == {"q1", "q2"}


def test_weights_are_swept_and_the_refusal_to_trust_few_labels_is_shown(store):
    cell = '```fusion\nlegs = ["bm25", "vector"]\nsteps = 4\nlooked_on = "test"\nsplit = "train"\n{}```\n'
    careful = output(store, cell.format(""))
    assert "Too few labels" in careful.headline
    assert not blocks(careful, Code)
    assert len(careful.values["surfaces"][0]["means"]) == 5
    bold = output(store, cell.format("even_so = true\nconfirm = true\n"))
    assert 'kind = "bm25"' in blocks(bold, Code)[0].text
    assert "all alike" in [row[0].text for row in blocks(bold, Table)[-1].rows]


def test_a_context_keeps_to_its_budget_and_says_what_it_cost(store):
    cell = '```context\nquery_id = "q1"\nvariant = "bm25"\nbudget = 60\nover = 2\n```\n'
    found = output(store, cell)
    assert found.values["tokens"] <= 60 or "tokens" in found.headline
    assert [point["budget"] for point in found.values["curve"]] == sorted({60 * step // 8 for step in range(1, 9)})
    assert "of the labelled gain" in " ".join(said.text for said in blocks(found, Text))
    assert "descale" in blocks(found, Code)[0].text


@pytest.mark.parametrize("kind", kinds)
def test_every_kind_refuses_a_collection_that_is_not_there_with_the_nearest(store, kind):
    example = "" if kind == "compare" else kinds[kind].example
    example = example or 'one = "bm25"\nother = "vector"\n'
    said = problem(store, f'```{kind}\ncollection = "ketles"\n{example}```\n')
    assert "Did you mean 'kettles'" in said


def test_without_a_collection_the_way_out_is_said(store):
    (result,) = made(store, SEARCH)
    assert 'collection = "handbook"' in result.problem


# -- what fails --------------------------------------------------------------------------------------------------------

BAD = '```search\nquery = "a"\nvariants = ["bm25"]\nwhy = ["nobody"]\n```\n'


def test_a_cell_that_fails_says_why_and_the_others_go_on(store):
    wrong = "```search\nquery = 3\n```\n"
    first, second, third = made(store, f"{HEADER}{BAD}\n{wrong}\n{SEARCH}")
    assert "no document 'nobody'" in first.problem
    assert "line 13" in second.problem
    assert third.output is not None


def test_a_failure_ends_it_where_that_was_asked_for(store):
    runner = Runner(store, Notebook.parse(f"{HEADER}{BAD}\n{SEARCH}"), key=uuid.uuid4().hex)
    assert len(bridge.run(runner.run(stop_on_error=True))) == 1


def test_a_stopped_notebook_is_stopped_and_no_failure_of_a_cell(store):
    token = asyncio.Event()
    token.set()
    with pytest.raises(Cancelled):
        made(store, HEADER + SEARCH, cancellation=token)


# -- what is kept ------------------------------------------------------------------------------------------------------


@pytest.fixture
def own(store, name):
    """A collection that a test may change."""
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=(MODEL,))))
    yield name
    bridge.run(load.drop(store, name))


def test_what_nothing_moved_on_from_is_taken_as_it_is_and_equal(store):
    key = uuid.uuid4().hex
    (fresh,), (kept,) = (made(store, HEADER + SEARCH, key=key) for _ in range(2))
    assert (fresh.kept, kept.kept) == (False, True)
    assert kept.output == fresh.output
    assert not made(store, HEADER + SEARCH, key=key, again=True)[0].kept


def test_a_title_is_no_reason_to_run_anew_but_an_option_is(store):
    key = uuid.uuid4().hex
    made(store, HEADER + SEARCH, key=key)
    titled = SEARCH.replace("query", 'title = "T"\nquery')
    assert made(store, HEADER + titled, key=key)[0].kept
    assert not made(store, HEADER + SEARCH.replace("query", "top_k = 2\nquery"), key=key)[0].kept


def test_an_output_is_stale_once_the_collection_or_its_labels_moved_on(store, own):
    text = f'```notebook\ncollection = "{own}"\nsplit = "test"\n```\n\n{SEARCH}'
    key = uuid.uuid4().hex
    made(store, text, key=key)
    judged = tuple(replace(each, grade=3) for each in KETTLES.judged)
    more = Listed(documents=(*KETTLES.documents, Item("new", "One more kettle.")), asked=KETTLES.asked, judged=judged)
    bridge.run(load.load_collection(store, own, more, load.LoadPlan(models=(MODEL,))))
    (result,) = bridge.run(Runner(store, Notebook.parse(text), key=key).kept())
    assert result.output is not None
    assert result.stale == ("the collection was changed", "queries or labels were changed")


def test_an_output_of_a_changed_cell_is_stale_and_is_found_by_its_identity(store):
    key = uuid.uuid4().hex
    book = Notebook.parse(HEADER + SEARCH)
    bridge.run(Runner(store, book, key=key).run())
    changed = book.replace(book.cells[0].id, 'query = "toaster"')
    (result,) = bridge.run(Runner(store, changed, key=key).kept())
    assert result.stale == ("the cell was changed",)


def test_what_moved_on_is_said_by_its_name(store, tmp_path):
    """The cell says the same; what it names, what all share, and who made it are others."""
    variant = tmp_path / "mine.toml"
    variant.write_text('[[leg]]\nkind = "bm25"\n')
    cell = '```search\nquery = "vinegar"\nvariants = ["mine.toml"]\n```\n'
    path, key = tmp_path / "book.md", uuid.uuid4().hex

    def stale(header: str = HEADER) -> tuple[str, ...]:
        book = Notebook.parse(header + cell)
        (found,) = bridge.run(Runner(store, book, path=path, key=key).kept())
        return found.stale

    made(store, HEADER + cell, path=path, key=key)
    assert stale() == ()
    assert stale(HEADER.replace('split = "test"', 'split = "test"\nseed = 4')) == ("the seed is another",)
    variant.write_text('[[leg]]\nkind = "fulltext"\n')
    assert stale() == ("a variant that it names was changed",)


def test_an_output_hangs_on_the_declared_version_of_what_made_it_and_not_on_the_source():
    now = CacheKey("cell", "collection", "queries", "0.1.0, 1", "server", {"split": "a", "run main": "b"})
    assert replace(now, code="0.1.0, 2").stale_reasons(now) == ("another version of Rankbook made it",)
    assert replace(now, meant={"split": "a", "run main": "c"}).stale_reasons(now) == ("the run main is another",)
    assert replace(now, cell="other", meant={}).stale_reasons(now) == ("the cell was changed",)
    server = "another server, or other models' packages, would make it now"
    assert replace(now, server="next").stale_reasons(now) == (server,)
    assert now.stale_reasons(now) == ()


def test_a_word_search_does_not_hang_on_what_models_run_on(store):
    async def marks(cell: str) -> str:
        runner = Runner(store, Notebook.parse(HEADER + cell), key=uuid.uuid4().hex)
        (spec,) = runner.parsed.specs.values()
        return (await cache_key(runner.context, spec)).server

    words = bridge.run(marks(SEARCH.replace(', "vector"', "")))
    assert words == bridge.run(marks('```fusion\nlegs = ["bm25", "trigram"]\n```\n'))
    assert words != bridge.run(marks(SEARCH))
    assert bridge.run(marks(SEARCH)) == bridge.run(marks(SEARCH.replace('"bm25", ', "")))


def test_all_cells_together_look_at_a_collection_once(store, own):
    """However many there are: of a big collection it takes long."""
    text = f'```notebook\ncollection = "{own}"\nsplit = "test"\n```\n\n' + SEARCH * 10
    with countings(store) as seen:
        for _ in range(3):
            assert len(bridge.run(Runner(store, Notebook.parse(text), key=uuid.uuid4().hex).kept())) == 10
    assert len(seen) == 1


def test_a_cell_that_never_ran_has_nothing(store):
    (result,) = bridge.run(Runner(store, Notebook.parse(HEADER + SEARCH), key=uuid.uuid4().hex).kept())
    assert (result.output, result.problem) == (None, "")


def test_another_notebooks_output_is_not_taken(store):
    made(store, HEADER + SEARCH, key="one")
    assert not made(store, HEADER + SEARCH, key=uuid.uuid4().hex)[0].kept


# -- hostile texts -----------------------------------------------------------------------------------------------------

EVIL = f"</script></style>{SCRIPT}"


def hostile() -> str:
    quoted = json.dumps(f"trap {EVIL} \x1b[2J\x00")
    return (
        f'# Trap {EVIL}\n\n{EVIL}\n\n[x](javascript:alert(1)) `a < b`\n\n```notebook\ncollection = "hostile"\n```\n\n'
        f"```search\ntitle = {quoted}\nquery = {json.dumps('trap ' + EVIL)}\nvariants = ['bm25', 'vector']\n"
        f'why = ["</style>"]\n```\n\n```evaluate\nvariants = ["bm25"]\n```\n\n```compare\none = "bm25"\n'
        f'other = "vector"\n```\n\n```context\nquery = "trap"\nvariant = "bm25"\n```\n\n'
        f"```search\n# {EVIL}\nquery = {EVIL!r}0\n```\n"
    )


@pytest.fixture(scope="module")
def trapped(store):
    book = Notebook.parse(hostile())
    runner = Runner(store, book, key=uuid.uuid4().hex)
    return book, runner, bridge.run(runner.run())


def test_hostile_texts_are_text_in_the_page(trapped):
    book, _, results = trapped
    assert [bool(result.problem) for result in results] == [False] * 4 + [True]
    page = export_html.render(book, results)
    body = page[page.index("<body") : page.index('<script type="application/json"')]
    assert not re.search(r"<(?!/)(script|img|iframe|style)\b", body)
    assert "javascript:" not in re.sub(r">[^<]*<", "><", body)
    assert not re.search(r"<[^>]*\son\w+=", body)
    assert "&lt;script&gt;window.harmed" in body
    head, values = page[: page.index("<body")], page[page.index('id="values">') :]
    assert EVIL not in head
    assert SCRIPT not in values[: values.index("</script>")]
    assert "default-src 'none'" in head


def test_hostile_texts_are_text_in_jupyter(trapped):
    book, runner, results = trapped
    made = json.loads(export_jupyter.render(book, runner.parsed, Path(), results))
    for cell in made["cells"]:
        if cell["cell_type"] == "markdown":
            assert "<script" not in cell["source"].replace("`a < b`", "")
        else:
            compile(cell["source"], "cell", "exec")
        for shown in cell.get("outputs", ()):
            assert "<script" not in shown["data"]["text/html"]
            assert "<img" not in shown["data"]["text/html"]


# -- handing on --------------------------------------------------------------------------------------------------------


def test_a_page_marks_what_is_stale_failed_and_not_run(store):
    key = uuid.uuid4().hex
    book = Notebook.parse(f"{HEADER}{SEARCH}\n{BAD}\n```search\nquery = 'never'\n```\n")
    bridge.run(Runner(store, book, key=key).run(only={book.cells[0].id}))
    changed = book.replace(book.cells[0].id, 'query = "toaster"')
    page = export_html.render(changed, bridge.run(Runner(store, changed, key=key).kept()))
    assert "the cell was changed since this was made" in page
    assert page.count("Not run yet.") == 2
    assert "http" not in re.sub(r"(?s)<script>.*?</script>", "", page).replace("http-equiv", "")


def test_an_export_writes_out_the_variants_that_only_one_cell_knows(tmp_path):
    other = '{ name = "both", top_k = 5, leg = [{ kind = "bm25" }] }'
    book = Notebook.parse(f"{HEADER}```compare\none = {PAIR}\nother = {other}\n```\n")
    opening, cell = json.loads(export_jupyter.render(book, parse_cells(book), tmp_path))["cells"]
    assert cell["source"].startswith("lab.compare(variants['both'], variants['both (2)'], 'ndcg@10'")
    assert "'both (2)': {" in opening["source"]


def test_an_export_for_jupyter_is_in_the_format_with_figures_in_plain_colours(store):
    text = HEADER + '```evaluate\nvariants = ["bm25", "vector"]\n```\n'
    book = Notebook.parse(text)
    runner = Runner(store, book, key=uuid.uuid4().hex)
    made = json.loads(export_jupyter.render(book, runner.parsed, Path(), bridge.run(runner.run())))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", each) for each in ids)
    figures = [shown["data"] for shown in made["cells"][1]["outputs"] if export_jupyter.PLOTLY in shown["data"]]
    assert figures
    assert not re.search(r'"<[a-z0-9]+>"', json.dumps(figures))


# -- the command line --------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    made = tmp_path / "book.md"
    made.write_text(f"{HEADER}{SEARCH}\n```evaluate named\nvariants = ['bm25']\n```\n")
    return made


def test_running_shows_outputs_writes_a_page_and_ends_with_0(store, file, tmp_path):
    shown = rankbook("notebook", "run", str(file), "--html", str(tmp_path / "out.html"))
    assert "descale" in shown.stdout
    assert "2 of 2" in shown.stderr
    assert "kettles" in (tmp_path / "out.html").read_text()


def test_running_ends_with_1_where_a_cell_fails_and_shows_the_others(store, file):
    file.write_text(f"{HEADER}{BAD}\n{SEARCH}")
    shown = rankbook("notebook", "run", str(file), code=1)
    assert "no document 'nobody'" in shown.stderr
    assert "descale" in shown.stdout
    assert "1 of 2" in rankbook("notebook", "run", str(file), "--stop-on-error", code=1).stderr


def test_single_cells_are_run_by_number_and_name_and_json_is_all_there_is(store, file):
    found = json.loads(rankbook("notebook", "run", str(file), "--only", "named", "--json").stdout)
    assert [(each["number"], each["kind"], each["problem"]) for each in found] == [(2, "evaluate", None)]
    assert "Cells are counted from 1" in mistake("notebook", "run", str(file), "--only", "3")


def test_another_collection_may_be_given(store, file):
    rankbook("notebook", "run", str(file), "--only", "1", "--collection", "no vectors", code=1)
    rankbook("notebook", "run", str(file), "--only", "2", "--collection", "no vectors")


def test_a_new_notebook_is_valid_and_never_takes_the_place_of_another(store, tmp_path):
    path = tmp_path / "mine"
    rankbook("notebook", "new", str(path))
    assert "all valid" in rankbook("notebook", "check", str(path)).stderr
    assert "left alone" in mistake("notebook", "new", f"{path}.md")
    rankbook("notebook", "new", str(tmp_path / "tour.md"), "--like", "tour")
    assert "# A tour of Rankbook" in (tmp_path / "tour.md").read_text()


def test_checking_tells_every_mistake_with_its_line_and_ends_with_1(tmp_path):
    path = tmp_path / "book.md"
    path.write_text("```search\nquery = 3\n```\n\n```serach\n```\n")
    shown = " ".join(rankbook("notebook", "check", str(path), code=1).stderr.split())
    assert "line 2: The cell search is not valid. query: must be a text" in shown
    assert "line 5: 'serach' is no kind of cell" in shown
    assert json.loads(rankbook("notebook", "check", str(path), "--json", code=1).stdout)[0]["problems"]


def test_exporting_needs_somewhere_to_write_to_and_runs_nothing(store, file, tmp_path):
    assert "--ipynb" in mistake("notebook", "export", str(file))
    page, jupyter = tmp_path / "out.html", tmp_path / "out.ipynb"
    rankbook("notebook", "export", str(file), "--html", str(page), "--ipynb", str(jupyter))
    assert "Not run yet." in page.read_text()
    assert json.loads(jupyter.read_text())["cells"][0]["source"].startswith("from evals.lab import Lab")


def test_the_notebooks_that_ship_are_listed():
    assert [each["name"] for each in json.loads(rankbook("notebook", "list", "--json").stdout)][-1] == "tour"


def test_queries_that_hold_nothing_are_no_reason_to_fail(store):
    silent = Listed(documents=(Item("a", "Nothing."),), asked=(Query("q", "zzz"),), judged=(Label("q", "a", 1),))
    name = f"silent {uuid.uuid4().hex[:6]}"
    bridge.run(load.load_collection(store, name, silent, load.LoadPlan(models=())))
    header = f'```notebook\ncollection = "{name}"\n```\n'
    found = made(store, f'{header}```search\nquery = "zzz"\nvariants = ["bm25"]\n```\n```context\nquery = "zzz"\n'
                 'variant = "bm25"\nover = 1\n```\n')  # fmt: skip
    bridge.run(load.drop(store, name))
    assert [each.problem for each in found] == ["", ""]
