"""An open notebook: one file and one queue for all windows, nothing lost, nothing written over."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from sqlalchemy import text

from core import bridge
from core.context import Resources
from core.errors import InputError, RankbookError, UnknownName
from core.store import collections
from core.store.engine import Store
from evals.collections import load
from tests.app.corpus import KETTLES, NOTEBOOK, Listed
from tests.unit.misbehaving import Reply, language_model, serving
from workbench.notebooks import files, history, session
from workbench.notebooks.document import Notebook
from workbench.notebooks.files import ChangedOnDisk, NotebookFolder, NotebookPath
from workbench.notebooks.history import HistoryStep
from workbench.notebooks.runner import Runner
from workbench.notebooks.session import NotebookSession
from workbench.services import jobs

BOTH = ["words", "scale"]


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Iterator[NotebookSession]:
    opened = made(store, tmp_path)
    yield opened
    opened.stop()
    jobs.forget(opened.turns.key)


def made(
    store: Store, folder: Path, source: str = NOTEBOOK, *, shipped: bool = False, **options: object
) -> NotebookSession:
    path = folder / "kettles.md"
    if not path.exists():
        path.write_text(source, encoding="utf-8", newline="")
    return NotebookSession(store, NotebookPath("kettles", path, shipped), **options)  # type: ignore[arg-type]


def ran(desk: NotebookSession, *cells: str, **options: bool) -> list[str]:
    """How all cells stand once these have run."""
    desk.run(cells or BOTH, **options)
    ended(desk)
    return states(desk)


def ended(desk: NotebookSession, seconds: float = 60) -> None:
    until(lambda: desk.job is None, seconds)


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.01)


def states(desk: NotebookSession) -> list[str]:
    return [desk.standing(cell).state for cell in desk.notebook.cells]


def rewrite(desk: NotebookSession, cell: str, before: str, after: str) -> None:
    source = history.said(desk.notebook[cell])
    desk.change(f"edit of {cell}", history.rewritten(cell, source.replace(before, after), source))


@contextmanager
def locked(store: Store, collection: str = "kettles") -> Iterator[None]:
    """While this holds, whoever reads the collection's rows waits on the server."""
    view = bridge.run(collections.get(store, collection))
    held, release = threading.Event(), threading.Event()

    holder = threading.Thread(target=_hold, args=(store, view.namespace, held, release))
    holder.start()
    assert held.wait(20)
    try:
        yield
    finally:
        release.set()
        holder.join()


def _hold(store: Store, namespace: str, held: threading.Event, release: threading.Event) -> None:
    async def work() -> None:
        async with store.begin() as connection:
            await connection.execute(text(f'LOCK TABLE "{namespace}".items IN ACCESS EXCLUSIVE MODE'))
            held.set()
            await asyncio.to_thread(release.wait)

    bridge.run(work())


def waiting(store: Store) -> int:
    """Statements that wait for a lock on the server."""

    async def count() -> int:
        async with store.begin(read_only=True) as connection:
            asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'"
            return int((await connection.execute(text(asked))).scalar_one())

    return bridge.run(count())


# -- running -----------------------------------------------------------------------------------------------------------


def test_cells_run_in_the_notebooks_order_and_their_outputs_are_found_again(store, desk, tmp_path):
    desk.look()
    assert states(desk) == ["never", "never"]
    assert ran(desk, "scale", "words") == ["fresh", "fresh"]
    again = made(store, tmp_path)
    again.look()
    assert states(again) == ["fresh", "fresh"]
    assert again.standing(again.notebook.cells[0]).result.kept


def test_only_what_is_asked_for_is_run(desk):
    assert ran(desk, "words") == ["fresh", "never"]
    assert desk.stale == ["scale"]


def test_a_cell_that_fails_says_why_and_the_others_go_on(desk):
    rewrite(desk, "words", "query", 'collection = "nothing"\nquery')
    assert ran(desk) == ["failed", "fresh"]
    assert "nothing" in desk.standing(desk.notebook.cells[0]).result.problem


def test_a_cell_that_is_not_valid_fails_without_being_run(desk):
    rewrite(desk, "words", "query", "qery")
    assert states(desk)[0] == "failed"
    assert desk.standing(desk.notebook.cells[0]).result.problem.startswith("Line 1 of this cell: No key")


def test_stopping_ends_the_statement_on_the_server_and_forgets_what_waits(store, desk):
    with locked(store):
        desk.run(BOTH)
        until(lambda: waiting(store) > 0)
        assert states(desk) == ["running", "waiting"]
        desk.stop()
        ended(desk, 15)
        assert waiting(store) == 0
    assert states(desk) == ["never", "never"]
    assert desk.standing(desk.notebook.cells[0]).stopped
    assert ran(desk) == ["fresh", "fresh"]


def test_what_is_put_into_the_queue_of_a_running_job_is_run_by_it(store, desk):
    with locked(store):
        desk.run(["words"])
        job = desk.job
        until(lambda: waiting(store) > 0)
        desk.run(["scale"])
        desk.run(["words"])  # runs already
        assert desk.job is job
        assert states(desk) == ["running", "waiting"]
    ended(desk)
    assert states(desk) == ["fresh", "fresh"]


def test_run_right_after_stop_runs_once_the_stopped_one_has_ended(store, desk):
    with locked(store):
        desk.run(["words"])
        until(lambda: waiting(store) > 0)
        desk.stop()
        desk.run(["scale"])
    ended(desk)
    assert states(desk) == ["never", "fresh"]


def test_a_cell_changed_while_it_runs_is_stale_when_it_ends(store, desk):
    with locked(store):
        desk.run(["words"])
        until(lambda: waiting(store) > 0)
        rewrite(desk, "words", '"kettle"', '"teapot"')
    ended(desk)
    assert states(desk)[0] == "stale"


def test_a_cell_deleted_while_it_waits_is_not_run(store, desk):
    with locked(store):
        desk.run(BOTH)
        until(lambda: waiting(store) > 0)
        desk.change("deletion", history.deleted("scale"))
    ended(desk)
    assert states(desk) == ["fresh"]


def test_windows_hear_of_every_step(desk):
    before = desk.stamp
    ran(desk)
    assert desk.stamp > before + 3


@pytest.mark.parametrize(
    ("stage", "steps"),
    [
        ("reranking", 'rerank = { method = "llm" }'),
        ("expansion", 'expand = { method = "llm" }, rerank = { method = "api" }'),  # which is set up nowhere
    ],
    ids=["reranking", "expansion before what cannot run"],
)
def test_a_language_model_is_asked_only_after_somebody_allowed_it(store, tmp_path, stage, steps):
    variant = f'{{ name = "asking", leg = [{{ kind = "bm25" }}], {steps} }}'
    source = f'```search\ncollection = "kettles"\nquery = "kettle"\nvariants = [{variant}]\n```\n'
    with serving(Reply(500)) as endpoint:
        desk = made(store, tmp_path, source, resources=language_model(endpoint))
        asking = [each.id for each in desk.notebook.cells]
        assert ran(desk, *asking) == ["asks"]
        said = desk.standing(desk.notebook.cells[0]).asks
        assert f"asking: The {stage} asks" in said[0]
        assert not endpoint.asked
        ran(desk, *asking, allowed=True)
        assert endpoint.asked


class Elsewhere(httpx.MockTransport):
    """A machine somewhere that ranks texts as they came, and keeps what it was sent."""

    def __init__(self) -> None:
        super().__init__(self._answer)
        self.hosts: list[str] = []

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.hosts.append(request.url.host)
        count = len(json.loads(request.content)["documents"])
        ranked = [{"index": at, "relevance_score": 1 / (1 + at)} for at in range(count)]
        return httpx.Response(200, json={"results": ranked})


def test_nothing_is_sent_to_another_machine_before_somebody_allowed_it(store, tmp_path):
    """What costs the same each time is asked for once."""
    rerank = 'rerank = { method = "api", base_url = "https://ranks.example/v1", model = "m", depth = 3 }'
    variant = f'{{ name = "sending", leg = [{{ kind = "bm25" }}], {rerank} }}'
    source = f'```search s\ncollection = "kettles"\nquery = "kettle"\nvariants = [{variant}]\n```\n'
    elsewhere = Elsewhere()
    desk = made(store, tmp_path, source, resources=Resources(transport=elsewhere, environment={}))
    assert ran(desk, "s") == ["asks"]
    (said,) = desk.standing(desk.notebook.cells[0]).asks
    assert "sends the query and up to 3 texts to ranks.example, for the model m: 1 call" in said
    assert elsewhere.hosts == []
    assert ran(desk, "s", allowed=True) == ["fresh"]
    assert elsewhere.hosts == ["ranks.example"]
    rewrite(desk, "s", 'query = "kettle"', 'query = "vinegar"')
    assert ran(desk, "s") == ["fresh"]
    assert len(elsewhere.hosts) == 2


def sending(cell: str, depth: int = 3) -> str:
    """The cell with a variant of its own that sends texts to another machine."""
    rerank = f'rerank = {{ method = "api", base_url = "https://ranks.example/v1", model = "m", depth = {depth} }}'
    variant = f'{{ name = "sending", leg = [{{ kind = "bm25" }}], {rerank} }}'
    return f"```{cell.replace('VARIANT', variant)}\n```\n"


@pytest.mark.parametrize(
    ("searches", "cell"),
    [
        (2, 'search s\nquery = "kettle"\nwhy = ["descale"]\nvariants = [VARIANT]'),
        (3, 'search s\npick = "worst"\nvariants = [VARIANT]'),
        (2, 'context s\nquery_id = "q1"\nvariant = VARIANT'),
        (3, 'context s\nquery = "kettle"\nover = 2\nvariant = VARIANT'),
        (5, "evaluate s\ntime_live = 2\nvariants = [VARIANT]"),
        (2, "judge s\nvariants = [VARIANT]"),
    ],
    ids=["query with why", "picked query", "labelled context", "contexts", "evaluation", "judging"],
)
def test_a_cell_says_how_often_it_sends_before_it_does(store, tmp_path, searches, cell, request):
    elsewhere, depth = Elsewhere(), 4 + len(request.node.callspec.id)  # so that no run is kept of another's
    source = sending(f'{cell}\ncollection = "kettles"\nsplit = "test"', depth)
    desk = made(store, tmp_path, source, resources=Resources(transport=elsewhere, environment={}))
    assert ran(desk, "s") == ["asks"]
    (said,) = desk.standing(desk.notebook.cells[0]).asks
    assert f"sending, for each of {searches} searches, as for the first: The reranking sends" in said
    assert elsewhere.hosts == []
    assert ran(desk, "s", allowed=True) == ["fresh"]
    assert len(elsewhere.hosts) == searches


@pytest.fixture
def unlabelled(store: Store) -> Iterator[None]:
    """A collection of that name, whose queries nobody has judged."""
    source = Listed(documents=KETTLES.documents, asked=KETTLES.asked)
    bridge.run(load.load_collection(store, "unlabelled", source, load.LoadPlan(models=())))
    yield
    bridge.run(load.drop(store, "unlabelled"))


def test_queries_without_labels_are_sent_for_judging_only_after_somebody_allowed_it(store, tmp_path, unlabelled):
    elsewhere = Elsewhere()
    source = sending('judge s\ncollection = "unlabelled"\nvariants = [VARIANT]')
    desk = made(store, tmp_path, source, resources=Resources(transport=elsewhere, environment={}))
    assert ran(desk, "s") == ["asks"]
    assert "for each of 3 searches" in desk.standing(desk.notebook.cells[0]).asks[0]
    assert elsewhere.hosts == []
    assert ran(desk, "s", allowed=True) == ["fresh"]
    assert elsewhere.hosts


def test_a_cell_that_cannot_tell_what_it_sends_fails_before_it_sends_anything(store, tmp_path, unlabelled):
    elsewhere = Elsewhere()
    source = sending('context s\ncollection = "unlabelled"\nquery = "kettle"\nover = 2\nvariant = VARIANT')
    resources = Resources(transport=elsewhere, environment={})
    desk = made(store, tmp_path, source, resources=resources)
    for allowed in (False, True):
        assert ran(desk, "s", allowed=allowed) == ["failed"]
        assert "nothing can be scored" in desk.standing(desk.notebook.cells[0]).result.problem
    headless = Runner(store, desk.notebook, key="headless", resources=resources)
    assert bridge.run(headless.announced()) == []
    (result,) = bridge.run(headless.run())
    assert "nothing can be scored" in result.problem
    assert elsewhere.hosts == []


# -- changes -----------------------------------------------------------------------------------------------------------


def test_a_changed_cell_is_stale_and_undoing_makes_it_fresh_again(desk):
    ran(desk)
    rewrite(desk, "words", '"kettle"', '"teapot"')
    desk.look()
    assert states(desk) == ["stale", "fresh"]
    assert desk.standing(desk.notebook.cells[0]).result.stale == ("the cell was changed",)
    last = desk.paper.last
    assert last.label == "edit of words"
    desk.undo(last.number)
    desk.look()
    assert states(desk) == ["fresh", "fresh"]
    assert desk.path.read_text(encoding="utf-8") == NOTEBOOK


def test_what_all_cells_share_makes_all_of_them_stale(desk):
    ran(desk)
    header = desk.notebook.headers[0]
    desk.change("seed", history.rewritten(header.id, 'collection = "kettles"\nseed = 3\n', header.source))
    desk.look()
    assert states(desk) == ["stale", "stale"]


def test_a_deleted_cell_comes_back_with_its_output(desk):
    ran(desk)
    desk.change("deletion of words", history.deleted("words"))
    assert states(desk) == ["fresh"]
    desk.undo(desk.paper.last.number)
    desk.look()
    assert states(desk) == ["fresh", "fresh"]


def test_an_edit_that_began_from_another_source_is_refused_and_changes_nothing(desk):
    began = history.said(desk.notebook["words"])
    rewrite(desk, "words", '"kettle"', '"teapot"')
    there = desk.path.read_bytes()
    with pytest.raises(HistoryStep, match="another window"):
        desk.change("edit", history.rewritten("words", 'query = "mine"\n', began))
    assert desk.path.read_bytes() == there


def test_undo_takes_back_only_the_change_that_it_names(desk):
    rewrite(desk, "words", '"kettle"', '"teapot"')
    mine = desk.paper.last.number
    rewrite(desk, "scale", '"scale"', '"lime"')
    with pytest.raises(InputError, match="another window"):
        desk.undo(mine)
    assert "lime" in desk.notebook.text


def test_many_windows_at_once_lose_no_change(desk):
    def work(window: int) -> None:
        for at in range(4):
            desk.change("new", history.inserted("note", f"window {window} line {at}\n", "words"))
            began = history.said(desk.notebook["scale"])
            try:
                desk.change("edit", history.rewritten("scale", began + f"# {window} {at}\n", began))
            except HistoryStep:
                desk.change("note", history.inserted("note", f"refused {window} {at}\n", None))

    windows = [threading.Thread(target=work, args=(each,)) for each in range(6)]
    for each in windows:
        each.start()
    for each in windows:
        each.join()
    written = desk.path.read_text(encoding="utf-8")
    assert written == desk.notebook.text
    assert all(f"window {window} line {at}\n" in written for window in range(6) for at in range(4))
    assert all(
        (f"# {window} {at}\n" in written) != (f"refused {window} {at}\n" in written)
        for window in range(6)
        for at in range(4)
    )
    assert [cell.id for cell in Notebook.parse(written, like=desk.notebook).cells] == BOTH


def test_parts_move_among_what_is_shown_and_stay_at_the_ends(desk):
    def order() -> list[str]:
        return [part.id for part in desk.notebook.shown if part.id in BOTH]

    desk.change("move", history.moved("words", 1))
    assert order() == BOTH  # below the text between them
    desk.change("move", history.moved("words", 1))
    assert order() == ["scale", "words"]
    there = desk.notebook.text
    desk.change("move", history.moved("words", 1))
    assert desk.notebook.text == there


def test_a_renamed_cell_keeps_what_it_showed(desk):
    ran(desk)
    assert desk.change("name", history.renamed("words", "first")) == "first"
    desk.look()
    assert desk.notebook.cell("first").source == Notebook.parse(NOTEBOOK).cell("words").source
    assert states(desk) == ["fresh", "fresh"]


@pytest.mark.parametrize("name", ["scale", "two words", "a`b", "a\nb", "<b>"])
def test_a_name_that_a_cell_cannot_have_is_refused(desk, name):
    with pytest.raises(InputError):
        desk.change("name", history.renamed("words", name))
    assert desk.notebook.text == NOTEBOOK


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_prose_keeps_the_blank_lines_and_line_ends_around_it(store, tmp_path, end):
    desk = made(store, tmp_path, NOTEBOOK.replace("\n", end))
    part = next(part for part in desk.notebook.shown if "Between" in part.text)
    desk.change("text", history.rewritten(part.id, "One.\n\nTwo.", history.said(part)))
    expected = NOTEBOOK.replace("Between the two.", "One.\n\nTwo.").replace("\n", end)
    assert desk.path.read_bytes().decode() == expected


# -- the file ----------------------------------------------------------------------------------------------------------


def test_what_another_program_wrote_is_taken_over_where_nothing_was_changed_here(desk):
    ran(desk)
    desk.path.write_text(NOTEBOOK.replace('"scale"', '"lime"'), encoding="utf-8")
    desk.look()
    assert "lime" in desk.notebook.text
    assert states(desk) == ["fresh", "stale"]


def test_what_another_program_wrote_is_never_written_over(desk):
    rewrite(desk, "words", '"kettle"', '"teapot"')
    theirs = NOTEBOOK.replace('"scale"', '"lime"')
    desk.path.write_text(theirs, encoding="utf-8")
    desk.look()
    assert desk.changed_on_disk
    with pytest.raises(ChangedOnDisk):
        rewrite(desk, "scale", '"scale"', '"mine"')
    assert desk.path.read_text(encoding="utf-8") == theirs
    assert '"mine"' in desk.paper.unsaved.text
    desk.read_again()
    assert desk.notebook.text == theirs
    assert not desk.changed_on_disk
    desk.undo(desk.paper.last.number)
    assert '"mine"' in desk.notebook.text


def test_what_is_here_is_written_over_what_another_program_wrote_where_somebody_chooses_that(desk):
    rewrite(desk, "words", '"kettle"', '"teapot"')
    theirs = NOTEBOOK.replace('"scale"', '"lime"')
    desk.path.write_text(theirs, encoding="utf-8")
    with pytest.raises(ChangedOnDisk) as conflict:
        rewrite(desk, "scale", '"scale"', '"mine"')
    assert conflict.value.text == theirs
    assert '"mine"' in conflict.value.unsaved.text
    seen = files.opened(desk.path)
    assert '-query = "lime"' in desk.differences(seen.notebook)
    assert '+query = "mine"' in desk.differences(seen.notebook)
    desk.write_over(seen.digest)
    written = desk.path.read_text(encoding="utf-8")
    assert written == desk.notebook.text == conflict.value.unsaved.text
    assert not desk.changed_on_disk
    desk.undo(desk.paper.last.number)
    assert desk.path.read_text(encoding="utf-8") == theirs


def test_what_nobody_has_seen_yet_is_not_written_over(desk):
    rewrite(desk, "words", '"kettle"', '"teapot"')
    desk.path.write_text("# First\n", encoding="utf-8")
    seen = files.opened(desk.path)
    desk.path.write_text("# Second\n", encoding="utf-8")
    with pytest.raises(ChangedOnDisk):
        desk.write_over(seen.digest)
    assert desk.path.read_text(encoding="utf-8") == "# Second\n"
    assert '"teapot"' in desk.notebook.text


def test_a_notebook_whose_file_was_removed_is_saved_again_where_somebody_chooses_that(desk):
    rewrite(desk, "words", '"kettle"', '"teapot"')
    desk.path.unlink()
    desk.write_over(None)
    assert '"teapot"' in desk.path.read_text(encoding="utf-8")
    assert not desk.changed_on_disk


def test_a_copy_is_another_file_with_the_same_outputs(store, tmp_path):
    shipped = made(store, tmp_path, shipped=True)
    ran(shipped)
    shelf = NotebookFolder(tmp_path / "own")
    name = shipped.copied(shelf, "mine")
    copy = NotebookSession(store, shelf.find(name))
    copy.look()
    assert states(copy) == ["fresh", "fresh"]
    rewrite(copy, "words", '"kettle"', '"teapot"')
    assert shipped.path.read_text(encoding="utf-8") == NOTEBOOK


def test_a_copy_shows_stale_outputs_as_well(store, tmp_path):
    shipped = made(store, tmp_path)
    ran(shipped)
    rewrite(shipped, "words", '"kettle"', '"teapot"')
    shipped.look()
    copy = session.copied(shipped, NotebookFolder(tmp_path / "own"), "mine")
    copy.look()
    assert states(copy) == ["stale", "fresh"]


def test_one_desk_serves_all_windows(store, tmp_path):
    (tmp_path / "kettles.md").write_text(NOTEBOOK, encoding="utf-8")
    shelf = NotebookFolder(tmp_path)
    assert session.at(store, shelf.find("kettles")) is session.at(store, shelf.find("kettles"))


# -- names -------------------------------------------------------------------------------------------------------------

HOSTILE = [
    "../kettles",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    ".hidden",
    "x" * 300,
    "con?",
    "a\nb",
    "\ud800",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_never_leads_out_of_the_folder(tmp_path, name):
    (tmp_path / "kettles.md").write_text(NOTEBOOK, encoding="utf-8")
    shelf = NotebookFolder(tmp_path / "books")
    with pytest.raises(RankbookError):
        shelf.find(name)
    with pytest.raises(RankbookError):
        shelf.create(name, Notebook.parse(NOTEBOOK))
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["books", "kettles.md"] or not shelf.folder.exists()


def test_ones_own_notebook_stands_before_one_that_ships(tmp_path):
    shelf = NotebookFolder(tmp_path)
    assert shelf.find("tour").shipped
    assert shelf.free("tour") == "tour-2"
    shelf.create("tour", Notebook.parse(NOTEBOOK))
    assert not shelf.find("tour").shipped
    assert shelf.own() == ["tour"]


def test_an_unknown_notebook_is_named_with_what_there_is(tmp_path):
    with pytest.raises(UnknownName, match="tour"):
        NotebookFolder(tmp_path).find("tuor")


def test_a_notebook_that_is_there_is_never_written_over(tmp_path):
    shelf = NotebookFolder(tmp_path)
    shelf.create("mine", Notebook.parse(NOTEBOOK))
    with pytest.raises(InputError, match="left alone"):
        shelf.create("mine.md", Notebook.parse("other"))
    assert files.opened(tmp_path / "mine.md").notebook.text == NOTEBOOK
