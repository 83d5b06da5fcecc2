"""The Collections page, as Streamlit would draw it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.errors import RankbookError
from core.home import home
from core.progress import Step
from core.store import attached, collections
from core.store.attached import AttachedTable
from core.store.engine import Store
from core.types import Item, Place, Query, Row
from evals import trash
from evals.collections import load
from evals.labels import query_sets
from evals.schema import schema_chain
from evals.sources import FolderSource, Source
from evals.types import LabelledQueries
from tests.app.corpus import KETTLES, MARKUP, MODEL, SCRIPT
from tests.app.test_search_page import handed, visit, written
from tests.conftest import make_home
from workbench.services import collection_jobs as collections_work
from workbench.services import collections as collections_added
from workbench.services import jobs, uploads
from workbench.services.collection_jobs import key_of
from workbench.services.collections import ImportRequest
from workbench.services.uploads import SourceSpec

LIST = "collections.list"


def draw() -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.collections import page as collections_page

    with feedback.draw_errors():
        collections_page.render(session.store())


@pytest.fixture
def page(store: Store) -> AppTest:
    return AppTest.from_function(draw, default_timeout=60)


@pytest.fixture(autouse=True)
def nothing_left_under_way(store: Store) -> Iterator[None]:
    yield
    for doing in collections_work.begun(store):
        doing.job.stop()
        doing.job.wait(20)
        collections_work.put_away(doing)


@pytest.fixture
def spare(store: Store, name: str) -> str:
    """A collection that a test may change or drop."""
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=(MODEL,), check=False)))
    return name


def rows(app: AppTest, key: str) -> dict[str, list[str]]:
    return {row["id"]: row["cells"] for row in handed(app, key)["rows"]}


def button(app: AppTest, label: str) -> Any:
    return next(each for each in app.button if each.label == label)


def press(app: AppTest, label: str) -> AppTest:
    button(app, label).click().run()
    assert not app.exception
    return app


def waited(app: AppTest, store: Store, what: Any, name: str) -> jobs.Job[Any]:
    """The work that a button began, once it has ended and the page has heard of it."""
    job = jobs.find(key_of(store, what, name))
    assert job is not None
    assert job.wait(60)
    app.run()
    assert not app.exception
    return job


# -- what there is -----------------------------------------------------------------------------------------------------


def test_every_collection_is_a_row_with_its_counts_and_its_size(page):
    visit(page)
    name, documents, chunks, sets, embedding_sets, queries, labels, size, _, kind, state = rows(page, LIST)["kettles"]
    assert (name, documents, sets, embedding_sets, queries, labels) == ("kettles", "4", "1", "2", "3", "5")
    assert int(chunks) >= 4
    assert size.endswith(("MB", "kB"))
    assert (kind, state) == ("own", "loaded")
    assert rows(page, LIST)["no vectors"][4] == "0"


def test_the_address_says_which_one_is_shown(page):
    visit(page, collection="kettles")
    assert handed(page, LIST)["selected"] == "kettles"
    assert "<b>4</b><span>documents</span>" in written(page)
    assert "english" in written(page)
    assert "type, date" in written(page)
    assert rows(page, "about.chunks")["default"][1] == "headings, max_level 6, max_tokens 200"
    assert rows(page, "about.grade") == {"0": ["0", "1"], "1": ["1", "1"], "2": ["2", "1"], "3": ["3", "2"]}
    assert rows(page, "about.split") == {"test": ["test", "2"], "train": ["train", "1"]}
    assert "Reading the documents: nothing to remark." in written(page)


def test_one_that_is_not_there_is_named_with_the_nearest_and_the_list_stays(page):
    visit(page, collection="kettels")
    assert "Did you mean &#x27;kettles&#x27;?" in written(page)
    assert "kettles" in rows(page, LIST)


def test_documents_are_filtered_by_id_and_title_and_tell_how_many_queries_they_answer(page):
    visit(page, collection="kettles", view="documents")
    assert rows(page, "browse.documents")["warranty"] == ["Warranty", "warranty", "2"]
    assert handed(page, "browse.documents")["told"] == "1\u20134 of 4"
    visit(page, collection="kettles", view="documents", find="ERROR e")
    assert list(rows(page, "browse.documents")) == ["e42"]
    visit(page, collection="kettles", view="documents", find="100%")
    assert "No document has" in handed(page, "browse.documents")["empty"]


@pytest.mark.parametrize("page_asked", ["0", "-1", "7", "9999999999", "<b>", ""])
def test_a_page_that_is_not_there_is_the_nearest_one_that_is(page, page_asked):
    visit(page, collection="kettles", view="documents", page=page_asked)
    assert (handed(page, "browse.documents")["page"], len(rows(page, "browse.documents"))) == (1, 4)


def test_a_document_opens_with_its_chunks_as_bands_and_the_queries_it_answers(page):
    visit(page, collection="kettles", view="documents", document="warranty")
    shown = handed(page, "browse.text")
    text = "".join(piece["text"] for piece in shown["pieces"])
    assert text == KETTLES.documents[2].text
    begins = [band for piece in shown["pieces"] for band in piece["begins"]]
    assert [band["ordinal"] for band in begins] == list(range(len(begins)))
    assert begins
    assert [cells[0] for cells in rows(page, "browse.answers").values()] == [
        "ketle warrenty",
        "remove scale from the kettle",
    ]
    visit(page, collection="kettles", view="documents", document="burnt")
    assert "has no document &#x27;burnt&#x27; any more" in written(page)


def test_queries_tell_what_was_judged_for_them(page):
    visit(page, collection="kettles", view="queries", find="scale")
    assert rows(page, "browse.queries") == {"q1": ["remove scale from the kettle", "question", "q1", "2", "3"]}
    visit(page, collection="kettles", view="queries", query="q1")
    assert list(rows(page, "browse.judged").values()) == [
        ["Descale the kettle", "descale", "test", "3"],
        ["Warranty", "warranty", "test", "1"],
        ["The teapot", "teapot", "test", "0"],
    ]


def test_hostile_texts_are_handed_over_as_they_are_and_written_nowhere(page):
    for view in ("about", "documents", "queries"):
        visit(page, collection="hostile", view=view, document="<i>id</i>", query="q")
        assert "<script" not in written(page)
        assert "<img" not in written(page)
        assert not [text for text in page.markdown if "Trap" in text.value]
    visit(page, collection="hostile", view="documents", document="<i>id</i>")
    assert rows(page, "browse.documents")["<i>id</i>"][0] == f"Trap {SCRIPT} {MARKUP}"
    assert handed(page, "browse.text")["title"] == f"Trap {SCRIPT} {MARKUP}"
    assert [cells[1] for cells in rows(page, "browse.answers").values()] == ["<u>kind</u>"]


@pytest.fixture
def attached_table(store: Store, name: str) -> Iterator[str]:
    """A collection over somebody's table."""
    statements = (
        f'CREATE TABLE public."{name}" (nr int PRIMARY KEY, body text)',
        f"INSERT INTO public.\"{name}\" VALUES (1, 'Press the <b>button</b>'), (2, 'Pull the plug')",
    )

    async def run(*wanted: str) -> None:
        async with store.begin() as connection:
            for statement in wanted:
                await connection.exec_driver_sql(statement)

    bridge.run(run(*statements))
    bridge.run(attached.attach_table(store, name, AttachedTable(namespace="public", table=name, id="nr", text="body")))
    yield name
    bridge.run(run(f'DROP TABLE public."{name}"'))


def test_an_attached_table_is_shown_like_any_other_and_offered_nothing_that_would_write(page, attached_table):
    visit(page, collection=attached_table)
    assert (rows(page, LIST)[attached_table][1], rows(page, LIST)[attached_table][-2]) == ("2", "attached")
    assert "There are no queries, so variants can be looked at but not scored." in written(page)
    visit(page, collection=attached_table, view="documents", document="1")
    assert list(rows(page, "browse.documents")) == ["1", "2"]
    assert [piece["text"] for piece in handed(page, "browse.text")["pieces"]] == ["Press the <b>button</b>"]
    visit(page, collection=attached_table, view="extend")
    assert "An attached table is only ever read" in written(page)
    visit(page, collection=attached_table, view="check")
    assert button(page, "Verify").disabled
    press(page, "Measure")
    assert "Not available here" in written(page)
    visit(page, collection=attached_table, view="out")
    press(page, "Drop the collection")
    assert "the table itself stays as it is" in written(page)


# -- another one -------------------------------------------------------------------------------------------------------


def folder_of_texts(path: Path) -> Path:
    path.mkdir()
    (path / "lamp.md").write_text("---\ncolour: red\n---\n# Lamp\n\nTurn the lamp on by its cord.\n")
    (path / "chair.md").write_text("# Chair\n\nFour legs, no arms.\n")
    return path


def test_a_folder_is_looked_into_before_anything_is_imported_and_then_becomes_a_collection(page, store, tmp_path, name):
    visit(page, add="path")
    page.text_input(key="add.from").input(str(folder_of_texts(tmp_path / "furniture"))).run()
    assert [cells[:2] for cells in rows(page, "look.documents").values()] == [["chair", "Chair"], ["lamp", "Lamp"]]
    assert "About 2 documents" in written(page)
    assert page.text_input(key="add.name").value == "furniture"
    assert "furniture" not in rows(page, LIST)
    page.text_input(key="add.name").input(name).run()
    page.selectbox(key="add.model").select(MODEL).run()
    page.selectbox(key="add.chunker").select("sentences").run()
    page.multiselect(key="add.fields").select("colour").run()
    press(page, "Import")
    assert "add" not in page.query_params
    added = waited(page, store, "add", name).result()
    assert (added.report.added, added.report.flawed) == (2, 0)
    assert "2 documents added" in written(page)
    assert f"./?collection={name.replace(' ', '+')}" in written(page)
    assert rows(page, LIST)[name][1] == "2"
    view = bridge.run(collections.get(store, name))
    assert (view.row.fields, view.chunk_set("default").chunker["kind"]) == (["colour"], "sentences")
    press(page, "Show it")
    assert page.query_params["collection"] == name
    press(page, "Close")
    assert "documents added" not in written(page)


def test_what_is_not_read_is_said_by_the_look_and_by_the_report(page, store, tmp_path, name):
    folder = folder_of_texts(tmp_path / "furniture")
    (folder / "a<b>.svg").write_text("x")
    (folder / "sofa.adoc").write_text("= Sofa\n")
    visit(page, add="path")
    page.text_input(key="add.from").input(str(folder)).run()
    assert [cells[1] for cells in rows(page, "look.documents").values()] == ["Chair", "Lamp", "Sofa"]
    assert "Not read: 1 .svg." in written(page)
    page.text_input(key="add.name").input(name).run()
    page.selectbox(key="add.model").select("").run()
    press(page, "Import")
    added = waited(page, store, "add", name).result()
    assert any("Not read: 1 .svg." in flaw.message for flaw in added.flaws)
    assert any("Not read: 1 .svg." in cells[0] for cells in rows(page, f"report.added.{name}").values())


def test_how_a_table_is_cut_is_said_by_the_look(page, tmp_path):
    table = tmp_path / "faq.csv"
    table.write_text("id;text\n1;Press, then wait\n")
    visit(page, add="path")
    page.text_input(key="add.from").input(str(table)).run()
    assert "The columns are parted by semicolons" in written(page)
    assert [cells[2] for cells in rows(page, "look.documents").values()] == ["Press, then wait"]


def test_a_table_whose_columns_bear_other_names_is_mapped_by_hand(page, tmp_path):
    table = tmp_path / "faq.csv"
    table.write_text("nr,answer,topic\n1,Press the button,start\n2,Pull the plug,stop\n")
    visit(page, add="path")
    page.text_input(key="add.from").input(str(table)).run()
    assert "There is no column &#x27;id&#x27;" in written(page)
    assert "Import" not in [each.label for each in page.button]
    mapped = {each.label: each for each in page.selectbox}
    mapped["Id column"].select("nr").run()
    {each.label: each for each in page.selectbox}["Text column"].select("answer").run()
    assert [cells[2] for cells in rows(page, "look.documents").values()] == ["Press the button", "Pull the plug"]


def test_a_path_with_nothing_there_is_complained_of_with_what_is_understood(page, tmp_path):
    visit(page, add="path")
    page.text_input(key="add.from").input(str(tmp_path / "<b>nothing</b>")).run()
    assert "There is nothing at this path" in written(page)
    assert "&lt;b&gt;nothing&lt;/b&gt;" in written(page)


def test_a_name_that_cannot_be_borne_is_refused_before_anything_begins(page, store, tmp_path):
    visit(page, add="path")
    page.text_input(key="add.from").input(str(folder_of_texts(tmp_path / "furniture"))).run()
    page.text_input(key="add.name").input("\u00e4" * 60).run()
    press(page, "Import")
    assert "Choose a shorter one" in written(page)
    assert page.query_params["add"] == ["path"] or page.query_params["add"] == "path"
    assert jobs.find(key_of(store, "add", "\u00e4" * 60)) is None


def test_an_import_that_fails_leaves_nothing_and_its_form_can_be_changed(page, store, tmp_path, name):
    table = tmp_path / "faq.csv"
    table.write_text("id,text\n1,Press the button\n")
    visit(page, add="path")
    page.text_input(key="add.from").input(str(table)).run()
    page.text_input(key="add.name").input(name).run()
    page.selectbox(key="add.model").select("").run()
    table.write_text("number,text\n1,Press the button\n")  # between the look and the import
    press(page, "Import")
    job = waited(page, store, "add", name)
    assert "There is no column 'id' for the id." in str(job.problem)
    assert "It failed." in written(page)
    assert "That did not work" in written(page)
    assert bridge.run(collections.find(store, name)) is None
    folder_of_texts(tmp_path / "again")
    press(page, "Change it and try again")
    assert page.text_input(key="add.from").value == str(table)
    page.text_input(key="add.from").input(str(tmp_path / "again")).run()
    assert page.selectbox(key="add.model").value == ""
    assert page.selectbox(key="add.chunker").value == "headings"


def test_adding_to_one_that_is_there_brings_in_what_is_new_with_the_sets_it_has(page, store, tmp_path, spare):
    visit(page, add="path")
    page.text_input(key="add.from").input(str(folder_of_texts(tmp_path / "furniture"))).run()
    page.text_input(key="add.name").input(spare).run()
    assert "already" in written(page)
    press(page, "Import")
    report = waited(page, store, "add", spare).result().report
    assert (report.added, report.removed) == (2, 0)
    view = bridge.run(collections.get(store, spare))
    assert {each.model for each in view.embedding_sets} == {MODEL}
    assert rows(page, LIST)[spare][1] == "6"


def test_what_ships_with_rankbook_and_what_is_public_can_be_chosen_by_name(page):
    visit(page, add="public")
    page.selectbox(key="add.public").select("handbook").run()
    assert handed(page, "look.documents")["rows"]
    assert page.checkbox(key="add.wishes").value
    page.selectbox(key="add.public").select("scifact").run()
    assert "Licence" in written(page)
    assert page.text_input(key="add.name").value == "scifact"


def test_work_under_way_shows_how_far_it_is_and_is_stopped(page, store, name):
    begun, free = threading.Event(), asyncio.Event()

    async def waits(listener: Any, _: Any) -> None:
        listener(Step("Loading", 3, 4, "documents <b>"))
        begun.set()
        await free.wait()

    key = key_of(store, "add", name)
    job = jobs.start(key, f"Adding {SCRIPT}", waits)
    try:
        begun.wait(10)
        visit(page)
        assert "Loading: 3 of 4 documents &lt;b&gt;" in written(page)
        assert "<script" not in written(page)
        press(page, "Stop")
        assert job.wait(10)
        page.run()
        assert "Stopped." in written(page)
        press(page, "Close")
        assert jobs.find(key) is None
    finally:
        job.stop()
        jobs.forget(key)


class Halting(Source):
    """Documents whose second never comes, until it is let go on."""

    kind: ClassVar[str] = "halting"
    reached: ClassVar[threading.Event] = threading.Event()
    free: ClassVar[threading.Event] = threading.Event()

    def items(self) -> Iterator[Row[Item]]:
        yield Row(Item("first", "The first one"), Place("here", 1))
        self.reached.set()
        self.free.wait(30)


class HaltingForm(ImportRequest):
    @property
    def source(self) -> Source:
        return Halting()


def test_a_new_one_that_is_stopped_before_anything_stood_in_it_is_taken_away(store, name):
    form = HaltingForm(name, SourceSpec(""), {"models": ()})
    job = collections_work.add(store, form)
    try:
        assert Halting.reached.wait(20)
        assert bridge.run(collections.find(store, name)) is not None
        job.stop()
        assert job.wait(20)
    finally:
        Halting.free.set()
        jobs.forget(key_of(store, "add", name))
    assert job.stopped
    assert bridge.run(collections.find(store, name)) is None


def test_a_load_that_was_interrupted_can_be_gone_on_with(page, store, tmp_path, name):
    source = FolderSource(path=folder_of_texts(tmp_path / "furniture"))
    bridge.run(load.load_collection(store, name, source, load.LoadPlan(models=(), check=False)))

    async def interrupt() -> None:
        async with store.begin() as connection:
            await collections.mark_loading(connection, name)

    (tmp_path / "furniture" / "table.md").write_text("# Table\n\nRound.\n")
    bridge.run(interrupt())
    visit(page, collection=name)
    assert "Loading was interrupted" in written(page)
    press(page, "Go on")
    waited(page, store, "resume", name)
    assert rows(page, LIST)[name][-1] == "loaded"
    assert rows(page, LIST)[name][1] == "3"
    # What is added besides is told beside it.
    visit(page, add="path")
    page.text_input(key="add.from").input(str(tmp_path / "furniture")).run()
    page.text_input(key="add.name").input(name).run()
    press(page, "Import")
    waited(page, store, "add", name)
    visit(page, collection=name)
    assert [button.label for button in page.button].count("Show it") == 2


@pytest.mark.parametrize("models", [(), (MODEL,)])
def test_a_set_that_was_interrupted_is_completed_without_the_source(page, store, name, models):
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=models, check=False)))
    view = bridge.run(collections.get(store, name))
    bridge.run(collections.add_chunk_set(store, view, "late", {"kind": "fixed", "max_tokens": 20, "overlap": 0}))
    visit(page, collection=name)
    press(page, "Go on")
    assert waited(page, store, "resume", name).result().chunks > 0
    assert rows(page, LIST)[name][-1] == "loaded"
    assert "chunks made" in written(page)


# -- uploaded files ----------------------------------------------------------------------------------------------------


class Sent(BytesIO):
    """A file as the browser sends it."""

    def __init__(self, name: str, content: bytes = b"") -> None:
        super().__init__(content)
        self.name = name


def archive(*entries: tuple[str | ZipInfo, bytes]) -> bytes:
    made = BytesIO()
    with ZipFile(made, "w", ZIP_DEFLATED) as out:
        for entry, content in entries:
            out.writestr(entry, content)
    return made.getvalue()


CORPUS = ("corpus.jsonl", b'{"_id": "a", "text": "one"}\n')


def link() -> ZipInfo:
    made = ZipInfo("queries.jsonl")
    made.external_attr = 0o120777 << 16
    return made


@pytest.fixture
def staged() -> Iterator[Callable[..., SourceSpec]]:
    """What files are taken for; nothing of them is left."""
    made: list[Path] = []

    def stage(*files: Sent) -> SourceSpec:
        made.append(uploads.stage(files))
        return uploads.taken_for(made[-1])

    yield stage
    for folder in made:
        uploads.discard(folder)
        assert not folder.exists()


@pytest.mark.parametrize(
    ("names", "kind", "options"),
    [
        (["faq.csv"], None, []),
        (["notes.md", "more.html"], "folder", []),
        (["one.txt"], "folder", []),
        (["one.rst", "two.adoc", "three.pdf"], "folder", []),
        (["faq.json"], None, []),
        (["faq.csv", "my queries.tsv", "faq-labels.parquet"], "tabular", ["queries_path", "labels_path"]),
        (
            ["corpus.jsonl.gz", "queries.jsonl", "dev.tsv"],
            "beir",
            ["limits.entries", "limits.total_bytes", "limits.ratio"],
        ),
        (["scifact.ZIP"], "beir", ["limits.entries", "limits.total_bytes", "limits.ratio"]),
    ],
)
def test_files_are_taken_together_for_what_they_are(staged, names, kind, options):
    origin = staged(*(Sent(name) for name in names))
    assert (origin.kind, [option.split("=")[0] for option in origin.options]) == (kind, options)
    assert uploads.holds(origin.origin)


def test_a_name_is_never_trusted_to_say_where_a_file_goes(staged):
    origin = staged(Sent("../../etc/evil.csv"), Sent("C:\\\\queries.csv"))
    assert Path(origin.origin).name == "evil.csv"
    assert uploads.holds(origin.origin)


@pytest.mark.parametrize("path", ["", "..", "../..", "notours", "../uploads/notours", f"{'a' * 32}/../../precious"])
def test_nothing_is_thrown_away_that_was_not_uploaded(path):
    precious = home() / "precious"
    (uploads.folder() / "notours").mkdir(parents=True, exist_ok=True)
    precious.mkdir(exist_ok=True)
    given = f"{uploads.folder()}/{path}"
    assert not uploads.holds(given)
    uploads.discard(Path(given))
    assert precious.is_dir()
    assert (uploads.folder() / "notours").is_dir()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([".bashrc"], "cannot be called"),
        (["a/.."], "cannot be called"),
        (["a\x00.csv"], "control character"),
        (["x/same.csv", "y/same.csv"], "uploaded twice"),
        (["n" * 300], "cannot be called"),
    ],
)
def test_names_that_no_file_may_have_are_refused(names, said):
    before = sorted(uploads.folder().glob("*"))
    with pytest.raises(RankbookError, match=said):
        uploads.stage([Sent(name) for name in names])
    assert sorted(uploads.folder().glob("*")) == before


def test_files_that_are_too_large_together_leave_nothing():
    before = sorted(uploads.folder().glob("*"))
    with pytest.raises(RankbookError, match="larger together"):
        uploads.stage([Sent("a.csv", b"x" * 600), Sent("b.csv", b"x" * 600)], most=1000)
    assert sorted(uploads.folder().glob("*")) == before


def test_files_that_make_no_whole_are_refused_with_what_would(staged):
    with pytest.raises(RankbookError, match=r"'a.csv', 'b.csv'\. What is understood: one \.zip"):
        staged(Sent("a.csv"), Sent("b.csv"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive(CORPUS, ("../evil.txt", b"")), "leads out of the archive"),
        (archive(CORPUS, ("/etc/passwd", b"")), "absolute or a foreign path"),
        (archive(CORPUS, (link(), b"/etc/passwd")), "is a link or a device"),
        (archive((CORPUS[0], b" " * 50_000_000)), "Unpacking was stopped"),
        (archive(*((f"{number}.txt", b"") for number in range(5001)), CORPUS), "5,000 are allowed"),
        (b"PK no zip", "readable zip archive"),
    ],
)
def test_an_archive_that_is_not_to_be_trusted_is_refused_by_the_look(staged, content, said):
    look = collections_added.looked_at(staged(Sent("trap.zip", content)))
    assert said in str(look.problem)


def test_files_that_nobody_imported_go_after_a_day_unless_a_collection_needs_them(staged):
    old, needed, young = (staged(Sent("faq.csv")) for _ in range(3))
    for origin in (old, needed):
        os.utime(Path(origin.origin).parent, (1, 1))
    collections_added.sweep([{"kind": "tabular", "path": needed.origin}])
    assert [Path(each.origin).exists() for each in (old, needed, young)] == [False, True, True]


# -- extended, checked, taken along, dropped ---------------------------------------------------------------------------


def test_another_chunk_set_stands_beside_those_there_are(page, store, spare):
    visit(page, collection=spare, view="extend")
    page.text_input(key="extend.name").input("small").run()
    page.selectbox(key="extend.chunker").select("fixed").run()
    page.number_input(key="extend.options.fixed.max_tokens").set_value(12).run()
    page.number_input(key="extend.options.fixed.overlap").set_value(4).run()
    press(page, "Make the chunk set")
    waited(page, store, "chunk", spare)
    view = bridge.run(collections.get(store, spare))
    assert view.chunk_set("small").chunker == {"kind": "fixed", "max_tokens": 12, "overlap": 4}
    visit(page, collection=spare, view="documents", document="descale", chunks="small")
    assert any(len(piece["within"]) > 1 for piece in handed(page, "browse.text")["pieces"])


def test_a_model_that_another_collection_has_is_one_click_away(page, store, name):
    bridge.run(load.load_collection(store, name, KETTLES, load.LoadPlan(models=(), check=False)))
    visit(page, collection=name, view="extend")
    page.multiselect(key="extend.over").set_value(["default"]).run()
    page.selectbox(key="extend.model").select(MODEL).run()
    press(page, "Embed")
    waited(page, store, "embed", name)
    view = bridge.run(collections.get(store, name))
    assert [(each.model, each.chunk_set) for each in view.embedding_sets] == [(MODEL, view.chunk_set("default").key)]


def test_a_collection_is_verified_and_its_vector_index_measured(page, store, spare):
    visit(page, collection=spare, view="check")
    press(page, "Verify")
    waited(page, store, "verify", spare)
    assert "checks found what should be there, and nothing else" in written(page)
    press(page, "Measure")
    found = waited(page, store, "recall", spare).result()
    assert (found.mean, found.perfect, found.model) == (1.0, 3, MODEL)
    assert "<strong>100.00%</strong> of the 10 nearest" in written(page)
    visit(page, collection="no vectors", view="check")
    assert "There are no vectors yet" in written(page)


def test_an_export_can_be_downloaded_and_is_gone_when_it_is_closed(page, store, spare):
    visit(page, collection=spare, view="out")
    press(page, "Export as BEIR")
    archive = waited(page, store, "export", spare).result()
    names = {each.rpartition("/")[2] for each in ZipFile(archive.path).namelist()}
    assert {"corpus.jsonl", "queries.jsonl", "test.tsv", "train.tsv"} <= names
    assert [each.label for each in page.get("download_button")] == ["Download"]
    press(page, "Close")
    assert not archive.path.parent.exists()


def test_a_collection_is_dropped_by_typing_its_name_and_its_labels_go_with_it(page, store, spare):
    visit(page, collection=spare, view="out")
    press(page, "Drop the collection")
    assert "30 days" in written(page)
    assert "Export it first" in [each.label for each in page.button]
    assert button(page, "Drop it").disabled
    page.text_input(key="out.typed").input("kettles").run()
    assert button(page, "Drop it").disabled
    page.text_input(key="out.typed").input(spare).run()
    press(page, "Drop it")
    assert bridge.run(collections.find(store, spare)) is None
    assert not bridge.run(query_sets.load(store, spare)).queries
    assert spare not in rows(page, LIST)
    assert "is gone. It is in the trash" in written(page)
    assert "collection" not in page.query_params


def test_what_was_dropped_comes_back_with_undo(page, store, spare):
    before = bridge.run(query_sets.load(store, spare))
    visit(page, collection=spare, view="out")
    press(page, "Drop the collection")
    page.text_input(key="out.typed").input(spare).run()
    press(page, "Drop it")
    press(page, "Undo")
    assert spare in rows(page, LIST)
    assert bridge.run(query_sets.load(store, spare)) == before
    assert "is gone." not in written(page)


def test_the_trash_is_listed_and_gives_back_under_another_name(page, store, spare):
    entry = bridge.run(load.drop(store, spare, by="<b>grace</b>"))
    visit(page)
    assert rows(page, "trash.entries")[entry.id][:2] == ["collection", spare]
    assert rows(page, "trash.entries")[entry.id][5] == "<b>grace</b>"
    page.selectbox(key="trash.chosen").select(entry.id).run()
    page.text_input(key="trash.as").input(f"{spare} again").run()
    press(page, "Bring back")
    assert f"is back as {spare} again." in written(page)
    assert f"{spare} again" in rows(page, LIST)
    bridge.run(load.drop(store, f"{spare} again"))


def test_a_name_that_is_taken_is_said_on_the_page(page, store, spare):
    entry = bridge.run(load.drop(store, spare))
    visit(page)
    page.selectbox(key="trash.chosen").select(entry.id).run()
    page.text_input(key="trash.as").input("kettles").run()
    press(page, "Bring back")
    assert "There is a collection &#x27;kettles&#x27; again." in written(page)
    assert entry.id in rows(page, "trash.entries")


def test_the_trash_is_emptied_once_asked_twice(page, store, spare):
    bridge.run(load.drop(store, spare))
    visit(page)
    press(page, "Empty the trash")
    assert "nothing brings them back" in written(page)
    press(page, "Destroy them for good")
    assert "destroyed" in written(page)
    assert bridge.run(trash.listed(store)) == []


def test_what_comes_into_the_trash_while_emptying_it_is_asked_about_stays(page, store, spare):
    bridge.run(query_sets.keep(store, spare, LabelledQueries((Query("q", "where is the lid"),)), name="pilot"))
    first = bridge.run(query_sets.drop(store, spare, "pilot"))
    visit(page)
    press(page, "Empty the trash")
    second = bridge.run(load.drop(store, spare))
    press(page, "Destroy them for good")
    assert first not in bridge.run(trash.listed(store))
    assert second in bridge.run(trash.listed(store))
    bridge.run(trash.empty(store))


# -- other stores than the session's -----------------------------------------------------------------------------------

stores: dict[str, Store] = {}


def draw_empty() -> None:
    from tests.app.test_collections_page import stores
    from workbench.components import feedback
    from workbench.screens.collections import page as collections_page

    with feedback.draw_errors():
        collections_page.render(stores["empty"])


def test_without_a_collection_the_page_teaches_and_leads_to_the_form():
    stores["empty"] = bridge.run(Store.open(home=make_home(), chains=[schema_chain]))
    try:
        app = AppTest.from_function(draw_empty, default_timeout=60).run()
        assert not app.exception
        assert "There is no collection yet" in written(app)
        press(app, "Add the demo")
        assert [each.key for each in app.selectbox] == ["add.public"]
        assert not collections_work.begun(stores["empty"])
    finally:
        bridge.run(stores.pop("empty").close())
